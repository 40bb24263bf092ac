"""The consumption problem's learners, and what their policies are worth while they learn."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.agent import Agent
from downside.agents import PID, ActorCritic, Ascent
from downside.agents.actor_critic import Direction
from downside.arrays import array_module, softplus
from downside.bases import Custom, Fourier
from downside.batching import map_batch
from downside.critics import Sarsa
from downside.environments import Consumption
from downside.environments.base import Transition
from downside.environments.episodes import EpisodeSums, run_episode
from downside.experiments.base import Workshop
from downside.moments import lower_partial_moment
from downside.policies import Beta, Gaussian, Product, SquashedGaussian
from downside.signals import Constraint, Reward, shortfall
from downside.store.writing import replace_file
from downside.training.batches import Batches
from downside.training.run import Report

HORIZON = Consumption().horizon
BLOCK = 100  # episodes of one call, while learning and in the end: one program for both
_UNIT_FOURIER = Fourier([0.0, 0.0], [1.0, 1.0], order=3)


def _of_clock_and_wealth(obs: Any) -> Any:
    """The paper's 16 features: Fourier in t / T and W / (1 + W)."""
    wealth = obs[..., 1]
    inputs = [obs[..., 0] / HORIZON, wealth / (1.0 + wealth)]
    return _UNIT_FOURIER(array_module(obs).stack(inputs, axis=-1))


def _of_clock(obs: Any) -> Any:
    """Of the n steps that are left alone, since the problem is the same at every wealth."""
    xp = array_module(obs)
    left = xp.maximum(HORIZON - obs[..., 0], 1.0)
    return xp.stack([xp.ones_like(left), xp.log(left), left / HORIZON, 1.0 / left], axis=-1)


PAPER = Custom(_of_clock_and_wealth, ("1", *_UNIT_FOURIER.names[1:]))
CLOCK = Custom(_of_clock, ("1", "log n", "n / T", "1 / n"))

PRINTED = Product([Gaussian(PAPER), Beta(PAPER)])
_SHAPES = softplus(np.array([2.0, 30.0])) + 1.0  # preset figure: the initial biases of Beta
_MEAN = float(_SHAPES[0] / _SHAPES.sum())
_WIDTH = float(np.sqrt(_MEAN * (1.0 - _MEAN) / (_SHAPES.sum() + 1.0)))
FIGURE = Product([Gaussian(PAPER, floor=0.6), Beta(PAPER, start=_MEAN, width=_WIDTH)])
RECOMMENDED = Product(
    [Gaussian(CLOCK, start=0.5, width=0.3), SquashedGaussian(CLOCK, start=0.018, width=0.009)]
)


def value_features(obs: Array, time: Array) -> Array:
    """Functions of the clock times the wealth: every value in this problem is of that form."""
    left = jnp.maximum(HORIZON - obs[0], 1.0)
    share = left / HORIZON
    clock = [jnp.ones_like(left), jnp.log(left), share, 1.0 / left, jnp.sqrt(share), share**2]
    return obs[1] * jnp.stack(clock)


@dataclass(frozen=True)
class Online:
    """The paper's way: SARSA(lambda) on compatible features, ascent of the multiplier."""

    policy: Product
    critic_step_size: float
    step_size: float
    trace_decay: float
    multiplier_rate: float
    direction: Direction = "natural"
    pretraining: int = 1000
    period: int = 1000


@dataclass(frozen=True)
class InBatches:
    """Ours: values by regression on features that are proportional to wealth, KL-sized steps.

    From an uninformed start: half at risk, 1.8% of the wealth consumed at each step.
    """

    direction: Direction = "natural"
    trace_decay: float = 0.9
    multiplier_rate: float = 0.05
    kl: float = 0.02
    kl_steps: float = 4e6
    damping: float = 0.01
    step_limit: float = 10.0
    period: int = 20_000
    policy: Product = RECOMMENDED


PRESETS: dict[str, Online | InBatches] = {
    "printed": Online(PRINTED, 1e-5, 1e-5, trace_decay=0.97, multiplier_rate=0.0025),
    "figure": Online(FIGURE, 5e-4, 0.03, trace_decay=0.99, multiplier_rate=0.02),
    "figure, plain": Online(FIGURE, 5e-4, 0.03, 0.99, multiplier_rate=0.02, direction="plain"),
    "recommended": InBatches(),
    "recommended, plain": InBatches(direction="plain"),
}


def settings_of(
    preset: Online | InBatches, env: Consumption, threshold: float
) -> ActorCritic | Batches:
    """One learner; an infinite threshold makes it risk-neutral."""
    constraint = _constraint(env, threshold)
    shared: Any = {
        "env": env,
        "policy": preset.policy,
        "signals": (Reward(env.discount), constraint.signal(env.discount, env.horizon)),
        "thresholds": (threshold,),
        "direction": preset.direction,
        "period": preset.period,
    }
    if isinstance(preset, InBatches):
        rule = PID(rate=preset.multiplier_rate, gain=2.0, weight=0.5, growing=True)
        return Batches(
            **shared,
            multiplier=rule,
            kl=preset.kl,
            kl_steps=preset.kl_steps,
            trace_decay=preset.trace_decay,
            damping=preset.damping,
            step_limit=preset.step_limit,
            temperature=0.0,
            value_features=Partial(value_features),
        )
    return ActorCritic(
        **shared,
        critic=Sarsa(preset.trace_decay),
        critic_step_size=preset.critic_step_size,
        step_size=preset.step_size,
        multiplier=Ascent(preset.multiplier_rate),
        pretraining=preset.pretraining,
    )


@dataclass(frozen=True)
class Plan:
    """How long a preset is trained, with how many seeds, and how often it is evaluated."""

    n_seeds: int
    n_steps: int
    n_evaluations: int
    n_episodes: int = BLOCK


def train(
    name: str,
    env: Consumption,
    thresholds: np.ndarray,
    plan: Plan,
    seed: int,
    workshop: Workshop,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Learning curves (thresholds, seeds, evaluations) and the final parameters.

    In the workshop nothing that was done is done again: the learners keep their checkpoints there,
    and every evaluation is a line of a file. A line is written before the learners are saved, so
    the learners that are found there are never ahead of it.
    """
    preset = PRESETS[name]
    work = workshop.bench(f"{name}-{env.target}")
    settings = [settings_of(preset, env, nu) for nu in thresholds.tolist()]
    constraints = [(_constraint(env, nu),) for nu in thresholds.tolist()]
    folder = None if work is None else work / "learners"
    agent = Agent(settings, constraints, plan.n_seeds, seed, folder=folder)
    lines = [] if work is None else _read_lines(work / "evaluations.jsonl")
    key = jax.random.fold_in(jax.random.key(seed), 5)
    pause = preset.period * -(-plan.n_steps // (plan.n_evaluations * preset.period))

    def note(report: Report) -> None:
        i = agent.steps // pause - 1
        if agent.steps % pause or i < len(lines):
            return
        fresh = jax.random.fold_in(key, i)
        found = evaluate(preset.policy, env, agent.theta, fresh, plan.n_episodes)
        line = {
            "steps": agent.steps,
            "episodes": np.mean(report.episodes).item(),
            "mean": found["mean"].tolist(),
            "risk": found["risk"].tolist(),
            "multiplier": report.multipliers[:, 0].tolist(),
        }
        lines.append(line)
        if work is not None:
            _write_line(work / "evaluations.jsonl", line)

    agent.learn(plan.n_evaluations * pause, progress_bar=False, callback=note)
    curves = {
        what: np.array([line[what] for line in lines]).T.reshape(len(thresholds), plan.n_seeds, -1)
        for what in ("mean", "risk", "multiplier")
    }
    curves |= {what: np.array([line[what] for line in lines]) for what in ("steps", "episodes")}
    curves["failed"] = np.array(len(agent.failures()))
    return curves, agent.theta.reshape(len(thresholds), plan.n_seeds, -1)


def evaluate(
    policy: Product, env: Consumption, thetas: np.ndarray, key: Array, n_episodes: int
) -> dict[str, np.ndarray]:
    """Of every policy (..., P) over fresh episodes, the same noise for all: (...) each.

    ``mean`` return, ``risk`` (the proxy J_C), ``lpm`` about the initial wealth, and the mean
    ``share`` of the wealth at risk, over all steps.
    """
    flat = jnp.asarray(thetas.reshape(-1, thetas.shape[-1]))
    blocks = [
        jax.tree.map(np.asarray, _episodes(policy, env, flat, key, first))
        for first in range(0, n_episodes, BLOCK)
    ]
    sums = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, :n_episodes], *blocks)
    returns, risks, shares = (total.astype(float) for total in sums.total)
    wealth = float(np.asarray(env.initial_wealth))
    numbers = {
        "mean": returns.mean(axis=1),
        "risk": risks.mean(axis=1),
        "lpm": np.array([lower_partial_moment(each, wealth, 1) for each in returns]),
        "share": shares.sum(axis=1) / sums.length.sum(axis=1),
    }
    return {name: values.reshape(thetas.shape[:-1]) for name, values in numbers.items()}


@jax.jit
def _episodes(policy: Product, env: Consumption, thetas: Array, key: Array, first: Any) -> Any:
    """Episodes ``first`` to ``first + BLOCK`` of every policy: sums (policies, episodes)."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(BLOCK))
    pairs = jnp.repeat(thetas, BLOCK, axis=0), jnp.tile(keys, len(thetas))

    def one(pair: tuple[Array, Array]) -> EpisodeSums:
        act = Partial(_act, policy, pair[0])
        return run_episode(env, act, pair[1], Partial(_measure, env), HORIZON)

    sums = map_batch(one, pairs, tile=BLOCK)
    return jax.tree.map(lambda x: x.reshape(len(thetas), BLOCK), sums)


def _act(policy: Product, theta: Any, obs: Any, key: Any) -> Any:
    return policy.sample(theta, obs, policy.draw(key))


def _measure(
    env: Consumption, transition: Transition[Any], next_action: Any
) -> tuple[Array, Array, Array]:
    """Reward, the proxy's signal, and the share at risk."""
    risk = shortfall(env.step_target(transition), transition.reward, 1)
    return transition.reward, risk, jnp.clip(transition.action[0], 0.0, 1.0)


def _constraint(env: Consumption, threshold: float) -> Constraint:
    return Constraint(Partial(_step_target, env), threshold)


def _step_target(env: Consumption, transition: Transition[Any]) -> Array:
    return env.step_target(transition)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines; one that was cut off by a crash is taken away, and made again."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        replace_file(path, whole.encode())
    return [json.loads(line) for line in whole.splitlines()]


def _write_line(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
