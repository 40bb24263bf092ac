"""What is learnt from one batch: values, then multipliers, then the policy."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.agents.actor_critic import lagrangian, policy_step
from downside.agents.multiplier import relative_excess, steady_excess
from downside.linear import products, solve_positive
from downside.training.batches import Batches, BatchLearner, Found, Steps
from downside.training.fisher import fisher_of, states_of
from downside.training.learner import current_multipliers, where
from downside.training.settling import PATIENCE, fading, kept_open, pace_of_clock, slowness
from downside.training.units import in_own_spread, positive, units_after


def returns_to_go(steps: Steps, next_values: Float[Array, "t k"]) -> Float[Array, "t k"]:
    """y_t = c_t + discount y_{t+1}; the prediction stands in where the batch or an episode is cut.

    After a termination the discount is 0, so nothing stands in.
    """

    def back(following: Array, row: Any) -> tuple[Array, Array]:
        cumulant, discount, over, predicted = row
        y = cumulant + discount * jnp.where(over, predicted, following)
        return y, y

    rows = steps.cumulants, steps.discounts, steps.over, next_values
    return jax.lax.scan(back, next_values[-1], rows, reverse=True)[1]


def fit_values(
    agent: Batches, learner: BatchLearner, x: Float[Array, "t n"], returns: Float[Array, "t k"]
) -> BatchLearner:
    """Ridge regression of the returns to go on the features, older batches fading.

    The first batch fixes the size of the features and of the signals.
    """
    first = learner.steps == agent.period
    squares = products(x, x)
    scale = jnp.where(first, positive(jnp.sqrt(jnp.diag(squares) / len(x))), learner.scale)
    units = units_after(agent, learner, returns)
    to_unit = 1.0 / scale  # multiplied, since compilers differ in how they divide by a row
    gram = agent.memory * learner.gram + squares * to_unit[:, None] * to_unit
    moment = agent.memory * learner.moment + products(returns, x) * to_unit
    diagonal = jnp.diag(gram)
    floor = 1e-6 * jnp.max(diagonal)  # a feature that was always 0 gets the weight 0
    damped = gram + jnp.diag(agent.ridge * diagonal + floor)
    weights = solve_positive(damped, moment.T).T * to_unit
    return replace(learner, gram=gram, moment=moment, weights=weights, scale=scale, units=units)


def advantages(agent: Batches, learner: BatchLearner, steps: Steps) -> Float[Array, "t k"]:
    """A_t = c_t + g V_{t+1} - V_t + g trace_decay A_{t+1}, for each signal, in its unit."""

    def back(following: Array, row: Any) -> tuple[Array, Array]:
        cumulant, discount, over, value, next_value = row
        error = cumulant + discount * next_value - value
        gain = error + agent.trace_decay * discount * jnp.where(over, 0.0, following)
        return gain, gain / units

    units = positive(learner.units) if agent.risk_unit == "spread" else learner.units
    values, next_values = steps.x @ learner.weights.T, steps.next_x @ learner.weights.T
    rows = steps.cumulants, steps.discounts, steps.over, values, next_values
    return jax.lax.scan(back, jnp.zeros_like(learner.units), rows, reverse=True)[1]


def move_multipliers(agent: Batches, learner: BatchLearner, found: Found) -> BatchLearner:
    """One step of each multiplier from the mean over the episodes that ended, if any did."""
    if not agent.thresholds:
        return learner
    means = found.measured / jnp.maximum(found.episodes, 1.0)
    rule, settling = agent.multiplier, learner.settling
    if settling is not None and settling.levels is not None:
        settling = where(found.episodes > 0, settling.levelled(means), settling)
        spreads = learner.units[1:] if agent.risk_unit == "spread" else jnp.zeros_like(means)
        rows = zip(means, agent.thresholds, settling.levels, spreads, strict=True)
        excesses = [steady_excess(*row) for row in rows]
    else:
        spreads = learner.units[1:] if agent.risk_unit == "spread" else [None] * len(means)
        rows = zip(means, agent.thresholds, spreads, strict=True)
        excesses = [relative_excess(*row) for row in rows]
    pairs = list(zip(learner.multipliers, excesses, strict=True))
    pace = slowness(agent, learner.steps) ** -0.5 if agent.annealed else 1.0
    moved = tuple(rule.update(before, excess, 0.0, pace) for before, excess in pairs)
    if settling is not None:
        paces = [pace_of_clock(rule, *p, m) for p, m in zip(pairs, moved, strict=True)]
        told = where(found.episodes > 0, jnp.min(jnp.stack(paces)), jnp.asarray(PATIENCE))
        settling = settling.later(agent, told)
    kept = where(found.episodes > 0, moved, learner.multipliers)
    learner = replace(learner, multipliers=kept)
    if settling is not None:
        binds = jnp.sum(current_multipliers(agent, learner)) > 0
        bound_at = jnp.where(binds, learner.steps, settling.bound_at)
        settling = replace(settling, bound_at=bound_at)
    return replace(learner, settling=settling)


def improve(
    agent: Batches, learner: BatchLearner, steps: Steps, gains: Float[Array, "t k"]
) -> BatchLearner:
    """A step along w = (F + damping)^-1 mean[score A].

    A = (A_q - sum_i multiplier_i A_i) / (1 + sum_i multiplier_i) - temperature log pi, where the
    fraction is in ``gain_unit``, less its mean where ``centred``. Along the plain gradient,
    w = mean[score A].
    """
    multipliers = current_multipliers(agent, learner)
    gain = lagrangian(gains.T, multipliers) / (1.0 + jnp.sum(multipliers))
    if agent.gain_unit == "batch":
        gain = in_own_spread(gain)
    temperature = agent.temperature / (fading(agent, learner) if agent.annealed else 1.0)
    gain = gain - temperature * steps.log_prob
    gain = gain - jnp.mean(gain) if agent.centred else gain
    gradient = steps.scores.sum(gain) / len(gain)
    fisher = fisher_of(steps.scores, states_of(agent.policy))
    spread = jnp.where(learner.spread > 0, learner.spread, fisher.size)
    slower = jnp.sqrt(slowness(agent, learner.steps)) if agent.annealed else 1.0
    damping = agent.damping * spread / slower
    damping = damping + jnp.finfo(spread.dtype).tiny
    direction = fisher.invert(damping, gradient) if agent.direction == "natural" else gradient
    curvature = direction @ fisher.apply(direction)
    return move_policy(agent, replace(learner, spread=spread), direction, curvature)


def move_policy(
    agent: Batches, learner: BatchLearner, direction: Float[Array, " P"], curvature: Array
) -> BatchLearner:
    """theta <- theta + sqrt(2 kl / w'Fw) w along w, whose ``curvature`` is w'Fw.

    Later steps are shorter; where steps are counted, which leaves less noise, more slowly so.
    """
    slower = slowness(agent, learner.steps)
    kl = agent.kl / (slower**2 if agent.annealed and not agent.counted else slower)
    first = jnp.sqrt(2.0 * kl / jnp.where(curvature > 0, curvature, 1.0))
    reach = jnp.where(learner.reach > 0, learner.reach, first)
    nats = jnp.minimum(kl, 0.5 * (agent.step_limit * reach) ** 2 * curvature)
    change = policy_step("kl", nats, direction, curvature)
    pretrained = learner.episodes >= agent.pretraining
    moved = kept_open(agent, learner, learner.theta + change)
    return replace(
        learner,
        theta=jnp.where(pretrained, moved, learner.theta),
        updates=learner.updates + pretrained.astype(learner.updates.dtype),
        reach=reach,
        progress=replace(learner.progress, norm=jnp.sum(direction**2)),
    )
