"""Critics of numbered states from counts: how often each step was made, and where it led.

A step tells of its own state and action, whatever policy made it, so every step so far helps to
predict what today's policy would gain. (Where a signal depends on what was learnt, older steps have
to fade soon.) The values that follow are those of least squares temporal differences with a weight
for each state and action, and the advantages are the compatible weights themselves. By Theorem 1
the natural gradient is then w_q - multiplier w_rho, and an action that the policy no longer tries
has a weight like any other: it can come back.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.linear import MANY, products, solve
from downside.records import record
from downside.training.learner import discounts_of
from downside.training.units import positive

SWEEPS = 300
"""Of Bellman's equation, from the values before, where there are too many states to solve it."""

MISSED = 0.9
"""The chance that a step misses what happens once in ten times."""

MOST_MOVES = 4_000_000
"""States times actions times states, times the horizon, up to which steps are counted."""


@record
class Predicted:
    """Of each signal: what an action adds to its state (Q - V), V, and V where episodes begin."""

    advantages: Float[Array, "k s a"]
    values: Float[Array, "k s"]
    start: Float[Array, " k"]


@record
class Counts:
    """Of each state and action: visits, sums of the signals, and moves to the next state.

    A step that ends its episode moves nowhere. ``starts`` are states in which episodes begin. Older
    batches may fade.
    """

    visits: Float[Array, "s a"]
    sums: Float[Array, "k s a"]
    moves: Float[Array, "s a s"]
    starts: Float[Array, " s"]

    @staticmethod
    def none(n_states: int, n_actions: int, n_signals: int) -> "Counts":
        """Before the first batch."""
        shape = n_states, n_actions
        return Counts(
            visits=jnp.zeros(shape),
            sums=jnp.zeros((n_signals, *shape)),
            moves=jnp.zeros((*shape, n_states)),
            starts=jnp.zeros(n_states),
        )

    def after(self, steps: Any, memory: Any) -> "Counts":
        """With a batch."""
        at = states_in(steps.x), steps.action.astype(int)
        goes_on = (jnp.max(steps.discounts, axis=1) > 0).astype(self.visits.dtype)
        add = partial(added, memory=memory)
        return Counts(
            visits=add(self.visits, at, jnp.ones_like(goes_on)),
            sums=jax.vmap(add, in_axes=(0, None, 0))(self.sums, at, steps.cumulants.T),
            moves=add(self.moves, (*at, states_in(steps.next_x)), goes_on),
            starts=add(self.starts, at[:1], (steps.time == 0).astype(goes_on.dtype)),
        )

    def predictions(
        self,
        probabilities: Float[Array, "s a"],
        discounts: Float[Array, " k"],
        before: Float[Array, "k s"],
    ) -> Predicted:
        """Q = c + discount P V and V = sum_a pi Q of each signal; c and P as counted.

        What was never tried is taken for what its state is worth. ``before`` are earlier values.
        """
        known = self.visits > 0
        n = jnp.where(known, self.visits, 1.0)
        policy = among(known, probabilities)
        moves = self.moves / n[..., None]
        onward = jnp.sum(policy[..., None] * moves, axis=1)

        def one(sums: Array, discount: Array, before: Array) -> tuple[Array, Array]:
            cumulants = sums / n
            now = jnp.sum(policy * cumulants, axis=1)
            values = _values(now, discount * onward, before)
            q = cumulants + discount * jnp.sum(moves * values, axis=2)
            values = jnp.sum(policy * q, axis=1)
            return jnp.where(known, q - values[:, None], 0.0), values

        advantages, values = jax.vmap(one)(self.sums, discounts, before)
        start = jnp.sum(values * self.starts, axis=1) / positive(jnp.sum(self.starts))
        return Predicted(advantages, values, start)

    def unknown(
        self,
        probabilities: Float[Array, "s a"],
        discount: Any,
        values: Float[Array, " s"],
        apart: Any,
    ) -> Float[Array, "s a"]:
        """What is not known of an action and of all that follows it, above the state's mean.

        It is added up along the way like any signal, so that the policy is led from afar to what it
        hardly knows (see `by_chance` and `missed`).
        """
        moves = led_to(self.visits, self.moves)
        here = missed(self.visits, apart, 1.0 - discount)
        here = here + discount * by_chance(self.visits, moves, values)
        onward = jnp.sum(probabilities[..., None] * moves, axis=1)
        now = jnp.sum(probabilities * here, axis=1)
        ahead = _values(now, discount * onward, jnp.zeros_like(now))
        q = here + discount * jnp.sum(moves * ahead, axis=2)
        return q - jnp.sum(probabilities * q, axis=1, keepdims=True)


def added(table: Array, where: tuple[Array, ...], numbers: Array, memory: Any) -> Array:
    """``memory`` of a table, with numbers added at these places.

    The batch by itself first: one by one, small numbers would be rounded off a large sum.
    """
    return memory * table + jnp.zeros_like(table).at[where].add(numbers)


def among(known: Array, probabilities: Float[Array, "s a"]) -> Float[Array, "s a"]:
    """The policy among the actions that are known.

    >>> among(jnp.array([[True, False, True]]), jnp.array([[0.3, 0.4, 0.3]])).round(6).tolist()
    [[0.5, 0.0, 0.5]]
    """
    share = jnp.where(known, probabilities, 0.0)
    return share / positive(jnp.sum(share, axis=1, keepdims=True))


def led_to(visits: Float[Array, "s a"], moves: Float[Array, "s a s"]) -> Float[Array, "s a s"]:
    """Where an action leads; what was never tried stays where it is.

    >>> led_to(jnp.array([[4.0, 0.0]]), jnp.array([[[1.0], [0.0]]])).tolist()
    [[[0.25], [1.0]]]
    """
    stays = jnp.eye(len(visits))[:, None, :]
    return jnp.where(visits[..., None] > 0, moves / positive(visits)[..., None], stays)


def by_chance(
    visits: Float[Array, "s a"], moves: Float[Array, "s a s"], values: Float[Array, " s"]
) -> Float[Array, "s a"]:
    """By how much chance may have moved the mean of the ``values`` that followed n steps.

    Their deviation / sqrt(n). An end has the value 0.

    >>> by_chance(jnp.array([[4.0]]), jnp.array([[[0.5]]]), jnp.array([6.0])).tolist()
    [[1.5]]
    """
    mean = jnp.sum(moves * values, axis=2)
    ends = jnp.maximum(1.0 - jnp.sum(moves, axis=2), 0.0)
    around = jnp.sum(moves * (values - mean[..., None]) ** 2, axis=2)
    return jnp.sqrt((around + ends * mean**2) / jnp.maximum(visits, 1.0))


def missed(visits: Float[Array, "s a"], apart: Any, share: Any) -> Float[Array, "s a"]:
    """What n steps may all have missed: ``apart`` `MISSED`^n, and as if once tried where never.

    A policy that moves little by little cannot be led to thousands of places one after the other:
    where there are more than `MANY` states, only a ``share`` of it, which all steps of an episode
    together make one of.

    >>> [round(float(x), 4) for x in missed(jnp.array([[2.0, 0.0]]), apart=10.0, share=0.1)[0]]
    [8.1, 9.0]
    """
    whole = apart * MISSED ** positive(visits)
    return whole if len(visits) <= MANY else share * whole


def _values(
    now: Float[Array, " s"], onward: Float[Array, "s s"], before: Float[Array, " s"]
) -> Float[Array, " s"]:
    """The V with V = now + onward V."""
    if len(now) <= MANY:
        return solve(jnp.eye(len(now)) - onward, now[:, None])[:, 0]
    across = onward.T

    def sweep(_: Array, values: Array) -> Array:
        return now + products(across, values[:, None])[:, 0]

    return jax.lax.fori_loop(0, SWEEPS, sweep, before)


def states_in(x: Float[Array, "t s"]) -> Array:
    """The number of the state whose feature is on.

    >>> states_in(jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])).tolist()
    [1, 0]
    """
    return jnp.argmax(x, axis=1)


def log_policy(theta: Float[Array, " P"], n_actions: int) -> Float[Array, "s a"]:
    """Of a table of preferences (actions, states).

    >>> jnp.exp(log_policy(jnp.log(jnp.array([1.0, 2.0, 3.0, 6.0])), 2)).round(6).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    return jax.nn.log_softmax(theta.reshape(n_actions, -1).T, axis=1)


def visits_of(agent: Any, theta: Float[Array, " P"], steps: Any) -> Float[Array, "s a"]:
    """Discounted visits of an episode, as the policy that made the steps has them on average."""
    weights = discounts_of(agent)[0] ** steps.time.astype(theta.dtype)
    n_episodes = jnp.maximum(jnp.sum(steps.time == 0), 1).astype(theta.dtype)
    states = products(weights[:, None], steps.x)[0] / n_episodes
    return states[:, None] * jnp.exp(log_policy(theta, agent.policy.n_actions))
