import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from downside.bases import Concatenation, OneHot, Polynomial
from downside.policies import Gibbs

POLICY = Gibbs(Polynomial(2), 4)
LOGITS = arrays(float, 4, elements=st.floats(-1e4, 1e4))
OBS = np.array([0.4, -1.3])
PARAMS = np.random.default_rng(0).normal(0.0, 1.5, 12)
MASK = np.array([True, False, True, False])

masked_score = jax.jit(lambda params, action, mask: POLICY.score(params, OBS, action, mask=mask))


def test_probabilities_by_hand():
    # features [1, x]; preferences 1 + 2 * 0.5, 3 * 0.5 and 0; weights e^2, e^1.5, e^0
    policy, params = Gibbs(Polynomial(1), 3), np.array([1.0, 2.0, 0.0, 3.0, 0.0, 0.0])
    weights = np.exp([2.0, 1.5, 0.0])
    expected = weights / weights.sum()
    np.testing.assert_allclose(policy.probabilities(params, np.array([0.5])), expected)
    assert policy.log_prob(params, np.array([0.5]), 1) == pytest.approx(np.log(expected[1]))
    assert policy.entropy(params, np.array([0.5])) == pytest.approx(-expected @ np.log(expected))


def test_the_score_is_the_outer_product_of_surprise_and_features():
    features, p = np.array([1.0, *OBS]), softmax(PARAMS.reshape(4, 3) @ [1.0, *OBS])
    for action in range(4):
        expected = np.outer(np.eye(4)[action] - p, features).ravel()
        score = POLICY.score(PARAMS, OBS, action)
        np.testing.assert_allclose(score, expected, rtol=1e-4, atol=1e-6)


@settings(max_examples=50)
@given(LOGITS)
def test_logits_of_ten_thousand_stay_finite_and_right(logits):
    params = POLICY.outputs.constant_weights(logits)
    np.testing.assert_allclose(POLICY.probabilities(params, OBS), softmax(logits), atol=1e-12)
    assert logits[POLICY.mode(params, OBS)] >= logits.max() - 1e-9
    assert np.all(np.isfinite(POLICY.log_probabilities(params, OBS)))
    assert 0.0 <= POLICY.entropy(params, OBS) <= np.log(4.0) + 1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_at_logits_of_ten_thousand_are_finite(dtype):
    params = POLICY.outputs.constant_weights(np.array([1e4, -1e4, 0.0, 1e4])).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        for action, surprise in ((0, [0.5, 0, 0, -0.5]), (1, [-0.5, 1, 0, -0.5])):
            score = jax.jit(POLICY.score)(params, OBS.astype(dtype), action)
            expected = np.outer(surprise, [1.0, *OBS]).ravel()
            np.testing.assert_allclose(score, expected, rtol=1e-6)


def test_samples_have_their_probabilities():
    # counts of 40,000 draws against the multinomial, 4 standard errors: once in 4,000 seeds
    noise = POLICY.draw(np.random.default_rng(1), (40_000,))
    p = softmax(PARAMS.reshape(4, 3) @ [1.0, *OBS])
    shares = np.bincount(POLICY.sample(PARAMS, OBS, noise), minlength=4) / 40_000
    assert np.all(np.abs(shares - p) <= 4 * np.sqrt(p * (1 - p) / 40_000))


def test_masked_probabilities_are_those_of_the_rest():
    logits = PARAMS.reshape(4, 3) @ [1.0, *OBS]
    expected = np.zeros(4)
    expected[MASK] = softmax(logits[MASK])
    np.testing.assert_allclose(POLICY.probabilities(PARAMS, OBS, MASK), expected)
    assert POLICY.log_prob(PARAMS, OBS, 3, MASK) == -np.inf
    allowed = expected[MASK]
    assert POLICY.entropy(PARAMS, OBS, MASK) == pytest.approx(-allowed @ np.log(allowed))
    assert POLICY.mode(np.zeros(12), OBS, ~MASK) == 1


@pytest.mark.parametrize("logit", [0.0, 1e4])
def test_forbidden_actions_are_never_drawn(logit):
    # noise at 0, at 1 and at every sum of probabilities, where a rounding would show
    n = 40
    policy = Gibbs(OneHot(1), n)
    mask = np.random.default_rng(2).random((300, n)) < 0.4
    params = np.random.default_rng(3).normal(0.0, 3.0, n).astype(np.float32)
    params[::7] += logit
    p = policy.probabilities(params, np.zeros(300), mask)
    noise = np.stack([np.zeros(300), np.ones(300), *p.cumsum(axis=-1).T]).astype(np.float32)
    for xp in (np, jnp):
        actions = policy.sample(*(xp.asarray(x) for x in (params, np.zeros(300), noise)), mask=mask)
        assert mask[np.arange(300), np.asarray(actions)].all()


def test_masked_scores_are_zero_where_nothing_can_be_learnt():
    with jax.enable_x64(True):
        allowed = np.asarray(masked_score(PARAMS, 2, MASK)).reshape(4, 3)
        forbidden = np.asarray(masked_score(PARAMS, 3, MASK))
    assert np.all(allowed[~MASK] == 0.0)
    p = POLICY.probabilities(PARAMS, OBS, MASK)
    np.testing.assert_allclose(allowed, np.outer([0, 0, 1, 0] - p, [1.0, *OBS]), atol=1e-12)
    assert np.all(forbidden == 0.0)


def test_the_derivative_of_a_masked_entropy_is_finite():
    gradient = jax.grad(lambda p: POLICY.entropy(p, OBS, mask=MASK))(PARAMS)
    assert np.all(np.isfinite(gradient))


def test_masks_may_be_whole_numbers_and_batches():
    masks = np.array([[1, 0, 1, 1], [0, 0, 0, 1]], np.int8)  # as Gymnasium gives them
    both = POLICY.probabilities(PARAMS, np.stack([OBS, -OBS]), masks)
    np.testing.assert_allclose(both[1], [0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(both[0], POLICY.probabilities(PARAMS, OBS, masks[0] > 0))
    compiled = jax.jit(POLICY.probabilities)(PARAMS, OBS, masks[0])
    np.testing.assert_allclose(compiled, both[0], rtol=1e-5)


@pytest.mark.parametrize("basis", [OneHot(5), Polynomial(2, order=2), Concatenation([OneHot(5)])])
@pytest.mark.parametrize("probability", [0.05, 0.9])
def test_a_start_in_words(basis, probability):
    policy = Gibbs(basis, 6, start=4, start_probability=probability)
    obs = OBS if isinstance(basis, Polynomial) else np.array(3)
    p = policy.probabilities(policy.init(np.random.default_rng(0)), obs)
    assert p[4] == pytest.approx(probability)
    assert p[:4].tolist() == pytest.approx([(1 - probability) / 5] * 4)


def test_without_a_start_all_actions_are_as_likely():
    assert POLICY.probabilities(POLICY.init(jax.random.key(0)), OBS).tolist() == [0.25] * 4
