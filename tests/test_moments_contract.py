"""What holds for every measure of samples: arrays, gradients, what is refused, and NaN."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
from moment_samples import GRID, ORDERS, SAMPLES, WEIGHTS, by_loop

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


def test_weights_are_repetitions():
    repeated = np.repeat(SAMPLES, WEIGHTS.astype(int))
    for name in WEIGHTED:
        expected = MEASURES[name](repeated)
        assert MEASURES[name](SAMPLES, weights=0.37 * WEIGHTS) == pytest.approx(expected), name


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
