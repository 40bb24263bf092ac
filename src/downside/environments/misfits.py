"""How an observation fails to be an element of its space."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from downside.environments.findings import Severity, shown

MOST_REWARD = 1e15
"""Squares of larger ones, summed, do not fit float32."""

LARGEST = float(np.finfo(np.float32).max)
WIDER = "declare wider bounds, or -inf and inf: features are scaled by the bounds"


def misfits(space: Space[Any], value: Any, name: str) -> Iterator[tuple[Severity, str, str]]:
    """How a value fails to be an element of its space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict):
            yield (
                "error",
                f"{name} is {shown(value)}, not a dictionary",
                "return a dictionary, as its space",
            )
            return
        missing, extra = space.spaces.keys() - value.keys(), value.keys() - space.spaces.keys()
        if missing or extra:
            words = [f"lacks {', '.join(map(repr, sorted(missing)))}"] if missing else []
            words += [f"has {', '.join(map(repr, sorted(extra)))} too many"] if extra else []
            yield "error", f"{name} {' and '.join(words)}", "return the keys of its Dict space"
            return
        for key, part in space.spaces.items():
            yield from misfits(part, value[key], f"{name}[{key!r}]")
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            what = f"{name} is {shown(value)}, not a tuple of {len(space.spaces)}"
            yield "error", what, "return a tuple, as its space"
            return
        for i, (part, entry) in enumerate(zip(space.spaces, value, strict=True)):
            yield from misfits(part, entry, f"{name}[{i}]")
        return
    yield from _leaf_misfits(space, value, name)


def _leaf_misfits(space: Space[Any], value: Any, name: str) -> Iterator[tuple[Severity, str, str]]:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    dtype = np.dtype(space.dtype)
    if array.dtype.kind not in "biuf":
        yield "error", f"{name} is {shown(value)}, not numbers", f"return numbers, as {space}"
    elif array.shape != space.shape:
        what = f"{name} has the shape {array.shape}, and its space {space.shape}"
        yield "error", what, "return the shape of the space, or declare this one"
    elif array.dtype.kind == "f" and np.any(np.isnan(array)):
        yield "error", f"{name} holds NaN", "look for a division by 0 or an overflow in step"
    elif not np.can_cast(array.dtype, dtype, "same_kind"):
        what = f"{name} has the type {array.dtype}, and its space {dtype}"
        yield "error", what, f"return it as .astype(np.{dtype}), or declare the other type"
    elif isinstance(space, spaces.Box):
        if array.shape and not isinstance(value, np.ndarray):
            what = f"{name} is of type {type(value).__name__}, not a NumPy array"
            yield "warning", what, f"return np.asarray(obs, np.{dtype}), once per step"
        elif array.dtype != dtype:
            what = f"{name} has the type {array.dtype}, and its space {dtype}"
            yield "warning", what, f"return it as .astype(np.{dtype}), or declare the other type"
        if np.any(np.isinf(array)):
            yield "error", f"{name} is infinite", "return finite numbers: nothing learns from them"
            return
        if np.any(np.abs(array.astype(float)) > LARGEST):
            what = f"{name} is {shown(value)}, too large for arithmetic in float32"
            yield "error", what, "return smaller numbers, such as their logarithms"
            return
        over = float(np.max(outside_by(space, array), initial=0.0))
        if over > 0.0:
            yield "warning", f"{name} lies outside its Box by {over:.3g}", WIDER
    elif not space.contains(array.astype(dtype)[()] if array.ndim == 0 else array.astype(dtype)):
        yield "error", f"{name} is {shown(value)}, outside {space}", "declare a larger space"


def check_observations(space: Space[Any], obs: Any, name: str = "obs") -> None:
    """Refuse what is neither one observation nor a batch of them, as far as structure and size go.

    >>> check_observations(spaces.Box(0.0, 1.0, (2,)), np.ones((5, 2)))
    >>> check_observations(spaces.Box(0.0, 1.0, (2,)), np.ones(3))
    Traceback (most recent call last):
    ValueError: obs has the shape (3,); one observation has (2,), a batch of n has (n, 2)
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or not obs.keys() >= space.spaces.keys():
            raise ValueError(f"{name} is {shown(obs)}; it needs the keys {', '.join(space.spaces)}")
        for key, part in space.spaces.items():
            check_observations(part, obs[key], f"{name}[{key!r}]")
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            raise ValueError(f"{name} is {shown(obs)}; it must be a tuple of {len(space.spaces)}")
        for i, (part, entry) in enumerate(zip(space.spaces, obs, strict=True)):
            check_observations(part, entry, f"{name}[{i}]")
        return
    array, shape = np.asarray(obs), space.shape or ()
    if array.dtype.kind not in "biuf" or shape not in (array.shape, array.shape[1:]):
        came = f"the shape {array.shape}" if array.dtype.kind in "biuf" else f"{shown(obs)} in it"
        many = ", ".join(["n", *map(str, shape)]) + ("," if not shape else "")
        raise ValueError(
            f"{name} has {came}; one observation has {shape}, a batch of n has ({many})"
        )
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} is {shown(obs)}; it must hold numbers, not NaN and not infinity")
    if isinstance(space, spaces.Discrete):
        first, last = int(space.start), int(space.start + space.n - 1)
        if np.any(array < first) or np.any(array > last):
            raise ValueError(f"{name} is {shown(obs)}; states are numbered {first} to {last}")


def outside_by(space: Space[Any], values: Any) -> Any:
    """How far numbers lie outside of the bounds of their Box; 0 for what rounding explains.

    Values may have leading axes; elsewhere than in a Box nothing is outside.

    >>> outside_by(spaces.Box(0.0, 2.0, (1,)), np.array([[1.5], [2.00001], [-3.0]])).tolist()
    [[0.0], [0.0], [3.0]]
    """
    array = np.asarray(values)
    if not isinstance(space, spaces.Box):
        return np.zeros(array.shape)
    numbers = array.astype(float)
    over = np.maximum(np.maximum(space.low - numbers, numbers - space.high), 0.0)
    return np.where(over > 1e-4 * np.maximum(np.abs(numbers), 1.0), over, 0.0)


def leaves(space: Space[Any]) -> Iterator[Space[Any]]:
    """The spaces of plain arrays that it is made of."""
    if isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from leaves(part)
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from leaves(part)
    else:
        yield space
