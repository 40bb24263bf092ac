"""Radial features: bumps about a grid of centres."""

from functools import cached_property
from itertools import product
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases.base import BoxBasis, settle_box
from downside.checks import check_count, check_positive
from downside.records import record, static


@final
@record
class Radial(BoxBasis):
    """A constant, and exp(-|x - c|^2 / (2 width^2)) about a grid of centres in the unit cube.

    ``width`` is in units of the distance between neighbouring centres.

    >>> Radial(low=[0.0], high=[2.0], n_centres=3)(np.array([1.0])).round(4).tolist()
    [1.0, 0.6065, 1.0, 0.6065]
    """

    low: Any = static()
    high: Any = static()
    n_centres: int = static(default=5)
    width: Any = 1.0

    def __post_init__(self) -> None:
        check_count("n_centres", self.n_centres, least=2)
        check_positive("width", self.width)
        settle_box(self)
        self.box.require_finite("Radial")

    @property
    def names(self) -> tuple[str, ...]:
        """The centres, as points of the box."""
        low, high = self.box.ends(self._centres)
        points = low + self._centres * (high - low)
        return ("1", *(f"near ({', '.join(f'{v:g}' for v in point)})" for point in points))

    @property
    def constant(self) -> np.ndarray:
        """The first feature is 1."""
        return np.eye(self.n_features)[0]

    def __call__(self, obs: Any) -> Any:
        """The features (..., 1 + n_centres^d)."""
        xp = array_module(obs, self.width)
        x = xp.asarray(self.box.unit(obs))
        gaps = (x[..., None, :] - xp.asarray(self._centres, x.dtype)) * (self.n_centres - 1)
        distances = xp.sum(gaps**2, axis=-1)
        bumps = xp.exp(-distances / (2.0 * xp.asarray(self.width, x.dtype) ** 2))
        return xp.concatenate([xp.ones_like(bumps[..., :1]), bumps], axis=-1)

    @cached_property
    def _centres(self) -> np.ndarray:
        grid = np.linspace(0.0, 1.0, self.n_centres)
        return np.array(list(product(grid, repeat=self.box.size)))
