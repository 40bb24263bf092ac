import jax
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, logit

from downside.bases import Polynomial
from downside.policies import SquashedGaussian

LOW, HIGH = np.array([-2.0, 1.0]), np.array([0.5, 4.0])
OBS = np.array([0.4])
POLICY = SquashedGaussian(Polynomial(1), LOW, HIGH)
UNIT = SquashedGaussian(Polynomial(1))


def unit_params(mean, std):
    """Parameters of UNIT for a normal variable with this mean and deviation."""
    return np.array([mean, 0.0, np.log(np.expm1(std)) if std < 30 else std, 0.0])


def test_density_by_change_of_variables():
    rng = np.random.default_rng(1)
    for _ in range(20):
        params, action = rng.normal(0.0, 1.0, 8), rng.uniform(LOW, HIGH)
        outputs = params.reshape(4, 2) @ [1.0, 0.4]
        x = (action - LOW) / (HIGH - LOW)
        normal = stats.norm(outputs[:2], np.log1p(np.exp(outputs[2:])))
        expected = normal.logpdf(logit(x)) - np.log(x * (1 - x) * (HIGH - LOW))
        assert POLICY.log_prob(params, OBS, action) == pytest.approx(expected.sum(), rel=1e-10)


@pytest.mark.parametrize("z", [-60.0, -5.0, 20.0, 30.0])
def test_density_far_out_on_the_sigmoid(z):
    # x = sigmoid(z); near 1 the action itself is rounded, so only what it still tells can be right
    params, action = unit_params(1.3, 2.0), expit(z)
    back = logit(action)
    expected = stats.norm(1.3, 2.0).logpdf(back) - np.log(action) - np.log1p(-action)
    assert UNIT.log_prob(params, OBS, [action]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mean", [0.0, -0.7, 5.0, 50.0])
@pytest.mark.parametrize("std", [0.1, 1.0, 1.99, 2.01, 5.0, 200.0])
def test_entropy_against_quadrature(mean, std):
    def integrand(z):
        log_slope = -np.logaddexp(0.0, z) - np.logaddexp(0.0, -z)
        return stats.norm(mean, std).pdf(z) * log_slope

    points = [mean, 0.0]
    span = (mean - 12 * std, mean + 12 * std)
    inside = [p for p in points if span[0] < p < span[1]]
    slope, _ = integrate.quad(integrand, *span, points=inside, limit=500, epsabs=1e-10)
    expected = stats.norm(mean, std).entropy() + slope
    assert UNIT.entropy(unit_params(mean, std), OBS) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("mean", [-3.0, -0.2, 0.0, 0.05, 1.0])
@pytest.mark.parametrize("std", [0.3, 1.0, 2.0**0.5, 1.5, 3.0])
def test_the_mode_is_the_maximum(mean, std):
    params = unit_params(mean, std)
    grid = expit(np.linspace(-30.0, 30.0, 200_001))[:, None]
    density = UNIT.log_prob(params, OBS, grid)
    mode = UNIT.mode(params, OBS)
    assert UNIT.log_prob(params, OBS, mode) >= density.max() - 1e-9
    best = grid[density > density.max() - 1e-9]
    assert np.min(np.abs(best - mode)) < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_are_finite_and_outside_counts_as_the_edge(dtype):
    params = np.random.default_rng(3).normal(0.0, 2.0, 8).astype(dtype)
    edge = POLICY.log_prob(params, OBS, HIGH)
    assert np.isfinite(edge)
    assert POLICY.log_prob(params, OBS, HIGH + 1.0) == edge


def test_sampled_moments():
    # 20,000 draws, 4 standard errors; a correct moment fails once in 15,000 seeds
    params, n = np.random.default_rng(4).normal(0.0, 1.0, 8), 20_000
    actions = POLICY.sample(params, OBS, POLICY.draw(np.random.default_rng(5), (n,)))
    assert np.all((actions >= LOW) & (actions <= HIGH))
    mean, std = POLICY.mean_and_std(params, OBS)
    for i in range(2):
        squashed = [LOW[i], HIGH[i] - LOW[i]] @ np.stack(
            [np.ones(n), expit(mean[i] + std[i] * normal_quantiles(n))]
        )
        error = actions[:, i].std() / np.sqrt(n)
        assert abs(actions[:, i].mean() - squashed.mean()) <= 4 * error
        squares = (actions[:, i] - squashed.mean()) ** 2
        assert abs(squares.mean() - squashed.var()) <= 4 * squares.std() / np.sqrt(n)


def normal_quantiles(n):
    return stats.norm.ppf((np.arange(n) + 0.5) / n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_stay_in_the_box_where_its_ends_are_rounded(dtype):
    low, high = dtype(-4.0), dtype(0.4)
    assert low + (high - low) > high  # in both widths
    policy, params = SquashedGaussian(Polynomial(1), low=-4.0, high=0.4), np.array([200.0, 0, 0, 0])
    assert policy.sample(params.astype(dtype), OBS, np.zeros(1)) == high
    assert policy.sample(-params.astype(dtype), OBS, np.zeros(1)) == low


@pytest.mark.parametrize(
    ("start", "width"), [(1.0, 0.1), (-1.5, 0.3), (2.9, 1.2), (0.5, 2.2), (None, 1e-4), (2.0, None)]
)
@pytest.mark.parametrize("hidden", [(), (8,)])
def test_a_start_in_words(start, width, hidden):
    policy = SquashedGaussian(Polynomial(1), -2.0, 3.0, hidden, start=start, width=width)
    params = policy.init(jax.random.key(0) if hidden else np.random.default_rng(0))
    z = np.linspace(-9.0, 9.0, 4001)
    mean, std = policy.mean_and_std(params, OBS)
    values, weights = -2.0 + 5.0 * expit(mean + std * z), stats.norm.pdf(z)
    centre = np.average(values, weights=weights)
    spread = np.sqrt(np.average((values - centre) ** 2, weights=weights))
    near = 0.05 if hidden else 1e-6  # the last layer of a network is small, not 0
    assert policy.sample(params, OBS, np.zeros(1))[0] == pytest.approx(start or 0.5, abs=5 * near)
    assert width is None or spread == pytest.approx(width, rel=near)
