"""One feature per state."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.bases.base import Basis
from downside.checks import check_count
from downside.records import record, static


@final
@record
class OneHot(Basis):
    """One feature per value of a whole number from 0 to ``size`` - 1.

    >>> OneHot(3)(np.array(2)).tolist()
    [0.0, 0.0, 1.0]
    """

    size: int = static()

    def __post_init__(self) -> None:
        check_count("size", self.size, least=1)

    @property
    def names(self) -> tuple[str, ...]:
        """state 0, state 1, ..."""
        return tuple(f"state {i}" for i in range(self.size))

    @property
    def constant(self) -> np.ndarray:
        """One feature is 1, the others 0."""
        return np.ones(self.size)

    def __call__(self, obs: Any) -> Any:
        """Binary features (..., size); what is none of the states counts as the nearest one."""
        xp = array_module(obs)
        number = as_floats(obs, xp)
        nearest = xp.clip(xp.round(number), 0, self.size - 1)
        states = xp.arange(self.size).astype(number.dtype)
        return (nearest[..., None] == states).astype(number.dtype)

    def outside(self, obs: Any) -> Any:
        """1 where the number is none of the states."""
        xp = array_module(obs)
        number = as_floats(obs, xp)
        states = xp.arange(self.size).astype(number.dtype)
        return xp.all(number[..., None] != states, axis=-1).astype(int)
