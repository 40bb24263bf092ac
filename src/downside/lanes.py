"""`jax.vmap` with the many along the last axis of every array: for loops of small steps.

`jax.vmap` puts the many first, and the numbers of one of them side by side: rows of 7 or of 11,
which do not fill the registers of a processor. Here the same number of all of them stands side by
side, and every operation is a loop over many equal ones. The function is written for one and
traced once; then each of its operations is made with an axis more. Those that have no rule here
are left to `jax.vmap`, which is right as well, and slower. Each operation is rounded by itself
(`rounding`), so that the numbers of one are the same in tiles of every size, and the loops of one
alone become one kernel each (`kernels`).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
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
from downside.jaxprs import CALLS, ELEMENTWISE, SAME_AXES, carried, flows, is_of_matrices
from downside.kernels import fits_kernel, has_kernel, in_one_kernel
from downside.rounding import REWRITTEN, apart, is_guarded, rounded, rounds_alike

Y = TypeVar("Y")


class _Value(NamedTuple):
    """An array, and whether each of the many has its own, along its last axis.

    ``in_rows`` are the same numbers with one axis more, for the rows of an outer product and of
    what is computed from it; None where no rows are known.
    """

    array: Any
    many: bool
    in_rows: Any = None


_Found = list[_Value] | None
"""The results of an operation, or None: it is left to `jax.vmap`."""


def vmap_last(function: Callable[[Any], Y]) -> Callable[[Any], Y]:
    """``jax.vmap(function)``: the many come and go along the first axis, and are last inside.

    Not to be differentiated through: derivatives that a function brings along would be lost.

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
        values = [_Value(jnp.moveaxis(x, 0, -1), many=True) for x in leaves]
        found = _run(traced.jaxpr, traced.consts, values, size)
        arrays = [jnp.moveaxis(_as_many(value, size).array, -1, 0) for value in found]
        return jax.tree.structure(shapes).unflatten(arrays)

    return mapped


class Layout(NamedTuple):
    """What `vmap_last` can do for a function: the same bits in ``alike`` tiles of any size, and a
    ``kernel`` for one alone.
    """

    alike: bool
    kernel: bool


def layout_of(function: Callable[..., Any], batch: Any, *numbers: Any) -> Layout:
    """Of ``function(one, *numbers)``, for each one of a batch.

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
    return Layout(rounds_alike(jaxpr, many), has_kernel(jaxpr))


def _run(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[_Value],
    size: int,
    memory: "_Memory | None" = None,
) -> list[_Value]:
    """The results of a traced function; ``memory`` is that of the loop around it."""
    memory = _Memory() if memory is None else memory
    known = dict(zip(jaxpr.constvars, (_Value(x, many=False) for x in consts), strict=True))
    known |= zip(jaxpr.invars, args, strict=True)

    def read(variable: Any) -> _Value:
        is_number = isinstance(variable, Literal)
        return _Value(variable.val, many=False) if is_number else known[variable]

    for eqn in jaxpr.eqns:
        values = [read(variable) for variable in eqn.invars]
        found = memory.results(eqn, values, partial(_apply, eqn, values, size, memory))
        known |= zip(eqn.outvars, found, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


class _Memory:
    """The operations of a loop so far: one that is asked for again is not made again.

    XLA does the same, but not for what contains arrays of constants (the frequencies of a basis,
    say), as each place where they are used has its own.
    """

    def __init__(self) -> None:
        self._found = dict[Any, list[_Value]]()
        self._kept = list[list[_Value]]()  # what results are known by must live as long as they do

    def results(
        self, eqn: JaxprEqn, values: list[_Value], make: Callable[[], list[_Value]]
    ) -> list[_Value]:
        """Of an operation: those from before, or new ones."""
        if eqn.effects:
            return make()
        names = tuple((_name(value.array), value.many) for value in values)
        kinds = tuple(variable.aval for variable in eqn.invars)
        key = (eqn.primitive, eqn.ctx, names, kinds, *eqn.params.items())
        try:
            hash(key)
        except TypeError:  # nobody can tell whether it is the same
            return make()
        if key not in self._found:
            self._kept.append(values)
            self._found[key] = make()
        return self._found[key]


def _name(array: Any) -> Any:
    """What is the same for the same array, and for small ones of the same numbers."""
    if is_traced(array) or np.size(array) > _SMALL:
        return id(array)
    if jnp.issubdtype(jnp.result_type(array), jax.dtypes.prng_key):
        return id(array)
    return np.asarray(array).tobytes()


_SMALL = 1000


def _apply(eqn: JaxprEqn, values: list[_Value], size: int, memory: "_Memory") -> list[_Value]:
    """One operation, as it was meant where it was traced."""
    name = eqn.primitive.name
    with eqn.ctx.manager:
        if name in CALLS:
            rule = _rule_by_name(eqn)
            found = None if rule is None else rule(eqn, values, size)
            inner = eqn.params[CALLS[name]]
            return found or _run(inner.jaxpr, inner.consts, values, size, memory)
        if name in REWRITTEN and is_guarded(values[0].array):
            traced = jax.make_jaxpr(REWRITTEN[name])(eqn.invars[0].aval)
            return _run(traced.jaxpr, traced.consts, values, size, memory)
        if not any(value.many for value in values):
            return [_Value(x, many=False) for x in _shared(eqn, [v.array for v in values])]
        rule = _RULES.get(name)
        found = None if rule is None else rule(eqn, values, size)
        return _left_to_jax(eqn, values) if found is None else found


def _shared(eqn: JaxprEqn, arrays: list[Any]) -> Sequence[Any]:
    """An operation on what all share."""
    is_made_anew = any(map(is_traced, arrays)) and eqn.primitive.name in ELEMENTWISE | SAME_AXES
    if is_made_anew and not eqn.primitive.multiple_results:
        return [rounded(eqn, arrays)]
    return _bind(eqn, arrays)


def _bind(eqn: JaxprEqn, arrays: Sequence[Any], **changed: Any) -> Sequence[Any]:
    found = eqn.primitive.bind(*arrays, **(eqn.params | changed))
    return found if eqn.primitive.multiple_results else [found]


def _made(eqn: JaxprEqn, arrays: Sequence[Any], **changed: Any) -> list[_Value]:
    return _many(_bind(eqn, arrays, **changed))


def _left_to_jax(eqn: JaxprEqn, values: list[_Value]) -> list[_Value]:
    def one(*arrays: Any) -> tuple[Any, ...]:
        return tuple(_bind(eqn, arrays))

    axes = [-1 if value.many else None for value in values]
    return _many(jax.vmap(one, axes, -1)(*(value.array for value in values)))


def _many(arrays: Sequence[Any]) -> list[_Value]:
    return [_Value(x, many=True) for x in arrays]


def _as_many(value: _Value, size: int) -> _Value:
    """What all share, for each."""
    if value.many:
        return value
    array = jnp.asarray(value.array)
    return _Value(_in_shape(value, (*array.shape, size)), many=True)


def _in_shape(value: _Value, shape: tuple[int, ...]) -> Any:
    """In a shape that ends with the many, from that or a shorter one: of a number, or shared."""
    array = jnp.asarray(value.array)
    if array.shape == shape:
        return array
    own = array.ndim - 1 if value.many else array.ndim
    axes = (*range(own), len(shape) - 1)[: array.ndim]
    return lax.broadcast_in_dim(array, shape, axes)


def _elementwise(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    aval: Any = eqn.outvars[0].aval
    found = _many([rounded(eqn, [_in_shape(value, (*aval.shape, size)) for value in values])])
    known = {value.in_rows.shape[-3:-1] for value in values if value.in_rows is not None}
    if len(known) != 1:
        return found
    shape = (*aval.shape[:-1], *known.pop(), size)
    in_rows = rounded(eqn, [_in_rows(value, shape) for value in values])
    return [value._replace(in_rows=in_rows) for value in found]


def _in_rows(value: _Value, shape: tuple[int, ...]) -> Any:
    """In a shape that ends with rows, columns and the many."""
    if value.in_rows is not None:
        return jnp.broadcast_to(value.in_rows, shape)
    array = jnp.asarray(value.array)
    own = array.shape[:-1] if value.many else array.shape
    many = array.shape[-1:] if value.many else (1,)
    rows = shape[-3:-1] if own and own[-1] > 1 else (1, 1)
    return jnp.broadcast_to(array.reshape(*own[:-1], *rows, *many), shape)


def _same_axes(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    arrays = [_as_many(value, size).array for value in values]
    return _many(_bind(eqn, arrays) if eqn.primitive.multiple_results else [rounded(eqn, arrays)])


def _broadcast(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    shape, axes = eqn.params["shape"], eqn.params["broadcast_dimensions"]

    def among(x: Any, shape: Any, axes: Any) -> list[_Value]:
        changed = {"shape": (*shape, size), "broadcast_dimensions": (*axes, len(shape))}
        return _made(eqn, [x], **changed)

    [found] = among(values[0].array, shape, axes)
    in_rows, last = values[0].in_rows, len(shape) - 1
    if in_rows is not None and axes[-1] == last:
        fine = (*shape[:-1], *in_rows.shape[-3:-1])
        found = found._replace(in_rows=among(in_rows, fine, (*axes, last + 1))[0].array)
    return [found]


def _reshape(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    if eqn.params["dimensions"] is not None:  # the numbers are read in another order
        return None
    return _made(eqn, [values[0].array], new_sizes=(*eqn.params["new_sizes"], size))


def _transpose(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    order = eqn.params["permutation"]
    return _made(eqn, [values[0].array], permutation=(*order, len(order)))


def _slice(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    steps = eqn.params["strides"]
    return _made(
        eqn,
        [values[0].array],
        start_indices=(*eqn.params["start_indices"], 0),
        limit_indices=(*eqn.params["limit_indices"], size),
        strides=None if steps is None else (*steps, 1),
    )


def _pad(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    x, filling = values
    if filling.many:
        return None
    around = (*eqn.params["padding_config"], (0, 0, 0))
    return _made(eqn, [x.array, filling.array], padding_config=around)


def _dynamic_slice(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    x, *places = values
    if not places or any(place.many for place in places):
        return None
    at = [jnp.asarray(place.array) for place in places]
    arrays = [x.array, *at, jnp.zeros((), at[0].dtype)]
    return _made(eqn, arrays, slice_sizes=(*eqn.params["slice_sizes"], size))


def _product(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    """Of a matrix and a few vectors, as sums of products; libraries want the many first."""
    (left_sums, right_sums), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    avals: list[Any] = [variable.aval for variable in eqn.invars]
    n_left, n_right = (aval.ndim - len(left_batch) - len(left_sums) for aval in avals)
    length = prod(avals[0].shape[axis] for axis in left_sums)
    result: Any = eqn.outvars[0].aval
    if is_of_matrices(eqn):
        return None

    def arranged(x: Any, batch: Any, sums: Any, n_before: int, n_after: int) -> Any:
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


def _outer_product(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    rows, columns = (_as_many(value, size).array for value in values)
    shape = len(rows), len(columns), size
    if min(shape[:2]) == 1:
        return None
    rows, columns = jnp.broadcast_to(rows[:, None], shape), jnp.broadcast_to(columns, shape)
    in_rows = apart(rows * columns)
    if size > 1:
        return [_Value(in_rows.reshape(-1, size), many=True, in_rows=in_rows)]
    # In a loop over all numbers of one alone, each would find its row and column by a division.
    flat = apart(once(rows).reshape(-1, size) * once(columns).reshape(-1, size))
    return [_Value(flat, many=True, in_rows=in_rows)]


def _sum_of_row(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    """Where rows are known, first the sum of them all: side by side, also for one alone."""
    in_rows, n = values[0].in_rows, values[0].array.shape[-2]
    if in_rows is None or not in_rows.shape[-3] <= LONGEST_SUM < n:
        return None
    row = jnp.sum(in_rows, axis=-3)
    traced = jax.make_jaxpr(sum_of_sums)(jax.ShapeDtypeStruct(row.shape[:-1], row.dtype))
    return _run(traced.jaxpr, traced.consts, [_Value(row, many=True)], size)


def _scan(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    params, body = eqn.params, eqn.params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, rest = values[:n_consts], values[n_consts:]
    begin, xs = rest[:n_carry], rest[n_carry:]
    flags, found = carried(body.jaxpr, *map(_flags, (consts, begin, xs)))

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        args = [*consts, *_with(carry, flags), *_with(x, _flags(xs))]
        after = _run(body.jaxpr, body.consts, args, size)
        arrays = _arrays(after, [*flags, *found], size)
        return arrays[:n_carry], arrays[n_carry:]

    carry, ys = lax.scan(
        step,
        _arrays(begin, flags, size),
        [value.array for value in xs],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return _with([*carry, *ys], [*flags, *found])


def _while(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    params = eqn.params
    asked, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_asked, n_consts = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    flags, _ = carried(body.jaxpr, *map(_flags, (values[n_asked:n_consts], values[n_consts:], [])))
    if flows(asked.jaxpr, [*_flags(values[:n_asked]), *flags])[0]:
        return None  # each of the many would stop at a time of its own

    def loop(arrays: list[Any]) -> list[Any]:
        given = _with(arrays, _flags(values))

        def goes_on(carry: list[Any]) -> Any:
            args = [*given[:n_asked], *_with(carry, flags)]
            return _run(asked.jaxpr, asked.consts, args, size)[0].array

        def step(carry: list[Any]) -> list[Any]:
            args = [*given[n_asked:n_consts], *_with(carry, flags)]
            return _arrays(_run(body.jaxpr, body.consts, args, size), flags, size)

        return lax.while_loop(goes_on, step, _arrays(given[n_consts:], flags, size))

    arrays = [value.array for value in values]
    is_kernel = size == 1 and fits_kernel(asked.jaxpr) and fits_kernel(body.jaxpr)
    return _with(in_one_kernel(loop, arrays) if is_kernel else loop(arrays), flags)


def _cond(eqn: JaxprEqn, values: list[_Value], size: int) -> _Found:
    index, *args = values
    if index.many:
        return None
    flags = _flags(args)

    def one(branch: Any) -> Callable[..., list[Any]]:
        def run(*arrays: Any) -> list[Any]:
            found = _run(branch.jaxpr, branch.consts, _with(arrays, flags), size)
            return [_as_many(value, size).array for value in found]

        return run

    branches = [one(branch) for branch in eqn.params["branches"]]
    return _many(lax.switch(index.array, branches, *(value.array for value in args)))


_RULES: dict[str, Callable[[JaxprEqn, list[_Value], int], _Found]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dot_general": _product,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    **dict.fromkeys(SAME_AXES, _same_axes),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
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


def _flags(values: Sequence[_Value]) -> list[bool]:
    return [value.many for value in values]


def _with(arrays: Sequence[Any], flags: Sequence[bool]) -> list[_Value]:
    return [_Value(x, flag) for x, flag in zip(arrays, flags, strict=True)]


def _arrays(values: Sequence[_Value], flags: Sequence[bool], size: int) -> list[Any]:
    """The arrays, those with a flag for each of the many."""
    pairs = zip(values, flags, strict=True)
    return [_as_many(value, size).array if flag else value.array for value, flag in pairs]
