"""The two-step tree of the paper's Figs. 1 and 2."""

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int

from downside.checks import check_probability
from downside.environments.base import (
    Environment,
    Noise,
    Real,
    Transition,
    cut_discount,
    draw_noise,
    settle_numbers,
)
from downside.records import record, static

_NAMES = ("s0", "left", "right", "left-down", "left-up", "right-down", "right-up")


@record
class TreeState:
    """Where in the tree: 0 the root, 1 left, 2 right, 3 to 6 the leaves."""

    position: Int[Array, ""]
    time: Int[Array, ""]


@final
@record
class Tree(Environment[TreeState]):
    """Two choices, each worth +1 (action 1: right, then up) or -1 (action 0: left, then down).

    >>> import jax
    >>> tree = Tree()
    >>> state, obs = tree.reset(tree.draw(jax.random.key(0)))
    >>> step = tree.step(jax.random.key(1), state, jnp.asarray(1))
    >>> int(step.next_obs), float(step.reward), bool(step.terminated)
    (2, 1.0, False)
    """

    discount: Real = 1.0
    horizon: int = static(default=2, init=False)

    def __post_init__(self) -> None:
        settle_numbers(self)
        check_probability("discount", self.discount)

    @property
    def observation_space(self) -> spaces.Discrete[Any]:
        """The seven nodes."""
        return spaces.Discrete(7)

    @property
    def action_space(self) -> spaces.Discrete[Any]:
        """0: left or down; 1: right or up."""
        return spaces.Discrete(2)

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Nothing is random here."""
        return draw_noise(key, shape, n_uniform=0, n_normal=0)

    def reset(self, noise: Noise) -> tuple[TreeState, Array]:
        """Start at the root."""
        root = jnp.asarray(0)
        return TreeState(root, jnp.asarray(0)), root

    def mean_reward(self, state: TreeState, action: Array) -> Float[Array, ""]:
        """+1 for action 1, -1 for action 0."""
        return jnp.where(jnp.asarray(action) == 1, 1.0, -1.0)

    def transition(self, state: TreeState, action: Array, noise: Noise) -> Transition[TreeState]:
        """Move to one of the two children: those of node n are 2n + 1 and 2n + 2."""
        action = jnp.asarray(action)
        child = 2 * state.position + 1 + (action == 1).astype(state.position.dtype)
        terminated = state.time + 1 >= self.horizon
        reward = self.mean_reward(state, action)
        return Transition(
            obs=state.position,
            action=action,
            reward=reward,
            mean_reward=reward,
            next_obs=child,
            next_state=TreeState(child, state.time + 1),
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(False),
            time=state.time,
        )

    def render(self, state: TreeState) -> str:
        """The name of the node."""
        return f"at {_NAMES[int(np.asarray(state.position))]}"
