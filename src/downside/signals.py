"""What a critic predicts: reward, risk, or any penalty of the transition.

The proxy of the paper is the action-value function of the signal ((tau_R - R)+)^order [proxy].
A target says what tau_R is, and in words what the proxy then bounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from sys import float_info
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from downside.arrays import as_floats
from downside.checks import check_finite, check_range
from downside.moments import lower_partial_moment
from downside.records import record, static

Real = float | Array


@record
class Predictions:
    """What the critics predict before they are updated; None where nobody predicts it."""

    value: Float[Array, ""] | None = None
    next_value: Float[Array, ""] | None = None


class Target(ABC):
    """The reward that a step should bring, tau_R, and what the proxy about it bounds."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """In words: what the proxy of order 1 bounds, and under which condition."""

    @abstractmethod
    def step_target(
        self, transition: Any, predictions: Predictions, discount: Real, horizon: int | None
    ) -> Float[Array, ""]:
        """The target of this step; ``discount`` and ``horizon`` are those of the problem."""


@final
@record
class Fixed(Target):
    """A constant target for the whole return, split evenly over the steps.

    tau_R = tau / S with S = 1 + g + ... + g^(T-1): (1 - g) tau where there is no horizon, tau / T
    where there is no discount. A step that ends the episode early is charged for all that remain,
    tau_R (1 + g + ... ), since otherwise an early end would be a way to escape the target.

    >>> Fixed(100.0).guarantee
    'the proxy bounds the LPM about the fixed target (order m > 1: times S^(m-1))'
    """

    value: Real

    def __post_init__(self) -> None:
        check_finite("the fixed target", self.value)

    @property
    def guarantee(self) -> str:
        """A bound on what users mean, the LPM about the constant."""
        return "the proxy bounds the LPM about the fixed target (order m > 1: times S^(m-1))"

    def step_target(
        self, transition: Any, predictions: Predictions, discount: Real, horizon: int | None
    ) -> Float[Array, ""]:
        """An even share; at an end the shares of all the steps that are left."""
        if horizon is None:
            per_step = self.value * (1.0 - discount)
            return jnp.where(transition.terminated, self.value, per_step)
        left = (horizon - transition.time).astype(transition.reward.dtype)
        share = self.value / annuity(discount, float(horizon))
        return jnp.where(transition.terminated, share * annuity(discount, left), share)


@final
@record
class Centralised(Target):
    """The mean reward of the state and action, tau_R = r(s, a).

    >>> Centralised().guarantee[:52]
    'no bound on the LPM: the proxy bounds the shortfall '
    """

    @property
    def guarantee(self) -> str:
        """It measures the noise of the rewards, not the luck of the transitions."""
        return (
            "no bound on the LPM: the proxy bounds the shortfall of the return below the path's "
            "own sum of mean rewards (the noise of the rewards, not the luck of the transitions)"
        )

    def step_target(
        self, transition: Any, predictions: Predictions, discount: Real, horizon: int | None
    ) -> Float[Array, ""]:
        """The exact mean reward."""
        if transition.mean_reward is None:
            raise ValueError(
                "Centralised() needs mean rewards, and this environment tells none; give a model "
                "of them, mean_reward=MeanReward(...) of downside.training.mean_reward"
            )
        return transition.mean_reward


@final
@record
class TDError(Target):
    """The value lost on the step: tau_R = q(s, a) - g q(s', a'), so the signal is (-delta)+.

    >>> TDError().guarantee[:42]
    'the proxy bounds the centralised LPM about'
    """

    @property
    def guarantee(self) -> str:
        """G - q(s, a) is the discounted sum of the TD errors."""
        return (
            "the proxy bounds the centralised LPM about q(s, a), if q is exact; "
            "the signal depends on the policy through q"
        )

    def step_target(
        self, transition: Any, predictions: Predictions, discount: Real, horizon: int | None
    ) -> Float[Array, ""]:
        """The fall of the predicted value over the step."""
        if predictions.value is None or predictions.next_value is None:
            raise ValueError("TDError() needs predictions of the reward; give it a reward critic")
        return predictions.value - transition.discount * predictions.next_value


@final
@record
class Custom(Target):
    """A user's function of the transition, such as ``Consumption().step_target``.

    >>> Custom(lambda transition: 0.5 * transition.obs[1]).guarantee[:36]
    'the proxy bounds the shortfall below'
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not isinstance(self.function, Partial):  # a pytree, so that it can pass through jit
            object.__setattr__(self, "function", Partial(self.function))

    @property
    def guarantee(self) -> str:
        """The two inequalities that always hold."""
        return (
            "the proxy bounds the shortfall below the path's own sum of targets; it bounds the LPM "
            "about a constant where that sum is never below the constant"
        )

    def step_target(
        self, transition: Any, predictions: Predictions, discount: Real, horizon: int | None
    ) -> Float[Array, ""]:
        """What the function says."""
        return _one_number("the target function", self.function(transition))


class Signal(ABC):
    """What a critic predicts the discounted sum of."""

    discount: Real

    @abstractmethod
    def cumulant(self, transition: Any, predictions: Predictions) -> Float[Array, ""]:
        """The number of this step; predictions are those from before the critics' update."""


@final
@record
class Reward(Signal):
    """The reward itself: its critic learns q.

    >>> Reward(discount=0.9).discount
    0.9
    """

    discount: Real

    def cumulant(self, transition: Any, predictions: Predictions) -> Float[Array, ""]:
        """The reward."""
        return transition.reward


@final
@record
class Proxy(Signal):
    """((tau_R - R)+)^order: its critic learns the paper's risk proxy [proxy].

    ``discount`` and ``horizon`` are those of the problem; a fixed target is split over them.

    >>> Proxy(Fixed(100.0), discount=0.9).order
    1
    """

    target: Target
    discount: Real
    horizon: int | None = static(default=None)
    order: float = static(default=1)

    def __post_init__(self) -> None:
        check_order(self.order)

    def cumulant(self, transition: Any, predictions: Predictions) -> Float[Array, ""]:
        """The shortfall of the reward below the target of this step."""
        target = self.target.step_target(transition, predictions, self.discount, self.horizon)
        return shortfall(target, transition.reward, self.order)


@final
@record
class Penalty(Signal):
    """Any function of the transition, so that any constrained MDP fits.

    Volatility of the reward: ``Penalty(lambda t: (t.reward - t.mean_reward) ** 2, discount)``;
    upper partial moment: ``Penalty(lambda t: jnp.maximum(t.reward - target, 0.0), discount)``.

    >>> Penalty(lambda transition: transition.obs[0] ** 2, discount=1.0).discount
    1.0
    """

    function: Callable[[Any], Any]
    discount: Real

    def __post_init__(self) -> None:
        if not isinstance(self.function, Partial):
            object.__setattr__(self, "function", Partial(self.function))

    def cumulant(self, transition: Any, predictions: Predictions) -> Float[Array, ""]:
        """What the function says."""
        return _one_number("the penalty function", self.function(transition))


@final
@record
class Shortfall(Signal):
    """((target - G)+)^order, paid once at the end of the episode: the LPM itself, not a proxy.

    Its critic must know the return so far: learn in `WithReturn(env)`, which puts the return so far
    and the time at the end of the observation. ``env_discount`` is that of the return G; the signal
    itself is not discounted.

    >>> Shortfall(1.0, env_discount=0.9).discount
    1.0
    """

    target: Real
    env_discount: Real = 1.0
    order: float = static(default=1)
    discount: Real = 1.0

    def __post_init__(self) -> None:
        check_finite("the target", self.target)
        check_order(self.order)

    def cumulant(self, transition: Any, predictions: Predictions) -> Float[Array, ""]:
        """0 before the end, then the shortfall of the whole return."""
        weight = jnp.asarray(self.env_discount) ** transition.time.astype(transition.reward.dtype)
        total = transition.obs[..., -2] + weight * transition.reward
        target = jnp.asarray(self.target, total.dtype)
        return jnp.where(transition.terminated, shortfall(target, total, self.order), 0.0)


@final
@record
class Constraint:
    """The proxy about ``target`` must not exceed ``threshold`` at the start states.

    A signal in the place of the target, such as `Penalty`, is constrained as it is.

    >>> Constraint(Fixed(1.0), threshold=0.3).order
    1
    """

    target: Any
    threshold: Real
    order: float = static(default=1)

    def __post_init__(self) -> None:
        if not isinstance(self.target, Signal):
            object.__setattr__(self, "target", as_target(self.target))
        is_risk = isinstance(self.target, Target)
        least = 0.0 if is_risk else -float_info.max
        needed = "it must be a number" + (", at least 0 as a shortfall is" if is_risk else "")
        check_range("threshold", self.threshold, least, float("inf"), needed + ", inf for no bound")
        check_order(self.order)

    def signal(self, discount: Real, horizon: int | None) -> "Signal":
        """What is constrained, in a problem with this discount and horizon."""
        if isinstance(self.target, Signal):
            return self.target
        return Proxy(self.target, discount, horizon, self.order)


def as_target(target: Any) -> Target:
    """Read a target in users' words: a number, a target, or a function of the transition.

    >>> as_target(2.5)
    Fixed(value=2.5)
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, int | float | np.number) or getattr(target, "shape", None) == ():
        return Fixed(float(target))
    if callable(target):
        return Custom(target)
    raise ValueError(
        f"target is {target!r}; give a number, Fixed(100.0), Centralised(), TDError(), "
        "or a function of the transition"
    )


def _one_number(name: str, value: Any) -> Float[Array, ""]:
    number = as_floats(value, jnp)
    if number.shape != ():
        raise ValueError(
            f"{name} returned an array of shape {number.shape}; "
            "it must return one number for one transition"
        )
    return number


def check_order(order: float) -> None:
    """Refuse orders below 1, for which the proxy is not defined."""
    check_range("order", order, -float_info.max, float_info.max, "give a number of 1 or more")
    if not order >= 1:
        raise ValueError(f"order is {order}; the proxy is defined for orders of 1 or more")


def shortfall(step_target: Array, reward: Array, order: float) -> Float[Array, ""]:
    """The signal ((tau_R - R)+)^order: the partial moment of a single reward.

    >>> float(shortfall(jnp.asarray(3.0), jnp.asarray(1.0), order=2))
    4.0
    """
    return lower_partial_moment(reward, step_target, order)


def annuity(discount: Real, steps: Real) -> Float[Array, ""]:
    """1 + g + ... + g^(steps-1), also for a discount of 1.

    >>> float(annuity(0.5, 3.0)), float(annuity(1.0, 3.0))
    (1.75, 3.0)
    """
    discount, steps = jnp.asarray(discount) * 1.0, jnp.asarray(steps) * 1.0
    flat = discount == 1.0
    below_one = jnp.where(flat, 0.5, discount)
    return jnp.where(flat, steps, (1.0 - below_one**steps) / (1.0 - below_one))
