"""Unbounded actions: independent normal distributions."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from downside.arrays import array_module, inverse_softplus, softplus
from downside.bases import Basis
from downside.checks import check_count, check_finite, check_not_negative
from downside.policies.base import as_action, away_from_zero, cast, draw_normal, settle_start
from downside.policies.network import OutputPolicy, settle_outputs
from downside.records import record, static

LOG_TWO_PI = float(np.log(2.0 * np.pi))


@final
@record
class Gaussian(OutputPolicy):
    """Normal with mean mu(s) and deviation softplus(...) + ``floor``, for each action number.

    ``start`` and ``width``: begin with this mean and this standard deviation (0 and 0.69 above the
    floor if not given).

    >>> from downside.bases import Polynomial
    >>> policy = Gaussian(Polynomial(1), start=2.0, width=0.5)
    >>> mean, std = policy.mean_and_std(policy.init(np.random.default_rng(0)), np.array([3.0]))
    >>> mean.round(6).tolist(), std.round(6).tolist()
    ([2.0], [0.5])
    """

    basis: Basis
    size: int = static(default=1)
    hidden: Sequence[int] = static(default=())
    floor: float = static(default=0.0)
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        check_count("size", self.size, least=1)
        check_not_negative("floor", self.floor)
        settle_start(self, self.size)
        if self.start is not None:
            check_finite("start", self.start)
        if self.width is not None:
            check_finite("width", self.width)
            if not min(self.width) > self.floor:
                raise ValueError(f"width is {self.width}; it must be above the floor, {self.floor}")
        settle_outputs(self)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """As given."""
        return (self.size,)

    @property
    def n_outputs(self) -> int:
        """Two per action number."""
        return 2 * self.size

    @property
    def start_outputs(self) -> np.ndarray | None:
        """Means, and what softplus makes the widths above the floor."""
        if self.start is None and self.width is None:
            return None
        return normal_outputs(self.size, self.start, self.width, self.floor)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One normal number per action number."""
        return draw_normal(key, (*shape, self.size))

    def mean_and_std(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """Both (..., size)."""
        return normal_moments(self.outputs(params, obs), self.floor)

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """mean + std * noise."""
        mean, std = self.mean_and_std(params, obs)
        return mean + std * cast(noise, mean)

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The density of all action numbers together."""
        mean, std = self.mean_and_std(params, obs)
        density = normal_log_density(as_action(action, self.size, mean), mean, std)
        return array_module(density).sum(density, axis=-1)

    def mode(self, params: Any, obs: Any) -> Any:
        """The mean."""
        return self.mean_and_std(params, obs)[0]

    def entropy(self, params: Any, obs: Any) -> Any:
        """sum log(std sqrt(2 pi e))."""
        _, std = self.mean_and_std(params, obs)
        return array_module(std).sum(normal_entropy(std), axis=-1)


def normal_moments(outputs: Any, floor: Any) -> tuple[Any, Any]:
    """Mean and deviation from twice as many outputs."""
    xp = array_module(outputs, floor)
    mean, width = xp.split(outputs, 2, axis=-1)
    return mean, away_from_zero(softplus(width)) + xp.asarray(floor, mean.dtype)


def normal_outputs(size: int, mean: Any, std: Any, floor: Any) -> np.ndarray:
    """The outputs that give a mean and a deviation: 0 and log(2) above the floor if None."""
    centre = 0.0 if mean is None else np.asarray(mean, float)
    above = np.log(2.0) if std is None else np.asarray(std, float) - floor
    return np.concatenate([np.broadcast_to(x, (size,)) for x in (centre, inverse_softplus(above))])


def normal_log_density(x: Any, mean: Any, std: Any) -> Any:
    """log of exp(-(x - mean)^2 / (2 std^2)) / (std sqrt(2 pi)).

    Written with log(std), and bounded, so that derivatives stay finite where std^2 is rounded to 0.
    """
    xp = array_module(x, mean, std)
    log_std, limit = xp.log(std), float(xp.finfo(mean.dtype).max) ** 0.25
    deviations = xp.clip((x - mean) * xp.exp(-log_std), -limit, limit)
    return -0.5 * deviations**2 - log_std - 0.5 * LOG_TWO_PI


def normal_entropy(std: Any) -> Any:
    """log(std sqrt(2 pi e))."""
    return array_module(std).log(std) + 0.5 * (1.0 + LOG_TWO_PI)
