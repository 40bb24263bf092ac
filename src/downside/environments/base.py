"""The contract of an environment: pure functions of state, action and noise."""

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space
from jaxtyping import Array, Bool, Float, Int

from downside.arrays import draw_in_a_row, is_traced
from downside.records import record

State = TypeVar("State")

Real = float | Array
"""A parameter: a number, or a JAX array to vmap over."""


@record
class Noise:
    """The randomness of one step, drawn before it: uniform on [0, 1) and standard normal."""

    uniform: Float[Array, "..."]
    normal: Float[Array, "..."]


@record
class Transition(Generic[State]):
    """One step of an episode: what was seen and done, and what came of it.

    ``discount`` is 0 after a termination and the environment's discount otherwise, also at a
    truncation, so nothing downstream branches on the end of an episode. ``time`` counts the
    steps of the episode before this one. ``mean_reward`` is r(s, a) where it is known exactly.
    Observations and actions are arrays, or nested as their spaces are.
    """

    obs: Any
    action: Any
    reward: Float[Array, ""]
    mean_reward: Float[Array, ""] | None
    next_obs: Any
    next_state: State
    discount: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    time: Int[Array, ""]


class Environment(ABC, Generic[State]):
    """A Markov decision process, written for one copy and one step.

    The numbers of an environment are leaves of a pytree, so one environment can be vmapped
    over its parameters. All randomness comes from outside, as `draw` gives it, so two policies
    can be compared on the same noise. ``reset`` and ``transition`` read different entries of the
    noise: the draw of the last step of an episode can also start the next one.
    Nothing resets itself: that is the business of the loop. An action outside its space is moved
    to the nearest one inside, since compiled code cannot refuse it.
    """

    discount: Real
    horizon: int | None
    """Length of the problem itself (its end is a termination), or None."""
    truncates = False
    """Whether an episode can be cut short, which is not an end of the problem."""
    log_returns = False
    """Whether the reward is a log-return, so that its sum is the logarithm of wealth."""

    @property
    @abstractmethod
    def observation_space(self) -> Space[Any]:
        """What is observed, as a Gymnasium space."""

    @property
    @abstractmethod
    def action_space(self) -> Space[Any]:
        """What can be done, as a Gymnasium space."""

    @abstractmethod
    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Any:
        """Draw the noise of one step, or of ``shape`` steps in bulk (leading axes)."""

    @abstractmethod
    def reset(self, noise: Any) -> tuple[State, Array]:
        """Start an episode: the first state and its observation."""

    @abstractmethod
    def transition(self, state: State, action: Array, noise: Any) -> Transition[State]:
        """Make one step: a pure function, with no key inside."""

    @abstractmethod
    def mean_reward(self, state: State, action: Array) -> Float[Array, ""] | None:
        """r(s, a) = E[R | s, a], or None where it is not known in closed form."""

    @abstractmethod
    def render(self, state: State) -> str:
        """Describe a state in a line that a person can read."""

    def action_mask(self, state: State) -> Bool[Array, " actions"] | None:
        """Which discrete actions are allowed in ``state``; None where all are."""
        return None

    def step(self, key: Array, state: State, action: Array) -> Transition[State]:
        """Draw the noise of one step and make it."""
        return self.transition(state, action, self.draw(key))


def draw_noise(key: Array, shape: tuple[int, ...], n_uniform: int, n_normal: int) -> Noise:
    """Draw what an environment asks for in one go: ``shape + (n,)`` numbers of each kind.

    >>> draw_noise(jax.random.key(1), (50,), n_uniform=2, n_normal=0).uniform.shape
    (50, 2)
    """
    uniform_key, normal_key = jax.random.split(key)
    return Noise(
        uniform=draw_in_a_row(jax.random.uniform, uniform_key, (*shape, n_uniform)),
        normal=draw_in_a_row(jax.random.normal, normal_key, (*shape, n_normal)),
    )


def settle_numbers(env: Environment[Any]) -> None:
    """Keep single numbers as Python floats, which take the width of what they meet.

    A NumPy or JAX number of another width would not mix with the rest under strict promotion.
    """
    for field in fields(env):  # type: ignore[arg-type]
        value = getattr(env, field.name)
        is_array = isinstance(value, np.generic | np.ndarray | jax.Array)
        if is_array and value.ndim == 0 and not is_traced(value):
            object.__setattr__(env, field.name, value.item())


def cut_discount(discount: Real, terminated: Bool[Array, ""]) -> Float[Array, ""]:
    """The discount that a transition carries: 0 after a termination."""
    return jnp.where(terminated, 0.0, discount)
