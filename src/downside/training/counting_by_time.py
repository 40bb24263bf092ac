"""Counts where the problem has a horizon: a state is worth less the later it is met.

Where actions lead does not depend on the time, so all steps serve for that. What a step pays may,
as a target whose unmet rest is charged at an early end does, so it is counted by time too. Values
follow backwards from the horizon, and how often states are met forwards from the start. The policy
knows states, not times: its advantages are averages over the times at which a state is met, which
are the compatible weights again.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.records import record
from downside.signals import annuity
from downside.training.counting import (
    Predicted,
    added,
    among,
    by_chance,
    led_to,
    missed,
    states_in,
)
from downside.training.units import positive

EVER = 1e-9
"""How much every time counts for every state, so that what is never met has an average too."""


@record
class TimedCounts:
    """By time, state and action: steps and sums of the signals.

    ``moved`` are steps before the last of the horizon, which leads nowhere, and ``moves`` where
    they led.
    """

    steps: Float[Array, "t s a"]
    sums: Float[Array, "k t s a"]
    moved: Float[Array, "s a"]
    moves: Float[Array, "s a s"]
    starts: Float[Array, " s"]

    @staticmethod
    def none(horizon: int, n_states: int, n_actions: int, n_signals: int) -> "TimedCounts":
        """Before the first batch."""
        shape = n_states, n_actions
        return TimedCounts(
            steps=jnp.zeros((horizon, *shape)),
            sums=jnp.zeros((n_signals, horizon, *shape)),
            moved=jnp.zeros(shape),
            moves=jnp.zeros((*shape, n_states)),
            starts=jnp.zeros(n_states),
        )

    @property
    def visits(self) -> Float[Array, "s a"]:
        """At any time."""
        return jnp.sum(self.steps, axis=0)

    def after(self, steps: Any, memory: Any) -> "TimedCounts":
        """With a batch."""
        at, time = (states_in(steps.x), steps.action.astype(int)), steps.time.astype(int)
        dtype = self.moved.dtype
        goes_on = (jnp.max(steps.discounts, axis=1) > 0).astype(dtype)
        early = (time < len(self.steps) - 1).astype(dtype)
        add = partial(added, memory=memory)
        return TimedCounts(
            steps=add(self.steps, (time, *at), jnp.ones_like(early)),
            sums=jax.vmap(add, in_axes=(0, None, 0))(self.sums, (time, *at), steps.cumulants.T),
            moved=add(self.moved, at, early),
            moves=add(self.moves, (*at, states_in(steps.next_x)), goes_on * early),
            starts=add(self.starts, at[:1], (time == 0).astype(dtype)),
        )

    def predictions(
        self,
        probabilities: Float[Array, "s a"],
        discounts: Float[Array, " k"],
        before: Float[Array, "k s"],
    ) -> Predicted:
        """Q_t = c_t + discount P V_{t+1} of each signal, averaged over the times of each state.

        At a time at which an action was hardly tried, it pays about what it did at others. What was
        never tried is taken for what its state is worth; what was tried on the last step only leads
        where the others of its state do. Values need no earlier ones (``before``) here.
        """
        visits = self.visits
        known = visits > 0
        policy = among(known, probabilities)
        overall = jnp.sum(self.sums, axis=1) / positive(visits)
        cumulants = (self.sums + overall[:, None]) / (self.steps + 1.0)
        moves = self.moves / positive(self.moved)[..., None]
        others = jnp.sum(among(self.moved > 0, probabilities)[..., None] * moves, axis=1)
        moves = jnp.where(self.moved[..., None] > 0, moves, others[:, None])
        met = self._met(policy, moves)

        def one(cumulants: Array, discount: Array) -> tuple[Array, ...]:
            weights = _weights(met, discount)
            back = _back(cumulants, policy, moves, discount, weights)
            return *back, jnp.sum(weights, axis=0)

        gains, values, first, weight = jax.vmap(one)(cumulants, discounts)
        start = jnp.sum(first * self._begin, axis=1)
        common = jnp.max(weight, axis=0)  # for all signals: an ascent direction of their sum
        advantages = jnp.where(known, gains / common[:, None], 0.0)
        return Predicted(advantages, values / weight, start)

    def unknown(
        self,
        probabilities: Float[Array, "s a"],
        discount: Any,
        values: Float[Array, " s"],
        apart: Any,
    ) -> Float[Array, "s a"]:
        """As `Counts.unknown`, up to the horizon, after whose last step nothing follows."""
        horizon = len(self.steps)
        moves = led_to(self.moved, self.moves)
        weights = _weights(self._met(probabilities, moves), discount)
        follows = (jnp.arange(horizon) < horizon - 1)[:, None, None]
        here = missed(self.visits, apart, 1.0 / annuity(discount, float(horizon)))
        here = here + jnp.where(follows, discount * by_chance(self.moved, moves, values), 0.0)
        gains, _, _ = _back(here, probabilities, moves, discount, weights)
        return gains / jnp.sum(weights, axis=0)[:, None]

    @property
    def _begin(self) -> Float[Array, " s"]:
        return self.starts / positive(jnp.sum(self.starts))

    def _met(self, policy: Array, moves: Array) -> Float[Array, "t s"]:
        """How often the policy is in each state at each time."""
        onward = jnp.sum(policy[..., None] * moves, axis=1)

        def forth(now: Array, _: None) -> tuple[Array, Array]:
            return jnp.sum(now[:, None] * onward, axis=0), now

        return jax.lax.scan(forth, self._begin, None, length=len(self.steps))[1]


def _weights(met: Float[Array, "t s"], discount: Any) -> Float[Array, "t s"]:
    """What a time counts for a state: discount^t how often it is met then, and a little more."""
    return discount ** jnp.arange(len(met), dtype=met.dtype)[:, None] * met + EVER


def _back(
    cumulants: Float[Array, "t s a"],
    policy: Float[Array, "s a"],
    moves: Float[Array, "s a s"],
    discount: Any,
    weights: Float[Array, "t s"],
) -> tuple[Array, Array, Array]:
    """Sums over time of the weighted Q - V and V, and V at the first step."""

    def back(carry: Any, row: Any) -> tuple[Any, None]:
        gains, total, ahead = carry
        cumulant, weight = row
        q = cumulant + discount * jnp.sum(moves * ahead, axis=2)
        values = jnp.sum(policy * q, axis=1)
        gains = gains + weight[:, None] * (q - values[:, None])
        return (gains, total + weight * values, values), None

    nothing = jnp.zeros_like(policy), jnp.zeros_like(weights[0]), jnp.zeros_like(weights[0])
    return jax.lax.scan(back, nothing, (cumulants, weights), reverse=True)[0]
