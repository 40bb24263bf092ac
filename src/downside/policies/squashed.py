"""Bounded actions: a normal variable pressed into a box by a sigmoid (logit-normal)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from downside.arrays import array_module, sigmoid, softplus
from downside.bases import Basis, Box
from downside.bases.base import settle_box
from downside.checks import check_not_negative
from downside.policies.base import cast, draw_normal, settle_start, special_functions
from downside.policies.box import from_unit, log_volume, to_fractions, unit_start
from downside.policies.gaussian import (
    LOG_TWO_PI,
    normal_entropy,
    normal_log_density,
    normal_moments,
    normal_outputs,
)
from downside.policies.network import OutputPolicy, settle_outputs
from downside.records import record, static

_NEWTON_STEPS, _BISECTIONS = 30, 60
_WIDEST = 100.0  # deviation of the normal variable at which the squashed one is all but two-valued


def _quadratures() -> tuple[Any, Any]:
    """Nodes and weights: the mean over a normal number; 2 log(1 + exp(-z)) dz over z > 0."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    half_nodes, half_weights = np.polynomial.laguerre.laggauss(32)
    slope_part = 2.0 * np.log1p(np.exp(-half_nodes)) * np.exp(half_nodes)
    return (nodes, weights / weights.sum()), (half_nodes, half_weights * slope_part)


_HERMITE, _LAGUERRE = _quadratures()


@final
@record
class SquashedGaussian(OutputPolicy):
    """low + (high - low) sigmoid(Z), Z normal with mean mu(s) and deviation softplus(...) + floor.

    ``start`` and ``width``: begin with this median and this standard deviation, in the units of the
    box (its centre, and 0.69 above the floor before squashing, if not given).

    >>> from downside.bases import Polynomial
    >>> policy = SquashedGaussian(Polynomial(1), low=0.0, high=4.0, start=1.0, width=0.1)
    >>> params = policy.init(np.random.default_rng(0))
    >>> policy.sample(params, np.array([0.3]), np.zeros(1)).round(6).tolist()
    [1.0]
    """

    basis: Basis
    low: Any = static(default=0.0)
    high: Any = static(default=1.0)
    hidden: Sequence[int] = static(default=())
    floor: float = static(default=0.0)
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        settle_box(self)
        self.box.require_finite("SquashedGaussian")
        check_not_negative("floor", self.floor)
        settle_start(self, self.box.size)
        settle_outputs(self)

    @cached_property
    def box(self) -> Box:
        """Where the actions lie."""
        return Box(self.low, self.high)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """A point of the box."""
        return (self.box.size,)

    @property
    def n_outputs(self) -> int:
        """Two per action number."""
        return 2 * self.box.size

    @property
    def start_outputs(self) -> np.ndarray | None:
        """Mean and preactivation of the normal variable."""
        if self.start is None and self.width is None:
            return None
        unit = unit_start(self.box, self.start)
        medians = np.log(unit / (1.0 - unit))
        stds = None if self.width is None else self._normal_stds(medians, self.width)
        return normal_outputs(self.box.size, medians, stds, self.floor)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One normal number per action number."""
        return draw_normal(key, (*shape, self.box.size))

    def mean_and_std(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """Of the normal variable before it is squashed."""
        return normal_moments(self.outputs(params, obs), self.floor)

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """Squash mean + std * noise."""
        mean, std = self.mean_and_std(params, obs)
        return from_unit(self.box, sigmoid(mean + std * cast(noise, mean)))

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The normal density over the slope of the squashing; finite at the edges, too."""
        mean, std = self.mean_and_std(params, obs)
        below, above = to_fractions(self.box, action, mean)
        xp = array_module(below)
        log_below, log_above = xp.log(below), xp.log(above)
        density = normal_log_density(log_below - log_above, mean, std) - log_below - log_above
        return xp.sum(density, axis=-1) - log_volume(self.box)

    def mode(self, params: Any, obs: Any) -> Any:
        """The peak of the density, the higher one if there are two.

        At a peak z = mean + std^2 tanh(z / 2). The higher one lies on the side of the mean; from
        beyond it Newton's steps go down to it without crossing.
        """
        mean, std = self.mean_and_std(params, obs)
        xp = array_module(mean)
        side = xp.copysign(xp.ones_like(mean), mean)
        centre, z = side * mean, side * mean + std**2
        for _ in range(_NEWTON_STEPS):
            bend = xp.tanh(z / 2.0)
            slope = 1.0 - 0.5 * std**2 * (1.0 - bend**2)
            step = (z - centre - std**2 * bend) / xp.maximum(slope, 1e-3)
            z = xp.maximum(z - step, centre)
        return from_unit(self.box, sigmoid(side * z))

    def entropy(self, params: Any, obs: Any) -> Any:
        """That of the normal, and the mean logarithm of the slope of the squashing."""
        mean, std = self.mean_and_std(params, obs)
        unit = normal_entropy(std) + _mean_log_slope(mean, std)
        return array_module(unit).sum(unit, axis=-1) + log_volume(self.box)

    def _normal_stds(self, medians: np.ndarray, widths: tuple[float, ...]) -> np.ndarray:
        """The deviations of the normal variable for these deviations of the action."""
        lengths = np.subtract(self.box.high, self.box.low)
        low, high = (np.full(self.box.size, std) for std in (float(self.floor), _WIDEST))
        least, most = (lengths * _squashed_std(medians, std) for std in (low, high))
        if not np.all((widths > least) & (widths < most)):
            raise ValueError(
                f"width is {widths}; about this start and with a floor of {self.floor} it must lie "
                f"between {least.round(6).tolist()} and {most.round(6).tolist()}"
            )
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            too_wide = lengths * _squashed_std(medians, middle) > widths
            low, high = np.where(too_wide, low, middle), np.where(too_wide, middle, high)
        return high


def _squashed_std(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """The standard deviation of sigmoid(Z), by the trapezoidal rule over 8 deviations."""
    noise = np.linspace(-8.0, 8.0, 2001)
    weights = np.exp(-0.5 * noise**2) / np.sum(np.exp(-0.5 * noise**2))
    values = sigmoid(mean[:, None] + std[:, None] * noise)
    return np.sqrt(np.sum(weights * (values - values @ weights[:, None]) ** 2, axis=-1))


def _mean_log_slope(mean: Any, std: Any) -> Any:
    """E[log sigmoid'(Z)] = -E|Z| - 2 E[log(1 + exp(-|Z|))], by two rules that agree to 1e-9 at 2.

    Gauss-Hermite for a narrow Z; for a wide one E|Z| is known, and the rest a Gauss-Laguerre sum.
    """
    xp = array_module(mean)
    nodes, weights = (xp.asarray(x, mean.dtype) for x in _HERMITE)
    z = mean[..., None] + std[..., None] * nodes
    narrow = xp.sum(weights * (softplus(z) + softplus(-z)), axis=-1)

    s = xp.maximum(std, 2.0)
    ratio = mean / s
    size = 2.0 * s * _bell(ratio) + mean * special_functions(mean).erf(ratio / 2.0**0.5)
    nodes, weights = (xp.asarray(x, mean.dtype) for x in _LAGUERRE)
    to_right, to_left = ((nodes + m[..., None]) / s[..., None] for m in (-mean, mean))
    rest = xp.sum(weights * (_bell(to_right) + _bell(to_left)), axis=-1) / s
    return -xp.where(std < 2.0, narrow, size + rest)


def _bell(x: Any) -> Any:
    """The standard normal density."""
    return array_module(x).exp(-0.5 * x**2 - 0.5 * LOG_TWO_PI)
