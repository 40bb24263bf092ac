"""Partial moments of the normal and the Pareto distribution, for every order.

The parameters and the target broadcast against each other; the results are NumPy arrays
in float64. NaN gives NaN. SciPy's special functions overflow or lose digits in places:
the forms below are chosen to keep at least seven digits everywhere.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import special as _special

from downside.moments import checked_order, lower_partial_moment

special: Any = _special  # SciPy ships no types
SPLIT = 0.25  # where the Pareto moment of a far target is cut, as a fraction of the target


def normal_lower_partial_moment(
    mean: ArrayLike, std: ArrayLike, target: ArrayLike, order: float = 1
) -> Float[Any, "..."]:
    """Lower partial moment of a normal variable; ``std`` 0 is the constant ``mean``.

        LPM_m = std^m Gamma(m+1) / sqrt(2 pi) * exp(-z^2/4) D_{-m-1}(-z),  z = (target - mean) / std

    with the parabolic cylinder function D. For m = 0, 1, 2 this is Phi(z),
    std (z Phi(z) + phi(z)) and std^2 ((1 + z^2) Phi(z) + z phi(z)).

    >>> round(normal_lower_partial_moment(mean=0.3, std=2.0, target=0.3).item(), 9)  # 2 phi(0)
    0.797884561
    """
    m = checked_order(order)
    mu, sigma, tau = _broadcast_floats(mean, std, target)
    if np.any(sigma < 0):
        raise ValueError("std has a negative entry; a standard deviation is >= 0")
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        # this many deviations away, the spread no longer shows in float64
        constant = (sigma == 0) | (np.abs(tau - mu) > 1e8 * sigma)
        z = np.where(constant, 0.0, (tau - mu) / sigma)
        cylinder = special.pbdv(-m - 1.0, np.minimum(np.abs(z), 50.0))[0]  # NaN further out
        tail = np.exp(special.gammaln(m + 1) - z**2 / 4) / np.sqrt(2 * np.pi) * cylinder
        # above the mean D overflows; there the two moments add up to E|Z - z|^m
        both = special.gamma((m + 1) / 2) * special.hyp1f1(-m / 2, 0.5, -(z**2) / 2)
        moment = sigma**m * np.where(z > 0, np.sqrt(2.0**m / np.pi) * both - tail, tail)
    point = lower_partial_moment(mu[..., None], tau[..., None], m, axis=-1)
    return np.where(constant, point, moment)[()]


def normal_upper_partial_moment(
    mean: ArrayLike, std: ArrayLike, target: ArrayLike, order: float = 1
) -> Float[Any, "..."]:
    """Upper partial moment of a normal variable: the lower one, mirrored.

        UPM_m[X | target] = LPM_m[-X | -target]

    >>> normal_upper_partial_moment(mean=1.5, std=0.0, target=0.25).item()
    1.25
    """
    return normal_lower_partial_moment(-np.asarray(mean), std, -np.asarray(target), order)


def pareto_lower_partial_moment(
    scale: ArrayLike, shape: ArrayLike, target: ArrayLike, order: float = 1
) -> Float[Any, "..."]:
    """Lower partial moment of a Pareto variable, P(X > x) = (scale/x)^shape for x >= scale.

        LPM_m = shape target^m y^(m+1) / (m+1) * 2F1(1, m+1-shape; m+2; y),  y = 1 - scale/target

    and 0 for a target up to the scale; for m = 0 this is 1 - (scale/target)^shape.

    >>> round(pareto_lower_partial_moment(scale=2.0, shape=1.5, target=8.0, order=0).item(), 12)
    0.875
    """
    m = checked_order(order)
    b, a, tau = _pareto_parameters(scale, shape, target)
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        r = np.clip(b / tau, 1e-300, 1.0)
        # 2F1 goes wrong for y near 1 and a shape near a whole number, so the moment of
        # a far target is cut: above SPLIT * target X is again a Pareto variable, and below
        # it the binomial series of (1 - X/target)^m converges fast.
        far = r < 0.1
        y = np.where(far, 1 - SPLIT, (tau - b) / tau)
        moment = a * y ** (m + 1) / (m + 1) * special.hyp2f1(1, m + 1 - a, m + 2, y)
        split_moment = (r / SPLIT) ** a * moment + _binomial_part(r, a, m)
        moment = np.where(tau > b, np.where(far, split_moment, moment) * tau**m, 0.0)
    return np.where(np.isnan(a + b + tau), np.nan, moment)[()]


def _binomial_part(r: Any, shape: Any, m: float) -> Any:
    """``E[(1 - X)^m; X < SPLIT]`` for a Pareto variable of scale r, by powers of X."""
    r, a, k = r[..., None], shape[..., None], np.arange(40.0)  # SPLIT^40 is below rounding
    log_ratio = np.log(r / SPLIT)
    # a r^a * integral of x^(k-a-1) over (r, SPLIT), with its larger end taken out
    end = np.where(k < a, r**k, r**a * SPLIT ** (k - a))
    powers = -a * log_ratio * end * special.exprel(np.abs(k - a) * log_ratio)
    return np.sum(special.binom(m, k) * (-1) ** k * powers, axis=-1)


def pareto_upper_partial_moment(
    scale: ArrayLike, shape: ArrayLike, target: ArrayLike, order: float = 1
) -> Float[Any, "..."]:
    """Upper partial moment of a Pareto variable; infinite for an order of ``shape`` or more.

        UPM_m = shape scale^m (scale/s)^(shape-m) I,   s = max(scale, target),  z = target / s,
        I = integral of u^(shape-m-1) (1 - z u)^m over u in (0, 1)

    For a target from the scale upwards, I is the Beta function B(shape-m, m+1).

    >>> pareto_upper_partial_moment(scale=2.0, shape=3.0, target=-1.0).item()  # E[X] + 1
    4.0
    >>> pareto_upper_partial_moment(scale=2.0, shape=3.0, target=2.5, order=3).item()
    inf
    """
    m = checked_order(order)
    b, a, tau = _pareto_parameters(scale, shape, target)
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        z = np.where(tau < b, tau / b, 1.0)
        by_beta = z ** (m - a) * special.beta(a - m, m + 1) * special.betainc(a - m, m + 1, z)
        series = special.hyp2f1(-m, 1, a - m + 1, 1 - 1 / (1 - z))
        integral = np.where(z > 0.5, by_beta, (1 - z) ** m * series / (a - m))
        moment = a * b**m * (b / np.maximum(b, tau)) ** (a - m) * integral
        moment = np.where(a > m, moment, np.inf)
    return np.where(np.isnan(a + b + tau), np.nan, moment)[()]


def _broadcast_floats(*values: ArrayLike) -> tuple[Any, ...]:
    return np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))


def _pareto_parameters(*values: ArrayLike) -> tuple[Any, ...]:
    scale, shape, target = _broadcast_floats(*values)
    if np.any(scale <= 0) or np.any(shape <= 0):
        raise ValueError("scale and shape of a Pareto distribution are > 0; one entry is not")
    return scale, shape, target
