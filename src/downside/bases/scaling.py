"""Bringing numbers to unit size, from given or from running statistics."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.checks import check_finite, check_not_negative
from downside.records import record


@final
@record
class Scaling:
    """(x - shift) / scale; a scale of 0 (nothing ever varied) counts as 1.

    >>> Scaling(shift=1.0, scale=2.0)(np.array([5.0, 1.0])).tolist()
    [2.0, 0.0]
    """

    shift: Any
    scale: Any

    def __post_init__(self) -> None:
        check_finite("shift", self.shift)
        check_not_negative("scale", self.scale)
        for name in ("shift", "scale"):
            value = getattr(self, name)
            object.__setattr__(self, name, as_floats(value, array_module(value)))

    @property
    def divisor(self) -> Any:
        """The scale, with 1 in the place of 0."""
        xp = array_module(self.scale)
        return xp.where(self.scale == 0, xp.ones_like(self.scale), self.scale)

    def __call__(self, x: Any) -> Any:
        """The rescaled numbers."""
        xp = array_module(x, self.shift, self.scale)
        x = as_floats(x, xp)
        return (x - xp.asarray(self.shift, x.dtype)) / xp.asarray(self.divisor, x.dtype)


@final
@record
class RunningMoments:
    """Count, mean and sum of squared deviations of a stream of vectors, one by one (Welford).

    >>> moments = RunningMoments.of_size(1)
    >>> for x in (1.0, 3.0, 8.0):
    ...     moments = moments.update(np.array([x]))
    >>> moments.mean.tolist(), round(float(moments.std()[0] ** 2), 6)   # 26/3
    ([4.0], 8.666667)
    """

    count: Any
    mean: Any
    squares: Any

    @classmethod
    def of_size(cls, size: int) -> "RunningMoments":
        """Nothing seen yet."""
        return cls(np.zeros(()), np.zeros(size), np.zeros(size))

    def update(self, x: Any) -> "RunningMoments":
        """With one more vector seen; dtypes stay, so that a loop can carry the moments."""
        xp = array_module(x, self.mean)
        count, old_mean, squares = (xp.asarray(v) for v in (self.count, self.mean, self.squares))
        x = xp.asarray(x, old_mean.dtype)
        count = count + 1.0
        mean = old_mean + (x - old_mean) / count
        return RunningMoments(count, mean, squares + (x - old_mean) * (x - mean))

    def std(self) -> Any:
        """Standard deviation over all that was seen; 0 before."""
        xp = array_module(self.mean)
        return xp.sqrt(self.squares / xp.maximum(self.count, 1.0))

    def scaling(self, *, centred: bool = True) -> Scaling:
        """To mean 0 and standard deviation 1; or, not centred, to a root mean square of 1.

        Numbers that never varied are not centred, so that a constant feature stays one.
        """
        std = self.std()
        xp = array_module(std)
        if centred:
            return Scaling(shift=xp.where(std > 0, self.mean, xp.zeros_like(std)), scale=std)
        return Scaling(shift=xp.zeros_like(std), scale=xp.sqrt(std**2 + self.mean**2))
