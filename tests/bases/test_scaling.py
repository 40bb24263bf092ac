import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from downside.bases import RunningMoments, Scaling

STREAMS = arrays(float, st.tuples(st.integers(1, 12), st.just(3)), elements=st.floats(-1e3, 1e3))


def seen(stream):
    moments = RunningMoments.of_size(stream.shape[-1])
    for x in stream:
        moments = moments.update(x)
    return moments


@settings(max_examples=50)
@given(STREAMS)
def test_running_moments_are_those_of_the_whole(stream):
    moments = seen(stream)
    assert moments.count == len(stream)
    np.testing.assert_allclose(moments.mean, stream.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.std(), stream.std(axis=0), rtol=1e-6, atol=1e-6)


def test_centred_and_scale_only_by_numpy():
    stream = np.random.default_rng(1).normal([3.0, -70.0, 0.1], [2.0, 5.0, 0.01], (50, 3))
    centred = seen(stream).scaling()(stream)
    np.testing.assert_allclose(centred.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(centred.std(axis=0), 1.0)
    size = np.sqrt(np.mean(stream**2, axis=0))
    np.testing.assert_allclose(seen(stream).scaling(centred=False)(stream), stream / size)


@pytest.mark.parametrize("centred", [True, False])
def test_a_constant_feature_stays_constant(centred):
    stream = np.stack([np.full(7, 0.1), np.arange(7.0), np.zeros(7)], axis=-1)
    scaled = seen(stream).scaling(centred=centred)(stream)
    assert scaled[:, 0].tolist() == pytest.approx([0.1 if centred else 1.0] * 7)
    assert scaled[:, 2].tolist() == [0.0] * 7


def test_nothing_seen_changes_nothing():
    x = np.array([3.0, -4.0])
    for centred in (True, False):
        assert RunningMoments.of_size(2).scaling(centred=centred)(x).tolist() == [3.0, -4.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_compiled_loop_can_carry_them(dtype):
    stream = np.random.default_rng(2).normal(5.0, 2.0, (40, 3))
    with jax.enable_x64(dtype == "float64"):
        xs = jnp.asarray(stream, jnp.float32)  # narrower than the moments, in double precision
        scan = jax.jit(lambda m, xs: jax.lax.scan(lambda m, x: (m.update(x), None), m, xs)[0])
        moments = scan(RunningMoments.of_size(3), xs)
        scaled = jax.jit(lambda m, x: m.scaling()(x))(moments, xs)
    assert moments.mean.dtype == dtype
    np.testing.assert_allclose(moments.mean, stream.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(scaled, seen(stream).scaling()(stream), rtol=1e-3, atol=1e-5)


def test_given_numbers_may_be_lists_and_pass_through_jax():
    scaling = Scaling(shift=[1.0, 2.0], scale=[0.0, 4.0])
    assert len(jax.tree.leaves(scaling)) == 2
    x = np.array([3.0, 10.0])
    assert scaling(x).tolist() == [2.0, 2.0]
    assert jax.jit(lambda s: s(x))(scaling).tolist() == [2.0, 2.0]
