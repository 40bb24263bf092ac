"""A loop of small steps as one kernel.

XLA starts a kernel for every few operations. For one alone that costs ten times as much as the
operations do, for a tile that fits the cache about as much. Loops of less than a kilobyte XLA
compiles as one kernel; here others are marked so.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Jaxpr, JaxprEqn

from downside.arrays import is_traced
from downside.compiling import can_have_kernels
from downside.jaxprs import CALLS, LOOPS, SIMPLE, inside, is_of_matrices

_KNOWN = {*CALLS, *LOOPS, *SIMPLE, "iota"}


def fits_kernel(jaxpr: Jaxpr) -> bool:
    """Whether all there is may be part of a kernel; XLA has operations that may not."""
    return all(_fits(eqn) and all(map(fits_kernel, inside(eqn))) for eqn in jaxpr.eqns)


def _fits(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name == "dot_general":
        return not is_of_matrices(eqn)  # large ones XLA may put together with other operations
    return eqn.primitive.name in _KNOWN


def has_kernel(jaxpr: Jaxpr) -> bool:
    """Whether there is a loop that would be one.

    >>> import jax.numpy as jnp
    >>> def looped(step):
    ...     return jax.make_jaxpr(lambda x, n: lax.fori_loop(0, n, lambda k, x: step(x), x))
    >>> [has_kernel(looped(step)(jnp.ones(3), 2).jaxpr) for step in (jnp.exp, jnp.sort)]
    [True, False]
    """
    return any(_is_kernel(eqn) or any(map(has_kernel, inside(eqn))) for eqn in jaxpr.eqns)


def _is_kernel(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "while" and all(map(fits_kernel, inside(eqn)))


def in_one_kernel(loop: Callable[[list[Any]], list[Any]], arrays: list[Any]) -> list[Any]:
    """What a loop makes of some arrays, as one kernel in `compiled` programs; loops inside are
    parts of it.
    """
    if _IN_KERNEL.get() or not can_have_kernels():
        return loop(arrays)
    places = [i for i, x in enumerate(arrays) if is_traced(x)]

    def kernel(given: list[Any]) -> tuple[list[Any], list[Any]]:
        full = dict(enumerate(arrays)) | dict(zip(places, given, strict=True))
        return loop(list(full.values())), [x.reshape(-1)[:1] for x in given]

    token = _IN_KERNEL.set(True)
    try:
        found, used = jax.jit(kernel)([arrays[i] for i in places])
    finally:
        _IN_KERNEL.reset(token)
    # The mark is on the call, which all results come from.
    found = [set_xla_metadata(x, xla_cpu_small_call="true", inlineable="false") for x in found]
    # XLA ends the process where a kernel has an argument that it does not need; so all are used.
    return lax.optimization_barrier((found, used))[0]


_IN_KERNEL = ContextVar("_IN_KERNEL", default=False)
