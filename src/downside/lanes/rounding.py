"""Operations that are rounded by themselves, so that no last bit depends on what is around them.

A processor can multiply and add in one instruction, which does not round the product. Where the
compiler uses it depends on what else stands in a loop and on how long the loop is; so the last bit
of a formula would depend on how many compute it side by side. Here a number is added to every
product (but those with 1 or -1, which are exact) that counts as -0, as it is below those that XLA
computes with on a CPU: nothing changes, but the one instruction is spent on it, and the sum that
follows is rounded by itself. What is computed is what NumPy computes, except that XLA divides by a
number by multiplying, puts numbers together that follow one another, and lets LLVM choose the order
of a sum. (That was seen to depend on the tile where sums of sums are made in one loop, but for no
learner.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from downside.arrays import LONGEST_SUM, once, sum_of_row_for_lanes
from downside.jaxprs import (
    CALLS,
    SIMPLE,
    carried,
    flags_of,
    flows,
    is_of_matrices,
)


def rounded(eqn: JaxprEqn, arrays: Sequence[Any]) -> Any:
    """The result of an operation without a batch, or with it along the last axis of all arrays."""
    if eqn.primitive.name == "reduce_sum":
        return _sum(eqn, arrays[0])
    result = eqn.primitive.bind(*arrays, **eqn.params)
    # With 1 or -1 nothing is multiplied; 1 / x is no product either.
    is_product = eqn.primitive.name in _PRODUCTS and not any(map(_is_one, eqn.invars))
    return apart(result) if is_product else result


def _is_one(variable: Any) -> bool:
    return isinstance(variable, Literal) and bool(abs(variable.val) == 1)


def _sum(eqn: JaxprEqn, x: Any) -> Any:
    """One axis after the other; long ones in pieces, as LLVM may choose the order of the rest."""
    for axis in sorted(eqn.params["axes"], reverse=True):
        is_long = x.shape[axis] > LONGEST_SUM and is_guarded(x)
        one = {**eqn.params, "axes": (axis,)}
        x = sum_of_row_for_lanes(x, axis) if is_long else eqn.primitive.bind(x, **one)
    return x


def apart(product: Any) -> Any:
    """A product that is rounded before anything is added to it.

    >>> x = jnp.array([0.0, -0.0, 0.3])
    >>> apart(x).tolist() == x.tolist()
    True
    """
    if not is_guarded(product):
        return product
    least = jnp.asarray(np.nextafter(0, -1, dtype=product.dtype))
    hidden = lax.optimization_barrier(least)  # or XLA would add it up with other numbers
    return lax.add(product, jnp.broadcast_to(hidden, product.shape))


def is_guarded(x: Any) -> bool:
    """Whether the numbers of an array are rounded by themselves: where there are denormal ones that
    count as 0.
    """
    return str(jnp.result_type(x)) in _WIDTHS and jax.default_backend() == "cpu"


_WIDTHS = {"float32", "float64"}
_PRODUCTS = {"mul", "div", "square", "sqrt", "integer_pow", "pow", "reduce_prod", "cumprod"}
"""What XLA makes products of; it divides by a constant, and by a root, in that way."""


def _log(x: Any) -> Any:
    """log x = e log 2 + 2 artanh s with x = m 2^e, s = (m - 1) / (m + 1), m between sqrt(1/2) and
    sqrt(2); the largest parts are added last.
    """
    kind = jnp.finfo(x.dtype)
    bits = lax.bitcast_convert_type(x, f"int{kind.bits}")
    middle = np.sqrt(0.5).astype(x.dtype).view(f"int{kind.bits}")
    exponent = lax.shift_right_arithmetic(bits - middle, jnp.asarray(kind.nmant, bits.dtype))
    mantissa = lax.bitcast_convert_type(bits - (exponent << kind.nmant), x.dtype)
    e, f = exponent.astype(x.dtype), mantissa - 1.0
    s, half = f / (2.0 + f), 0.5 * f * f
    series, z = jnp.zeros_like(x), s * s
    for k in range(4 if kind.bits == 32 else 10, 0, -1):
        series = z * (2.0 / (2 * k + 1) + series)
    high = np.log(2.0).astype(np.float32 if kind.bits == 64 else np.float16).astype(x.dtype)
    low = np.asarray(np.longdouble(np.log(np.longdouble(2.0))) - high).astype(x.dtype)
    found = once(e * high + (f - (half - (s * (half + series) + e * low))))  # for two choices
    found = jnp.where(x < jnp.inf, found, x)  # or not a number
    return jnp.where(x < kind.tiny, jnp.where(x < 0.0, jnp.nan, -jnp.inf), found)


def _log1p(x: Any) -> Any:
    """log(1 + x), corrected for what 1 + x has lost of x."""
    whole = jnp.maximum(1.0 + x, 0.0)  # XLA would take 1 + x - 1 for x
    lost = jnp.where(x < 1e10, x / (whole - 1.0), 1.0)
    found = jnp.where(whole == 1.0, x, _log(whole) * lost)
    return jnp.where(x < -1.0, jnp.nan, found)


REWRITTEN: dict[str, Callable[[Any], Any]] = {"log": _log, "log1p": _log1p}
"""Functions whose own sums XLA may round either way, made of operations that are rounded here."""

_MOVES = """
bitcast_convert_type dynamic_update_slice gather iota optimization_barrier random_bits
random_fold_in random_seed random_split random_unwrap random_wrap scatter sort threefry2x32
"""  # without a rule in `lanes`, and with nothing to round
_ROUGH = """
acosh asinh atan cbrt cumlogsumexp erf erfc igamma igammac polygamma regularized_incomplete_beta
rsqrt tan
"""  # functions that XLA rounds by the width of its vectors
_ALIKE = (SIMPLE | set(_MOVES.split())) - set(_ROUGH.split())


def rounds_alike(jaxpr: Jaxpr, many: Sequence[bool]) -> bool:
    """Whether a function has the same bits in tiles of all sizes; ``many``: the arguments that
    each of a tile has its own of.

    >>> one, two = (jax.make_jaxpr(f)(1.0).jaxpr for f in (lambda x: 2.0 * x + 1.0, jnp.cbrt))
    >>> rounds_alike(one, [True]), rounds_alike(two, [True])
    (True, False)
    """
    marked = {variable for variable, flag in zip(jaxpr.invars, many, strict=True) if flag}
    for eqn in jaxpr.eqns:
        flags = flags_of(eqn, marked)
        if not _rounds_alike(eqn, flags):
            return False
        if any(flags):
            marked |= set(eqn.outvars)
    return True


def _rounds_alike(eqn: JaxprEqn, many: list[bool]) -> bool:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS:
        return rounds_alike(params[CALLS[name]].jaxpr, many)
    if name == "scan":
        body, at = params["jaxpr"].jaxpr, params["num_consts"]
        end = at + params["num_carry"]
        flags, _ = carried(body, many[:at], many[at:end], many[end:])
        return rounds_alike(body, [*many[:at], *flags, *many[end:]])
    if name == "while":
        asked, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
        at = params["cond_nconsts"]
        end = at + params["body_nconsts"]
        flags, _ = carried(body, many[at:end], many[end:], [])
        if flows(asked, [*many[:at], *flags])[0]:
            return False  # left to `jax.vmap`
        return rounds_alike(body, [*many[at:end], *flags])
    if name == "cond":
        branches = [rounds_alike(branch.jaxpr, many[1:]) for branch in params["branches"]]
        return not many[0] and all(branches)
    if not all(map(_is_of_known_width, (*eqn.invars, *eqn.outvars))):
        return False
    return not is_of_matrices(eqn) if name == "dot_general" else name in _ALIKE


def _is_of_known_width(variable: Any) -> bool:
    dtype = variable.aval.dtype
    return not jnp.issubdtype(dtype, jnp.inexact) or str(dtype) in _WIDTHS
