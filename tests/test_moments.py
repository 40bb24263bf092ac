import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from downside.moments import (
    conditional_value_at_risk,
    kappa_ratio,
    lower_partial_moment,
    maximum_drawdown,
    omega_ratio,
    semideviation,
    sortino_ratio,
    upper_partial_moment,
    upside_potential_ratio,
    value_at_risk,
)

SAMPLES = np.array([4.0, 1.0, -2.0, 2.5, -1.5, 7.0])
WEIGHTS = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 1.0])
GRID = np.array([[[0.3, -1.2], [2.0, 0.7]], [[-0.4, 1.1], [-3.0, 0.2]], [[1.6, -0.9], [0.5, 2.2]]])
ORDERS = [0, 0.4, 1, 1.5, 2, 3]
MEASURES = {
    "lower": lambda x, **kw: lower_partial_moment(x, 1.5, 2, **kw),
    "upper": lambda x, **kw: upper_partial_moment(x, 1.5, 2, **kw),
    "frequency": lambda x, **kw: lower_partial_moment(x, 1.5, 0, **kw),
    "semideviation": semideviation,
    "sortino": lambda x, **kw: sortino_ratio(x, 1.5, **kw),
    "kappa": lambda x, **kw: kappa_ratio(x, 1.5, **kw),
    "omega": lambda x, **kw: omega_ratio(x, 1.5, **kw),
    "upside potential": lambda x, **kw: upside_potential_ratio(x, 1.5, **kw),
    "var": lambda x, **kw: value_at_risk(x, 0.3, **kw),
    "cvar": lambda x, **kw: conditional_value_at_risk(x, 0.3, **kw),
    "drawdown": maximum_drawdown,
}
each_measure = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES.keys())
WEIGHTED = [name for name in MEASURES if name not in ("var", "cvar", "drawdown")]


def by_loop(samples, target, order, weights):
    """E[((target - X)+)^order], one sample at a time."""
    total = 0.0
    for x, w in zip(samples, weights, strict=True):
        if x < target:
            total += w * (target - x) ** order
    return total / sum(weights)


# Partial moments


@pytest.mark.parametrize(
    ("order", "lower", "upper"),
    [
        # target 2: shortfalls 1, 4, 3.5 and excesses 2, 0.5, 5, out of 6 samples
        (0, 3 / 6, 3 / 6),
        (0.5, (1 + 2 + math.sqrt(3.5)) / 6, (math.sqrt(2) + math.sqrt(0.5) + math.sqrt(5)) / 6),
        (1, 8.5 / 6, 7.5 / 6),
        (2, (1 + 16 + 12.25) / 6, (4 + 0.25 + 25) / 6),
        (3, (1 + 64 + 42.875) / 6, (8 + 0.125 + 125) / 6),
    ],
)
def test_moments_by_hand(order, lower, upper):
    assert lower_partial_moment(SAMPLES, 2.0, order) == pytest.approx(lower, rel=1e-14)
    assert upper_partial_moment(SAMPLES, 2.0, order) == pytest.approx(upper, rel=1e-14)


@pytest.mark.parametrize("order", ORDERS)
def test_moments_against_a_loop(order):
    expected = by_loop(SAMPLES, 1.7, order, WEIGHTS)
    assert lower_partial_moment(SAMPLES, 1.7, order, weights=WEIGHTS) == pytest.approx(expected)
    mirrored = by_loop(-SAMPLES, -1.7, order, WEIGHTS)
    assert upper_partial_moment(SAMPLES, 1.7, order, weights=WEIGHTS) == pytest.approx(mirrored)


def test_order_zero_does_not_count_the_target_itself():
    assert lower_partial_moment([2.5, 2.5, 1.0, 6.0], 2.5, 0) == 1 / 4
    assert upper_partial_moment([2.5, 2.5, 1.0, 6.0], 2.5, 0) == 1 / 4


def test_a_shortfall_and_an_excess_make_the_difference():
    """(x)+ - (-x)+ = x, so UPM_1 - LPM_1 = E[X] - target."""
    difference = upper_partial_moment(SAMPLES, 1.7) - lower_partial_moment(SAMPLES, 1.7)
    assert difference == pytest.approx(SAMPLES.mean() - 1.7)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, -1)])
def test_axis(axis):
    shortfall = np.maximum(0.6 - GRID, 0) ** 1.5
    moment = lower_partial_moment(GRID, 0.6, 1.5, axis)
    np.testing.assert_allclose(moment, shortfall.mean(axis=axis))


def test_targets_broadcast():
    targets = np.array([[-1.0], [2.0], [3.5]])
    expected = [by_loop(SAMPLES, t, 2, WEIGHTS) for t in targets[:, 0]]
    moments = lower_partial_moment(SAMPLES, targets, 2, axis=1, weights=WEIGHTS)
    np.testing.assert_allclose(moments, expected)
    per_sample = SAMPLES - np.array([1.0, -1.0, 2.0, 0.5, -3.0, 1.0])  # shortfalls 0 where < 0
    assert lower_partial_moment(SAMPLES, per_sample) == 0.5 / 6 * (0 + 2 + 0 + 0 + 6 + 0)


def test_weights_are_repetitions():
    repeated = np.repeat(SAMPLES, WEIGHTS.astype(int))
    for name in WEIGHTED:
        expected = MEASURES[name](repeated)
        assert MEASURES[name](SAMPLES, weights=0.37 * WEIGHTS) == pytest.approx(expected), name


def test_weights_that_sum_to_zero_give_nan():
    weights = np.array([[0.0, 0.0, 0.0], [1.0, 3.0, 0.0]])
    moments = lower_partial_moment([1.0, -1.0, 5.0], 2.0, axis=1, weights=weights)
    np.testing.assert_array_equal(moments, [np.nan, (1 + 3 * 3) / 4])


# Arrays: NumPy, JAX, dtypes, transformations


@each_measure
def test_jax_agrees_with_numpy(measure):
    with jax.enable_x64(True):
        ours = measure(jnp.asarray(SAMPLES))
        assert isinstance(ours, jax.Array)
        assert float(ours) == pytest.approx(measure(SAMPLES).item(), rel=1e-13)


@each_measure
def test_float32_stays_float32(measure):
    assert measure(SAMPLES.astype(np.float32)).dtype == np.float32
    with jax.enable_x64(True):
        assert measure(jnp.asarray(SAMPLES, dtype=jnp.float32)).dtype == jnp.float32


def test_target_and_weights_take_the_dtype_of_the_samples():
    samples, target = SAMPLES.astype(np.float32), np.full(6, 1.7)
    assert lower_partial_moment(samples, target, weights=WEIGHTS).dtype == np.float32
    with jax.enable_x64(True):
        moment = lower_partial_moment(
            jnp.asarray(samples), target, np.float64(1.5), weights=WEIGHTS
        )
        assert moment.dtype == jnp.float32
    assert lower_partial_moment(jnp.arange(5), 2).dtype == jnp.float32
    assert isinstance(lower_partial_moment(SAMPLES, jnp.float32(2.0)), jax.Array)


@pytest.mark.slow
@each_measure
def test_jit_and_vmap(measure):
    rows = jnp.asarray(np.stack([SAMPLES, SAMPLES[::-1] * 0.7 + 0.2]), dtype=jnp.float32)
    mapped = jax.jit(jax.vmap(measure))(rows)
    np.testing.assert_allclose(mapped, measure(rows, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(mapped[1], measure(np.asarray(rows[1])), rtol=1e-5)


def test_traced_weights_and_constant_weights():
    jitted = jax.jit(lambda x, w: lower_partial_moment(x, 1.7, 2, weights=w))
    known = jnp.asarray(WEIGHTS, dtype=jnp.float32)
    constant = jax.jit(lambda x: lower_partial_moment(x, 1.7, 2, weights=known))
    samples = jnp.asarray(SAMPLES, dtype=jnp.float32)
    expected = by_loop(SAMPLES, 1.7, 2, WEIGHTS)
    assert float(jitted(samples, WEIGHTS)) == pytest.approx(expected, rel=1e-6)
    assert float(constant(samples)) == pytest.approx(expected, rel=1e-6)


# Gradients


@pytest.mark.slow
@pytest.mark.parametrize("moment", [lower_partial_moment, upper_partial_moment])
@pytest.mark.parametrize("order", ORDERS)
def test_gradient_against_central_differences(moment, order):
    with jax.enable_x64(True):
        point = jnp.append(SAMPLES, 1.7)  # the samples, and the target last

        @jax.jit
        def value(point):
            return moment(point[:-1], point[-1], order, weights=WEIGHTS)

        steps = 1e-6 * jnp.eye(7)
        slopes = (jax.vmap(value)(point + steps) - jax.vmap(value)(point - steps)) / 2e-6
        np.testing.assert_allclose(jax.grad(value)(point), slopes, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_gradient_is_zero_without_a_shortfall(order):
    """At the target itself, above it, and infinitely far above it."""
    samples = jnp.array([2.0, 2.0, 3.5, 9.0, jnp.inf])
    gradient = jax.grad(jax.jit(lambda x: lower_partial_moment(x, 2.0, order)))(samples)
    np.testing.assert_array_equal(gradient, np.zeros(5))
    mirrored = jax.grad(jax.jit(lambda x: upper_partial_moment(x, -2.0, order)))(-samples)
    np.testing.assert_array_equal(mirrored, np.zeros(5))


@pytest.mark.slow
@each_measure
def test_gradients_of_measures_are_finite(measure):
    """Of constant samples, of gains alone, of losses alone, and of both."""
    rows = jnp.array([[2.5, 2.5, 2.5], [3.0, 4.0, 7.0], [-3.0, -1.0, -1.0], [4.0, -1.0, 1.5]])
    assert np.all(np.isfinite(jax.jit(jax.vmap(jax.grad(lambda x: measure(x))))(rows)))


# What is refused, and NaN


def test_no_target_is_refused_with_the_reason():
    for measure in (lower_partial_moment, upper_partial_moment, sortino_ratio, kappa_ratio):
        with pytest.raises(ValueError, match=r"target=samples\.mean\(\) if you mean the central"):
            measure(SAMPLES, None)
    for measure in (omega_ratio, upside_potential_ratio):
        with pytest.raises(ValueError, match=r"target is None"):
            measure(SAMPLES, None)


@each_measure
def test_no_samples_is_refused(measure):
    with pytest.raises(ValueError, match=r"shape \(0,\) are empty; pass at least one sample"):
        measure(np.array([]))
    with pytest.raises(ValueError, match=r"shape \(3, 0\) are empty"):
        measure(jnp.zeros((3, 0)))


@pytest.mark.parametrize("order", [-1, -0.5, math.nan, math.inf])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(ValueError, match=r"type a number >= 0"):
        lower_partial_moment(SAMPLES, 1.0, order)


def test_a_ratio_of_order_zero_is_refused():
    with pytest.raises(ValueError, match=r"order above 0, such as 3"):
        kappa_ratio(SAMPLES, 1.0, 0)


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ValueError, match=r"target of shape \(3,\).*samples of shape \(3, 2, 2\)"):
        lower_partial_moment(GRID, GRID.mean(axis=(1, 2)), axis=(1, 2))
    with pytest.raises(ValueError, match=r"weights of shape \(5,\).*in weights\[:, None\]"):
        omega_ratio(SAMPLES, 1.0, weights=np.ones(5))


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match=r"type weights >= 0"):
        lower_partial_moment(SAMPLES, 1.0, weights=-WEIGHTS)


@pytest.mark.parametrize("level", [0.0, -0.1, 1.01, math.nan])
def test_what_is_no_level_is_refused(level):
    for measure in (value_at_risk, conditional_value_at_risk):
        with pytest.raises(ValueError, match=r"in \(0, 1\]"):
            measure(SAMPLES, level)


@each_measure
def test_nan_in_nan_out(measure):
    rows = np.stack([SAMPLES, SAMPLES])
    rows[0, 2] = np.nan
    for array in (rows, jnp.asarray(rows, dtype=jnp.float32)):
        assert np.isnan(np.asarray(measure(array, axis=-1))).tolist() == [True, False]


def test_nan_in_the_target_or_the_weights():
    assert np.isnan(lower_partial_moment(SAMPLES, np.nan, 0))
    assert np.isnan(upper_partial_moment(SAMPLES, [np.nan, 1.0, 1.0, 1.0, 1.0, 1.0]))
    assert np.isnan(sortino_ratio(SAMPLES, 1.0, weights=[np.nan, 1.0, 1.0, 1.0, 1.0, 1.0]))


def test_infinite_samples():
    assert lower_partial_moment([-np.inf, 3.0], 1.0) == np.inf
    assert lower_partial_moment([-np.inf, 3.0], 1.0, 0) == 0.5
    assert lower_partial_moment([np.inf, -3.0], 1.0) == 2.0
    assert lower_partial_moment([-np.inf, 3.0], -np.inf) == 0.0
    assert conditional_value_at_risk([-np.inf, -np.inf, 3.0], 0.5) == -np.inf


# Measures


def test_measures_by_hand():
    # mean 11/6; squared shortfalls below it (5/6)^2, (23/6)^2, (20/6)^2: 25 + 529 + 400 = 954
    assert semideviation(SAMPLES) == pytest.approx(math.sqrt(954 / 36 / 6))
    # target 1.5: shortfalls 0.5, 3.5, 3 and excesses 2.5, 1, 5.5; mean excess 1/3
    squares, cubes = 0.25 + 12.25 + 9, 0.125 + 42.875 + 27
    assert sortino_ratio(SAMPLES, 1.5) == pytest.approx(1 / 3 / math.sqrt(squares / 6))
    assert kappa_ratio(SAMPLES, 1.5) == pytest.approx(1 / 3 / (cubes / 6) ** (1 / 3))
    assert omega_ratio(SAMPLES, 1.5) == pytest.approx(9 / 7)
    assert upside_potential_ratio(SAMPLES, 1.5) == pytest.approx(1.5 / math.sqrt(squares / 6))


def test_ratios_reduce_to_each_other():
    targets = np.array([[-1.0], [0.4], [3.0]])
    keywords = {"axis": 1, "weights": WEIGHTS}
    sortino = sortino_ratio(SAMPLES, targets, **keywords)
    np.testing.assert_allclose(sortino, kappa_ratio(SAMPLES, targets, 2, **keywords))
    omega = omega_ratio(SAMPLES, targets, **keywords)
    np.testing.assert_allclose(omega, 1 + kappa_ratio(SAMPLES, targets, 1, **keywords))
    deviation = lower_partial_moment(SAMPLES, targets, 2, **keywords) ** 0.5
    potential = upper_partial_moment(SAMPLES, targets, **keywords) / deviation
    np.testing.assert_allclose(upside_potential_ratio(SAMPLES, targets, **keywords), potential)


def test_semideviation_of_a_symmetric_sample_is_half_the_variance():
    symmetric = np.array([1.3, 2.0, 4.7, 5.4])  # about 3.35
    assert semideviation(symmetric) == pytest.approx(symmetric.std() / math.sqrt(2))


@pytest.mark.parametrize("ratio", [sortino_ratio, kappa_ratio, omega_ratio, upside_potential_ratio])
def test_ratio_without_a_shortfall(ratio):
    rows = np.array([[3.0, 2.0, 2.0], [2.0, 2.0, 2.0], [2.0, 1.0, 4.0]])
    for array in (rows, jnp.asarray(rows)):
        values = np.asarray(ratio(array, 2.0, axis=1))
        assert values[0] == np.inf
        assert np.isnan(values[1])
        assert np.isfinite(values[2])


def test_tail_by_hand():
    # worst first: -2, -1.5, 1, 2.5, 4, 7. A level of 0.4 is 2.4 samples of 6
    assert value_at_risk(SAMPLES, 0.4) == 1.0
    expected = (-2 - 1.5 + 0.4 * 1) / 2.4
    assert conditional_value_at_risk(SAMPLES, 0.4) == pytest.approx(expected)
    assert value_at_risk(SAMPLES, 0.01) == conditional_value_at_risk(SAMPLES, 0.01) == -2.0
    assert value_at_risk(SAMPLES, 1.0) == 7.0
    assert conditional_value_at_risk(SAMPLES, 1.0) == pytest.approx(SAMPLES.mean())


def test_rank_of_the_quantile_is_not_moved_by_rounding():
    assert 0.07 * 100 > 7
    assert value_at_risk(np.arange(100.0)[::-1], 0.07) == 6.0


@pytest.mark.parametrize("axis", [None, 0, -2, (0, 2), (2, 1), ()])
def test_tail_axes(axis):
    quantile = np.quantile(GRID, 0.3, axis=axis, method="inverted_cdf")
    np.testing.assert_allclose(value_at_risk(GRID, 0.3, axis), quantile)
    levels = (np.arange(1800) + 0.5) / 6000  # midpoints up to 0.3; every jump is at a cell's end
    average = np.quantile(GRID, levels, axis=axis, method="inverted_cdf").mean(axis=0)
    np.testing.assert_allclose(conditional_value_at_risk(GRID, 0.3, axis), average)


returns = st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(np.array)


@settings(deadline=None)
@given(returns, st.floats(0.01, 1.0), st.floats(0.0, 0.05))
def test_tail_average_is_below_the_quantile_and_continuous(samples, level, step):
    average = conditional_value_at_risk(samples, level)
    assert average <= value_at_risk(samples, level)
    further = conditional_value_at_risk(samples, min(level + step, 1.0))
    # level * average is the integral of the quantile: it moves by at most step * max|x|
    bound = 2 * step * np.abs(samples).max() / level
    assert -1e-9 <= further - average <= bound + 1e-9


def test_maximum_drawdown_by_hand():
    # wealth 1, 0.8, 1.6, 1.2, 2.4, 0.6, 0.9: the fall from 2.4 to 0.6
    assert maximum_drawdown(np.log([0.8, 2.0, 0.75, 2.0, 0.25, 1.5])) == pytest.approx(0.75)
    assert maximum_drawdown(np.log([0.6, 1.1, 1.3])) == pytest.approx(0.4)  # from the start
    assert maximum_drawdown(np.log([1.2, 1.1])) == 0.0
    assert maximum_drawdown([0.2, -np.inf, 0.1]) == 1.0
    np.testing.assert_allclose(
        maximum_drawdown(np.log([[1.5, 0.5], [0.4, 3.0]]), axis=0), [0.6, 0.5]
    )


@settings(deadline=None)
@given(returns)
def test_maximum_drawdown_over_all_pairs(log_returns):
    wealth = np.exp(np.concatenate([[0.0], np.cumsum(log_returns)]))
    falls = [1 - wealth[j] / wealth[i] for i in range(len(wealth)) for j in range(i, len(wealth))]
    drawdown = maximum_drawdown(log_returns)
    assert drawdown == pytest.approx(max(falls), abs=1e-9)
    assert 0 <= drawdown <= 1


def test_numbers_of_other_libraries():
    """Computed by skfolio 1.12 and empyrical-reloaded 0.7, in tests/peers/test_measures.py."""
    r = np.array([0.021, -0.034, 0.008, 0.055, -0.012, -0.071, 0.034, 0.017, -0.003, 0.042, -0.026])
    assert lower_partial_moment(r, 0.005, 1) == pytest.approx(0.015545454545454546)
    assert lower_partial_moment(r, 0.005, 4) == pytest.approx(3.3351595454545454e-06)
    assert semideviation(r) == pytest.approx(0.02677960525663096)
    assert semideviation(r) * math.sqrt(11 / 10) == pytest.approx(0.028086686943658453)  # T - 1
    assert value_at_risk(r, 0.15) == -0.034
    assert conditional_value_at_risk(r, 0.15) == pytest.approx(-0.05642424242424241)
    assert sortino_ratio(r, 0.005) == pytest.approx(-0.07798087509868196)
    assert omega_ratio(r, 0.005) == pytest.approx(0.8596491228070176)
    assert maximum_drawdown(r) == pytest.approx(0.07964885277987514)


# The lemmas, for variables X_1, ..., X_T with finitely many joint outcomes


@st.composite
def joint_distributions(draw):
    """Outcomes (n, T), their weights (n,), a target per variable (T,) and a discount."""
    size, horizon = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    number = st.floats(-10, 10, allow_subnormal=False)

    def array(n):
        return np.array(draw(st.lists(number, min_size=n, max_size=n)))

    outcomes = array(size * horizon).reshape(size, horizon)
    weights = np.array(draw(st.lists(st.floats(0.05, 3.0), min_size=size, max_size=size)))
    return outcomes, weights, array(horizon), draw(st.floats(0.1, 1.0))


@pytest.mark.parametrize("moment", [lower_partial_moment, upper_partial_moment])
@settings(deadline=None)
@given(joint=joint_distributions(), order=st.sampled_from([1, 1.3, 2, 3]))
def test_moments_of_a_discounted_sum(moment, joint, order):
    """Lemma 1 (order 1, where the factor is 1) and its form of order m.

    moment_m(sum g^t X_t | sum g^t tau_t) <= S^(m-1) sum g^t moment_m(X_t | tau_t),  S = sum g^t
    """
    outcomes, weights, targets, discount = joint
    powers = discount ** np.arange(len(targets))
    factor = powers.sum() ** (order - 1)
    by_path = moment(outcomes @ powers, targets @ powers, order, axis=()) - factor * (
        moment(outcomes, targets, order, axis=()) @ powers
    )
    assert np.all(by_path <= 1e-9 * 40**order)
    of_sum = moment(outcomes @ powers, targets @ powers, order, weights=weights)
    of_terms = moment(outcomes, targets, order, axis=0, weights=weights[:, None])
    assert of_sum <= factor * (powers @ of_terms) + 1e-9 * 40**order


@settings(deadline=None)
@given(joint_distributions())
def test_lemma_1_for_two_variables(joint):
    outcomes, weights, targets, _ = joint
    for moment in (lower_partial_moment, upper_partial_moment):
        x, y = outcomes[:, 0], outcomes[:, 1]
        of_sum = moment(x + y, targets[0] + targets[1], weights=weights)
        apart = moment(x, targets[0], weights=weights) + moment(y, targets[1], weights=weights)
        assert of_sum <= apart + 1e-12 * 40


@pytest.mark.parametrize("order", [1.5, 2, 3])
def test_the_factor_is_tight_and_needed(order):
    """The same shortfall d at every step: (S d)^m on the left, S d^m without the factor."""
    discount, shortfall = 0.8, 1.3
    powers = discount ** np.arange(4)
    total = powers.sum()  # 2.952
    targets = np.array([0.5, -1.0, 2.0, 0.7])
    of_sum = lower_partial_moment((targets - shortfall) @ powers, targets @ powers, order)
    of_terms = lower_partial_moment(targets - shortfall, targets, order, axis=())
    assert of_sum == pytest.approx((total * shortfall) ** order)
    assert of_sum == pytest.approx(total ** (order - 1) * (powers @ of_terms))
    assert of_sum > 1.5 * (powers @ of_terms)


def variance(values, weights):
    mean = np.average(values, weights=weights)
    return np.average((values - mean) ** 2, weights=weights)


@settings(deadline=None)
@given(joint_distributions())
def test_lemma_2(joint):
    """V[(c - X)+] <= V[X], with V[(c - X)+] = LPM_2 - LPM_1^2; and the same above c."""
    outcomes, weights, targets, _ = joint
    assume(len(weights) > 1)
    x, c = outcomes[:, 0], targets[0]
    for moment in (lower_partial_moment, upper_partial_moment):
        clipped = moment(x, c, 2, weights=weights) - moment(x, c, 1, weights=weights) ** 2
        assert clipped <= variance(x, weights) + 1e-9


def test_lemma_2_is_tight_where_nothing_is_clipped():
    clipped = lower_partial_moment(SAMPLES, 8.0, 2) - lower_partial_moment(SAMPLES, 8.0) ** 2
    assert clipped == pytest.approx(SAMPLES.var())
    partly = lower_partial_moment(SAMPLES, 1.5, 2) - lower_partial_moment(SAMPLES, 1.5) ** 2
    assert partly < 0.25 * SAMPLES.var()
