"""Bounded actions: a normal variable pressed into a box by a sigmoid (logit-normal)."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, sigmoid, softplus
from downside.bases import Basis, Box
from downside.bases.base import settle_box
from downside.checks import check_not_negative, check_range
from downside.policies.base import Policy, draw_normal, settle_start
from downside.policies.gaussian import LOG_TWO_PI, check_width, normal_log_density, normal_start
from downside.policies.network import Outputs
from downside.records import record, static

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
_NEWTON_STEPS = 40


@final
@record
class SquashedGaussian(Policy):
    """low + (high - low) sigmoid(Z), Z normal with mean mu(s) and deviation softplus(...) + floor.

    ``start`` and ``width``: begin with this median and about this standard deviation, in the units
    of the box.

    >>> from downside.bases import Polynomial
    >>> policy = SquashedGaussian(Polynomial(1), low=0.0, high=4.0, start=1.0, width=0.1)
    >>> params = policy.init(np.random.default_rng(0))
    >>> policy.sample(params, np.array([0.3]), np.zeros(1)).round(6).tolist()
    [1.0]
    """

    basis: Basis
    low: Any = static(default=0.0)
    high: Any = static(default=1.0)
    hidden: tuple[int, ...] = static(default=())
    floor: float = 0.0
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        settle_box(self)
        settle_start(self)
        self.box.require_finite("SquashedGaussian")
        check_not_negative("floor", self.floor)
        check_start(self.start, self.box)
        if self.width is not None:
            needed = "it must be above 0"
            check_range("width", self.width, np.nextafter(0.0, 1.0).item(), float("inf"), needed)
        check_width(self._start[1], self.floor)

    @property
    def box(self) -> Box:
        """Where the actions lie."""
        return Box(self.low, self.high)

    @property
    def n_params(self) -> int:
        """Two outputs per action number."""
        return self._outputs.n_params

    @property
    def action_size(self) -> int:
        """That of the box."""
        return self.box.size

    def init(self, key: Any) -> Any:
        """Near ``start``, about as wide as ``width``."""
        return self._outputs.init(key, normal_start(self.box.size, *self._start, self.floor))

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One normal number per action number."""
        return draw_normal(key, (*shape, self.box.size))

    def mean_and_std(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """Of the normal variable before it is squashed."""
        outputs, size = self._outputs(params, obs), self.box.size
        return outputs[..., :size], softplus(outputs[..., size:]) + self.floor

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """Squash mean + std * noise."""
        mean, std = self.mean_and_std(params, obs)
        return self._squash(mean + std * array_module(mean).asarray(noise, mean.dtype))

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The normal density over the slope of the squashing; the very edges count as inside."""
        mean, std = self.mean_and_std(params, obs)
        xp = array_module(mean)
        unit = inside(self.box.unit(xp.asarray(action, mean.dtype)))
        logit = xp.log(unit) - xp.log1p(-unit)
        density = normal_log_density(logit, mean, std) - xp.log(unit) - xp.log1p(-unit)
        return xp.sum(density - self._log_scale(mean), axis=-1)

    def mode(self, params: Any, obs: Any) -> Any:
        """The peak of the density, the higher one if there are two.

        At a peak z = mean + std^2 tanh(z / 2). The higher one lies on the side of the mean; from
        beyond it Newton's steps go down to it without crossing.
        """
        mean, std = self.mean_and_std(params, obs)
        xp = array_module(mean)
        side = xp.where(mean < 0, -xp.ones_like(mean), xp.ones_like(mean))
        centre, z = side * mean, side * mean + std**2
        for _ in range(_NEWTON_STEPS):
            bend = xp.tanh(z / 2.0)
            slope = 1.0 - 0.5 * std**2 * (1.0 - bend**2)
            step = (z - centre - std**2 * bend) / xp.maximum(slope, 1e-3)
            z = xp.maximum(z - step, centre)
        return self._squash(side * z)

    def entropy(self, params: Any, obs: Any) -> Any:
        """That of the normal, and the mean logarithm of the slope, by Gauss-Hermite quadrature."""
        mean, std = self.mean_and_std(params, obs)
        xp = array_module(mean)
        z = mean[..., None] + std[..., None] * xp.asarray(_NODES, mean.dtype)
        weights = xp.asarray(_WEIGHTS / _WEIGHTS.sum(), mean.dtype)
        log_slope = -xp.sum(weights * (softplus(z) + softplus(-z)), axis=-1)
        normal = xp.log(std) + 0.5 * (1.0 + LOG_TWO_PI)
        return xp.sum(normal + log_slope + self._log_scale(mean), axis=-1)

    def baseline(self, obs: Any) -> Any:
        """The features of the basis."""
        return self.basis(obs)

    def to_vector(self, action: Any) -> Any:
        """It is one."""
        return action

    def from_vector(self, vector: Any) -> Any:
        """It is one."""
        return vector

    def _squash(self, z: Any) -> Any:
        low, scale = scale_of(self.box, z)
        return low + scale * sigmoid(z)

    def _log_scale(self, like: Any) -> Any:
        return array_module(like).log(scale_of(self.box, like)[1])

    @property
    def _start(self) -> tuple[Any, Any]:
        """Median and deviation of the normal variable, by the slope of the squashing there."""
        if self.start is None and self.width is None:
            return None, None
        low, scale = np.array(self.low), np.subtract(self.high, self.low)
        unit = 0.5 if self.start is None else (np.asarray(self.start, float) - low) / scale
        median = np.log(unit / (1.0 - unit))
        if self.width is None:
            return median, None
        return median, np.asarray(self.width, float) / scale / (unit * (1.0 - unit))

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.basis, 2 * self.box.size, self.hidden)


def inside(unit: Any) -> Any:
    """Numbers of [0, 1], moved off the ends by the rounding of their width."""
    xp = array_module(unit)
    eps = float(np.finfo(unit.dtype).eps)
    return xp.clip(unit, eps, 1.0 - eps)


def scale_of(box: Box, like: Any) -> tuple[Any, Any]:
    """Lower end and length of the box, in the array type of ``like``."""
    xp = array_module(like)
    low, high = (xp.asarray(end, like.dtype) for end in (box.low, box.high))
    return low, high - low


def check_start(start: Any, box: Box) -> None:
    """Refuse a starting action that is not strictly inside the box."""
    if start is None:
        return
    if not np.all((np.asarray(start) > box.low) & (np.asarray(start) < box.high)):
        raise ValueError(
            f"start is {start}; it must lie strictly between low {box.low} and high {box.high}"
        )
