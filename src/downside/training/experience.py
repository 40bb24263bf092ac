"""Where the experience of a risk estimate comes from: a compiled environment, or a Python one."""

from dataclasses import replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.batching import map_batch
from downside.checks import check_probability
from downside.environments.base import Environment
from downside.environments.episodes import Act, enough_steps, rollout_steps
from downside.environments.gymnasium import GymnasiumEnv
from downside.environments.python import HostEnvironment, settled, wrap
from downside.training.acting import compiled_act, host_act
from downside.training.host import HostAct, HostStream
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

N_STARTS = 500
N_SAMPLE = 2000
TILE = 16


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
            measured = measure_all(problem, weights, mean_weights, steps, following)
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


def source_of(
    env: Any,
    policy: Any,
    discount: float | None,
    horizon: int | None,
    seed: int,
    max_steps: int | None,
) -> CompiledSource | HostSource:
    """Compiled where environment and policy can be, else in Python."""
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
def measure_all(
    problem: Prediction, weights: Any, mean_weights: Any, transitions: Any, next_actions: Any
) -> tuple[Array, Array, Array]:
    """Reward, target and signal of every step."""
    one = partial(_measure, problem, weights, mean_weights)
    return jax.vmap(one)(transitions, next_actions)


def _on_device(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def _no_act(obs: Any, key: Array) -> Any:
    raise ValueError("a Python environment acts on the host")
