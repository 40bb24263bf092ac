"""Rules for the Lagrange multiplier of one constraint.

A rule sees, once per episode or per batch of episodes, how large the constrained quantity was. The
paper's own rule is projected ascent: multiplier <- max(0, multiplier + rate (J_C - threshold)).
"""

from abc import ABC, abstractmethod
from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.checks import check_not_negative, check_probability, check_range
from downside.records import record, static

Number = Float[Array, ""]

LARGEST = 1e9
"""What a growing multiplier stays below: it would overflow where no policy meets the bound."""


@record
class MultiplierState:
    """The part that adds up, and a running average of the excess over the threshold."""

    integral: Number
    average: Number


class MultiplierRule(ABC):
    """How the multiplier follows the constrained quantity."""

    @abstractmethod
    def init(self) -> MultiplierState:
        """Before the first episode."""

    @abstractmethod
    def update(
        self, state: MultiplierState, sampled: Any, threshold: Any, n_episodes: Any = 1.0
    ) -> MultiplierState:
        """After ``n_episodes`` episodes with a mean of ``sampled``; a part of one moves it less."""

    @abstractmethod
    def value(self, state: MultiplierState) -> Number:
        """The multiplier, never below 0."""


@final
@record
class Ascent(MultiplierRule):
    """multiplier <- clip(multiplier + rate (sampled - threshold), 0, limit).

    >>> rule = Ascent(rate=0.1)
    >>> state = rule.update(rule.init(), sampled=jnp.asarray(5.0), threshold=3.0)
    >>> round(float(rule.value(state)), 6)
    0.2
    """

    rate: float | Array = 1e-3
    limit: float | Array = float("inf")
    start: float | Array = 0.0

    def __post_init__(self) -> None:
        check_not_negative("rate", self.rate)
        check_not_negative("start", self.start)
        check_range("limit", self.limit, 0.0, float("inf"), "it must not be below 0")

    def init(self) -> MultiplierState:
        """At ``start``."""
        return MultiplierState(jnp.asarray(self.start) * 1.0, jnp.zeros(()))

    def update(
        self, state: MultiplierState, sampled: Any, threshold: Any, n_episodes: Any = 1.0
    ) -> MultiplierState:
        """One projected step."""
        excess = excess_over(sampled, threshold)
        integral = jnp.clip(state.integral + self.rate * n_episodes * excess, 0.0, self.limit)
        return MultiplierState(integral, excess)

    def value(self, state: MultiplierState) -> Number:
        """What has added up."""
        return state.integral


@final
@record
class PID(MultiplierRule):
    """Ascent with a proportional and a derivative part, on a running average of the excess.

        average  <- average + weight (sampled - threshold - average)
        integral <- clip(integral + rate average, 0, limit)               (anti-windup)
        multiplier = clip(integral + gain average + damping change, 0, limit)

    A ``growing`` rule multiplies every step by 1 + integral, so that a large multiplier is reached,
    and left, as fast as a small one. It ends at `LARGEST`, where the risk is all that counts.

    >>> rule = PID(rate=0.1, gain=2.0, weight=0.5)
    >>> state = rule.update(rule.init(), sampled=jnp.asarray(4.0), threshold=3.0)
    >>> round(float(rule.value(state)), 6)   # average 0.5: 0.1 * 0.5 + 2 * 0.5
    1.05
    """

    rate: float | Array = 1e-3
    gain: float | Array = 5.0
    weight: float | Array = 0.02
    damping: float | Array = 0.0
    limit: float | Array = float("inf")
    growing: bool = static(default=False)

    def __post_init__(self) -> None:
        for name in ("rate", "gain", "damping"):
            check_not_negative(name, getattr(self, name))
        check_probability("weight", self.weight)
        check_range("limit", self.limit, 0.0, float("inf"), "it must not be below 0")

    def init(self) -> "PIDState":
        """All 0."""
        zero = jnp.zeros(())
        return PIDState(zero, zero, zero)

    def update(self, state: Any, sampled: Any, threshold: Any, n_episodes: Any = 1.0) -> "PIDState":
        """Average, then add up; the weight and the rate count once per episode."""
        excess = excess_over(sampled, threshold)
        kept = (1.0 - self.weight) ** n_episodes
        average = kept * state.average + (1.0 - kept) * excess
        step = self.rate * n_episodes * average * self._size(state)
        integral = jnp.clip(state.integral + step, 0.0, self._limit)
        return PIDState(integral, average, average - state.average)

    def value(self, state: Any) -> Number:
        """The three parts together."""
        moving = self.gain * state.average + self.damping * state.change
        return jnp.clip(state.integral + moving * self._size(state), 0.0, self._limit)

    @property
    def _limit(self) -> Any:
        return jnp.minimum(self.limit, LARGEST) if self.growing else self.limit

    def _size(self, state: Any) -> Any:
        return 1.0 + state.integral if self.growing else 1.0


@record
class PIDState(MultiplierState):
    """With the last change of the average."""

    change: Number


@final
@record
class FixedMultiplier(MultiplierRule):
    """A multiplier that does not move: a trade-off instead of a bound.

    >>> rule = FixedMultiplier(2.0)
    >>> float(rule.value(rule.update(rule.init(), jnp.asarray(9.0), 1.0)))
    2.0
    """

    multiplier: float | Array

    def __post_init__(self) -> None:
        check_not_negative("multiplier", self.multiplier)

    def init(self) -> MultiplierState:
        """The multiplier."""
        return MultiplierState(jnp.asarray(self.multiplier) * 1.0, jnp.zeros(()))

    def update(
        self, state: MultiplierState, sampled: Any, threshold: Any, n_episodes: Any = 1.0
    ) -> MultiplierState:
        """Nothing moves; the excess is kept for the records."""
        return MultiplierState(state.integral, excess_over(sampled, threshold))

    def value(self, state: MultiplierState) -> Number:
        """The multiplier."""
        return state.integral


def excess_over(sampled: Any, threshold: Any) -> Number:
    """sampled - threshold; -1 where there is no bound (an infinite threshold)."""
    unbounded = jnp.isinf(threshold)
    return jnp.where(unbounded, -1.0, sampled - jnp.where(unbounded, 0.0, threshold))


def relative_excess(sampled: Any, threshold: Any, spread: Any = None) -> Float[Array, ""]:
    """(C - nu) / (|C| + |nu|): from -1 to 1 in any units; -1 where there is no bound.

    With a ``spread`` of C among paths that is smaller than |C| + |nu|, in units of that one, at
    most 1: where every policy has most of the risk in common, a small difference says much.

    >>> float(relative_excess(jnp.asarray(3.0), jnp.asarray(1.0)))
    0.5
    >>> float(relative_excess(jnp.asarray(100.5), jnp.asarray(100.0), spread=jnp.asarray(2.0)))
    0.25
    """
    size = jnp.abs(sampled) + jnp.abs(threshold)
    if spread is not None:
        size = jnp.where(spread > 0, jnp.minimum(size, spread), size)
    safe = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
    excess = jnp.where(size > 0, (sampled - threshold) / safe, 0.0)
    if spread is not None:
        excess = jnp.clip(excess, -1.0, 1.0)
    return jnp.where(jnp.isinf(threshold), -1.0, excess)


MOST_EXCESS = 3.0
"""So much of an excess is counted in one batch, on either side."""

LEAST_RISK = 1e-3
"""Risks are measured in no smaller unit than this share of their spread: what is left of a risk
that a policy has all but avoided is no reason to raise the multiplier without end."""


def steady_excess(sampled: Any, threshold: Any, level: Any, spread: Any) -> Float[Array, ""]:
    """(C - nu) / (|nu| + |level|), ``level`` a slow average of C; -1 where there is no bound.

    In units of a smaller ``spread``, as in `relative_excess`, but of no less than `LEAST_RISK` of
    it. `relative_excess` shrinks what is far above the bound more than what is far below, so that a
    policy which swings about the bound would end above it on average. Here C alone varies.

    >>> one, four, nine = jnp.array([1.0, 4.0, 9.0])
    >>> float(steady_excess(four, threshold=one, level=one, spread=nine))
    1.5
    """
    size = jnp.abs(threshold) + jnp.abs(level)
    size = jnp.where(spread > 0, jnp.clip(size, LEAST_RISK * spread, spread), size)
    safe = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
    excess = jnp.where(size > 0, (sampled - threshold) / safe, 0.0)
    excess = jnp.clip(excess, -MOST_EXCESS, MOST_EXCESS)
    return jnp.where(jnp.isinf(threshold), -1.0, excess)
