"""The three-armed bandit of the paper's Fig. 3."""

from math import nextafter
from sys import float_info
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int

from downside.checks import check_finite, check_positive, check_probability, check_range
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


@record
class BanditState:
    """There is one state; the time tells whether the one pull is done."""

    time: Int[Array, ""]


@final
@record
class Bandit(Environment[BanditState]):
    """One pull of three arms: A and B normal, C Pareto (its support is bounded from below).

    The second number of arm B is a standard deviation: with a variance of 6 arm B, not C,
    would have the best mean less twice its lower partial moment.

    >>> Bandit().arm_means().tolist()
    [1.0, 4.0, 3.0]
    """

    mean_a: Real = 1.0
    std_a: Real = 1.0
    mean_b: Real = 4.0
    std_b: Real = 6.0
    pareto_scale: Real = 1.0
    pareto_shape: Real = 1.5
    discount: Real = 1.0
    horizon: int = static(default=1, init=False)

    def __post_init__(self) -> None:
        settle_numbers(self)
        for name in ("std_a", "std_b", "pareto_scale"):
            check_positive(name, getattr(self, name))
        check_finite("mean_a", self.mean_a)
        check_finite("mean_b", self.mean_b)
        needed = "the Pareto arm has a mean only for a shape above 1"
        check_range("pareto_shape", self.pareto_shape, nextafter(1.0, 2.0), float_info.max, needed)
        check_probability("discount", self.discount)

    @property
    def observation_space(self) -> spaces.Discrete[Any]:
        """Always 0: there is nothing to see."""
        return spaces.Discrete(1)

    @property
    def action_space(self) -> spaces.Discrete[Any]:
        """0, 1, 2: arms A, B, C."""
        return spaces.Discrete(3)

    def arm_means(self) -> Float[Array, "3"]:
        """The mean reward of each arm; scale * shape / (shape - 1) for the Pareto."""
        pareto_mean = self.pareto_scale * self.pareto_shape / (self.pareto_shape - 1.0)
        return jnp.stack([jnp.asarray(m) for m in (self.mean_a, self.mean_b, pareto_mean)])

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Noise:
        """A normal number for arms A and B, a uniform one for arm C."""
        return draw_noise(key, shape, n_uniform=1, n_normal=1)

    def reset(self, noise: Noise) -> tuple[BanditState, Array]:
        """Start before the pull."""
        return BanditState(jnp.asarray(0)), jnp.asarray(0)

    def mean_reward(self, state: BanditState, action: Array) -> Float[Array, ""]:
        """The mean of the arm."""
        return _of_arm(action, self.arm_means())

    def transition(
        self, state: BanditState, action: Array, noise: Noise
    ) -> Transition[BanditState]:
        """Pull one arm; the episode ends. The Pareto arm inverts its tail: scale U^(-1/shape)."""
        action = jnp.asarray(action)
        tail = 1.0 - noise.uniform[0]  # in (0, 1]
        pulls = jnp.stack(
            [
                self.mean_a + self.std_a * noise.normal[0],
                self.mean_b + self.std_b * noise.normal[0],
                self.pareto_scale * tail ** (-1.0 / self.pareto_shape),
            ]
        )
        terminated = jnp.asarray(True)
        return Transition(
            obs=jnp.asarray(0),
            action=action,
            reward=_of_arm(action, pulls),
            mean_reward=self.mean_reward(state, action),
            next_obs=jnp.asarray(0),
            next_state=BanditState(state.time + 1),
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(False),
            time=state.time,
        )

    def render(self, state: BanditState) -> str:
        """Whether the arm was pulled."""
        return "arm pulled" if int(np.asarray(state.time)) else "arms A, B, C: none pulled yet"


def _of_arm(action: Array, values: Float[Array, "3"]) -> Float[Array, ""]:
    return jnp.sum(jax.nn.one_hot(jnp.clip(action, 0, 2), 3) * values)  # no gather: cheaper
