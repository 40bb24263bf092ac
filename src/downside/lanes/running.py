"""A function made anew from its trace, each of its operations with one axis more."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from downside.arrays import (
    LONGEST_SUM,
    is_traced,
    once,
    outer_product_for_lanes,
    sum_of_row,
    sum_of_row_for_lanes,
    sum_of_sums,
)
from downside.jaxprs import (
    CALLS,
    ELEMENTWISE,
    SAME_AXES,
    carried,
    flows,
    is_of_matrices,
    n_operations,
)
from downside.lanes.kernels import fits_kernel, in_one_kernel
from downside.lanes.repeats import Repeats
from downside.lanes.rounding import REWRITTEN, apart, is_guarded, rounded
from downside.lanes.rules import RULES
from downside.lanes.values import (
    Found,
    Value,
    arrays_of,
    as_many,
    bind,
    own_of_each,
    which_many,
    with_flags,
)

Y = TypeVar("Y")


def vmap_last(function: Callable[[Any], Y]) -> Callable[[Any], Y]:
    """``jax.vmap(function)``: the many come and go along the first axis, and are last inside.

    For `compiled` programs: XLA may refuse the kernels that loops become in others. Not to be
    differentiated through: derivatives that a function brings along would be lost.

    >>> import jax.numpy as jnp
    >>> vmap_last(lambda x: x["a"] * jnp.arange(3))({"a": jnp.array([1, 10])}).tolist()
    [[0, 1, 2], [0, 10, 20]]
    """

    def mapped(batch: Any) -> Y:
        leaves, structure = jax.tree.flatten(batch)
        one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
        traced, shapes = jax.make_jaxpr(
            lambda *leaves: function(structure.unflatten(leaves)), return_shape=True
        )(*one)
        size = len(leaves[0])
        values = [Value(jnp.moveaxis(x, 0, -1), many=True) for x in leaves]
        found = _run(traced.jaxpr, traced.consts, values, size)
        arrays = [jnp.moveaxis(as_many(value, size).array, -1, 0) for value in found]
        return jax.tree.structure(shapes).unflatten(arrays)

    return mapped


def _run(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Value],
    size: int,
    repeats: Repeats | None = None,
) -> list[Value]:
    """The results of a traced function; ``repeats`` are those of the loop around it."""
    repeats = Repeats() if repeats is None else repeats
    known = dict(zip(jaxpr.constvars, (Value(x, many=False) for x in consts), strict=True))
    known |= zip(jaxpr.invars, args, strict=True)

    def read(variable: Any) -> Value:
        is_number = isinstance(variable, Literal)
        return Value(variable.val, many=False) if is_number else known[variable]

    for eqn in jaxpr.eqns:
        values = [read(variable) for variable in eqn.invars]
        found = repeats.results(eqn, values, partial(_apply, eqn, values, size, repeats))
        known |= zip(eqn.outvars, found, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


def _apply(eqn: JaxprEqn, values: list[Value], size: int, repeats: Repeats) -> list[Value]:
    """One operation, as it was meant where it was traced."""
    name = eqn.primitive.name
    with eqn.ctx.manager:
        if name in CALLS:
            rule = _rule_by_name(eqn)
            found = None if rule is None else rule(eqn, values, size)
            inner = eqn.params[CALLS[name]]
            return found or _run(inner.jaxpr, inner.consts, values, size, repeats)
        if name in REWRITTEN and is_guarded(values[0].array):
            traced = jax.make_jaxpr(REWRITTEN[name])(eqn.invars[0].aval)
            return _run(traced.jaxpr, traced.consts, values, size, repeats)
        if name == "dot_general" and not is_of_matrices(eqn):  # also of what all share
            return _product(eqn, values, size)
        if not any(value.many for value in values):
            return [Value(x, many=False) for x in _shared(eqn, [v.array for v in values])]
        rule = _RULES.get(name)
        found = None if rule is None else rule(eqn, values, size)
        return _left_to_jax(eqn, values) if found is None else found


def _shared(eqn: JaxprEqn, arrays: list[Any]) -> Sequence[Any]:
    """An operation on what all share."""
    is_made_anew = any(map(is_traced, arrays)) and eqn.primitive.name in ELEMENTWISE | SAME_AXES
    if is_made_anew and not eqn.primitive.multiple_results:
        return [rounded(eqn, arrays)]
    return bind(eqn, arrays)


def _left_to_jax(eqn: JaxprEqn, values: list[Value]) -> list[Value]:
    def one(*arrays: Any) -> tuple[Any, ...]:
        return tuple(bind(eqn, arrays))

    axes = [-1 if value.many else None for value in values]
    return own_of_each(jax.vmap(one, axes, -1)(*(value.array for value in values)))


_LONG = 128
"""What long vectors are made of, such as cosines, XLA computes anew for each row of a product."""


def _product(eqn: JaxprEqn, values: list[Value], size: int) -> list[Value]:
    """Of a matrix and a few vectors, as sums of products; libraries want the many first."""
    (left_sums, right_sums), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    avals: list[Any] = [variable.aval for variable in eqn.invars]
    n_left, n_right = (aval.ndim - len(left_batch) - len(left_sums) for aval in avals)
    length = prod(avals[0].shape[axis] for axis in left_sums)
    result: Any = eqn.outvars[0].aval

    def arranged(x: Any, batch: Any, sums: Any, n_before: int, n_after: int) -> Any:
        if length > _LONG and x.size < result.size * length:
            x = once(x)
        free = [axis for axis in range(x.ndim) if axis not in (*batch, *sums)]
        x = jnp.transpose(x, (*batch, *free, *sums)).astype(result.dtype)
        shared, own = x.shape[: len(batch)], x.shape[len(batch) : len(batch) + len(free)]
        return x.reshape(*shared, *[1] * n_before, *own, *[1] * n_after, length)

    def sums(left: Any, right: Any) -> Any:
        left = arranged(left, left_batch, left_sums, 0, n_right)
        right = arranged(right, right_batch, right_sums, n_left, 0)
        return sum_of_row(left * right).astype(result.dtype)

    traced = jax.make_jaxpr(sums)(*avals)
    return _run(traced.jaxpr, traced.consts, values, size)


def _outer_product(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    rows, columns = (as_many(value, size).array for value in values)
    shape = len(rows), len(columns), size
    if min(shape[:2]) == 1:
        return None
    if shape[1] > _LONG:
        columns = once(columns)
    rows, columns = jnp.broadcast_to(rows[:, None], shape), jnp.broadcast_to(columns, shape)
    in_rows = apart(rows * columns)
    if size > 1:
        return [Value(in_rows.reshape(-1, size), many=True, in_rows=in_rows)]
    # In a loop over all numbers of one alone, each would find its row and column by a division.
    flat = apart(once(rows).reshape(-1, size) * once(columns).reshape(-1, size))
    return [Value(flat, many=True, in_rows=in_rows)]


def _sum_of_row(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    """Where rows are known, first the sum of them all: side by side, also for one alone."""
    in_rows = values[0].in_rows
    if in_rows is None or not in_rows.shape[-3] <= LONGEST_SUM < values[0].array.shape[-2]:
        return None
    row = jnp.sum(in_rows, axis=-3)
    traced = jax.make_jaxpr(sum_of_sums)(jax.ShapeDtypeStruct(row.shape[:-1], row.dtype))
    return _run(traced.jaxpr, traced.consts, [Value(row, many=True)], size)


def _scan(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    params, body = eqn.params, eqn.params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, rest = values[:n_consts], values[n_consts:]
    begin, xs = rest[:n_carry], rest[n_carry:]
    flags, found = carried(body.jaxpr, *map(which_many, (consts, begin, xs)))

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        args = [*consts, *with_flags(carry, flags), *with_flags(x, which_many(xs))]
        after = _run(body.jaxpr, body.consts, args, size)
        arrays = arrays_of(after, [*flags, *found], size)
        return arrays[:n_carry], arrays[n_carry:]

    # Of two steps in a row the first hands over to the second without a copy, and that shows for
    # one alone. Of long ones the processor would have to read its instructions from further away.
    is_short = n_operations(body.jaxpr) <= _MOST_OPERATIONS
    by_two = size == 1 and params["length"] % 2 == 0 and is_short and params["unroll"] == 1
    carry, ys = lax.scan(
        step,
        arrays_of(begin, flags, size),
        [value.array for value in xs],
        length=params["length"],
        reverse=params["reverse"],
        unroll=2 if by_two else params["unroll"],
    )
    return with_flags([*carry, *ys], [*flags, *found])


_MOST_OPERATIONS = 600


def _while(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    params = eqn.params
    asked, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_asked, n_consts = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    fixed, begin = values[n_asked:n_consts], values[n_consts:]
    flags, _ = carried(body.jaxpr, which_many(fixed), which_many(begin), [])
    if flows(asked.jaxpr, [*which_many(values[:n_asked]), *flags])[0]:
        return None  # each of the many would stop at a time of its own

    def loop(arrays: list[Any]) -> list[Any]:
        given = with_flags(arrays, which_many(values))

        def goes_on(carry: list[Any]) -> Any:
            args = [*given[:n_asked], *with_flags(carry, flags)]
            return _run(asked.jaxpr, asked.consts, args, size)[0].array

        def step(carry: list[Any]) -> list[Any]:
            args = [*given[n_asked:n_consts], *with_flags(carry, flags)]
            return arrays_of(_run(body.jaxpr, body.consts, args, size), flags, size)

        return lax.while_loop(goes_on, step, arrays_of(given[n_consts:], flags, size))

    arrays = [value.array for value in values]
    is_kernel = fits_kernel(asked.jaxpr) and fits_kernel(body.jaxpr)
    return with_flags(in_one_kernel(loop, arrays) if is_kernel else loop(arrays), flags)


def _cond(eqn: JaxprEqn, values: list[Value], size: int) -> Found:
    index, *args = values
    if index.many:
        return None
    flags = which_many(args)

    def one(branch: Any) -> Callable[..., list[Any]]:
        def chosen(*arrays: Any) -> list[Any]:
            found = _run(branch.jaxpr, branch.consts, with_flags(arrays, flags), size)
            return [as_many(value, size).array for value in found]

        return chosen

    branches = [one(branch) for branch in eqn.params["branches"]]
    return own_of_each(lax.switch(index.array, branches, *(value.array for value in args)))


_RULES: dict[str, Callable[[JaxprEqn, list[Value], int], Found]] = {
    **RULES,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}

_RULES_BY_NAME: dict[str, tuple[Callable[..., Any], Any]] = {
    outer_product_for_lanes.__name__: (outer_product_for_lanes, _outer_product),
    sum_of_row_for_lanes.__name__: (sum_of_row_for_lanes, _sum_of_row),
}


def _rule_by_name(eqn: JaxprEqn) -> Any:
    """That of a function of ours; JAX keeps the name where it made another one of it."""
    ours, rule = _RULES_BY_NAME.get(eqn.params.get("name", ""), (None, None))
    if ours is None:
        return None
    try:
        traced = jax.make_jaxpr(ours)(*(variable.aval for variable in eqn.invars))
    except (TypeError, ValueError, IndexError):  # not even its arguments
        return None
    return rule if str(traced) == str(eqn.params["jaxpr"]) else None
