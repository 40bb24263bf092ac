"""Estimates of the risk as samples come in: every method and setting on the same experience."""

from collections.abc import Iterable
from itertools import product
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from downside.batching import map_batch
from downside.critics import LSTD, Critic, MonteCarloLeastSquares, RecursiveLSTD, Sarsa
from downside.critics.base import Features, PerSignal, Weights, td_errors
from downside.critics.lstd import LSTDState
from downside.critics.monte_carlo import LeastSquaresState
from downside.experiments.prediction_problems import Member, Problem
from downside.records import record
from downside.training.prediction import Prediction, run_prediction, start_prediction

CHUNK = 64  # steps between two looks at the number of samples
N_STARTS = 4096
_TILE, _PER_CALL = 8, 32

TRACE_DECAYS = (0.0, 0.9)
RIDGES = (0.01, 1.0)
STEP_SIZES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
HALVINGS = (1_000.0, 10_000.0, np.inf)


@record
class Settings:
    """What may be tuned, one entry per setting; each method reads what it knows.

    The step size after n steps is step_size / (1 + n / halving).
    """

    trace_decay: Float[Array, " settings"]
    ridge: Float[Array, " settings"]
    step_size: Float[Array, " settings"]
    halving: Float[Array, " settings"]

    @staticmethod
    def grid(
        trace_decay: Iterable[float] = (0.0,),
        ridge: Iterable[float] = (1e-6,),
        step_size: Iterable[float] = (0.0,),
        halving: Iterable[float] = (np.inf,),
    ) -> "Settings":
        """Every combination."""
        columns = zip(*product(trace_decay, ridge, step_size, halving), strict=True)
        return Settings(*(jnp.asarray(column) for column in columns))


SETTINGS: dict[str, Settings] = {
    "SARSA(lambda)": Settings.grid(TRACE_DECAYS, step_size=STEP_SIZES, halving=HALVINGS),
    "LSTD(lambda)": Settings.grid(TRACE_DECAYS, RIDGES),
    "recursive LSTD(lambda)": Settings.grid(TRACE_DECAYS, RIDGES),
    "Monte-Carlo, least squares": Settings.grid(ridge=RIDGES),
    "Monte-Carlo, plain average": Settings.grid(),
}
METHODS = tuple(SETTINGS)
TD_METHODS, MONTE_CARLO_METHODS = METHODS[:3], METHODS[3:]
PLAIN = METHODS[-1]


def _critic(method: str, settings: Settings) -> Critic[Any]:
    """One critic of one setting; the plain average is least squares on a single feature."""
    if method == "SARSA(lambda)":
        return Sarsa(settings.trace_decay)
    if method == "LSTD(lambda)":
        return LSTD(settings.trace_decay, settings.ridge)
    if method == "recursive LSTD(lambda)":
        return RecursiveLSTD(settings.trace_decay, settings.ridge)
    return MonteCarloLeastSquares(settings.ridge)


@final
@record
class SideBySide(Critic[tuple[Any, ...]]):
    """Every method with every setting, learning from the same steps.

    The last feature is 1 at the first step of an episode and 0 later. The plain average sees it
    alone, the other methods see all but it. Least squares on it give the mean return of the start.
    """

    settings: tuple[Settings, ...]

    def init(self, n_features: int, n_signals: int) -> tuple[Any, ...]:
        """Nothing learnt yet."""

        def one(method: str, settings: Settings) -> Any:
            n = 1 if method == PLAIN else n_features - 1
            return jax.vmap(lambda s: _critic(method, s).init(n, n_signals))(settings)

        return tuple(map(one, METHODS, self.settings))

    def update(
        self,
        state: tuple[Any, ...],
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[tuple[Any, ...], PerSignal]:
        """Each learns; ``step_size`` is the number of steps so far."""

        def one(method: str, settings: Settings, states: Any) -> Any:
            seen, next_seen = _seen(method, x), _seen(method, next_x)

            def learn(setting: Settings, state: Any) -> Any:
                rate = setting.step_size / (1.0 + step_size / setting.halving)
                critic = _critic(method, setting)
                return critic.update(state, seen, cumulants, discounts, next_seen, rate)[0]

            return jax.vmap(learn)(settings, states)

        return tuple(map(one, METHODS, self.settings, state)), jnp.zeros_like(cumulants)

    def cut(self, state: tuple[Any, ...], next_x: Features, step_size: Any) -> tuple[Any, ...]:
        """None of the problems is ever cut short."""
        return state

    def weights(self, state: tuple[Any, ...]) -> Weights:
        """Nobody's in particular: no target here refers to predictions."""
        first = state[0].weights[0]
        return jnp.concatenate([first, jnp.zeros_like(first[:, :1])], axis=1)


def _seen(method: str, x: Features) -> Array:
    return x[-1:] if method == PLAIN else x[:-1]


def sample_counts(n_steps: int) -> np.ndarray:
    """2, 3, 4, 6, 8, 12, ... chunks: two counts per doubling, up to ``n_steps``.

    >>> sample_counts(512).tolist()
    [128, 192, 256, 384, 512]
    """
    chunks = sorted({base * 2**i for base in (2, 3) for i in range(n_steps.bit_length())})
    return np.array([CHUNK * n for n in chunks if CHUNK * n <= n_steps])


def learning_curves(
    problem: Problem, member: Member, keys: Array, n_steps: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What each method estimates for the start: (seeds, counts, settings, signals).

    Also the final weights of the first setting of LSTD, averaged over the seeds: (signals, n).
    """
    start = _double(_mean_start(member.env, member.act, problem.features))
    blocks = jnp.asarray(np.diff(sample_counts(n_steps) // CHUNK, prepend=0))
    critic = SideBySide(tuple(SETTINGS.values()))
    estimates: dict[str, list[np.ndarray]] = {method: [] for method in METHODS}
    final: list[np.ndarray] = []
    for part in _in_calls(keys):
        states = _states(problem, member, critic, part, blocks)
        for method, state in zip(METHODS, states, strict=True):
            weights = _weights(state)
            with np.errstate(invalid="ignore", over="ignore"):  # a large step size may diverge
                estimates[method].append(weights @ (np.ones(1) if method == PLAIN else start))
            if method == "LSTD(lambda)":
                final.append(weights[:, -1, 0])
    joined = {method: np.concatenate(parts)[: len(keys)] for method, parts in estimates.items()}
    return joined, np.concatenate(final)[: len(keys)].mean(axis=0)


def target_moments(
    problem: Problem, member: Member, weights: np.ndarray, keys: Array, n_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the TD targets and mean square of the TD errors of fixed weights: (seeds, signals).

    Where the predictions are exact, that mean square is the mean variance of the target given the
    state and action.
    """
    critic = TargetMoments(jnp.pad(jnp.asarray(weights), ((0, 0), (0, 1))))
    blocks = jnp.asarray([n_steps // CHUNK])
    parts = [_states(problem, member, critic, part, blocks) for part in _in_calls(keys)]
    joined = jax.tree.map(lambda *xs: np.concatenate(xs)[: len(keys), 0], *parts)
    return joined.targets / joined.steps, joined.squares / joined.steps


def _in_calls(keys: Array) -> list[Array]:
    """The same number of keys for each call, so that every call is compiled once."""
    filled = np.arange(-(-len(keys) // _PER_CALL) * _PER_CALL) % len(keys)
    return [keys[part] for part in filled.reshape(-1, _PER_CALL)]


@jax.jit
def _mean_start(env: Any, act: Any, features: Any) -> Float[Array, " n"]:
    """The mean features of the start; predictions are linear, so it gives their mean."""

    def one(key: Array) -> Float[Array, " n"]:
        noise_key, act_key = jax.random.split(key)
        _, obs = env.reset(env.draw(noise_key))
        return features(obs, act(obs, act_key), jnp.asarray(0))

    return jnp.mean(jax.vmap(one)(jax.random.split(jax.random.key(0), N_STARTS)), axis=0)


def _states(
    problem: Problem, member: Member, critic: Critic[Any], keys: Array, blocks: Array
) -> Any:
    """What the critic knows after each block of chunks: (keys, blocks, ...)."""
    learner = Prediction(
        env=member.env,
        act=member.act,
        features=Partial(_with_first_step, problem.features),
        signals=member.signals,
        critic=critic,
        step_size=Partial(_steps_so_far),
        n_features=problem.n_features + 1,
    )
    return _run(learner, keys, blocks)


@jax.jit
def _run(learner: Prediction, keys: Array, blocks: Array) -> Any:
    def one(key: Array) -> Any:
        def chunk(_: Array, carry: Any) -> Any:
            state, key = carry
            key, now = jax.random.split(key)
            return run_prediction(learner, state, now, CHUNK), key

        def look(carry: Any, n_chunks: Array) -> tuple[Any, Any]:
            carry = jax.lax.fori_loop(0, n_chunks, chunk, carry)
            return carry, carry[0].critic

        start_key, run_key = jax.random.split(key)
        return jax.lax.scan(look, (start_prediction(learner, start_key), run_key), blocks)[1]

    return map_batch(one, keys, tile=_TILE)


def _with_first_step(features: Any, obs: Any, action: Any, time: Array) -> Features:
    return jnp.append(features(obs, action, time), jnp.where(time == 0, 1.0, 0.0))


def _steps_so_far(steps: Array) -> Array:
    return steps.astype(float)


def _weights(state: Any) -> np.ndarray:
    """The weights of critics in a batch: (..., signals, n).

    The sums of least squares are solved here, in double precision, and not while they are learnt.
    """
    if isinstance(state, LSTDState):
        return np.linalg.solve(_double(state.matrix), _double(state.vector)[..., None])[..., 0]
    if isinstance(state, LeastSquaresState):
        vectors = np.swapaxes(_double(state.vector), -1, -2)
        return np.swapaxes(np.linalg.solve(_double(state.matrix), vectors), -1, -2)
    return _double(state.weights)


def _double(x: Any) -> np.ndarray:
    return np.asarray(x, np.float64)


@record
class TargetState:
    """Steps, and per signal the sums of the targets and of the squared TD errors."""

    steps: Float[Array, " k"]
    targets: Float[Array, " k"]
    squares: Float[Array, " k"]


@final
@record
class TargetMoments(Critic[TargetState]):
    """Learns nothing: measures the TD targets c + g w . next_x of the weights that it is given."""

    fixed: Float[Array, "k n"]

    def init(self, n_features: int, n_signals: int) -> TargetState:
        """Nothing measured."""
        zeros = jnp.zeros(n_signals)
        return TargetState(zeros, zeros, zeros)

    def update(
        self,
        state: TargetState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[TargetState, PerSignal]:
        """Add one target; its TD error is what it deviates from the prediction."""
        errors = td_errors(self.fixed, x, cumulants, discounts, next_x)
        measured = TargetState(
            steps=state.steps + 1.0,
            targets=state.targets + errors + self.fixed @ x,
            squares=state.squares + errors**2,
        )
        return measured, errors

    def cut(self, state: TargetState, next_x: Features, step_size: Any) -> TargetState:
        """Nothing to forget."""
        return state

    def weights(self, state: TargetState) -> Weights:
        """As given."""
        return self.fixed
