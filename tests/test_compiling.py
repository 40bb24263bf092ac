"""What is compiled in another way computes the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.compiling import compiled
from elementwise_functions import FUNCTIONS, ROUGH


def test_an_inner_loop_sees_what_the_outer_one_carries():
    """An option of XLA, which saved copies, took it for the next turn's."""

    def one(x, n):
        def turn(k, carry):
            inner = jax.lax.scan(lambda s, _: (s * 0.9 + carry[1], None), carry[0], None, length=4)
            return inner[0], carry[1] + 1.0

        return jax.lax.fori_loop(0, n, turn, (x, 1.0))[0]

    expected = 1.0
    for turn in range(3):
        for _ in range(4):
            expected = expected * 0.9 + turn + 1.0
    np.testing.assert_allclose(compiled(one)(jnp.ones(4), 3), expected, rtol=1e-5)


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize(
    "function",
    [jnp.arctan, jax.checkpoint(jnp.arctan), lambda x: jax.jit(jnp.arctan2)(x, jnp.ones(64))],
)
def test_arctangents_are_right(function, is_double):
    """XLA's for vectors of 512 bits returns other numbers."""
    x = np.linspace(-3.0, 3.0, 64)
    with jax.enable_x64(is_double):
        found = compiled(function)(jnp.asarray(x, float))
    np.testing.assert_allclose(found, np.arctan(x), rtol=1e-12 if is_double else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", {**FUNCTIONS, **ROUGH})
def test_what_is_compiled_computes_what_jit_does(name):
    """But for roundings, of which a tenfold sum or a steep function makes more of float32."""
    function = {**FUNCTIONS, **ROUGH}[name]
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        x = jnp.asarray(np.exp(rng.normal(size=64)) + 1.0)
        np.testing.assert_allclose(compiled(function)(x), jax.jit(function)(x), rtol=1e-10)
    x = x.astype(np.float32)
    np.testing.assert_allclose(compiled(function)(x), jax.jit(function)(x), rtol=2e-4)
