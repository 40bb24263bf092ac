"""Estimating the risk of a given policy online, and checking the estimate on fresh episodes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.checks import check_count
from downside.critics import LSTD, Critic, RecursiveLSTD, TrueOnlineSarsa
from downside.critics.sarsa import check_binary
from downside.evaluation import Evaluation, Interval
from downside.policies.base import Policy
from downside.signals import Centralised, Proxy, Reward, TDError, as_target
from downside.training.acting import check_actions
from downside.training.experience import (
    N_SAMPLE,
    CompiledSource,
    HostSource,
    measure_all,
    source_of,
)
from downside.training.features import MAX_FEATURES, features_for
from downside.training.mean_reward import MeanReward, default_model, misfit
from downside.training.prediction import Prediction

N_POINTS = 20


@dataclass(frozen=True)
class RiskEstimate:
    """The proxy at the start states as it was learnt, and the three numbers of fresh episodes.

    ``learnt`` is the mean over seeds with its 95% interval, ``curve`` (points, seeds) what each
    seed had learnt after ``steps`` (points,).
    """

    learnt: Interval
    steps: np.ndarray
    curve: np.ndarray
    fresh: Evaluation
    method: str

    def __str__(self) -> str:
        n_seeds = self.curve.shape[1]
        lines = [
            f"{'proxy, learnt online':<34} {self.learnt}",
            f"learnt by {self.method} in {self.steps[-1]} steps, {n_seeds} seeds",
            "",
            "fresh episodes",
            str(self.fresh),
        ]
        gap = abs(self.learnt.value - self.fresh.proxy.value)
        noise = np.hypot(_half_width(self.learnt), _half_width(self.fresh.proxy))
        if gap > 2.0 * noise and gap > 0.05 * abs(self.fresh.proxy.value):
            lines.append(
                "the learnt proxy differs from that of fresh episodes: more steps, or features "
                "that can represent it, would bring it closer"
            )
        return "\n".join(lines)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the learning curve beside the fresh episodes; returns the figure."""
        return import_module("downside.report.plots").plot_estimate(self, path)


def estimate_risk(
    env: Any,
    policy: Any,
    *,
    target: Any,
    order: float = 1,
    critic: Any = None,
    features: Callable[[Any, Any], Any] | None = None,
    mean_reward: MeanReward | None = None,
    step_size: Callable[[Any], Any] | float = 0.05,
    expected: bool = False,
    discount: float | None = None,
    horizon: int | None = None,
    total_timesteps: int = 20_000,
    n_seeds: int = 8,
    seed: int = 0,
    n_eval_episodes: int | None = None,
    max_steps: int | None = None,
    progress_bar: bool = True,
) -> RiskEstimate:
    """Learn the risk proxy of a policy online, and put fresh episodes beside it.

    ``env`` is one of ours or a Gymnasium environment (an id, an instance, a function that makes
    one). ``policy`` is a function of the observation (and, if it takes two arguments, of a source
    of randomness: a JAX key in our environments, a NumPy generator in Gymnasium's), or a pair of a
    policy and its parameters. ``target`` is a number, a target, or a function of the transition.

    ``features(obs, action)`` are the critic's; by default they come from the spaces, and the time
    enters where there is a horizon. The critic is LSTD(0.9) by default, and TrueOnlineSarsa(0.9) on
    more than 300 features. ``step_size`` is a number
    or a function of the step, such as a schedule of optax. ``expected`` averages over the next
    action (expected SARSA); it needs a policy of ours with discrete actions. ``mean_reward`` is the
    model for `Centralised` where the environment does not know its mean rewards, or overrides them.

    ``discount`` and ``horizon`` default to those of our environments. In a Gymnasium environment
    the discount is 1 by default and its time limit then belongs to the problem; with a smaller
    discount the time limit only cuts the experience short, unless ``horizon`` is given.
    ``total_timesteps`` are per seed. Fresh episodes are 10,000, in Gymnasium 1,000 by default.

    >>> from downside.environments import Bandit
    >>> pull_b = lambda obs: 1
    >>> risk = estimate_risk(Bandit(), pull_b, target=Centralised(), total_timesteps=2000,
    ...                      n_eval_episodes=2000, progress_bar=False)
    >>> risk.learnt.low < 2.394 < risk.learnt.high    # 6 / sqrt(2 pi)
    True
    """
    check_count("total_timesteps", total_timesteps, least=N_POINTS)
    check_count("n_seeds", n_seeds, least=2)
    check_count("seed", seed, least=0)
    if max_steps is not None:
        check_count("max_steps", max_steps, least=1)
    if critic is not None and not isinstance(critic, Critic):
        raise ValueError(f"critic is {critic!r}; give a critic such as LSTD(0.9)")
    if n_eval_episodes is not None:
        check_count("n_eval_episodes", n_eval_episodes, least=2)
    goal = as_target(target)
    source = source_of(env, policy, discount, horizon, seed, max_steps)
    signal = Proxy(goal, source.discount, source.horizon, order)
    transitions, _ = sample = source.sample(N_SAMPLE)
    check_actions(transitions.action, source.action_space)
    _check_ends(source, transitions)
    model = mean_reward
    if model is None and isinstance(goal, Centralised) and transitions.mean_reward is None:
        model = _default_model(source, transitions, total_timesteps)
    moving = model is not None or isinstance(goal, TDError)
    n_features, feature_map = _features(source, features, transitions)
    problem = Prediction(
        env=source.env,
        act=source.act,
        features=feature_map,
        signals=(Reward(source.discount), signal),
        critic=critic or _default_critic(n_features, moving, total_timesteps),
        step_size=Partial(step_size) if callable(step_size) else Partial(_constant, step_size),
        n_features=n_features,
        mean_reward=model,
        probabilities=_probabilities(policy) if expected else None,
    )
    _check_critic(problem, transitions)
    _check_signal(problem, sample)

    steps = np.linspace(0, total_timesteps, N_POINTS + 1).round().astype(int)
    states, curve = source.learn(problem, np.diff(steps).tolist(), n_seeds, progress_bar)
    weights = jnp.mean(jax.vmap(problem.critic.weights)(states.critic), axis=0)
    if not (np.all(np.isfinite(curve)) and np.all(np.isfinite(weights))):
        raise ValueError(
            "the estimate is no longer finite: the target is NaN somewhere, or the critic has "
            f"diverged; look at the target, or try a smaller step size (now {step_size})"
        )
    mean_weights = None if model is None else jnp.mean(states.mean_reward, axis=0)
    if model is not None:
        _warn_of_misfit(model, mean_weights, source)
    fresh = source.evaluate(problem, weights, mean_weights, n_eval_episodes)
    return RiskEstimate(
        learnt=Interval.of_mean(curve[-1]),
        steps=steps[1:],
        curve=curve,
        fresh=Evaluation.of_episodes(
            fresh[0],
            target=goal,
            order=order,
            targets=fresh[1],
            signals=fresh[2],
            ended=fresh[3],
            discount=float(source.discount),
        ),
        method=f"{type(problem.critic).__name__} on {n_features} features",
    )


def _features(
    source: CompiledSource | HostSource,
    features: Callable[[Any, Any], Any] | None,
    transitions: Any,
) -> tuple[int, Partial]:
    if features is not None:
        feature_map = Partial(_without_time, Partial(features))
        first = jax.tree.map(lambda x: x[0], (transitions.obs, transitions.action))
        try:
            shape = jax.eval_shape(feature_map, *first, jnp.asarray(0)).shape
        except jax.errors.JAXTypeError:
            raise ValueError("features cannot be compiled; write them with jax.numpy") from None
        if len(shape) != 1:
            raise ValueError(f"features returned the shape {shape}; it must return one vector")
        return shape[0], feature_map
    spaces = source.observation_space, source.action_space
    sample = transitions.obs, transitions.action
    chosen = features_for(*spaces, source.horizon, jax.tree.map(np.asarray, sample))
    return chosen.n_features, Partial(_call, chosen)


def _default_model(
    source: CompiledSource | HostSource, transitions: Any, total_timesteps: int
) -> MeanReward:
    """At a rate at which each of its features is learnt within the run."""
    sample = jax.tree.map(np.asarray, (transitions.obs, transitions.action))
    model = default_model(source.observation_space, source.action_space, sample, rate=1e-3)
    rate = float(np.clip(10.0 * model.n_features / total_timesteps, 1e-3, 0.1))
    return replace(model, rate=rate)


def _default_critic(n_features: int, moving: bool, total_timesteps: int) -> Critic[Any]:
    """Least squares where it is cheap; it forgets the first steps of a target that is learnt."""
    if n_features > MAX_FEATURES:
        return TrueOnlineSarsa(0.9)
    if moving:
        return RecursiveLSTD(0.9, forgetting=1.0 - 5.0 / total_timesteps)
    return LSTD(0.9)


def _probabilities(policy: Any) -> Partial:
    is_pair = isinstance(policy, tuple) and isinstance(policy[0], Policy)
    if not (is_pair and hasattr(policy[0], "n_actions")):
        raise ValueError("expected=True needs a pair (policy, parameters) with discrete actions")
    return Partial(_action_probabilities, *policy)


def _check_critic(problem: Prediction, transitions: Any) -> None:
    """Replacing traces are defined for features of 0 and 1."""
    if getattr(problem.critic, "trace", None) != "replacing":
        return
    x = jax.vmap(problem.features)(transitions.obs, transitions.action, transitions.time)
    check_binary(x)


def _check_ends(source: CompiledSource | HostSource, transitions: Any) -> None:
    """Refuse a sum that has no end: no discount, no horizon, and episodes that are only cut."""
    if float(source.discount) < 1.0 or source.horizon is not None:
        return
    cut = np.asarray(transitions.truncated & ~transitions.terminated)
    if cut.any() or not np.any(np.asarray(transitions.terminated)):
        when = f"are cut short after {int(np.asarray(transitions.time)[cut].max()) + 1} steps"
        raise ValueError(
            f"episodes {when if cut.any() else 'do not end'} and the discount is 1, so the sum of "
            "what follows has no end; give horizon= if the limit belongs to the problem, else a "
            "discount below 1"
        )


def _check_signal(problem: Prediction, sample: tuple[Any, Any]) -> None:
    weights = jnp.zeros((2, problem.n_features))
    mean_weights = None if problem.mean_reward is None else problem.mean_reward.init()
    try:
        measured = measure_all(problem, weights, mean_weights, *sample)
    except jax.errors.JAXTypeError:
        raise ValueError(
            "the target function cannot be compiled; write it with jax.numpy, and jnp.where "
            "in the place of if"
        ) from None
    bad = ~np.isfinite(np.asarray(measured[1]))
    if bad.any():
        time = int(np.asarray(sample[0].time)[bad][0])
        raise ValueError(
            f"the target of a step is {np.asarray(measured[1])[bad][0]} (at step {time} of an "
            "episode); it must be a finite number"
        )


def _warn_of_misfit(model: MeanReward, weights: Any, source: CompiledSource | HostSource) -> None:
    transitions, _ = source.sample(10 * N_SAMPLE)
    sample = transitions.obs, transitions.action, transitions.reward
    found = misfit(model, weights, sample, source.observation_space, source.action_space)
    if found.is_large:
        warnings.warn(str(found), stacklevel=3)


def _half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2.0


def _constant(value: Any, steps: Any) -> Any:
    return value


def _without_time(features: Partial, obs: Any, action: Any, time: Any) -> Array:
    return jnp.asarray(features(obs, action))


def _call(features: Any, obs: Any, action: Any, time: Any) -> Array:
    return features(obs, action, time)


def _action_probabilities(policy: Any, params: Any, obs: Any) -> Array:
    every = jnp.arange(policy.n_actions)
    return jnp.exp(jax.vmap(lambda action: policy.log_prob(params, obs, action))(every))
