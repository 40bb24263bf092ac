"""An environment that shows the return so far, for measures of the whole return."""

from dataclasses import replace
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float

from downside.environments.base import Environment, Transition
from downside.records import record


@record
class AccumulatingState:
    """The state of the environment inside, the discounted return so far, and its next weight."""

    inner: Any
    total: Float[Array, ""]
    weight: Float[Array, ""]
    time: Any


@final
@record
class WithReturn(Environment[AccumulatingState]):
    """The environment inside, with [return so far, time] at the end of a vector observation.

    The time is t / horizon where there is a horizon, else 1 - 1 / (1 + t).

    >>> import jax
    >>> from downside.environments import Portfolio, WithReturn
    >>> env = WithReturn(Portfolio())
    >>> state, obs = env.reset(env.draw(jax.random.key(0)))
    >>> step = env.step(jax.random.key(1), state, jnp.asarray(0))
    >>> [round(x, 4) for x in step.next_obs[-2:].tolist()]   # log(1.005) after one of 50 steps
    [0.005, 0.02]
    """

    env: Environment[Any]

    @property
    def discount(self) -> Any:  # type: ignore[override]
        """That of the environment inside."""
        return self.env.discount

    @property
    def horizon(self) -> int | None:  # type: ignore[override]
        """That of the environment inside."""
        return self.env.horizon

    @property
    def truncates(self) -> bool:  # type: ignore[override]
        """As the environment inside."""
        return self.env.truncates

    @property
    def log_returns(self) -> bool:  # type: ignore[override]
        """As the environment inside."""
        return self.env.log_returns

    @property
    def observation_space(self) -> spaces.Box:
        """Two numbers more."""
        inside = self.env.observation_space
        if isinstance(inside, spaces.Box) and len(inside.shape) == 1:
            low, high = inside.low, inside.high
        elif isinstance(inside, spaces.Discrete):
            low, high = np.zeros(int(inside.n)), np.ones(int(inside.n))
        else:
            raise ValueError(f"WithReturn needs vectors or states to observe, not {inside}")
        return spaces.Box(
            np.append(low, [-np.inf, 0.0]).astype(np.float32),
            np.append(high, [np.inf, 1.0]).astype(np.float32),
        )

    @property
    def action_space(self) -> Any:
        """That of the environment inside."""
        return self.env.action_space

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Any:
        """The noise of the environment inside."""
        return self.env.draw(key, shape)

    def reset(self, noise: Any) -> tuple[AccumulatingState, Array]:
        """Nothing earned yet."""
        inner, obs = self.env.reset(noise)
        state = AccumulatingState(inner, jnp.zeros(()), jnp.ones(()), jnp.asarray(0))
        return state, self._show(obs, state)

    def transition(
        self, state: AccumulatingState, action: Array, noise: Any
    ) -> Transition[AccumulatingState]:
        """One step inside; its reward is added to the return so far."""
        inside = self.env.transition(state.inner, action, noise)
        following = AccumulatingState(
            inner=inside.next_state,
            total=state.total + state.weight * inside.reward,
            weight=state.weight * self.env.discount,
            time=state.time + 1,
        )
        return replace(
            inside,
            obs=self._show(inside.obs, state),
            next_obs=self._show(inside.next_obs, following),
            next_state=following,
        )

    def mean_reward(self, state: AccumulatingState, action: Array) -> Any:
        """That of the environment inside."""
        return self.env.mean_reward(state.inner, action)

    def render(self, state: AccumulatingState) -> str:
        """As inside, and the return so far."""
        return f"{self.env.render(state.inner)}  return so far {float(state.total):.4f}"

    def _show(self, obs: Array, state: AccumulatingState) -> Array:
        if (
            obs.ndim == 0
        ):  # a state; the space of a vector may not be known where numbers are traced
            inside: Any = self.env.observation_space
            obs = jnp.where(jnp.arange(int(inside.n)) + int(inside.start) == obs, 1.0, 0.0)
        time = jnp.asarray(state.time).astype(state.total.dtype)
        share = time / self.horizon if self.horizon else 1.0 - 1.0 / (1.0 + time)
        return jnp.concatenate([obs, jnp.stack([state.total, share]).astype(obs.dtype)])
