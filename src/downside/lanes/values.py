"""What is computed with in lanes: arrays of all together, and arrays of each of the many."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn


class Value(NamedTuple):
    """An array, and whether each of the many has its own, along its last axis.

    ``in_rows`` are the same numbers with one axis more, for the rows of an outer product and of
    what is computed from it; None where no rows are known.
    """

    array: Any
    many: bool
    in_rows: Any = None


Found = list[Value] | None
"""The results of an operation, or None: it is left to `jax.vmap`."""


def bind(eqn: JaxprEqn, arrays: Sequence[Any], **changed: Any) -> Sequence[Any]:
    """The results of an operation, some of its parameters changed."""
    found = eqn.primitive.bind(*arrays, **(eqn.params | changed))
    return found if eqn.primitive.multiple_results else [found]


def made(eqn: JaxprEqn, arrays: Sequence[Any], **changed: Any) -> list[Value]:
    """`bind`, on what each of the many has its own of."""
    return own_of_each(bind(eqn, arrays, **changed))


def own_of_each(arrays: Sequence[Any]) -> list[Value]:
    """Arrays with the many along the last axis."""
    return [Value(x, many=True) for x in arrays]


def as_many(value: Value, size: int) -> Value:
    """What all share, for each."""
    if value.many:
        return value
    array = jnp.asarray(value.array)
    return Value(in_shape(value, (*array.shape, size)), many=True)


def in_shape(value: Value, shape: tuple[int, ...]) -> Any:
    """In a shape that ends with the many, from that or a shorter one: of a number, or shared."""
    array = jnp.asarray(value.array)
    if array.shape == shape:
        return array
    own = array.ndim - 1 if value.many else array.ndim
    axes = (*range(own), len(shape) - 1)[: array.ndim]
    return lax.broadcast_in_dim(array, shape, axes)


def which_many(values: Sequence[Value]) -> list[bool]:
    """Their flags."""
    return [value.many for value in values]


def with_flags(arrays: Sequence[Any], flags: Sequence[bool]) -> list[Value]:
    """Arrays, and for each whether the many have their own."""
    return [Value(x, flag) for x, flag in zip(arrays, flags, strict=True)]


def arrays_of(values: Sequence[Value], flags: Sequence[bool], size: int) -> list[Any]:
    """The arrays, those with a flag for each of the many."""
    pairs = zip(values, flags, strict=True)
    return [as_many(value, size).array if flag else value.array for value, flag in pairs]
