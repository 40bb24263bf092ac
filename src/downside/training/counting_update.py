"""What is learnt from one batch where steps are counted: values, then the policy."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.agents.actor_critic import lagrangian
from downside.training.batch_update import move_policy
from downside.training.batches import Batches, BatchLearner, Found, Steps
from downside.training.counting import Counts, Predicted, log_policy
from downside.training.counting_by_time import TimedCounts
from downside.training.learner import current_multipliers, discounts_of
from downside.training.settling import fading
from downside.training.units import positive, units_after

CURIOSITY = 0.4
"""How much of what is not known of an action is hoped for."""


def count_values(
    agent: Batches, learner: BatchLearner, steps: Steps, returns: Float[Array, "t k"]
) -> tuple[BatchLearner, Predicted]:
    """Count the steps, and predict."""
    counts = counts_of(learner).after(steps, agent.memory)
    pi = jnp.exp(log_policy(learner.theta, counts.visits.shape[1]))
    predicted = counts.predictions(pi, discounts_of(agent), learner.weights)
    units = units_after(agent, learner, returns)
    return replace(learner, counts=counts, weights=predicted.values, units=units), predicted


def expected(agent: Batches, found: Found, predicted: Predicted) -> Found:
    """What is bounded, as the counts predict it of an episode: with less noise than it is sampled.

    A shortfall of the whole return (``measure="lpm"``) can only be sampled.
    """
    if agent.measure != "sampled":
        return found
    return Found(jnp.ones_like(found.episodes), predicted.start[1:])


def improve_counted(
    agent: Batches,
    learner: BatchLearner,
    met: Float[Array, " s"],
    advantages: Float[Array, "k s a"],
) -> BatchLearner:
    """A step along w = A / unit - temperature log pi, less its mean in each state.

    A = (A_q - sum_i multiplier_i A_i) / (1 + sum_i multiplier_i) + `CURIOSITY` times what is
    `unknown`, with the span of the states' values as what may lie apart, 1 while all are alike:
    then all that is left is to go where fewest steps were made. The unit is what is `at_stake`.
    Along the plain gradient, w is weighted by how often its state was ``met`` and its action taken.
    """
    counts = counts_of(learner)
    visits = counts.visits
    log_pi = log_policy(learner.theta, visits.shape[1])
    pi = jnp.exp(log_pi)
    multipliers, units = current_multipliers(agent, learner), positive(learner.units)
    shape = visits.shape
    rows = (advantages / units[:, None, None]).reshape(len(units), -1)
    weight = 1.0 / (1.0 + jnp.sum(multipliers))
    gains = weight * lagrangian(rows, multipliers).reshape(shape)
    values = weight * lagrangian(learner.weights / units[:, None], multipliers)
    rounding = 100.0 * jnp.finfo(gains.dtype).eps * jnp.max(jnp.abs(values))
    gains = jnp.where(jnp.abs(gains) > rounding, gains, 0.0)
    apart = span(values, visits)
    apart = positive(jnp.where(apart > rounding, apart, 0.0))
    unknown = counts.unknown(pi, discounts_of(agent)[0], values, apart)
    gains = gains + CURIOSITY * unknown

    unit = positive(at_stake(gains, visits, met))
    temperature = agent.temperature / (fading(agent, learner) if agent.annealed else 1.0)
    w = gains / unit - temperature * log_pi
    w = w - jnp.sum(pi * w, axis=1, keepdims=True)
    if agent.direction == "plain":
        w = met[:, None] * pi * w
    spread = jnp.sum(pi * w**2, axis=1) - jnp.sum(pi * w, axis=1) ** 2
    return move_policy(agent, learner, w.T.reshape(-1), curvature=jnp.sum(met * spread))


def counts_of(learner: BatchLearner) -> Counts | TimedCounts:
    """What a learner has counted."""
    assert learner.counts is not None
    return learner.counts


def nothing_counted(agent: Batches, n_states: int, n_actions: int) -> Counts | TimedCounts | None:
    """Before the first batch."""
    if not agent.counted:
        return None
    sizes = n_states, n_actions, len(agent.signals)
    horizon = agent.env.horizon
    return Counts.none(*sizes) if horizon is None else TimedCounts.none(horizon, *sizes)


def span(values: Float[Array, " s"], visits: Float[Array, "s a"]) -> Array:
    """The largest less the smallest value of a state that was ever met.

    >>> span(jnp.array([3.0, -1.0, 9.0]), jnp.array([[1.0, 0.0], [2.0, 5.0], [0.0, 0.0]])).item()
    4.0
    """
    met = jnp.sum(visits, axis=1) > 0
    highest = jnp.max(jnp.where(met, values, -jnp.inf))
    return highest - jnp.min(jnp.where(met, values, jnp.inf))


def at_stake(
    gains: Float[Array, "s a"], visits: Float[Array, "s a"], met: Float[Array, " s"]
) -> Array:
    """How much the actions that were tried differ within a state, as a root mean square.

    States weigh as often as they were ``met``, actions alike, so that it does not vanish while the
    policy settles on the best ones.

    >>> gains, visits = jnp.array([[1.0, 3.0, 99.0]]), jnp.array([[9.0, 1.0, 0.0]])
    >>> at_stake(gains, visits, met=jnp.array([0.25])).item()
    0.5
    """
    tried = visits > 0
    n = jnp.maximum(jnp.sum(tried, axis=1, dtype=gains.dtype), 1.0)
    mean = jnp.sum(jnp.where(tried, gains, 0.0), axis=1) / n
    squares = jnp.where(tried, (gains - mean[:, None]) ** 2, 0.0)
    return jnp.sqrt(jnp.sum(met * jnp.sum(squares, axis=1) / n))
