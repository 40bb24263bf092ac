"""The Fourier basis: cosines of every frequency up to an order."""

from functools import cached_property
from itertools import product
from typing import Any, final

import numpy as np

from downside.arrays import array_module, once, times_shared
from downside.bases.base import BoxBasis, settle_box
from downside.checks import check_count
from downside.records import record, static


@final
@record
class Fourier(BoxBasis):
    """cos(pi c . x) for every c in {0, ..., order}^d, x the observation in the unit cube.

    >>> basis = Fourier(low=[0.0, 0.0], high=[1.0, 1.0], order=3)
    >>> basis.n_features, basis(np.array([0.5, 1.0]))[:4].round(6).tolist()
    (16, [1.0, -1.0, 1.0, -1.0])
    """

    low: Any = static()
    high: Any = static()
    order: int = static(default=3)

    def __post_init__(self) -> None:
        check_count("order", self.order, least=1)
        settle_box(self)
        self.box.require_finite("Fourier")

    @property
    def names(self) -> tuple[str, ...]:
        """The frequencies, such as cos(pi (x1 + 2 x2))."""
        return tuple(_cosine_name(c) for c in self.frequencies)

    @property
    def constant(self) -> np.ndarray:
        """The first feature has the frequency 0."""
        return np.eye(self.n_features)[0]

    def __call__(self, obs: Any) -> Any:
        """The features (..., (order + 1)^d)."""
        x = self.box.unit(obs)
        xp = array_module(x)
        return once(xp.cos(np.pi * times_shared(self.frequencies, x)))

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Every c, (features, d)."""
        return np.array(list(product(range(self.order + 1), repeat=self.box.size)), float)


def _cosine_name(frequencies: np.ndarray) -> str:
    terms = [(f"{c:g} " if c > 1 else "") + f"x{i + 1}" for i, c in enumerate(frequencies) if c > 0]
    inner = " + ".join(terms)
    return f"cos(pi {inner if len(terms) == 1 else f'({inner})'})" if terms else "cos(0)"
