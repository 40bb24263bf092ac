"""Operations that make one array of others, with one axis more."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from downside.jaxprs import ELEMENTWISE, SAME_AXES
from downside.lanes.rounding import rounded
from downside.lanes.values import Found, Value, as_many, bind, in_shape, made, own_of_each


def _elementwise(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    aval: Any = eqn.outvars[0].aval
    found = own_of_each([rounded(eqn, [in_shape(value, (*aval.shape, size)) for value in values])])
    known = {value.in_rows.shape[-3:-1] for value in values if value.in_rows is not None}
    if len(known) != 1:
        return found
    shape = (*aval.shape[:-1], *known.pop(), size)
    in_rows = rounded(eqn, [_in_rows(value, shape) for value in values])
    return [value._replace(in_rows=in_rows) for value in found]


def _in_rows(value: Value, shape: tuple[int, ...]) -> Any:
    """In a shape that ends with rows, columns and the many."""
    if value.in_rows is not None:
        return jnp.broadcast_to(value.in_rows, shape)
    array = jnp.asarray(value.array)
    own = array.shape[:-1] if value.many else array.shape
    many = array.shape[-1:] if value.many else (1,)
    rows = shape[-3:-1] if own and own[-1] > 1 else (1, 1)
    return jnp.broadcast_to(array.reshape(*own[:-1], *rows, *many), shape)


def _same_axes(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    arrays = [as_many(value, size).array for value in values]
    return own_of_each(
        bind(eqn, arrays) if eqn.primitive.multiple_results else [rounded(eqn, arrays)]
    )


def _broadcast(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    shape, axes = eqn.params["shape"], eqn.params["broadcast_dimensions"]

    def among(x: Any, shape: Any, axes: Any) -> list[Value]:
        changed = {"shape": (*shape, size), "broadcast_dimensions": (*axes, len(shape))}
        return made(eqn, [x], **changed)

    [found] = among(values[0].array, shape, axes)
    in_rows, last = values[0].in_rows, len(shape) - 1
    if in_rows is not None and axes[-1] == last:
        fine = (*shape[:-1], *in_rows.shape[-3:-1])
        found = found._replace(in_rows=among(in_rows, fine, (*axes, last + 1))[0].array)
    return [found]


def _reshape(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    if eqn.params["dimensions"] is not None:  # the numbers are read in another order
        return None
    return made(eqn, [values[0].array], new_sizes=(*eqn.params["new_sizes"], size))


def _transpose(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    order = eqn.params["permutation"]
    return made(eqn, [values[0].array], permutation=(*order, len(order)))


def _slice(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    steps = eqn.params["strides"]
    return made(
        eqn,
        [values[0].array],
        start_indices=(*eqn.params["start_indices"], 0),
        limit_indices=(*eqn.params["limit_indices"], size),
        strides=None if steps is None else (*steps, 1),
    )


def _pad(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    x, filling = values
    if filling.many:
        return None
    around = (*eqn.params["padding_config"], (0, 0, 0))
    return made(eqn, [x.array, filling.array], padding_config=around)


def _dynamic_slice(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    x, *places = values
    if not places or any(place.many for place in places):
        return None
    at = [jnp.asarray(place.array) for place in places]
    arrays = [x.array, *at, jnp.zeros((), at[0].dtype)]
    return made(eqn, arrays, slice_sizes=(*eqn.params["slice_sizes"], size))


RULES: dict[str, Callable[[JaxprEqn, list[Value], int], Found]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    **dict.fromkeys(SAME_AXES, _same_axes),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}
