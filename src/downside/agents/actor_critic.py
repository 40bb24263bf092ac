"""What an actor-critic under constraints is made of, and the formulas of its policy step.

NAC, RCPO and NRCPO are settings of this one record: with or without constraints, along the natural
or the plain gradient, with a fixed, normalised or KL-sized step.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, final, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from downside.agents.multiplier import Ascent, MultiplierRule
from downside.arrays import is_traced, outer_product
from downside.checks import check_choice, check_count, check_not_negative
from downside.critics import Critic, Sarsa
from downside.policies.base import Policy
from downside.records import carry_functions, record, static
from downside.signals import Signal

Direction = Literal["natural", "plain"]
StepRule = Literal["fixed", "normalised", "kl"]
Measure = Literal["sampled", "critic", "lpm"]

Parameters = Float[Array, " P"]


@record
class Factors:
    """Features as they are carried from step to step: an outer product, and others after it.

    >>> Factors(jnp.array([2.0, 3.0]), jnp.array([1.0, 10.0]), jnp.array([5.0])).features.tolist()
    [2.0, 20.0, 3.0, 30.0, 5.0]
    """

    rows: Float[Array, " a"]
    columns: Float[Array, " f"]
    others: Float[Array, " v"] | None

    @property
    def features(self) -> Float[Array, " n"]:
        """Written down."""
        x = outer_product(self.rows, self.columns)
        return x if self.others is None else jnp.concatenate([x, self.others])


@final
@record
class ActorCritic:
    """The settings of one learner on one environment; numbers are leaves, to be vmapped over.

    ``signals`` are the reward and then what is constrained, ``thresholds`` one number for each
    constraint, in the order of the signals. A policy step is made every ``period`` steps, counted
    over all episodes, once ``pretraining`` episodes are over. ``measure`` is what the multiplier
    follows: the sampled discounted sum of the episode, the critic at its start, or the sampled
    shortfall of the return ("lpm") below ``lpm_target`` (None: the running mean return).
    ``penalised`` learns one critic on reward - multiplier . constraints (Tessler et al.). So many
    learners are stepped together as fit their number, or about ``tile``; see `batching`.
    """

    env: Any
    policy: Policy
    signals: tuple[Signal, ...]
    thresholds: tuple[Any, ...] = ()
    critic: Critic[Any] = Sarsa(1.0)
    critic_step_size: Any = 3e-4
    multiplier: MultiplierRule = Ascent()
    step_size: Any = 5e-3
    pretraining: Any = 0
    value_features: Callable[[Any, Any], Any] | None = None
    mean_reward: Any = None
    lpm_target: Any = None
    lpm_order: float = static(default=1)
    average_weight: Any = 3e-3
    period: int = static(default=200)
    direction: Direction = static(default="natural")
    step_rule: StepRule = static(default="normalised")
    measure: Measure = static(default="sampled")
    penalised: bool = static(default=False)
    tile: int | None = static(default=None, later=True)

    def __post_init__(self) -> None:
        carry_functions(self, "step_size", "value_features")
        check_choice("direction", self.direction, get_args(Direction))
        check_choice("step_rule", self.step_rule, get_args(StepRule))
        check_choice("measure", self.measure, get_args(Measure))
        check_count("period", self.period, least=1)
        if self.tile is not None:
            check_count("tile", self.tile, least=1)
        if not callable(self.step_size):
            check_not_negative("step_size", self.step_size)
        check_not_negative("pretraining", self.pretraining)
        object.__setattr__(self, "critic", _lean(self.critic, self.signals))
        if self.penalised and self.measure == "critic":
            raise ValueError(
                "measure is 'critic', and the one critic of penalised=True predicts no risk; "
                "leave one of the two out"
            )
        if len(self.thresholds) != len(self.signals) - 1:
            raise ValueError(
                f"there are {len(self.thresholds)} thresholds for {len(self.signals) - 1} "
                "constraints; give one each"
            )

    @property
    def n_constraints(self) -> int:
        """How many quantities are bounded."""
        return len(self.thresholds)

    def features(self, theta: Any, obs: Any, action: Any, time: Any) -> Float[Array, " n"]:
        """Compatible features [score | baseline], and the user's own value features after them."""
        return self.factors(theta, obs, action, time).features

    def factors(self, theta: Any, obs: Any, action: Any, time: Any) -> Factors:
        """What these features are made of."""
        rows, columns = self.policy.factors(theta, obs, action)
        if self.value_features is None:
            return Factors(rows, columns, None)
        return Factors(rows, columns, jnp.asarray(self.value_features(obs, time), rows.dtype))


def _lean(critic: Critic[Any], signals: tuple[Signal, ...]) -> Critic[Any]:
    """With one trace for all signals, where it is known that they have the same discount."""
    discounts = [signal.discount for signal in signals]
    if not isinstance(critic, Sarsa) or any(is_traced(discount) for discount in discounts):
        return critic
    same = all(np.array_equal(discount, discounts[0]) for discount in discounts)
    return replace(critic, one_discount=same)


def lagrangian(weights: Float[Array, "k n"], multipliers: Float[Array, " c"]) -> Float[Array, " n"]:
    """w_q - sum_i multiplier_i w_i: what the natural gradient is made of (Theorem 1).

    >>> lagrangian(jnp.array([[3.0, 1.0], [1.0, 2.0]]), jnp.array([0.5])).tolist()
    [2.5, 0.0]
    """
    if weights.shape[0] == 1:
        return weights[0]
    return weights[0] - multipliers @ weights[1:]


def policy_step(rule: StepRule, size: Any, direction: Parameters, curvature: Any) -> Parameters:
    """How far to go along a direction.

    ``curvature`` is d'Fd, the mean square of score . d. A KL-sized step changes the policy by
    ``size`` nats: sqrt(2 size / d'Fd) d.

    >>> policy_step("normalised", 0.5, jnp.array([3.0, 4.0]), None).tolist()
    [0.30000001192092896, 0.4000000059604645]
    """
    if rule == "fixed":
        return size * direction
    squared = jnp.sum(direction**2) if rule == "normalised" else curvature / (2.0 * size)
    # XLA turns x / sqrt(y) into x * rsqrt(y), which is rounded otherwise in wide vectors.
    length = jnp.where(squared > 0, jnp.sqrt(squared), 1.0)
    return jnp.where(squared > 0, direction / length, 0.0) * (size if rule == "normalised" else 1.0)
