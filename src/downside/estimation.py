"""Estimating the risk of a given policy online, and checking the estimate on fresh episodes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.bases.layout import Layout
from downside.batching import map_batch
from downside.checks import check_count, check_probability
from downside.critics import LSTD, Critic, RecursiveLSTD, TrueOnlineSarsa
from downside.critics.sarsa import check_binary
from downside.environments.base import Environment
from downside.environments.episodes import Act, enough_steps, rollout_steps
from downside.environments.gymnasium import GymnasiumEnv
from downside.environments.python import HostEnvironment, settled, wrap
from downside.evaluation import Evaluation, Interval
from downside.policies.base import Policy
from downside.signals import Centralised, Proxy, Reward, TDError, as_target
from downside.training.acting import check_actions, compiled_act, host_act
from downside.training.features import MAX_FEATURES, features_for
from downside.training.host import HostAct, HostStream
from downside.training.mean_reward import MeanReward, misfit
from downside.training.prediction import (
    Prediction,
    PredictionState,
    draw_starts,
    judge,
    learn,
    predict_starts,
    run_prediction,
    start_prediction,
)
from downside.training.progress import follow

N_POINTS = 20
N_STARTS = 500
N_SAMPLE = 2000
TILE = 16


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
    source = _source(env, policy, discount, horizon, seed, max_steps)
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


@final
class CompiledSource:
    """Experience from one of our environments: everything in compiled calls, all seeds at once."""

    def __init__(self, env: Environment[Any], act: Act, key: Array, max_steps: int | None) -> None:
        self.env, self.act = env, act
        self.discount, self.horizon = env.discount, env.horizon
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._keys = [jax.random.fold_in(key, i) for i in range(5)]
        self._max_steps = max_steps or env.horizon or enough_steps(float(env.discount))

    def sample(self, n_steps: int) -> tuple[Any, Any]:
        """Steps of the policy, stacked, and the action that follows each."""
        return _walk(self.env, self.act, self._keys[0], n_steps)

    def learn(
        self, problem: Prediction, chunks: list[int], n_seeds: int, progress_bar: bool
    ) -> tuple[PredictionState, np.ndarray]:
        """The states of all seeds at the end, and the proxy (points, seeds) after each chunk."""
        starts = _draw_all(self.env, self.act, jax.random.split(self._keys[1], n_seeds))
        states = _start_all(problem, jax.random.split(self._keys[2], n_seeds))
        curve: list[np.ndarray] = []
        numbered = enumerate(chunks)
        for i, n_steps in follow(numbered, len(chunks), "learning", shown=progress_bar):
            keys = jax.random.split(jax.random.fold_in(self._keys[3], i), n_seeds)
            states, values = _advance(problem, states, keys, starts, n_steps)
            curve.append(np.asarray(values, float))
        return states, np.stack(curve)

    def evaluate(
        self, problem: Prediction, weights: Any, mean_weights: Any, n_episodes: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Discounted sums of rewards, targets and signals per episode, and which ones ended."""
        measure = Partial(_measure, problem, weights, mean_weights)
        sums = rollout_steps(
            self.env, self.act, self._keys[4], n_episodes or 10_000, measure, self._max_steps
        )
        returns, targets, signals = (np.asarray(x, float) for x in sums.discounted)
        return returns, targets, signals, np.asarray(sums.ended)


@final
class HostSource:
    """Experience from a Gymnasium environment: act in Python, learn chunk by chunk."""

    env: Any = None  # not compiled

    def __init__(self, host: HostEnvironment, act: HostAct, seed: int, max_steps: int | None):
        self.act: Any = Partial(_no_act)
        self.discount, self.horizon = host.discount, host.horizon
        self.observation_space, self.action_space = host.observation_space, host.action_space
        self._host, self._choose, self._seed = host, self._checked(act), seed
        self._max_steps = max_steps or host.horizon or enough_steps(host.discount) or 10_000

    def sample(self, n_steps: int) -> tuple[Any, Any]:
        """Steps of the policy, stacked, and the action that follows each."""
        return _on_device(HostStream(self._host, self._choose, (self._seed, 0)).record(n_steps))

    def learn(
        self, problem: Prediction, chunks: list[int], n_seeds: int, progress_bar: bool
    ) -> tuple[PredictionState, np.ndarray]:
        """Seed by seed, since there is one environment."""
        n_chunks = len(chunks)
        finished: list[PredictionState] = []
        curve = np.zeros((n_chunks, n_seeds))
        state = stream = starts = None
        jobs = range(n_seeds * n_chunks)
        for job in follow(jobs, len(jobs), "acting and learning", shown=progress_bar):
            number, i = divmod(job, n_chunks)
            if state is None or stream is None or i == 0:
                state, starts = _untaught(problem), self._starts(number)
                stream = HostStream(self._host, self._choose, (self._seed, 1, number))
            steps = _on_device(stream.record(chunks[i]))
            state, curve[i, number] = _learn_recorded(problem, state, steps, starts)
            if i == n_chunks - 1:
                finished.append(state)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *finished), curve

    def evaluate(
        self, problem: Prediction, weights: Any, mean_weights: Any, n_episodes: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Discounted sums of rewards, targets and signals per episode, and which ones ended."""
        n_episodes = n_episodes or 1000
        stream = HostStream(self._host, self._choose, (self._seed, 2), self._max_steps)
        sums, ended = np.zeros((3, n_episodes)), np.ones(n_episodes, bool)
        current = 0
        while current < n_episodes:
            steps, following = _on_device(stream.record(N_SAMPLE))
            measured = _measure_all(problem, weights, mean_weights, steps, following)
            over = np.asarray(steps.terminated | steps.truncated)
            episode = current + np.cumsum(over) - over
            current = int(current + over.sum())
            kept = episode < n_episodes
            powers = float(self.discount) ** np.asarray(steps.time, float)
            for row, values in zip(sums, measured, strict=True):
                np.add.at(row, episode[kept], (powers * np.asarray(values, float))[kept])
            ended[episode[kept & np.asarray(steps.truncated & ~steps.terminated)]] = False
        return sums[0], sums[1], sums[2], ended

    def _starts(self, number: int) -> tuple[Any, Any]:
        rng = np.random.default_rng((self._seed, 3, number))
        seeds = rng.integers(2**31, size=N_STARTS).tolist()
        first = [self._host.reset(seed=seed) for seed in seeds]
        actions = [self._choose(obs, rng) for obs in first]
        pairs = zip(first, actions, strict=True)
        return _on_device(jax.tree.map(lambda *leaves: np.stack(leaves), *pairs))

    def _checked(self, act: HostAct) -> HostAct:
        """The action in the type of its space; one outside its space is refused as it comes."""
        space = self.action_space
        dtype = np.dtype(space.dtype)

        def choose(obs: Any, rng: np.random.Generator) -> Any:
            action = act(obs, rng)
            if space.shape is None and space.contains(action):  # a tuple or a dictionary
                return action
            try:
                array = np.asarray(action)
            except ValueError:  # a ragged tuple, as some libraries' predict returns
                array = np.asarray(None)
            exact = array.astype(dtype) if array.dtype.kind in "biuf" else array
            rounded = dtype.kind in "iu" and np.any(exact != array)
            if rounded or exact.shape != space.shape or not space.contains(exact[()]):
                raise ValueError(
                    f"the policy returned the action {action!r}, "
                    f"which is outside the action space {space}"
                )
            return exact[()]

        return choose


def _source(
    env: Any,
    policy: Any,
    discount: float | None,
    horizon: int | None,
    seed: int,
    max_steps: int | None,
) -> CompiledSource | HostSource:
    if discount is not None:
        check_probability("discount", discount)
    if not isinstance(env, Environment):
        host = settled(wrap(env, 1.0 if discount is None else discount, horizon), discount, horizon)
        return HostSource(host, host_act(policy, host.action_space), seed, max_steps)
    if horizon is not None:
        raise ValueError(
            f"{type(env).__name__} has its own horizon, {env.horizon}; "
            "horizon= is for Gymnasium environments"
        )
    ours = env if discount is None else replace(env, discount=discount)  # type: ignore[type-var]
    act = compiled_act(policy, ours.observation_space, ours.action_space)
    if act is not None:
        return CompiledSource(ours, act, jax.random.key(seed), max_steps)
    host = HostEnvironment(GymnasiumEnv(ours), float(ours.discount), ours.horizon)
    return HostSource(host, host_act(policy, host.action_space), seed, max_steps)


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
    """On features of its own, at a rate at which each of them is learnt within the run."""
    spaces = source.observation_space, source.action_space
    sample = jax.tree.map(np.asarray, (transitions.obs, transitions.action))
    features = features_for(*spaces, None, sample)
    rate = float(np.clip(10.0 * features.n_features / total_timesteps, 1e-3, 0.1))
    return MeanReward(Partial(_at_no_time, features), features.n_features, rate)


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
        measured = _measure_all(problem, weights, mean_weights, *sample)
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
    layouts = (Layout.of(source.observation_space), Layout.of(source.action_space))
    seen = jax.tree.map(np.asarray, (transitions.obs, transitions.action))
    inputs = [layout.vector(part) for layout, part in zip(layouts, seen, strict=True)]
    sample = transitions.obs, transitions.action, transitions.reward
    found = misfit(model, weights, *sample, np.concatenate(inputs, axis=1))
    if found.is_large:
        warnings.warn(str(found), stacklevel=3)


@partial(jax.jit, static_argnames="n_steps")
def _walk(env: Environment[Any], act: Act, key: Array, n_steps: int) -> tuple[Any, Any]:
    """``n_steps`` steps in a row over episodes, stacked, without states."""

    def step(carry: Any, key: Array) -> tuple[Any, Any]:
        state, action = carry
        noise_key, reset_key, act_key, first_key = jax.random.split(key, 4)
        transition = env.transition(state, action, env.draw(noise_key))
        next_action = act(transition.next_obs, act_key)
        fresh_state, fresh_obs = env.reset(env.draw(reset_key))
        over = transition.terminated | transition.truncated
        carry = jax.tree.map(
            lambda a, b: jnp.where(over, a, b),
            (fresh_state, act(fresh_obs, first_key)),
            (transition.next_state, next_action),
        )
        return carry, (replace(transition, next_state=None), next_action)

    first_key, act_key, *_ = jax.random.split(jax.random.fold_in(key, 0))
    state, obs = env.reset(env.draw(first_key))
    return jax.lax.scan(step, (state, act(obs, act_key)), jax.random.split(key, n_steps))[1]


@jax.jit
def _start_all(problem: Prediction, keys: Array) -> PredictionState:
    return jax.vmap(partial(start_prediction, problem))(keys)


@jax.jit
def _draw_all(env: Environment[Any], act: Act, keys: Array) -> Any:
    return jax.vmap(lambda key: draw_starts(env, act, key, N_STARTS))(keys)


@partial(jax.jit, static_argnames="n_steps")
def _advance(
    problem: Prediction, states: PredictionState, keys: Array, starts: Any, n_steps: int
) -> tuple[PredictionState, Array]:
    def one(learner: tuple[PredictionState, Array, Any]) -> tuple[PredictionState, Array]:
        state, key, start = learner
        state = run_prediction(problem, state, key, n_steps)
        return state, predict_starts(problem, state, start)[1]

    return map_batch(one, (states, keys, starts), tile=TILE)


def _untaught(problem: Prediction) -> PredictionState:
    model = problem.mean_reward
    return PredictionState(
        env_state=None,
        obs=None,
        action=None,
        critic=problem.critic.init(problem.n_features, len(problem.signals)),
        mean_reward=None if model is None else model.init(),
        steps=jnp.asarray(0),
    )


@jax.jit
def _learn_recorded(
    problem: Prediction, state: PredictionState, steps: Any, starts: Any
) -> tuple[PredictionState, Array]:
    def step(state: PredictionState, recorded: Any) -> tuple[PredictionState, None]:
        return learn(problem, state, *recorded), None

    state, _ = jax.lax.scan(step, state, steps)
    return state, predict_starts(problem, state, starts)[1]


def _measure(
    problem: Prediction, weights: Any, mean_weights: Any, transition: Any, next_action: Any
) -> tuple[Array, Array, Array]:
    """Reward, target and signal of one step, with what was learnt."""
    transition, known = judge(problem, weights, mean_weights, transition, next_action)
    signal: Any = problem.signals[1]
    step_target = signal.target.step_target(transition, known, signal.discount, signal.horizon)
    return transition.reward, jnp.asarray(step_target), signal.cumulant(transition, known)


@jax.jit
def _measure_all(
    problem: Prediction, weights: Any, mean_weights: Any, transitions: Any, next_actions: Any
) -> tuple[Array, Array, Array]:
    one = partial(_measure, problem, weights, mean_weights)
    return jax.vmap(one)(transitions, next_actions)


def _on_device(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def _half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2.0


def _no_act(obs: Any, key: Array) -> Any:
    raise ValueError("a Python environment acts on the host")


def _constant(value: Any, steps: Any) -> Any:
    return value


def _without_time(features: Partial, obs: Any, action: Any, time: Any) -> Array:
    return jnp.asarray(features(obs, action))


def _call(features: Any, obs: Any, action: Any, time: Any) -> Array:
    return features(obs, action, time)


def _at_no_time(features: Any, obs: Any, action: Any) -> Array:
    return features(obs, action, jnp.asarray(0))


def _action_probabilities(policy: Any, params: Any, obs: Any) -> Array:
    every = jnp.arange(policy.n_actions)
    return jnp.exp(jax.vmap(lambda action: policy.log_prob(params, obs, action))(every))
