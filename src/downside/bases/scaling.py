"""Bringing numbers to unit size, from given or from running statistics."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
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

    def __call__(self, x: Any) -> Any:
        """The rescaled numbers."""
        xp = array_module(x, self.shift, self.scale)
        x = as_floats(x, xp)
        scale = xp.asarray(self.scale, x.dtype)
        safe = xp.where(scale == 0, xp.ones_like(scale), scale)
        return (x - xp.asarray(self.shift, x.dtype)) / safe


@final
@record
class RunningMoments:
    """Count, mean and mean square of a stream of vectors, updated one by one (Welford).

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
        """With one more vector seen."""
        xp = array_module(x, self.mean)
        x = as_floats(x, xp)
        count = xp.asarray(self.count, x.dtype) + 1.0
        old_mean, squares = (xp.asarray(v, x.dtype) for v in (self.mean, self.squares))
        mean = old_mean + (x - old_mean) / count
        return RunningMoments(count, mean, squares + (x - old_mean) * (x - mean))

    def std(self) -> Any:
        """Standard deviation over all that was seen; 0 before."""
        xp = array_module(self.mean)
        return xp.sqrt(self.squares / xp.maximum(self.count, xp.ones_like(self.count)))

    def scaling(self, *, centred: bool = True) -> Scaling:
        """To mean 0 and standard deviation 1; or, not centred, to a root mean square of 1.

        Numbers that never varied are not centred, so that a constant feature stays one.
        """
        std = self.std()
        xp = array_module(std)
        if centred:
            varied = std > 0
            return Scaling(
                shift=xp.where(varied, self.mean, xp.zeros_like(std)),
                scale=xp.where(varied, std, xp.ones_like(std)),
            )
        return Scaling(shift=xp.zeros_like(std), scale=xp.sqrt(std**2 + self.mean**2))
