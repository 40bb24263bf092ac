"""What can be promised of a function before it is laid out in lanes."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from downside.compiling import can_have_kernels
from downside.lanes.kernels import has_kernel
from downside.lanes.rounding import rounds_alike


class Layout(NamedTuple):
    """What `vmap_last` can do for a function: the same bits in ``alike`` tiles of any size, and a
    ``kernel`` of its loops.
    """

    alike: bool
    kernel: bool


def layout_of(function: Callable[..., Any], batch: Any, *numbers: Any) -> Layout:
    """Of ``function(one, *numbers)``, for each one of a batch.

    >>> from jax import lax
    >>> layout_of(lambda x, n: lax.fori_loop(0, n, lambda k, x: jnp.exp(x), x), jnp.ones((5, 2)), 3)
    Layout(alike=True, kernel=True)
    """
    leaves, structure = jax.tree.flatten(batch)
    kinds = tuple((x.shape[1:], x.dtype) for x in leaves)
    of_numbers = tuple(jnp.result_type(x) for x in numbers)
    return _layout_of(function, structure, kinds, of_numbers, jnp.result_type(float))


@lru_cache(100)
def _layout_of(function: Any, structure: Any, kinds: Any, of_numbers: Any, _: Any) -> Layout:
    if jax.default_backend() != "cpu":
        return Layout(alike=False, kernel=False)
    one = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
    numbers = [jax.ShapeDtypeStruct((), dtype) for dtype in of_numbers]

    def called(leaves: list[Any], numbers: list[Any]) -> Any:
        return function(structure.unflatten(leaves), *numbers)

    jaxpr = jax.make_jaxpr(called)(one, numbers).jaxpr
    many = [True] * len(one) + [False] * len(numbers)
    return Layout(rounds_alike(jaxpr, many), can_have_kernels() and has_kernel(jaxpr))
