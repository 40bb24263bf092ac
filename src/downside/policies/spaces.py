"""The policy that is used where the user names none, from the space of the actions."""

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from downside.bases import Basis
from downside.policies.base import Policy
from downside.policies.gaussian import Gaussian
from downside.policies.gibbs import Gibbs
from downside.policies.product import Product
from downside.policies.squashed import SquashedGaussian

FLOOR = 0.1
"""The least deviation before squashing: with less, the score of an action near an edge explodes."""


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
            return [SquashedGaussian(basis, low, high, hidden=hidden, floor=FLOOR)]
        return [Gaussian(basis, size=low.size, hidden=hidden)]
    raise ValueError(
        f"there is no default policy for the actions {space}; wrap the environment so that it "
        "takes Discrete, Box, MultiDiscrete, MultiBinary, Tuple or Dict actions"
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
