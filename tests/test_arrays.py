import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from scipy.special import log_softmax as scipy_log_softmax

from downside.arrays import (
    array_module,
    as_floats,
    below_maximum,
    inverse_softplus,
    is_traced,
    log_softmax,
    once,
    sample_index,
    sigmoid,
    softplus,
    sum_of_row,
)

WIDE = np.array([-800.0, -200.0, -50.0, -3.0, 0.0, 0.4, 50.0, 800.0])


def test_the_module_follows_the_values():
    assert array_module(1.0, np.ones(2)) is np
    assert array_module(1.0, jnp.ones(2)) is jnp
    seen = []
    jax.eval_shape(lambda x: seen.append((array_module(x), is_traced(x))), 1.0)
    assert seen == [(jnp, True)]


@pytest.mark.parametrize("xp", [np, jnp])
def test_floats_keep_their_width_and_others_get_the_default(xp):
    assert as_floats(xp.ones(2, xp.float16), xp).dtype == xp.float16
    for values in ([1, 2], [True, False], np.uint8([1, 2])):
        assert as_floats(values, xp).dtype == xp.zeros(()).dtype


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray])
def test_softplus_and_sigmoid_over_the_whole_range(asarray):
    with jax.enable_x64(True):
        plus, unit = softplus(asarray(WIDE)), sigmoid(asarray(WIDE))
    np.testing.assert_allclose(unit, expit(WIDE), rtol=1e-13)
    small = WIDE < -40  # log(1 + e^x) is e^x to rounding
    np.testing.assert_allclose(plus[small], np.exp(WIDE[small]), rtol=1e-13)
    np.testing.assert_allclose(
        plus[~small], np.log1p(np.exp(-np.abs(WIDE[~small]))) + np.maximum(WIDE[~small], 0)
    )


@given(st.floats(1e-300, 1e6))
def test_inverse_softplus_is_the_inverse(y):
    assert softplus(inverse_softplus(np.float64(y))) == pytest.approx(y, rel=1e-10)


@given(arrays(float, (2, 5), elements=st.floats(-1e4, 1e4)))
def test_log_softmax_against_scipy(x):
    expected = scipy_log_softmax(x, axis=-1)
    np.testing.assert_allclose(log_softmax(x), expected, rtol=1e-12, atol=1e-12)


def test_log_softmax_in_jax_is_that_of_numpy():
    x = np.random.default_rng(0).normal(0.0, 100.0, (3, 4)).astype(np.float32)
    np.testing.assert_allclose(log_softmax(jnp.asarray(x)), log_softmax(x), rtol=1e-5)


@settings(max_examples=100)
@given(
    arrays(float, 6, elements=st.sampled_from([0.0, 1e-12, 0.1, 0.25, 3.0])),
    st.floats(0.0, 1.0),
)
def test_an_index_is_where_the_distribution_function_passes_the_uniform(weights, uniform):
    if not weights.any():
        weights[2] = 0.5
    index = sample_index(weights, np.float64(uniform))
    assert weights[index] > 0
    cumulative = np.cumsum(weights) / weights.sum()
    assert cumulative[index] >= uniform - 1e-12
    assert index == 0 or cumulative[index - 1] <= uniform + 1e-12


def test_an_index_by_hand():
    weights = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    uniforms = np.array([0.0, 0.1, 0.2, 0.69, 0.71, 0.999, 1.0])
    expected = [1, 1, 3, 3, 4, 4, 4]
    assert sample_index(weights, uniforms).tolist() == expected
    assert sample_index(jnp.asarray(weights), uniforms).tolist() == expected


def test_nothing_impossible_is_drawn_where_jax_rounds_its_sums():
    # the sums of long float32 rows change by a rounding where nothing is added
    rng = np.random.default_rng(1)
    weights = rng.random((20, 1000)) * (rng.random((20, 1000)) < 0.4)
    weights = jnp.asarray(weights, jnp.float32)
    sums = jnp.cumsum(weights, axis=-1)
    assert np.any(np.asarray(weights[:, 1:] == 0) & np.asarray(jnp.diff(sums) != 0))
    at_every_sum = sample_index(weights[:, None, :], sums / sums[:, -1:])
    drawn = np.take_along_axis(np.asarray(weights), np.asarray(at_every_sum), axis=-1)
    assert np.all(drawn > 0)


@pytest.mark.parametrize("n", [*range(1, 40), 84, 97, 256, 1001])
def test_a_sum_of_sums_is_the_sum(n):
    x = np.random.default_rng(n).normal(size=(2, n))
    with jax.enable_x64(True):
        for found in (sum_of_row(x), jax.jit(sum_of_row)(x)):
            np.testing.assert_allclose(found, x.sum(axis=-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_what_is_made_once_is_the_same(dtype):
    x = np.array([[3.5, -2.0], [0.0, np.inf if dtype is np.float32 else 7]], dtype)
    found = jax.jit(once)(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x)
    assert once(x) is x


@pytest.mark.parametrize("n", [1, 2, 11, 16, 17])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_is_taken_away_exactly(n, dtype):
    """By pairs where there are few."""
    with jax.enable_x64(True):
        x = np.random.default_rng(n).normal(size=(50, n)).astype(dtype)
        assert np.array_equal(below_maximum(jnp.asarray(x)), below_maximum(x))


def test_one_that_is_no_number_leaves_no_probability():
    x = np.ones((3, 3), np.float32)
    np.fill_diagonal(x, np.nan)
    assert np.isnan(log_softmax(jnp.asarray(x))).all()


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_the_last_weight_is_never_drawn_where_it_is_0(kind):
    """However the largest uniform number is rounded when it is scaled to the total."""
    with jax.enable_x64(True):
        total = jnp.asarray(np.exp(np.random.default_rng(5).normal(size=1000)), kind)
        weights = jnp.stack([total, jnp.zeros_like(total)], axis=-1)
        largest = jnp.nextafter(jnp.ones((), kind), jnp.zeros((), kind))
        assert not np.any(sample_index(weights, jnp.broadcast_to(largest, total.shape)))
        assert not np.any(sample_index(weights, jnp.ones_like(total)))


def test_weights_may_be_whole_numbers_and_tiny():
    assert sample_index(np.array([0, 1, 0]), 0.4) == 1
    assert sample_index(jnp.array([0, 1, 0]), 0.4) == 1
    assert sample_index(np.array([5e-324, 0.0]), 0.999) == 0
