"""Unbounded actions: independent normal distributions."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, inverse_softplus, softplus
from downside.bases import Basis
from downside.checks import check_count, check_finite, check_not_negative
from downside.policies.base import Policy, draw_normal, settle_start
from downside.policies.network import Outputs
from downside.records import record, static

LOG_TWO_PI = float(np.log(2.0 * np.pi))


@final
@record
class Gaussian(Policy):
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
    hidden: tuple[int, ...] = static(default=())
    floor: float = 0.0
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        check_count("size", self.size, least=1)
        check_not_negative("floor", self.floor)
        settle_start(self)
        if self.start is not None:
            check_finite("start", self.start)
        check_width(self.width, self.floor)

    @property
    def n_params(self) -> int:
        """Two outputs per action number."""
        return self._outputs.n_params

    @property
    def action_size(self) -> int:
        """As given."""
        return self.size

    def init(self, key: Any) -> Any:
        """Near ``start``, as wide as ``width``."""
        return self._outputs.init(key, normal_start(self.size, self.start, self.width, self.floor))

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One normal number per action number."""
        return draw_normal(key, (*shape, self.size))

    def mean_and_std(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """Both (..., size)."""
        outputs = self._outputs(params, obs)
        return outputs[..., : self.size], softplus(outputs[..., self.size :]) + self.floor

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """mean + std * noise."""
        mean, std = self.mean_and_std(params, obs)
        return mean + std * array_module(mean).asarray(noise, mean.dtype)

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The density of all action numbers together."""
        mean, std = self.mean_and_std(params, obs)
        xp = array_module(mean)
        return xp.sum(normal_log_density(xp.asarray(action, mean.dtype), mean, std), axis=-1)

    def mode(self, params: Any, obs: Any) -> Any:
        """The mean."""
        return self.mean_and_std(params, obs)[0]

    def entropy(self, params: Any, obs: Any) -> Any:
        """sum log(std sqrt(2 pi e))."""
        _, std = self.mean_and_std(params, obs)
        xp = array_module(std)
        return xp.sum(xp.log(std) + 0.5 * (1.0 + LOG_TWO_PI), axis=-1)

    def baseline(self, obs: Any) -> Any:
        """The features of the basis."""
        return self.basis(obs)

    def to_vector(self, action: Any) -> Any:
        """It is one."""
        return action

    def from_vector(self, vector: Any) -> Any:
        """It is one."""
        return vector

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.basis, 2 * self.size, self.hidden)


def normal_log_density(x: Any, mean: Any, std: Any) -> Any:
    """log of exp(-(x - mean)^2 / (2 std^2)) / (std sqrt(2 pi))."""
    xp = array_module(x, mean, std)
    return -0.5 * ((x - mean) / std) ** 2 - xp.log(std) - 0.5 * LOG_TWO_PI


def normal_start(size: int, start: Any, width: Any, floor: Any) -> np.ndarray | None:
    """Outputs (mean, preactivation of the deviation) for a start in words; None for zeros."""
    if start is None and width is None:
        return None
    means = np.broadcast_to(0.0 if start is None else np.asarray(start, float), (size,))
    above = np.log(2.0) if width is None else np.asarray(width, float) - floor
    return np.concatenate([means, np.broadcast_to(inverse_softplus(np.asarray(above)), (size,))])


def check_width(width: Any, floor: Any) -> None:
    """Refuse a starting deviation that the floor forbids."""
    if width is not None and not np.all(np.asarray(width) > np.asarray(floor)):
        raise ValueError(f"width is {width}; it must be above the floor of {floor}")
