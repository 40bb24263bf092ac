import jax.numpy as jnp
import numpy as np
import pytest

from downside.critics import LSTD, RecursiveLSTD


def learn(critic, *steps, n_signals=1):
    """Weights after steps of (feature, next feature, cumulant, discount) over one feature."""
    state = critic.init(n_features=1, n_signals=n_signals)
    for x, next_x, cumulant, discount in steps:
        signals = jnp.full(n_signals, cumulant), jnp.full(n_signals, discount)
        state, _ = critic.update(state, jnp.array([x]), *signals, jnp.array([next_x]), 0.0)
    return critic.weights(state)


def test_the_recursion_loses_the_step_that_makes_the_matrix_singular_and_no_other():
    # A = 1 + 2 (2 - 0.5 * 5) = 0, which has no inverse; then A = 0 + 3 * 3 for the batch, whose
    # b = 2 * 7 + 3 * 4 = 26, and A = 1 + 3 * 3 with b = 12 for the recursion.
    steps = (2.0, 5.0, 7.0, 0.5), (3.0, 1.0, 4.0, 0.0)
    assert learn(LSTD(ridge=1.0), *steps) == pytest.approx(26 / 9)
    assert learn(RecursiveLSTD(ridge=1.0), *steps) == pytest.approx(12 / 10)


@pytest.mark.parametrize("forgetting", [1.0, 0.75])
def test_after_a_lost_step_only_what_is_forgotten_has_changed(forgetting):
    # forgetting A + 2 (2 - 0.5 next) = 0 at A = 1
    critic = RecursiveLSTD(ridge=1.0, forgetting=forgetting)
    next_x = 4.0 + forgetting
    before = critic.init(n_features=1, n_signals=2)
    x, cumulants, discounts = jnp.array([2.0]), jnp.array([7.0, 3.0]), jnp.full(2, 0.5)
    after, errors = critic.update(before, x, cumulants, discounts, jnp.array([next_x]), 0.0)
    np.testing.assert_array_equal(after.weights, before.weights)
    np.testing.assert_allclose(after.inverse, before.inverse / forgetting)
    np.testing.assert_array_equal(errors, cumulants)


@pytest.mark.parametrize("x", np.random.default_rng(4).uniform(0.2, 3.0, 20).tolist())
def test_a_matrix_that_is_singular_up_to_rounding_counts_as_singular(x):
    next_x = (x + 0.3 / x) / 0.9  # 0.3 + x (x - 0.9 next_x) = 0, but for rounding
    lost, kept = (x, next_x, 7.0, 0.9), (2.0, 1.0, 4.0, 0.5)
    critic = RecursiveLSTD(ridge=0.3)
    assert learn(critic, lost, kept) == pytest.approx(learn(critic, kept))


def test_a_matrix_that_is_nearly_singular_is_not_skipped():
    # A = 1 + 2 (2 - 0.5 * 4.99) = 0.01
    steps = (2.0, 4.99, 7.0, 0.5), (3.0, 1.0, 4.0, 0.0)
    expected = (2.0 * 7.0 + 3.0 * 4.0) / (0.01 + 9.0)
    assert learn(RecursiveLSTD(ridge=1.0), *steps) == pytest.approx(expected, rel=1e-3)


def test_only_the_signal_whose_matrix_is_singular_loses_the_step():
    critic = RecursiveLSTD(ridge=1.0)
    state = critic.init(n_features=1, n_signals=2)
    cumulants, discounts = jnp.array([7.0, 7.0]), jnp.array([0.5, 0.25])
    state, _ = critic.update(state, jnp.array([2.0]), cumulants, discounts, jnp.array([5.0]), 0.0)
    # the second: A = 1 + 2 (2 - 0.25 * 5) = 2.5, b = 14
    np.testing.assert_allclose(critic.weights(state)[:, 0], [0.0, 14 / 2.5], rtol=1e-6)
