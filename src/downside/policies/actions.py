"""What a policy says, as an action of a Gymnasium space; needs NumPy alone once it is made."""

from itertools import accumulate
from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.records import record, static


@final
@record
class ActionMap:
    """What a policy says, as an action of its space: counted from its start, clipped, in shape.

    >>> from gymnasium import spaces
    >>> pair = spaces.Tuple([spaces.Discrete(3, start=1), spaces.Box(0.0, 1.0, (2,))])
    >>> ActionMap.of(pair)(np.array([2.0, 0.25, 7.0]))
    (np.int64(3), array([0.25, 1.  ]))
    """

    kind: str = static()
    shape: tuple[int, ...] = static(default=())
    starts: tuple[int, ...] = static(default=())
    low: tuple[float, ...] = static(default=())
    high: tuple[float, ...] = static(default=())
    whole: bool = static(default=False)
    keys: tuple[Any, ...] = static(default=())
    parts: "tuple[ActionMap, ...]" = static(default=())

    @staticmethod
    def of(space: Any) -> "ActionMap":
        """The map into a Gymnasium space."""
        from gymnasium import spaces

        if isinstance(space, spaces.Dict | spaces.Tuple):
            is_dict = isinstance(space, spaces.Dict)
            pairs = space.spaces.items() if is_dict else enumerate(space.spaces)
            keys, parts = zip(*((key, ActionMap.of(part)) for key, part in pairs), strict=True)
            return ActionMap("dict" if is_dict else "tuple", keys=keys, parts=parts)
        if isinstance(space, spaces.Discrete):
            return ActionMap("choice", (), (int(space.start),))
        if isinstance(space, spaces.MultiDiscrete):
            starts = np.broadcast_to(space.start, space.nvec.shape).ravel()
            return ActionMap("choices", space.nvec.shape, tuple(starts.tolist()))
        if isinstance(space, spaces.MultiBinary):
            shape = space.shape
            return ActionMap("choices", shape, (0,) * int(np.prod(shape, dtype=int)))
        low, high = (
            tuple(np.asarray(end, float).reshape(-1).tolist())
            for end in (getattr(space, "low", ()), getattr(space, "high", ()))
        )
        whole = np.dtype(space.dtype).kind in "iu"
        return ActionMap("numbers", space.shape or (), low=low, high=high, whole=whole)

    @property
    def size(self) -> int:
        """How many numbers of a product's action it takes."""
        if self.parts:
            return sum(part.size for part in self.parts)
        return int(np.prod(self.shape, dtype=int))

    def __call__(self, action: Any) -> Any:
        """One action or a batch with leading axes, for NumPy and JAX; nested as the space is."""
        xp = array_module(action)
        action = xp.asarray(action)
        if self.kind == "choice":
            return (xp.round(action).astype(int) + self.starts[0])[()]
        if self.parts:
            ends = list(accumulate(part.size for part in self.parts))
            pieces = xp.split(action, ends[:-1], axis=-1)
            single = (part.kind == "choice" for part in self.parts)
            pieces = [p[..., 0] if one else p for p, one in zip(pieces, single, strict=True)]
            found = [part(piece) for part, piece in zip(self.parts, pieces, strict=True)]
            if self.kind == "tuple":
                return tuple(found)
            return dict(zip(self.keys, found, strict=True))
        shape = (*action.shape[: action.ndim - 1], *self.shape)
        if self.kind == "choices":
            starts = xp.asarray(self.starts)
            return (xp.round(action).astype(starts.dtype) + starts).reshape(shape)
        numbers = as_floats(action, xp)
        ends = (xp.asarray(end, numbers.dtype) for end in (self.low, self.high))
        clipped = xp.clip(numbers, *ends).reshape(shape)
        return xp.round(clipped).astype(int) if self.whole else clipped
