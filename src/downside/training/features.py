"""Features of a state, an action and the time, where the user names none."""

from typing import Any, final

import jax
import jax.numpy as jnp
from gymnasium import Space, spaces
from jaxtyping import Array, Float

from downside.bases import Basis, OneHot
from downside.bases.spaces import basis_for
from downside.records import record, static

MAX_FEATURES = 300


@final
@record
class StateActionFeatures:
    """A basis of the state and the time, one copy of it for each discrete action.

    Without discrete actions the basis sees the pair of observation and action. With a horizon the
    time enters: one copy per step where ``by_step``, else as [start of episode, t/T, (t/T)^2].

    >>> features = StateActionFeatures(OneHot(2), n_actions=2)
    >>> features(jnp.asarray(1), jnp.asarray(0), jnp.asarray(7)).tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    basis: Basis
    n_actions: int | None = static(default=None)
    first_action: int = static(default=0)
    horizon: int | None = static(default=None)
    by_step: bool = static(default=False)

    @property
    def n_features(self) -> int:
        """Their number."""
        n = self.basis.n_features
        if self.horizon is not None:
            n = n * self.horizon if self.by_step else n + 3
        return n * (self.n_actions or 1)

    def __call__(self, obs: Any, action: Any, time: Any = 0) -> Float[Array, " n"]:
        """The features (n,); without a horizon the time does not matter."""
        x = jnp.asarray(self.basis((obs, action) if self.n_actions is None else obs))
        if self.horizon is not None and self.by_step:
            x = jnp.outer(jax.nn.one_hot(time, self.horizon, dtype=x.dtype), x).reshape(-1)
        elif self.horizon is not None:
            share = (time / self.horizon).astype(x.dtype)
            clock = jnp.stack([(time == 0).astype(x.dtype), share, share**2])
            x = jnp.concatenate([x, clock])
        if self.n_actions is None:
            return x
        chosen = jax.nn.one_hot(action - self.first_action, self.n_actions, dtype=x.dtype)
        return jnp.outer(chosen, x).reshape(-1)


def features_for(
    observations: Space[Any], actions: Space[Any], horizon: int | None, sample: Any
) -> StateActionFeatures:
    """Features from the spaces; ``sample`` is a pair of stacked observations and actions.

    >>> small, four = spaces.Discrete(3), spaces.Discrete(4)
    >>> features_for(small, four, None, None).n_features
    12
    >>> features_for(small, four, 10, None).n_features   # a copy for each of the 10 steps
    120
    """
    obs = None if sample is None else sample[0]
    if not isinstance(actions, spaces.Discrete):
        pair = basis_for(spaces.Tuple([observations, actions]), sample, MAX_FEATURES)
        return StateActionFeatures(pair, horizon=horizon)
    n_actions = int(actions.n)
    basis = basis_for(observations, obs, MAX_FEATURES // n_actions)
    n_cells = (horizon or 0) * basis.n_features * n_actions
    return StateActionFeatures(
        basis,
        n_actions,
        int(actions.start),
        horizon,
        by_step=isinstance(basis.basis, OneHot) and 0 < n_cells <= MAX_FEATURES,
    )
