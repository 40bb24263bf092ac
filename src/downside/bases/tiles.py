"""Tile coding: binary features from shifted grids."""

from functools import cached_property
from itertools import product
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases.base import BoxBasis, settle_box
from downside.checks import check_count
from downside.records import record, static


@final
@record
class TileCoding(BoxBasis):
    """Several shifted grids over the box; in each, the cell of the observation is 1, the rest 0.

    The shifts are odd multiples of a fraction of a tile, so the grids differ in every direction if
    ``n_tilings`` is a power of 2.

    >>> tiles = TileCoding(low=[0.0], high=[1.0], n_tiles=2, n_tilings=2)
    >>> tiles(np.array([0.1])).tolist(), tiles(np.array([0.9])).tolist()
    ([1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    """

    low: Any = static()
    high: Any = static()
    n_tiles: int = static(default=8)
    n_tilings: int = static(default=8)

    def __post_init__(self) -> None:
        check_count("n_tiles", self.n_tiles, least=1)
        check_count("n_tilings", self.n_tilings, least=1)
        settle_box(self)
        self.box.require_finite("TileCoding")

    @property
    def names(self) -> tuple[str, ...]:
        """Tiling and cell, such as tiling 2, cell (0, 3)."""
        cells = product(range(self.n_tiles + 1), repeat=self.box.size)
        cells = [cell[0] if len(cell) == 1 else cell for cell in cells]
        return tuple(f"tiling {t}, cell {cell}" for t in range(self.n_tilings) for cell in cells)

    @property
    def constant(self) -> np.ndarray:
        """One cell of each tiling is active."""
        return np.full(self.n_features, 1.0 / self.n_tilings)

    def __call__(self, obs: Any) -> Any:
        """Binary features (..., n_tilings (n_tiles + 1)^d)."""
        x = self.box.unit(obs)
        xp = array_module(x)
        side, size = self.n_tiles + 1, self.box.size  # a shifted grid needs one more cell
        position = xp.floor(x[..., None, :] * self.n_tiles + xp.asarray(self._shifts, x.dtype))
        place_values = xp.asarray(float(side) ** np.arange(size)[::-1], x.dtype)
        cell = xp.sum(position * place_values, axis=-1)
        active = cell[..., None] == xp.arange(side**size).astype(x.dtype)
        return active.reshape(*x.shape[:-1], self.n_features).astype(x.dtype)

    @cached_property
    def _shifts(self) -> np.ndarray:
        """In units of a tile, (n_tilings, size)."""
        steps = np.outer(np.arange(self.n_tilings), 1 + 2 * np.arange(self.box.size))
        return steps % self.n_tilings / self.n_tilings
