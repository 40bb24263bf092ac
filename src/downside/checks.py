"""Refusing bad arguments: what came, what is allowed."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from sys import float_info
from typing import Any

import numpy as np

from downside.arrays import is_traced


def check_range(name: str, value: Any, low: float, high: float, needed: str) -> None:
    """Refuse numbers outside [low, high]; what is not known yet (traced) is let through."""
    if is_traced(value):
        return
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, which is not a number; {needed}") from None
    fine = (numbers >= low) & (numbers <= high)  # NaN fails both
    if not np.all(fine):
        came = f"has the entry {numbers[~fine].flat[0]}" if numbers.ndim else f"is {value}"
        raise ValueError(f"{name} {came}; {needed}")


def check_probability(name: str, value: Any) -> None:
    """Refuse what is not a probability."""
    check_range(name, value, 0.0, 1.0, "a probability lies in [0, 1]")


def check_positive(name: str, value: Any) -> None:
    """Refuse numbers that are not finite and above 0."""
    check_range(name, value, float_info.min, float_info.max, "it must be finite and above 0")


def check_not_negative(name: str, value: Any) -> None:
    """Refuse numbers that are not finite, and those below 0."""
    check_range(name, value, 0.0, float_info.max, "it must be finite and not below 0")


def check_finite(name: str, value: Any) -> None:
    """Refuse infinities and NaN."""
    check_range(name, value, -float_info.max, float_info.max, "it must be finite")


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse sizes that are not whole numbers of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number, at least {least}")


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a name that is not one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, allowed))}")


def check_single(what: str, settings: Mapping[str, Any], advice: str) -> None:
    """Refuse lists of values but of thresholds.

    >>> check_single("a frontier", {"kl": [0.1, 0.2]}, "make one for each")
    Traceback (most recent call last):
    ValueError: kl is [0.1, 0.2], and a frontier has one value of it; make one for each
    """
    for name, value in settings.items():
        several = isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0
        if several and name not in ("threshold", "constraints"):
            raise ValueError(f"{name} is {value!r}, and {what} has one value of it; {advice}")


def check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a name that is not known, with the nearest one that is.

    >>> check_names("key", ["treshold"], ["threshold", "order"])
    Traceback (most recent call last):
    ValueError: there is no key 'treshold'; did you mean threshold?
    """
    allowed = list(known)
    for name in names:
        if name not in allowed:
            close = get_close_matches(str(name), allowed, n=1)
            advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(allowed)}"
            raise ValueError(f"there is no {what} {name!r}; {advice}")
