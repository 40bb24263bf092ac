"""How every figure looks."""

from typing import Any

import numpy as np

N_POINTS = 120  # of a curve; more do not show on a screen

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "downside",  # the same bytes each time
    "svg.fonttype": "none",
}


def thinned(n: int, most: int, *, log: bool = False) -> list[int]:
    """Places of at most ``most`` of n points, the first and the last among them.

    >>> thinned(1000, 4), thinned(1000, 4, log=True)
    ([0, 333, 666, 999], [0, 9, 99, 999])
    """
    if n <= most:
        return list(range(n))
    places = np.geomspace(1, n, most) - 1 if log else np.linspace(0, n - 1, most)
    return np.unique(places.round().astype(int)).tolist()
