"""What policies on a box share: the way from the unit cube to the box, and back."""

from typing import Any

import numpy as np

from downside.arrays import array_module
from downside.bases import Box
from downside.policies.base import as_action


def from_unit(box: Box, unit: Any) -> Any:
    """A point of the unit cube, as one of the box."""
    low, high = box.ends(unit)
    return array_module(unit).clip(low + (high - low) * unit, low, high)


def to_fractions(box: Box, action: Any, like: Any) -> tuple[Any, Any]:
    """How much of the box lies below and above each number of the action; they add up to 1.

    An action outside counts as the nearest edge, and an edge as inside by less than the rounding of
    its numbers: both fractions are above 0, and so is every density finite.
    """
    action = box.clip(as_action(action, box.size, like))
    low, high = box.ends(action)
    xp = array_module(action)
    info = xp.finfo(action.dtype)
    tiny, rounding = float(info.tiny), float(info.epsneg)
    below, above = (
        xp.maximum(gap / (high - low), xp.maximum(rounding * xp.abs(end) / (high - low), tiny))
        for gap, end in ((action - low, low), (high - action, high))
    )
    return below, above


def log_volume(box: Box) -> float:
    """log of the product of the lengths: what a density loses from the unit cube to the box."""
    return float(np.sum(np.log(np.subtract(box.high, box.low))))


def unit_start(box: Box, start: tuple[float, ...] | None) -> np.ndarray:
    """A starting action as a point of the unit cube, its centre if none is given."""
    if start is None:
        return np.full(box.size, 0.5)
    inside = np.greater(start, box.low) & np.less(start, box.high)
    if not np.all(inside):
        raise ValueError(
            f"start is {start}; it must lie strictly between low {box.low} and high {box.high}"
        )
    return box.unit(start)
