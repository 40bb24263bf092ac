"""The portfolio's learners, trained as batches, and their final policies over fresh episodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.agent import Agent
from downside.agents import ActorCritic, Ascent
from downside.agents.actor_critic import Direction
from downside.bases import Polynomial, Scaled, Scaling
from downside.critics import Sarsa
from downside.environments import Portfolio
from downside.environments.base import Transition
from downside.environments.episodes import rollout
from downside.exact.portfolio import two_number_policies
from downside.moments import lower_partial_moment
from downside.policies import Gibbs
from downside.signals import Centralised, Constraint, Reward, shortfall
from downside.training.batches import Batches

ENV = Portfolio(discount=0.99)
N_ORDERS = ENV.max_order + 1
SIZES = np.array([1.0, 0.2, 0.2, 0.2, 0.2, 0.06])  # of the observation's entries, roughly
AFFINE = Gibbs(Polynomial(6), N_ORDERS)  # the paper's features, [1, observation]
SCALED = Gibbs(Scaled(Polynomial(6), inputs=Scaling(np.zeros(6), SIZES)), N_ORDERS)

MEASURES = (
    "mean",
    "discounted",
    "proxy",
    "path shortfall",
    "lpm",
    "discounted lpm",
    "shortfall",
    "minimum",
    "quantile",
)
QUANTILE = 0.01
CASH = float(np.log(1.005) * (1.0 - 0.99**50) / (1.0 - 0.99))  # discounted return of never buying


Settings = ActorCritic | Batches


@dataclass(frozen=True)
class Online:
    """The constants of the paper's own way: SARSA(1), normalised steps, ascent of the multiplier.

    Step sizes count per step (critic), per ``period`` steps (policy) and per episode (multiplier).
    """

    critic_step_size: float
    step_size: float
    multiplier_rate: float = 1e-3
    pretraining: int = 1000
    period: int = 200


@dataclass(frozen=True)
class InBatches:
    """Ours: values by regression on richer features, KL-sized steps along either gradient.

    The policy has the paper's features too, brought to unit size: the rate is small and rarely
    high, and would be learnt slowly otherwise.
    """

    direction: Direction
    trace_decay: float = 0.9


PRESETS: dict[str, Online | InBatches] = {
    "printed": Online(critic_step_size=1e-4, step_size=1e-4),
    "figure": Online(critic_step_size=3e-4, step_size=5e-3),
    "recommended": InBatches("natural"),
    "RCPO": InBatches("plain"),
}


def value_features(obs: Array, time: Array) -> Array:
    """Observation, time and 1 / liquid, and all products of two of them."""
    x = jnp.concatenate([obs, (time / ENV.horizon).astype(obs.dtype)[None], 1.0 / obs[:1]])
    rows, columns = np.triu_indices(ENV.maturity + 4)
    return jnp.concatenate([x, x[rows] * x[columns]])


def settings_of(preset: Online | InBatches, threshold: float) -> Settings:
    """One learner; an infinite threshold makes it risk-neutral."""
    constraint = Constraint(Centralised(), threshold)
    shared: Any = {
        "env": ENV,
        "policy": SCALED if isinstance(preset, InBatches) else AFFINE,
        "signals": (Reward(ENV.discount), constraint.signal(ENV.discount, ENV.horizon)),
        "thresholds": (threshold,),
    }
    if isinstance(preset, InBatches):
        return Batches(
            **shared,
            direction=preset.direction,
            trace_decay=preset.trace_decay,
            value_features=Partial(value_features),
        )
    return ActorCritic(
        **shared,
        critic=Sarsa(1.0),
        critic_step_size=preset.critic_step_size,
        step_size=preset.step_size,
        multiplier=Ascent(preset.multiplier_rate),
        pretraining=preset.pretraining,
        period=preset.period,
    )


def train(
    settings: Sequence[Settings],
    n_seeds: int,
    n_steps: int,
    seed: int,
    folder: Path | None = None,
) -> np.ndarray:
    """Parameters of the final policies (settings, seeds, P), all learnt as one batch.

    The settings differ in numbers only; seed i meets the same noise under each of them.
    """
    constraints = [(Constraint(one.signals[1], one.thresholds[0]),) for one in settings]
    agent = Agent(settings, constraints, n_seeds, seed, folder=folder)
    agent.learn(n_steps, progress_bar=False)
    return agent.theta.reshape(len(settings), n_seeds, -1)


def evaluate(
    policy: Gibbs, thetas: np.ndarray, key: Array, n_episodes: int
) -> dict[str, np.ndarray]:
    """`MEASURES` of every policy (..., P) over fresh episodes, the same noise for all: (...) each.

    ``mean``, ``lpm`` (about the policy's own mean), ``minimum`` and ``quantile`` are of the
    undiscounted return, as in the paper. The others are discounted, as the constraint is:
    ``discounted`` is the mean, ``discounted lpm`` that about it, ``shortfall`` that about `CASH`.
    """
    found = [
        _numbers(policy, theta, key, n_episodes) for theta in thetas.reshape(-1, thetas.shape[-1])
    ]
    return {name: np.reshape([one[name] for one in found], thetas.shape[:-1]) for name in MEASURES}


def references(key: Array, n_episodes: int) -> dict[str, np.ndarray]:
    """The 121 two-number policies by the same names, as far as they are known, and their orders."""
    policies = two_number_policies(ENV, key, n_episodes)
    return {
        "orders": policies.orders,
        "mean": policies.mean,
        "discounted": policies.discounted_mean,
        "proxy": policies.proxy,
        "lpm": policies.lpm1,
        "minimum": policies.minimum,
    }


def _numbers(policy: Gibbs, theta: np.ndarray, key: Array, n_episodes: int) -> dict[str, float]:
    act = Partial(_act, policy, jnp.asarray(theta))
    sums = rollout(ENV, act, key, n_episodes, measure=Partial(_measure))
    returns = np.asarray(sums.total[0], float)
    discounted, targets, signals = (np.asarray(x, float) for x in sums.discounted)
    return {
        "mean": float(returns.mean()),
        "discounted": float(discounted.mean()),
        "proxy": float(signals.mean()),
        "path shortfall": float(np.maximum(targets - discounted, 0.0).mean()),
        "lpm": float(lower_partial_moment(returns, returns.mean(), 1)),
        "discounted lpm": float(lower_partial_moment(discounted, discounted.mean(), 1)),
        "shortfall": float(lower_partial_moment(discounted, CASH, 1)),
        "minimum": float(returns.min()),
        "quantile": float(np.quantile(returns, QUANTILE)),
    }


def _act(policy: Gibbs, theta: Any, obs: Any, key: Any) -> Any:
    return policy.sample(theta, obs, policy.draw(key))


def _measure(transition: Transition[Any]) -> tuple[Array, Array, Array]:
    """Reward, its exact mean, and the proxy's signal."""
    assert transition.mean_reward is not None
    return (
        transition.reward,
        transition.mean_reward,
        shortfall(transition.mean_reward, transition.reward, 1),
    )
