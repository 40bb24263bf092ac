"""The policy that is used where the user names none, from the space of the actions."""

from itertools import accumulate
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from downside.arrays import array_module, as_floats
from downside.bases import Basis
from downside.policies.base import Policy
from downside.policies.gaussian import Gaussian
from downside.policies.gibbs import Gibbs
from downside.policies.product import Product
from downside.policies.squashed import SquashedGaussian
from downside.records import record, static


def policy_for(space: Space[Any], basis: Basis, hidden: tuple[int, ...] = ()) -> Policy:
    """Gibbs for choices, a squashed normal on a bounded box, a normal without bounds.

    Several choices, and the parts of a Tuple or Dict, are independent: a product.

    >>> from downside.bases import Polynomial
    >>> policy_for(spaces.Box(-2.0, 2.0, (1,)), Polynomial(3)).action_shape
    (1,)
    >>> policy_for(spaces.MultiDiscrete([3, 2]), Polynomial(3)).action_shape
    (2,)
    """
    parts = _policies(space, basis, hidden)
    single = isinstance(space, spaces.Discrete | spaces.Box)
    return parts[0] if single else Product(parts)


def _policies(space: Space[Any], basis: Basis, hidden: tuple[int, ...]) -> list[Policy]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [policy for part in parts for policy in _policies(part, basis, hidden)]
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return [_choice(n, basis, hidden) for n in _choices(space)]
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(end, float).reshape(-1) for end in (space.low, space.high))
        if np.all(np.isfinite([low, high])) and np.all(low < high):
            return [SquashedGaussian(basis, low, high, hidden=hidden)]
        return [Gaussian(basis, size=low.size, hidden=hidden)]
    raise ValueError(
        f"there is no default policy for the actions {space}; wrap the environment so that it takes "
        "Discrete, Box, MultiDiscrete, MultiBinary, Tuple or Dict actions"
    )


def _choice(n: int, basis: Basis, hidden: tuple[int, ...]) -> Policy:
    if n < 2:
        raise ValueError(
            "an action has one value only, so there is nothing to choose; "
            "wrap the environment so that it does not ask for it"
        )
    return Gibbs(basis, n, hidden=hidden)


def _choices(space: Any) -> list[int]:
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ravel().tolist()
    return [2] * int(np.prod(space.shape, dtype=int))


@final
@record
class ActionMap:
    """What a policy says, as an action of its space: counted from its start, clipped, in shape.

    >>> pair = spaces.Tuple([spaces.Discrete(3, start=1), spaces.Box(0.0, 1.0, (2,))])
    >>> ActionMap.of(pair)(np.array([2.0, 0.25, 7.0]))
    (3, array([0.25, 1.  ]))
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
    def of(space: Space[Any]) -> "ActionMap":
        """The map into a Gymnasium space."""
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
        return xp.round(clipped) if self.whole else clipped
