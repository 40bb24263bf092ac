"""Loops are one kernel, where XLA can make one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from downside.lanes import kernels, vmap_last


def marks(one, size):
    """How many kernels are marked as such in the program of a loop of ``one``, for so many."""

    def looped(x, n):
        return vmap_last(lambda x: lax.fori_loop(0, n, lambda k, x: one(x, n), x))(x)

    return jax.jit(looped).lower(jnp.ones((size, 3)), 2).as_text().count("xla_cpu_small_call")


@pytest.mark.parametrize("size", [1, 64])
def test_a_loop_is_one_kernel_with_the_loops_inside(size):
    def nested(x, n):
        inner = lax.fori_loop(0, n, lambda k, x: jnp.exp(x), x)
        return inner + lax.cond(n > 1, jnp.exp, jnp.tanh, x)

    assert marks(nested, size) == 1


@pytest.mark.parametrize("size", [1, 64])
def test_what_may_not_be_part_of_a_kernel_makes_none(size):
    assert marks(lambda x, n: jnp.sort(x), size) == 0
    assert marks(lambda x, n: (jnp.tile(x, (30, 9)) @ jnp.tile(x, (30, 9)).T)[:3, 0], size) == 0


def test_without_the_compilers_option_there_is_none(monkeypatch):
    monkeypatch.setattr(kernels, "can_have_kernels", lambda: False)
    assert marks(lambda x, n: jnp.exp(x), 1) == 0


UNNEEDED = {
    "times 0": (np.ones(3, int), lambda u: (u * 0).astype(float)),
    "cut off": (np.ones(3), lambda u: jnp.concatenate([jnp.zeros(3), u])[:3]),
    "never chosen": (
        np.ones(3),
        lambda u: lax.cond(jnp.asarray(True), lambda: 0 * u[:0].sum(), u.sum),
    ),
    "of nothing": (np.ones(0), jnp.sum),
}


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("name", UNNEEDED)
def test_a_kernel_may_have_arguments_that_it_does_not_need(name, size):
    """XLA ends the process on such, unless they are used for something."""
    unneeded, nothing_of = UNNEEDED[name]

    def loop(batch, n):
        def one(args):
            return lax.fori_loop(0, n, lambda k, x: 0.5 * x + nothing_of(args[1]), args[0])

        return vmap_last(one)(batch)

    with jax.enable_x64(True):
        batch = jnp.full((size, 3), 2.0), jnp.asarray(np.tile(unneeded, (size, 1)))
        assert "xla_cpu_small_call" in jax.jit(loop).lower(batch, 3).as_text()
        assert jax.jit(loop)(batch, 3).tolist() == [[0.25, 0.25, 0.25]] * size


@pytest.mark.parametrize("size", [1, 8])
def test_what_is_asked_may_not_fit_a_kernel_either(size):
    def one(x, n):
        def goes_on(carry):
            return jnp.sort(jnp.stack([carry[0], n]))[0] < n

        return lax.while_loop(goes_on, lambda carry: (carry[0] + 1, carry[1] * 2.0), (0, x))

    def looped(x, n):
        return vmap_last(lambda x: one(x, n))(x)

    assert jax.jit(looped)(jnp.ones((size, 3)), 2)[1].tolist() == [[4.0, 4.0, 4.0]] * size
