"""How every figure looks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

N_POINTS = 120  # of a curve; more do not show on a screen

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "downside",  # the same bytes each time
    "svg.fonttype": "none",
}

# Okabe and Ito's colours. Four of them stand out (3:1) from white and from the dark page alike;
# the last two are lighter, and darker ones would be taken for red and blue by the colour-blind.
BLUE, RED, GREEN, PURPLE, ORANGE, SKY = PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)
GREY, INK = "#999999", "#404040"  # ink takes the colour of the page's text


@dataclass(frozen=True)
class Look:
    """Of a line, in static figures and in charts alike; marker and dashes by matplotlib's names."""

    colour: str
    marker: str = "o"
    dashes: str = "-"


def thinned(n: int, most: int, *, log: bool = False) -> list[int]:
    """Places of at most ``most`` of n points, the first and the last among them.

    >>> thinned(1000, 4), thinned(1000, 4, log=True)
    ([0, 333, 666, 999], [0, 9, 99, 999])
    """
    if n <= most:
        return list(range(n))
    places = np.geomspace(1, n, most) - 1 if log else np.linspace(0, n - 1, most)
    return np.unique(places.round().astype(int)).tolist()
