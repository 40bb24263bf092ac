"""Arm probabilities as samples come in: the agents of Fig. 3, and gradients from whole batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from downside.agents.actor_critic import ActorCritic, StepRule
from downside.agents.multiplier import FixedMultiplier
from downside.bases import OneHot
from downside.batching import map_batch
from downside.critics import Sarsa
from downside.environments import Bandit
from downside.moments import lower_partial_moment
from downside.policies import Gibbs
from downside.records import record, static
from downside.signals import Centralised, Proxy, Reward, TDError
from downside.training import learner

ARMS = ("A", "B", "C")
RIGHT = 0.95  # a trial is right while the right arm has more than this probability

_TILE = 64
_BATCH_TILE = 8


@dataclass(frozen=True)
class Goal:
    """Maximise E[R] - multiplier LPM_order; ``right`` is the arm that does. A 0 gives NAC."""

    order: int
    multiplier: float
    right: int


GOALS = {"mean": Goal(1, 0.0, 1), "order 1": Goal(1, 2.0, 2), "order 2": Goal(2, 1.0, 2)}


@dataclass(frozen=True)
class Preset:
    """The constants of one actor-critic, the same for all three goals.

    ``tau`` is where the target of the risk comes from: the critic of the reward, before its update
    ("learnt"), or the mean of the arm ("exact").
    """

    critic_step_size: float
    step_size: float
    pretraining: int = 0
    period: int = 1
    step_rule: StepRule = "fixed"
    tau: Literal["learnt", "exact"] = "learnt"


_PRINTED = Preset(0.005, 0.001, period=100, step_rule="normalised")
_FIGURE = Preset(0.005, 0.001)

PRESETS = {
    "printed": _PRINTED,
    "printed, exact tau": replace(_PRINTED, tau="exact"),
    "figure": _FIGURE,
    "figure, exact tau": replace(_FIGURE, tau="exact"),
    "fast": Preset(0.00215, 0.0976, pretraining=834),
    "fast, exact tau": Preset(0.000492, 0.241, pretraining=3373, tau="exact"),
}


def actor_critic(preset: Preset, goal: Goal) -> ActorCritic:
    """The agent of the paper's appendix with the constants of a preset."""
    env = Bandit()
    target = TDError() if preset.tau == "learnt" else Centralised()
    return ActorCritic(
        env=env,
        policy=Gibbs(OneHot(1), len(ARMS)),
        signals=(Reward(1.0), Proxy(target, 1.0, env.horizon, goal.order)),
        thresholds=(float("inf"),),
        critic=Sarsa(1.0),
        critic_step_size=preset.critic_step_size,
        multiplier=FixedMultiplier(goal.multiplier),
        step_size=preset.step_size,
        pretraining=preset.pretraining,
        period=preset.period,
        step_rule=preset.step_rule,
    )


@final
@record
class BatchGradient:
    """Ascent along a gradient estimated from ``n_batch`` samples, as Tamar et al. (2015) do.

    The risk is that of the policy as a whole, about its own mean; ``follows`` is 1 where the
    gradient knows that the mean moves with the policy, 0 where the mean is held as a constant
    target. The step size after k updates is step_size / (1 + k / halving).
    """

    env: Bandit
    policy: Gibbs
    multiplier: Any
    step_size: Any
    halving: Any
    follows: Any
    order: int = static()
    n_batch: int = static()


@dataclass(frozen=True)
class BatchPreset:
    """The constants of one Monte-Carlo ascent."""

    n_batch: int
    step_size: float
    halving: float
    follows: float = 1.0


BATCH_PRESETS = {  # each goal has its own: no single step size serves all three
    ("Monte-Carlo, 100", "mean"): BatchPreset(100, 1.40, 207.0),
    ("Monte-Carlo, 100", "order 1"): BatchPreset(100, 23.6, 22.6),
    ("Monte-Carlo, 100", "order 2"): BatchPreset(100, 9.70, 412.0),
    ("Monte-Carlo, 100, tau held", "mean"): BatchPreset(100, 1.40, 207.0, follows=0.0),
    ("Monte-Carlo, 100, tau held", "order 1"): BatchPreset(100, 46.5, 1.35, follows=0.0),
    ("Monte-Carlo, 100, tau held", "order 2"): BatchPreset(100, 5.21, 29.8, follows=0.0),
    ("Monte-Carlo, 10000", "mean"): BatchPreset(10_000, 41.2, 27.4),
    ("Monte-Carlo, 10000", "order 1"): BatchPreset(10_000, 96.3, 73.9),
    ("Monte-Carlo, 10000", "order 2"): BatchPreset(10_000, 4.07, 93.4),
}


def batch_gradient(preset: BatchPreset, goal: Goal) -> BatchGradient:
    """The same bandit, policy and goals as for the actor-critics."""
    return BatchGradient(
        env=Bandit(),
        policy=Gibbs(OneHot(1), len(ARMS)),
        multiplier=goal.multiplier,
        step_size=preset.step_size,
        halving=preset.halving,
        follows=preset.follows,
        order=goal.order,
        n_batch=preset.n_batch,
    )


def objective_gradient(
    scores: Float[Array, "n P"],
    rewards: Float[Array, " n"],
    order: int,
    multiplier: Any,
    follows: Any = 1.0,
) -> Float[Array, " P"]:
    """Likelihood-ratio gradient of E[R] - multiplier E[((mean - R)+)^order], mean = E[R].

        grad mean = E[(R - mean) score]
        grad risk = E[((mean - R)+)^order score] + order E[((mean - R)+)^(order-1)] grad mean

    Expectations are means over the samples; each sample's part of the risk is taken less its mean,
    a baseline that lowers the variance. With ``follows`` = 0 the last term is left out: the mean is
    then a target that does not move with the policy.
    """
    mean = jnp.mean(rewards)
    short = jnp.maximum(mean - rewards, 0.0) ** order
    slope = follows * order * lower_partial_moment(rewards, mean, order - 1)
    weights = (1.0 - multiplier * slope) * (rewards - mean)
    weights = weights - multiplier * (short - jnp.mean(short))
    return weights @ scores / rewards.shape[0]


def arm_curves(
    agents: Sequence[ActorCritic] | Sequence[BatchGradient],
    keys: Array,
    spacing: int,
    n_points: int,
) -> np.ndarray:
    """The probability of each arm after every ``spacing`` samples: (agents, keys, points, arms).

    Agents differ in their numbers only; each meets the same keys, one for each trial.
    """
    run = _batch_curves if isinstance(agents[0], BatchGradient) else _actor_critic_curves
    settings: Any = jax.tree.map(lambda *leaves: jnp.stack(list(map(_number, leaves))), *agents)
    index = jnp.repeat(jnp.arange(len(agents)), len(keys))
    curves = run(settings, index, jnp.tile(keys, len(agents)), spacing, n_points)
    return np.asarray(curves).reshape(len(agents), len(keys), n_points, len(ARMS))


def _number(leaf: Any) -> Array:
    return jnp.asarray(leaf).astype(int if isinstance(leaf, int) else float)


@partial(jax.jit, static_argnames=("spacing", "n_points"))
def _actor_critic_curves(
    settings: ActorCritic, index: Array, keys: Array, spacing: int, n_points: int
) -> Float[Array, "n points arms"]:
    def one(pair: tuple[Array, Array]) -> Float[Array, "points arms"]:
        i, key = pair
        agent = jax.tree.map(lambda leaf: leaf[i], settings)
        shape = (spacing // agent.period, agent.period)

        def period(state: Any, noise: Any) -> tuple[Any, None]:
            return learner.run_period(agent, state, noise), None

        def point(state: Any, j: Array) -> tuple[Any, Array]:
            noise = learner.draw(agent, jax.random.fold_in(key, j), shape)
            state = jax.lax.scan(period, state, noise)[0]
            return state, agent.policy.probabilities(state.theta, state.obs)

        return jax.lax.scan(point, learner.start(agent, key), jnp.arange(n_points))[1]

    return map_batch(one, (index, keys), tile=_TILE)


@partial(jax.jit, static_argnames=("spacing", "n_points"))
def _batch_curves(
    settings: BatchGradient, index: Array, keys: Array, spacing: int, n_points: int
) -> Float[Array, "n points arms"]:
    def one(pair: tuple[Array, Array]) -> Float[Array, "points arms"]:
        i, key = pair
        agent = jax.tree.map(lambda leaf: leaf[i], settings)
        n_updates = spacing // agent.n_batch

        def point(theta: Array, j: Array) -> tuple[Array, Array]:
            updates = j * n_updates + jnp.arange(n_updates)
            theta = jax.lax.scan(lambda t, k: (_ascend(agent, t, key, k), None), theta, updates)[0]
            return theta, agent.policy.probabilities(theta, jnp.asarray(0))

        return jax.lax.scan(point, jnp.zeros(len(ARMS)), jnp.arange(n_points))[1]

    return map_batch(one, (index, keys), tile=_BATCH_TILE)


def _ascend(agent: BatchGradient, theta: Array, key: Array, update: Array) -> Array:
    """One step along the gradient of a fresh batch."""
    noise = learner.draw(agent, jax.random.fold_in(key, update), (agent.n_batch,))

    def pull(env_noise: Any, action_noise: Any) -> tuple[Array, Array]:
        state, obs = agent.env.reset(env_noise)
        action = agent.policy.sample(theta, obs, action_noise)
        return action, agent.env.transition(state, action, env_noise).reward

    actions, rewards = jax.vmap(pull)(*noise)
    score = jax.vmap(lambda arm: agent.policy.score(theta, jnp.asarray(0), arm))
    scores = jax.nn.one_hot(actions, len(ARMS)) @ score(jnp.arange(len(ARMS)))
    gradient = objective_gradient(scores, rewards, agent.order, agent.multiplier, agent.follows)
    size = agent.step_size / (1.0 + update.astype(float) / agent.halving)
    return theta + size * gradient


def settling_times(right: np.ndarray, spacing: int) -> np.ndarray:
    """From which sample count on p(right arm) stays above 0.95: (..., points) -> (...).

    inf where it is not above at the last point.

    >>> settling_times(np.array([[0.5, 0.96, 0.9, 0.99], [0.99, 0.96, 0.97, 0.1]]), 50).tolist()
    [200.0, inf]
    """
    stays = np.logical_and.accumulate(right[..., ::-1] > RIGHT, axis=-1)[..., ::-1]
    return np.where(stays[..., -1], spacing * (stays.argmax(axis=-1) + 1.0), np.inf)


def samples_until(times: np.ndarray, share: float = 0.95) -> np.ndarray:
    """The sample count from which at least this share of the trials is right: (..., trials)."""
    rank = int(np.ceil(share * times.shape[-1] - 1e-9))
    return np.sort(times, axis=-1)[..., rank - 1]
