"""Observations and records of any structure: room for many, and many put together."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces


def empty(space: Space[Any], n: int) -> Any:
    """Room for ``n`` observations.

    >>> empty(spaces.Tuple([spaces.Discrete(3), spaces.Box(0.0, 1.0, (2,))]), 4)[1].shape
    (4, 2)
    """
    if isinstance(space, spaces.Dict):
        return {key: empty(part, n) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(empty(part, n) for part in space.spaces)
    return np.zeros((n, *(space.shape or ())), space.dtype)


def writer(room: Any) -> Callable[[int, Any], None]:
    """Puts an observation at a place."""
    if isinstance(room, np.ndarray):
        return room.__setitem__
    parts = room.items() if isinstance(room, dict) else enumerate(room)
    writers = [(key, writer(part)) for key, part in parts]

    def put(i: int, obs: Any) -> None:
        for key, write in writers:
            write(i, obs[key])

    return put


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """The function of the arrays of one observation, or of several with the same structure.

    >>> mapped(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
    {'x': 11, 'y': (22,)}
    """
    first = trees[0]
    if isinstance(first, dict):
        return {key: mapped(function, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple):
        return tuple(mapped(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def copied(obs: Any) -> Any:
    """So that the environment may reuse its arrays."""
    return mapped(lambda leaf: np.array(leaf)[()], obs)


def leaves(obs: Any) -> list[Any]:
    """The arrays of an observation, in order."""
    if isinstance(obs, dict | tuple):
        parts = obs.values() if isinstance(obs, dict) else obs
        return [leaf for part in parts for leaf in leaves(part)]
    return [obs]


def rows(noise: Any) -> list[Any]:
    """Step by step what was drawn for all."""
    if isinstance(noise, tuple):
        return list(zip(*(rows(part) for part in noise), strict=True))
    return noise.tolist() if noise.ndim == 1 else list(noise)


def stack(trees: Sequence[Any]) -> Any:
    """Observations, or None for None, along a new first axis."""
    return mapped(lambda *found: None if found[0] is None else np.stack(found), *trees)
