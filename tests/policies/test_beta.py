import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from downside.bases import Polynomial
from downside.policies import Beta
from downside.policies.beta import _TRIES, _log_gamma_variables

LOW, HIGH = np.array([-2.0, 1.0]), np.array([0.5, 4.0])
OBS = np.array([0.4, -0.7])
ON_A_BOX = Beta(Polynomial(2), LOW, HIGH)
BY_MEAN = Beta(Polynomial(2), LOW, HIGH, parameters="mean")
BOTH = pytest.mark.parametrize("policy", [ON_A_BOX, BY_MEAN], ids=["shapes", "mean"])


def reference(policy, params):
    """SciPy's distribution, from the outputs written out."""
    first, second = (params.reshape(4, 3) @ [1.0, *OBS]).reshape(2, 2)
    a, b = np.log1p(np.exp(first)) + 1.0, np.log1p(np.exp(second)) + 1.0
    if policy is BY_MEAN:
        mean, concentration = 1 / (1 + np.exp(-first)), np.log1p(np.exp(second)) + 2.0
        a, b = mean * concentration, (1.0 - mean) * concentration
    return stats.beta(a, b, loc=LOW, scale=HIGH - LOW)


@BOTH
def test_density_and_entropy_against_scipy(policy):
    rng = np.random.default_rng(1)
    for _ in range(10):
        params = rng.normal(0.0, 2.0, 12)
        scipy = reference(policy, params)
        action = rng.uniform(LOW, HIGH)
        expected = scipy.logpdf(action).sum()
        assert policy.log_prob(params, OBS, action) == pytest.approx(expected, rel=1e-10)
        assert policy.entropy(params, OBS) == pytest.approx(scipy.entropy().sum(), rel=1e-9)


@BOTH
def test_near_an_edge_at_zero_nothing_is_rounded_away(policy):
    policy = Beta(Polynomial(2), low=0.0, high=2.0, parameters=policy.parameters)
    params = np.array([0.3, 0.1, 0.2, -0.4, 0.5, 0.6])
    a, b = (shape[0] for shape in policy.shapes(params, OBS))
    for x in (1e-30, 1e-200):
        expected = stats.beta(a, b, scale=2.0).logpdf(x)
        assert policy.log_prob(params, OBS, [x]) == pytest.approx(expected, rel=1e-12)


@BOTH
def test_the_mode_is_the_maximum(policy):
    rng = np.random.default_rng(2)
    for _ in range(5):
        params = rng.normal(0.0, 1.5, 12)
        scipy = reference(policy, params)
        shapes = zip(*scipy.args, strict=True)
        for found, low, high, (a, b) in zip(
            policy.mode(params, OBS), LOW, HIGH, shapes, strict=True
        ):
            grid = np.linspace(low, high, 10_003)[1:-1]
            density = stats.beta(a, b, low, high - low).logpdf(grid)
            assert found == pytest.approx(grid[density.argmax()], abs=1e-3)


def test_modes_at_the_ends_and_of_the_uniform():
    # mean 1 / (1 + e^6), concentration 2 + log 2: the shape below 1 puts the peak at that end
    params = BY_MEAN.outputs.constant_weights(np.array([-6.0, 6.0, 0.0, 0.0]))
    assert BY_MEAN.mode(params, OBS).tolist() == [-2.0, 4.0]
    shapes_that_sum_to_two = BY_MEAN.outputs.constant_weights(np.array([-6.0, 6.0, -800.0, -800.0]))
    assert BY_MEAN.mode(shapes_that_sum_to_two, OBS).tolist() == [-2.0, 4.0]
    flat = ON_A_BOX.outputs.constant_weights(np.full(4, -800.0))
    assert ON_A_BOX.mode(flat, OBS).tolist() == [-0.75, 2.5]
    assert ON_A_BOX.log_prob(flat, OBS, [0.1, 3.9]) == pytest.approx(-np.log(2.5 * 3.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_are_finite_and_outside_counts_as_the_edge(dtype):
    params = np.random.default_rng(3).normal(0.0, 2.0, 12).astype(dtype)
    edge = ON_A_BOX.log_prob(params, OBS, LOW)
    assert np.isfinite(edge)
    assert ON_A_BOX.log_prob(params, OBS, LOW - 1.0) == edge
    assert edge < ON_A_BOX.log_prob(params, OBS, LOW + 0.01)


@pytest.mark.parametrize(
    ("policy", "kind"), [(ON_A_BOX, "numpy"), (BY_MEAN, "numpy"), (ON_A_BOX, "jax")]
)
def test_sampled_moments(policy, kind):
    # 20,000 draws, 4 standard errors; a correct moment fails once in 15,000 seeds
    params = np.random.default_rng(4).normal(0.0, 1.0, 12)
    n = 20_000
    if kind == "numpy":
        actions = policy.sample(params, OBS, policy.draw(np.random.default_rng(5), (n,)))
    else:
        noise = policy.draw(jax.random.key(5), (n,))
        actions = np.asarray(jax.jit(policy.sample)(jnp.asarray(params), OBS, noise), float)
    scipy = reference(policy, params)
    assert np.all((actions >= LOW) & (actions <= HIGH))
    assert np.all(np.abs(actions.mean(axis=0) - scipy.mean()) <= 4 * scipy.std() / np.sqrt(n))
    squares = (actions - scipy.mean()) ** 2
    error = squares.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(squares.mean(axis=0) - scipy.var()) <= 4 * error)
    assert abs(np.corrcoef(actions.T)[0, 1]) <= 4 / np.sqrt(n)


def test_uniform_noise_is_inverted():
    params = np.random.default_rng(6).normal(0.0, 1.0, 12)
    action = ON_A_BOX.sample(params, OBS, np.array([0.2, 0.9]))
    np.testing.assert_allclose(reference(ON_A_BOX, params).cdf(action), [0.2, 0.9])


def test_noise_in_bulk_is_noise_one_by_one():
    params, obs = jnp.asarray(np.linspace(-1.0, 1.0, 12)), jnp.asarray(np.outer([1, 2, 3], OBS))
    noise = ON_A_BOX.draw(jax.random.key(7), (3,))
    sample = jax.jit(lambda obs, noise: ON_A_BOX.sample(params, obs, noise))
    bulk = sample(obs, noise)
    for i in range(3):
        alone = tuple(part[i] for part in noise)
        np.testing.assert_allclose(bulk[i], sample(obs[i], alone), rtol=1e-5)


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.3, 40.0])
def test_gamma_variables_from_noise_have_their_distribution(shape):
    # Kolmogorov-Smirnov against SciPy, 1e5 draws; the share of failures is 1e-4 each
    n = 100_000
    rng = np.random.default_rng(int(100 * shape))
    noise = rng.standard_normal((n, _TRIES)), rng.random((n, _TRIES + 1))
    logs = _log_gamma_variables(jnp.full(n, shape), *map(jnp.asarray, noise))
    assert stats.kstest(np.asarray(logs, float), stats.loggamma(shape).cdf).pvalue > 1e-4


@pytest.mark.parametrize("parameters", ["shapes", "mean"])
@pytest.mark.parametrize(
    ("start", "width", "mean", "std"),
    [
        (-1.0, 0.2, -1.0, 0.2),
        (2.9, 0.01, 2.9, 0.01),
        (None, 0.8, 0.5, 0.8),
        (0.0, None, 0.0, None),
    ],
)
def test_a_start_in_words(parameters, start, width, mean, std):
    policy = Beta(Polynomial(2), -2.0, 3.0, parameters=parameters, start=start, width=width)
    a, b = policy.shapes(policy.init(np.random.default_rng(0)), OBS)
    scipy = stats.beta(a[0], b[0], loc=-2.0, scale=5.0)
    assert scipy.mean() == pytest.approx(mean)
    assert std is None or scipy.std() == pytest.approx(std)


def test_an_optimiser_finds_the_same_mode():
    params = np.random.default_rng(8).normal(0.0, 1.0, 12)
    mode = ON_A_BOX.mode(params, OBS)
    bounds = list(zip(LOW + 1e-9, HIGH - 1e-9, strict=True))
    found = optimize.minimize(
        lambda x: -ON_A_BOX.log_prob(params, OBS, x), (LOW + HIGH) / 2, bounds=bounds
    )
    np.testing.assert_allclose(mode, found.x, atol=1e-4)
