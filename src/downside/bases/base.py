"""What a basis promises: features of an observation, one formula for NumPy and for JAX.

Leading axes are kept, so a batch needs no loop. What lies outside the box of a basis is clipped and
can be counted. Nothing here imports JAX, so that a trained policy can act with NumPy alone.
"""

from abc import ABC, abstractmethod
from functools import cached_property
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
        """How many numbers of each observation lie outside what the basis is for."""

    @cached_property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)


class BoxBasis(Basis):
    """A basis that is defined on a box, stated by ``low`` and ``high``."""

    low: Any
    high: Any

    @cached_property
    def box(self) -> "Box":
        """The box as one thing."""
        return Box(self.low, self.high)

    def outside(self, obs: Any) -> Any:
        """How many numbers of each observation are clipped because they lie outside the box."""
        return self.box.outside(obs)


@final
@record
class Box:
    """``low`` and ``high`` in each dimension; infinite where there is no limit.

    >>> Box(low=[0.0, -1.0], high=1.0).unit(np.array([0.25, 3.0])).tolist()
    [0.25, 1.0]
    """

    low: Any = static()
    high: Any = static()

    def __post_init__(self) -> None:
        low, high = (np.atleast_1d(np.asarray(end, float)) for end in (self.low, self.high))
        size = max(low.size, high.size)
        if size == 0 or not {low.shape, high.shape} <= {(1,), (size,)}:
            raise ValueError(
                f"the box has low of shape {low.shape} and high of shape {high.shape}; "
                "give one number per dimension to each"
            )
        low, high = (np.broadcast_to(end, (size,)) for end in (low, high))
        if not np.all(low < high):  # NaN fails too
            first = int(np.argmin(low < high))
            raise ValueError(
                f"the box has low {low[first]} and high {high[first]} in dimension {first}; "
                "low must be below high"
            )
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    @property
    def size(self) -> int:
        """The number of dimensions."""
        return len(self.low)

    def ends(self, like: Any) -> tuple[Any, Any]:
        """``low`` and ``high`` as arrays of the kind of ``like``."""
        xp = array_module(like)
        return xp.asarray(self.low, like.dtype), xp.asarray(self.high, like.dtype)

    def clip(self, obs: Any) -> Any:
        """The nearest point of the box."""
        obs = self._points(obs)
        return array_module(obs).clip(obs, *self.ends(obs))

    def unit(self, obs: Any) -> Any:
        """The nearest point of the box, as a point of the unit cube."""
        inside = self.clip(obs)
        low, high = self.ends(inside)
        return (inside - low) / (high - low)

    def outside(self, obs: Any) -> Any:
        """How many numbers of each observation lie outside; what is not a number does."""
        obs = self._points(obs)
        low, high = self.ends(obs)
        return array_module(obs).sum(~((obs >= low) & (obs <= high)), axis=-1)

    def require_finite(self, owner: str) -> None:
        """Refuse a box without limits, for those that need them."""
        if not np.all(np.isfinite([self.low, self.high])):
            raise ValueError(
                f"{owner} needs a finite box; low is {self.low} and high is {self.high}"
            )

    def _points(self, obs: Any) -> Any:
        obs = as_floats(obs, array_module(obs))
        if obs.shape[-1:] != (self.size,):
            raise ValueError(
                f"the observation has the shape {obs.shape}; "
                f"its last axis must hold {self.size} numbers, as the box of the basis does"
            )
        return obs


def settle_box(owner: Any, size: int | None = None) -> None:
    """Check ``low`` and ``high`` of a new record and keep them as tuples, of ``size`` if given."""
    box = Box(owner.low, owner.high)
    if size is not None and box.size == 1:
        box = Box(box.low * size, box.high * size)
    if size is not None and box.size != size:
        raise ValueError(f"the box has {box.size} dimensions; give {size} numbers, or one for all")
    object.__setattr__(owner, "low", box.low)
    object.__setattr__(owner, "high", box.high)
