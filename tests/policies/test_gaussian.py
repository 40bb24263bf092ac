import jax
import numpy as np
import pytest
from scipy import stats

from downside.bases import Fourier, Polynomial
from downside.policies import Gaussian

POLICY = Gaussian(Polynomial(1), size=2, floor=0.1)
PARAMS = np.array([0.5, 2.0, -1.0, 0.3, 0.7, -3.0, -2.0, 1.0])  # outputs at x = 0.4 below
OBS = np.array([0.4])
MEAN = np.array([1.3, -0.88])  # 0.5 + 0.8, -1 + 0.12
STD = 0.1 + np.log1p(np.exp([-0.5, -1.6]))  # 0.7 - 1.2, -2 + 0.4


def test_mean_and_deviation_by_hand():
    mean, std = POLICY.mean_and_std(PARAMS, OBS)
    np.testing.assert_allclose(mean, MEAN)
    np.testing.assert_allclose(std, STD)
    np.testing.assert_allclose(POLICY.mode(PARAMS, OBS), MEAN)


def test_density_and_entropy_against_scipy():
    reference = stats.norm(MEAN, STD)
    for action in np.random.default_rng(1).normal(0.0, 3.0, (20, 2)):
        expected = reference.logpdf(action).sum()
        assert POLICY.log_prob(PARAMS, OBS, action) == pytest.approx(expected, rel=1e-12)
    assert POLICY.entropy(PARAMS, OBS) == pytest.approx(reference.entropy().sum(), rel=1e-12)


@pytest.mark.parametrize("preactivation", [-200.0, -50.0, -3.0, 50.0])
def test_extreme_widths_against_scipy(preactivation):
    policy, std = Gaussian(Polynomial(1)), np.logaddexp(0.0, preactivation)
    params = np.array([0.0, 0.0, preactivation, 0.0])
    for deviations in (0.0, 1.7, -30.0, 1e6):
        action = np.array([deviations * std])
        expected = stats.norm(0.0, std).logpdf(action[0])
        assert policy.log_prob(params, OBS, action) == pytest.approx(expected, rel=1e-9)


def test_in_single_precision_the_width_stops_short_of_zero():
    policy, params = Gaussian(Polynomial(1)), np.array([0.0, 0.0, -200.0, 0.0], np.float32)
    assert 0.0 < policy.mean_and_std(params, OBS)[1] < 1e-30
    narrow = np.array([0.0, 0.0, -50.0, 0.0], np.float32)
    assert policy.entropy(narrow, OBS) == pytest.approx(policy.entropy(narrow.astype(float), OBS))


def test_sampled_moments():
    # 20,000 draws, 4 standard errors; a correct moment fails once in 15,000 seeds
    noise = POLICY.draw(jax.random.key(2), (20_000,))
    actions = np.asarray(POLICY.sample(PARAMS, OBS, noise))
    assert np.all(np.abs(actions.mean(axis=0) - MEAN) <= 4 * STD / np.sqrt(20_000))
    assert np.all(np.abs(actions.std(axis=0) - STD) <= 4 * STD / np.sqrt(40_000))
    correlation = np.corrcoef(actions.T)[0, 1]
    assert abs(correlation) <= 4 / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [
        ({"start": 2.0, "width": 0.5}, [2.0, 2.0], [0.5, 0.5]),
        ({"start": [2.0, -7.0], "width": [0.5, 30.0], "floor": 0.3}, [2.0, -7.0], [0.5, 30.0]),
        ({"width": 1e-6}, [0.0, 0.0], [1e-6, 1e-6]),
        ({"start": 4.0, "floor": 0.3}, [4.0, 4.0], [0.3 + np.log(2.0)] * 2),
        ({}, [0.0, 0.0], [np.log(2.0)] * 2),
    ],
)
def test_a_start_in_words(options, mean, std):
    policy = Gaussian(Fourier([0.0], [1.0]), size=2, **options)
    for key in (np.random.default_rng(0), jax.random.key(0)):
        means, stds = policy.mean_and_std(policy.init(key), np.array([0.37]))
        assert means.tolist() == pytest.approx(mean, rel=1e-5)
        assert stds.tolist() == pytest.approx(std, rel=1e-5)


def test_a_network_starts_near():
    policy = Gaussian(Polynomial(2), hidden=(16, 16), start=5.0, width=0.2)
    mean, std = policy.mean_and_std(policy.init(jax.random.key(1)), np.array([[0.5, -1.0]] * 3))
    np.testing.assert_allclose(mean, 5.0, atol=0.1)
    np.testing.assert_allclose(std, 0.2, atol=0.02)
