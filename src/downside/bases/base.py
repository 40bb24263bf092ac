"""What a basis promises: features of an observation, one formula for NumPy and for JAX.

Leading axes are kept, so a batch needs no loop. What lies outside the box of a basis is clipped and
can be counted. Nothing here imports JAX, so that a trained policy can act with NumPy alone.
"""

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.records import record, static


class Basis(ABC):
    """A fixed map from observations to features."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The name of each feature."""

    @property
    @abstractmethod
    def constant(self) -> np.ndarray | None:
        """Weights whose product with the features is 1 for every observation, if there are any."""

    @abstractmethod
    def __call__(self, obs: Any) -> Any:
        """The features (..., n) of observations."""

    @abstractmethod
    def outside(self, obs: Any) -> Any:
        """How many numbers of each observation are clipped because they lie outside the box."""

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)


class BoxBasis(Basis):
    """A basis that is defined on a box, stated by ``low`` and ``high``."""

    low: Any
    high: Any

    @property
    def box(self) -> "Box":
        """The box as one thing."""
        return Box(self.low, self.high)

    def outside(self, obs: Any) -> Any:
        """How many numbers of each observation are clipped because they lie outside the box."""
        return self.box.outside(obs)


@final
@record
class Box:
    """Where a basis is defined: ``low`` and ``high`` per input; infinite where there is no limit.

    >>> Box([0.0, -1.0], [1.0, 1.0]).unit(np.array([0.25, 3.0])).tolist()
    [0.25, 1.0]
    """

    low: Any = static()
    high: Any = static()

    def __post_init__(self) -> None:
        low, high = (np.atleast_1d(np.asarray(x, float)) for x in (self.low, self.high))
        if low.shape != high.shape or low.ndim != 1:
            raise ValueError(
                f"the box has low of shape {low.shape} and high of shape {high.shape}; "
                "give one number per input to each"
            )
        if not np.all(low < high):  # NaN fails too
            first = int(np.argmin(low < high))
            raise ValueError(
                f"the box has low {low[first]} and high {high[first]} at input {first}; "
                "low must be below high"
            )
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    @property
    def size(self) -> int:
        """The number of inputs."""
        return len(self.low)

    def clip(self, obs: Any) -> Any:
        """The nearest point of the box."""
        xp = array_module(obs)
        obs = as_floats(obs, xp)
        if obs.shape[-1:] != (self.size,):
            raise ValueError(
                f"the observation has the shape {obs.shape}; the basis is for {self.size} inputs"
            )
        return xp.clip(obs, xp.asarray(self.low, obs.dtype), xp.asarray(self.high, obs.dtype))

    def unit(self, obs: Any) -> Any:
        """The nearest point of the box, as a point of the unit cube."""
        xp = array_module(obs)
        inside = self.clip(obs)
        low, high = (xp.asarray(x, inside.dtype) for x in (self.low, self.high))
        return (inside - low) / (high - low)

    def outside(self, obs: Any) -> Any:
        """How many inputs of each observation lie outside."""
        xp = array_module(obs)
        obs = as_floats(obs, xp)
        low, high = (xp.asarray(x, obs.dtype) for x in (self.low, self.high))
        return xp.sum((obs < low) | (obs > high), axis=-1)

    def require_finite(self, basis: str) -> None:
        """Refuse a box without limits, for a basis that needs them."""
        if not np.all(np.isfinite([*self.low, *self.high])):
            raise ValueError(
                f"{basis} needs a finite box; low is {self.low} and high is {self.high}; "
                "give limits, or scale the inputs with Scaled"
            )


def settle_box(owner: Any, size: int | None = None) -> None:
    """Check ``low`` and ``high`` of a new record and keep them as tuples of ``size`` numbers."""
    ends = (np.asarray(end, float) for end in (owner.low, owner.high))
    box = Box(*(end if size is None else np.broadcast_to(end, (size,)) for end in ends))
    object.__setattr__(owner, "low", box.low)
    object.__setattr__(owner, "high", box.high)
