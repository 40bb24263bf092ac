"""Partial moments of samples, and the measures of risk made of them.

Every mean is over the whole sample, never over the shortfalls alone and never with
T - 1. Samples are values: more is better, and a loss is a small or negative number.
NaN in the samples, the target or the weights gives NaN; no samples is an error. What
comes in as float32 goes out as float32, as a JAX array if any argument is one.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from downside.arrays import array_module, is_traced

Axis: TypeAlias = int | tuple[int, ...] | None


def lower_partial_moment(
    samples: ArrayLike,
    target: ArrayLike | None,
    order: float = 1,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean of the shortfall below the target, to the power ``order``.

        LPM_m[X | target] = E[((target - X)+)^m],   LPM_0 = P(X < target)

    Samples, target and weights broadcast together, and ``axis`` counts in the shape they
    make; weights are divided by their sum. The gradient is 0 where there is no shortfall,
    for every order. For an order between 0 and 1 it grows without bound as a shortfall
    goes to 0; for order 0 it is 0.

    >>> lower_partial_moment([4.0, 1.0, -2.0], target=2.0, order=2).item()  # (0 + 1 + 16) / 3
    5.666666666666667
    >>> lower_partial_moment([4.0, 1.0, -2.0], target=[[1.0], [2.0]], axis=1)
    array([1.        , 1.66666667])
    """
    xp, samples, target, weights = _aligned(samples, target, weights)
    return _mean(_excess_power(target, samples, order, xp), weights, axis)


def upper_partial_moment(
    samples: ArrayLike,
    target: ArrayLike | None,
    order: float = 1,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean of the excess over the target, to the power ``order``.

        UPM_m[X | target] = E[((X - target)+)^m],   UPM_0 = P(X > target)

    Everything said of `lower_partial_moment` holds here, with the sides exchanged.

    >>> upper_partial_moment([4.0, 1.0, -2.0], target=0.5, weights=[1, 2, 1]).item()
    1.125
    """
    xp, samples, target, weights = _aligned(samples, target, weights)
    return _mean(_excess_power(samples, target, order, xp), weights, axis)


def semideviation(
    samples: ArrayLike, axis: Axis = None, *, weights: ArrayLike | None = None
) -> Float[Any, "..."]:
    """Root of the mean squared shortfall below the mean.

        sqrt(E[((E[X] - X)+)^2])

    >>> semideviation([5.0, 1.0, 3.0, -1.0]).item()  # sqrt((0 + 1 + 0 + 9) / 4)
    1.5811388300841898
    """
    xp, samples, _, weights = _aligned(samples, 0.0, weights)
    mean = _mean(samples, weights, axis, keepdims=True)
    return _root(lower_partial_moment(samples, mean, 2, axis, weights=weights), 2, xp)


def sortino_ratio(
    samples: ArrayLike,
    target: ArrayLike | None,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean excess over the target, per unit of downside deviation; `kappa_ratio` of order 2.

        (E[X] - target) / sqrt(LPM_2[X | target])

    >>> sortino_ratio([4.0, 1.0, -2.0, 5.0], target=1.0).item()  # 1 / sqrt(9 / 4)
    0.6666666666666666
    """
    return kappa_ratio(samples, target, 2, axis, weights=weights)


def kappa_ratio(
    samples: ArrayLike,
    target: ArrayLike | None,
    order: float = 3,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean excess over the target, per unit of downside of the given order.

        (E[X] - target) / LPM_m[X | target]^(1/m),   m > 0

    Here as in every ratio of this file, a denominator of 0 gives infinity with the sign of
    the numerator, and NaN if that is 0 too; the gradient there is 0.

    >>> kappa_ratio([4.0, 1.0, -2.0, 5.0], target=1.0, order=3).item()  # 1 / cbrt(27 / 4)
    0.5291336839893999
    >>> kappa_ratio([4.0, 2.0], target=1.0).item()
    inf
    """
    if order == 0:
        raise ValueError("order is 0; the root of a moment needs an order above 0, such as 3")
    xp, values, targets, weights = _aligned(samples, target, weights)
    excess = _mean(values - targets, weights, axis)
    moment = lower_partial_moment(samples, target, order, axis, weights=weights)
    return _ratio(excess, _root(moment, order, xp), xp)


def omega_ratio(
    samples: ArrayLike,
    target: ArrayLike | None,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean excess above the target, per unit of mean shortfall below it.

        UPM_1[X | target] / LPM_1[X | target]      (= 1 + kappa_ratio of order 1)

    >>> omega_ratio([4.0, 1.0, -2.0, 5.0], target=2.0).item()  # (2 + 3) / (1 + 4)
    1.0
    """
    xp = array_module(samples, target, weights)
    upper = upper_partial_moment(samples, target, 1, axis, weights=weights)
    return _ratio(upper, lower_partial_moment(samples, target, 1, axis, weights=weights), xp)


def upside_potential_ratio(
    samples: ArrayLike,
    target: ArrayLike | None,
    axis: Axis = None,
    *,
    weights: ArrayLike | None = None,
) -> Float[Any, "..."]:
    """Mean excess above the target, per unit of downside deviation.

        UPM_1[X | target] / sqrt(LPM_2[X | target])

    >>> upside_potential_ratio([4.0, 1.0, -2.0, 5.0], target=1.0).item()  # (7 / 4) / (3 / 2)
    1.1666666666666667
    """
    xp = array_module(samples, target, weights)
    upper = upper_partial_moment(samples, target, 1, axis, weights=weights)
    moment = lower_partial_moment(samples, target, 2, axis, weights=weights)
    return _ratio(upper, _root(moment, 2, xp), xp)


def value_at_risk(samples: ArrayLike, level: float = 0.05, axis: Axis = None) -> Float[Any, "..."]:
    """The ``level``-quantile of the samples, on their own scale: a loss is negative.

        inf {x : P(X <= x) >= level},   0 < level <= 1

    It is always one of the samples, the k-th worst of n with k = ceil(level n).

    >>> value_at_risk([3.0, -5.0, 1.0, -2.0, 4.0], level=0.3).item()
    -2.0
    """
    ordered, xp = _worst_first(samples, axis)
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level is {level}; type the fraction of worst samples, in (0, 1]")
    # 0.07 * 100 is 7.000000000000001, and the 8th worst of 100 is not meant
    rank = max(1, math.ceil(round(level * ordered.shape[-1], 9)))
    has_nan = xp.isnan(ordered[..., -1])  # sorting puts NaN last
    return xp.where(has_nan, xp.nan, ordered[..., rank - 1])[()]


def conditional_value_at_risk(
    samples: ArrayLike, level: float = 0.05, axis: Axis = None
) -> Float[Any, "..."]:
    """Mean of the worst ``level`` fraction of the samples, on their own scale.

        (1 / level) * integral of VaR_u over u in (0, level)
            = VaR_level - LPM_1[X | VaR_level] / level

    A sample that lies only partly in that fraction counts with that part. So the result is
    never above `value_at_risk`, and it moves continuously with the level.

    >>> conditional_value_at_risk([3.0, -5.0, 1.0, -2.0, 4.0], level=0.3).item()
    -4.0
    """
    ordered, _ = _worst_first(samples, axis)
    quantile = value_at_risk(ordered, level, axis=-1)
    return quantile - lower_partial_moment(ordered, quantile[..., None], axis=-1) / level


def maximum_drawdown(log_returns: ArrayLike, axis: int = -1) -> Float[Any, "..."]:
    """Largest fall of wealth from its highest value so far, as a fraction in [0, 1].

        W_0 = 1,  W_t = exp(sum of the first t log-returns)
        max over t of 1 - W_t / max(W_0, ..., W_t)

    >>> maximum_drawdown(np.log([1.5, 0.5, 1.2])).item()  # wealth 1, 1.5, 0.75, 0.9
    0.5
    """
    log_returns, xp = _nonempty_floats(log_returns)
    log_wealth = xp.cumsum(log_returns, axis=axis)
    if xp is np:
        peak = np.maximum.accumulate(log_wealth, axis=axis)
    else:
        from jax.lax import cummax

        peak = cummax(log_wealth, axis=axis % log_wealth.ndim)
    return -xp.expm1(xp.min(log_wealth - xp.maximum(peak, 0), axis=axis))


def checked_order(order: float) -> int | float:
    """The order of a moment, an ``int`` if it is whole; refuses what is no order.

    >>> checked_order(2.0)
    2
    """
    if not 0 <= order < math.inf:
        raise ValueError(f"order is {order}; type a number >= 0, such as 1 or 2")
    return int(order) if float(order).is_integer() else float(order)


def _nonempty_floats(samples: Any, *others: Any) -> tuple[Any, Any]:
    xp = array_module(samples, *others)
    samples = xp.asarray(samples)
    if samples.size == 0:
        raise ValueError(f"samples of shape {samples.shape} are empty; pass at least one sample")
    return samples if xp.issubdtype(samples.dtype, xp.floating) else samples.astype(float), xp


def _aligned(samples: Any, target: Any, weights: Any) -> tuple[Any, Any, Any, Any]:
    """The module to compute with, and the arguments in one shape and the samples' dtype."""
    if target is None:
        raise ValueError(
            "target is None; a partial moment is about a target that you choose, because a "
            "moment about the sample's own mean is another quantity: type "
            "target=samples.mean() if you mean the centralised moment"
        )
    samples, xp = _nonempty_floats(samples, target, weights)
    arrays = {"target": xp.asarray(target, dtype=samples.dtype)}
    if weights is not None:
        if not is_traced(weights) and np.any(np.asarray(weights) < 0):
            raise ValueError("weights has a negative entry; type weights >= 0, of any sum")
        arrays["weights"] = xp.asarray(weights, dtype=samples.dtype)
    shape = samples.shape
    for name, array in arrays.items():
        try:
            shape = np.broadcast_shapes(shape, array.shape)
        except ValueError:
            raise ValueError(
                f"{name} of shape {array.shape} does not broadcast against samples of shape "
                f"{samples.shape}; give it axes of length 1, as in {name}[:, None]"
            ) from None
    arrays = {name: xp.broadcast_to(array, shape) for name, array in arrays.items()}
    return xp, xp.broadcast_to(samples, shape), arrays["target"], arrays.get("weights")


def _excess_power(high: Any, low: Any, order: float, xp: Any) -> Any:
    """``((high - low)+)^order``, with order 0 the indicator of ``high > low``."""
    order = checked_order(order)
    with np.errstate(invalid="ignore"):  # inf - inf, which the comparisons below discard
        # the power is taken of 1 where it is not used, so that its gradient is finite there
        power = xp.where(high > low, high - low, 1) ** order
    return xp.where(high <= low, 0, xp.where(high > low, power, xp.nan))[()]


def _root(moment: Any, order: float, xp: Any) -> Any:
    return _excess_power(moment, 0, 1 / order, xp)


def _mean(values: Any, weights: Any, axis: Axis, keepdims: bool = False) -> Any:
    if weights is None:
        return values.mean(axis=axis, keepdims=keepdims)
    with np.errstate(invalid="ignore"):  # weights that sum to 0 give NaN
        total = (weights * values).sum(axis=axis, keepdims=keepdims)
        return total / weights.sum(axis=axis, keepdims=keepdims)


def _ratio(numerator: Any, denominator: Any, xp: Any) -> Any:
    with np.errstate(invalid="ignore"):
        quotient = numerator / xp.where(denominator == 0, 1, denominator)
        return xp.where(denominator == 0, xp.sign(numerator) * xp.inf, quotient)[()]


def _worst_first(samples: Any, axis: Axis) -> tuple[Any, Any]:
    """The samples with ``axis`` made one, last, and sorted upwards."""
    samples, xp = _nonempty_floats(samples)
    if axis is None:
        return xp.sort(samples.ravel()), xp
    axes = axis if isinstance(axis, tuple) else (axis,)
    samples = xp.moveaxis(samples, axes, range(-len(axes), 0))
    return xp.sort(samples.reshape(*samples.shape[: samples.ndim - len(axes)], -1), axis=-1), xp
