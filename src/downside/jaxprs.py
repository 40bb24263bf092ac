"""What can be told of a traced function before it is made anew: what flows where, what is known."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Operations that stand for others, and the parameter that has these."""

_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy
cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac integer_pow
is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or polygamma pow
reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left
shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor
"""
_SAME_AXES = """
argmax argmin concatenate cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max
reduce_min reduce_or reduce_prod reduce_sum rev split squeeze stack
"""
ELEMENTWISE = set(_ELEMENTWISE.split())
SAME_AXES = set(_SAME_AXES.split())
SHAPED = {"broadcast_in_dim", "reshape", "transpose", "slice", "pad", "dynamic_slice"}

SIMPLE = ELEMENTWISE | SAME_AXES | SHAPED
"""Operations on arrays of numbers that call no others."""

LOOPS = {"scan", "while", "cond"}


def inside(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The functions that an operation calls."""
    for parameter in eqn.params.values():
        for inner in parameter if isinstance(parameter, tuple | list) else [parameter]:
            if isinstance(inner, ClosedJaxpr):
                yield inner.jaxpr
            elif isinstance(inner, Jaxpr):
                yield inner


def n_operations(jaxpr: Jaxpr) -> int:
    """How many operations a function has, with those of the functions that it calls.

    >>> import jax
    >>> n_operations(jax.make_jaxpr(jax.jit(lambda x: 2.0 * x + 1.0))(1.0).jaxpr)
    3
    """
    return sum(1 + sum(map(n_operations, inside(eqn))) for eqn in jaxpr.eqns)


def flows(jaxpr: Jaxpr, flags: Sequence[bool]) -> list[bool]:
    """Which results depend on the arguments with a flag."""
    marked = {variable for variable, flag in zip(jaxpr.invars, flags, strict=True) if flag}
    for eqn in jaxpr.eqns:
        if any(flags_of(eqn, marked)):
            marked |= set(eqn.outvars)
    return [not isinstance(v, Literal) and v in marked for v in jaxpr.outvars]


def flags_of(eqn: JaxprEqn, marked: set[Any]) -> list[bool]:
    """Which arguments of an operation are among the marked variables."""
    return [not isinstance(v, Literal) and v in marked for v in eqn.invars]


def carried(
    body: Jaxpr, consts: Sequence[bool], begin: Sequence[bool], xs: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Of a loop: which of what it carries, and of what it leaves behind, depends on flags."""
    flags = list(begin)
    while True:
        found = flows(body, [*consts, *flags, *xs])
        after = [a or b for a, b in zip(flags, found, strict=False)]
        if after == flags:
            return flags, found[len(flags) :]
        flags = after


def is_of_matrices(eqn: JaxprEqn) -> bool:
    """Whether a product is one of two large matrices: written out, it would fill the memory."""
    (left_sums, _), (left_batch, _) = eqn.params["dimension_numbers"]
    avals: list[Any] = [variable.aval for variable in eqn.invars]
    left, right = (aval.shape for aval in avals)
    length = prod(left[axis] for axis in left_sums)
    of_each = max(1, length * prod(left[axis] for axis in left_batch))
    return length > 16 and min(prod(left), prod(right)) > 8 * of_each
