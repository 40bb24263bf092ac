"""Estimates of the risk as samples come in: every method on the same experience."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from downside.critics import LSTD, Critic, MonteCarloLeastSquares, RecursiveLSTD, Sarsa
from downside.critics.base import td_errors
from downside.experiments.prediction_problems import Member, Problem, compiled
from downside.records import record
from downside.signals import Predictions

PIECE = 128  # steps between two looks at the number of samples, at least
_PER_CALL = 4

TRACE_DECAYS = (0.0, 0.9)
RIDGES = (0.01, 1.0)
STEP_SIZES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
HALVINGS = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)


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

    def take(self, chosen: np.ndarray) -> "Settings":
        """Some of them."""
        return jax.tree.map(lambda column: jnp.asarray(np.asarray(column)[chosen]), self)


GRIDS: dict[str, Settings] = {
    "SARSA(lambda)": Settings.grid(TRACE_DECAYS, step_size=STEP_SIZES, halving=HALVINGS),
    "LSTD(lambda)": Settings.grid(TRACE_DECAYS, RIDGES),
    "recursive LSTD(lambda)": Settings.grid(TRACE_DECAYS, RIDGES),
    "Monte-Carlo, least squares": Settings.grid(ridge=RIDGES),
    "Monte-Carlo, plain average": Settings.grid(),
}
METHODS = tuple(GRIDS)
TD_METHODS, MONTE_CARLO_METHODS = METHODS[:3], METHODS[3:]
SARSA, BATCH_LSTD, RECURSIVE_LSTD, LEAST_SQUARES, PLAIN = METHODS


def _critic(method: str, setting: Settings) -> Critic[Any]:
    """One critic of one setting; the plain average is least squares on a single feature."""
    if method == SARSA:
        return Sarsa(setting.trace_decay)
    if method == BATCH_LSTD:
        return LSTD(setting.trace_decay, setting.ridge)
    if method == RECURSIVE_LSTD:
        return RecursiveLSTD(setting.trace_decay, setting.ridge)
    return MonteCarloLeastSquares(setting.ridge)


@record
class Steps:
    """Steps in a row, as critics see them. ``first`` is 1 at the first step of an episode, else 0.

    The discounts are 0 where an episode ends.
    """

    x: Float[Array, "*steps n"]
    cumulants: Float[Array, "*steps k"]
    discounts: Float[Array, "*steps k"]
    next_x: Float[Array, "*steps n"]
    first: Float[Array, "*steps 1"]

    def seen_by(self, method: str) -> tuple[Array, Array, Array, Array]:
        """Features, cumulants, discounts, next features.

        Least squares on ``first`` give the mean return of a start: the plain average sees no more.
        """
        x, next_x = (self.first,) * 2 if method == PLAIN else (self.x, self.next_x)
        return x, self.cumulants, self.discounts, next_x


def sample_counts(n_steps: int) -> np.ndarray:
    """1, 2, 3, 4, 6, 8, 12, ... pieces: two counts per doubling, up to ``n_steps``.

    >>> sample_counts(1024).tolist()
    [128, 256, 384, 512, 768, 1024]
    """
    pieces = sorted({1} | {base * 2**i for base in (2, 3) for i in range(n_steps.bit_length())})
    return np.array([PIECE * n for n in pieces if PIECE * n <= n_steps])


def learning_curves(
    problem: Problem, member: Member, keys: Array, n_steps: int, settings: dict[str, Settings]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What each method estimates for the start: (seeds, counts, settings, signals).

    Also the last weights: (seeds, settings, signals, n).
    """
    calls = [_learn_all(problem, member, part, n_steps, settings) for part in _in_calls(keys)]
    estimates: dict[str, np.ndarray] = {}
    last: dict[str, np.ndarray] = {}
    for method in settings:
        weights = np.concatenate([call[method] for call in calls], axis=1)[:, : len(keys)]
        start = np.ones(1) if method == PLAIN else member.start
        with np.errstate(invalid="ignore", over="ignore"):  # a large step size may diverge
            estimates[method] = np.swapaxes(weights @ start, 0, 1)
        last[method] = weights[-1]
    return estimates, last


def _learn_all(
    problem: Problem, member: Member, keys: Array, n_steps: int, settings: dict[str, Settings]
) -> dict[str, np.ndarray]:
    """The weights of every method and setting at each count: (counts, keys, settings, k, n)."""
    counts = set(sample_counts(n_steps).tolist())
    states = _know_nothing(settings, len(keys), problem.n_features, len(member.signals))
    looks: list[dict[str, np.ndarray]] = []
    for before, steps in experience(problem, member, keys, n_steps):
        states = _learn(settings, states, steps, before)
        if before + PIECE in counts:
            looks.append(jax.tree.map(np.asarray, _weights(settings, states)))
    return {method: np.stack([look[method] for look in looks]) for method in settings}


def target_moments(
    problem: Problem, member: Member, weights: np.ndarray, keys: Array, n_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the TD targets and mean square of the TD errors of fixed weights: (seeds, signals).

    Where the predictions are exact, that mean square is the mean variance of the target given the
    state and action.
    """
    fixed = jnp.asarray(weights, float)
    calls = [
        sum(
            np.asarray(_sum_targets(fixed, steps), float)
            for _, steps in experience(problem, member, part, n_steps)
        )
        for part in _in_calls(keys)
    ]
    means, squares = np.concatenate(calls, axis=1)[:, : len(keys)] / n_steps
    return means, squares


def _in_calls(keys: Array) -> list[Array]:
    """The same number of keys for each call, so that every call is compiled once."""
    filled = np.arange(-(-len(keys) // _PER_CALL) * _PER_CALL) % len(keys)
    return [keys[part] for part in filled.reshape(-1, _PER_CALL)]


def experience(
    problem: Problem, member: Member, keys: Array, n_steps: int
) -> Iterator[tuple[int, Steps]]:
    """The steps of each key, piece by piece, each with the number of steps before it."""
    situation = _nowhere(member.env, len(keys))
    for before in range(0, n_steps, PIECE):
        situation, steps = _act(
            member.env, member.act, member.signals, problem.features, situation, keys, before
        )
        yield before, steps


def _nowhere(env: Any, n_keys: int) -> Any:
    """A state and an observation that do not matter: what comes next is a new episode."""
    like = jax.eval_shape(lambda key: env.reset(env.draw(key)), jax.random.key(0))
    blank = jax.tree.map(lambda leaf: np.zeros((n_keys, *leaf.shape), leaf.dtype), like)
    return *blank, np.ones(n_keys, bool)


@compiled
def _act(
    env: Any,
    act: Any,
    signals: Any,
    features: Any,
    situation: Any,
    keys: Array,
    before: int | Array,
) -> tuple[Any, Steps]:
    """The next piece. No problem cuts an episode short, so an end is always a termination."""

    def step(situation: Any, inputs: Any) -> tuple[Any, Steps]:
        noise, reset_noise, key, next_key = inputs
        *onward, over = situation
        afresh = env.reset(reset_noise)
        state, obs = jax.tree.map(partial(jnp.where, over), afresh, tuple(onward))
        transition = env.transition(state, act(obs, key), noise)
        next_obs, over = transition.next_obs, transition.terminated
        steps = Steps(
            x=features(obs, transition.action, transition.time),
            cumulants=jnp.stack([s.cumulant(transition, Predictions()) for s in signals]),
            discounts=jnp.stack([jnp.where(over, 0.0, s.discount) for s in signals]),
            next_x=features(next_obs, act(next_obs, next_key), transition.time + 1),
            first=jnp.where(transition.time == 0, 1.0, 0.0)[None],
        )
        return (transition.next_state, next_obs, over), steps

    def one(situation: Any, key: Array) -> tuple[Any, Steps]:
        noise_key, act_key = jax.random.split(key)
        noises = env.draw(jax.random.fold_in(noise_key, before), (PIECE, 2))
        noise, reset_noise = (jax.tree.map(lambda z, i=i: z[:, i], noises) for i in range(2))
        act_keys = jax.vmap(partial(jax.random.fold_in, act_key))(before + jnp.arange(PIECE + 1))
        return jax.lax.scan(step, situation, (noise, reset_noise, act_keys[:-1], act_keys[1:]))

    return _settled(jax.vmap(one)(situation, keys))


def _settled(tree: Any) -> Any:
    """The same without weak types, which would compile every user of a problem's steps anew."""
    return jax.tree.map(lambda leaf: leaf.astype(leaf.dtype), tree)


@partial(compiled, static_argnums=(1, 2, 3))
def _know_nothing(
    settings: dict[str, Settings], n_keys: int, n_features: int, n_signals: int
) -> dict[str, Any]:
    """A critic for each key and setting of each method."""

    def one(method: str, setting: Settings) -> Any:
        return _critic(method, setting).init(1 if method == PLAIN else n_features, n_signals)

    started = {m: jax.vmap(partial(one, m))(each) for m, each in settings.items()}
    return jax.tree.map(lambda leaf: jnp.tile(leaf, (n_keys, *[1] * leaf.ndim)), started)


@compiled
def _learn(
    settings: dict[str, Settings], states: dict[str, Any], steps: Steps, before: int | Array
) -> dict[str, Any]:
    """Each critic learns from the piece of its key."""
    times = (before + jnp.arange(PIECE)).astype(float)

    def one(method: str, setting: Settings, state: Any, steps: Steps) -> Any:
        critic = _critic(method, setting)
        rates = setting.step_size / (1.0 + times / setting.halving)

        def step(state: Any, inputs: Any) -> tuple[Any, None]:
            (x, cumulants, discounts, next_x), rate = inputs
            return critic.update(state, x, cumulants, discounts, next_x, rate)[0], None

        return jax.lax.scan(step, state, (steps.seen_by(method), rates))[0]

    return {m: _each(partial(one, m), each, states[m], steps) for m, each in settings.items()}


@compiled
def _weights(settings: dict[str, Settings], states: dict[str, Any]) -> dict[str, Array]:
    """Per method: (keys, settings, signals, n)."""

    def one(method: str, setting: Settings, state: Any, _: None) -> Array:
        return _critic(method, setting).weights(state)

    return {m: _each(partial(one, m), each, states[m]) for m, each in settings.items()}


def _each(one: Any, settings: Settings, states: Any, shared: Any = None) -> Any:
    """``one`` learner, (setting, state, shared), per key and setting: (keys, settings, ...)."""
    of_key = jax.vmap(one, in_axes=(0, 0, None))
    return jax.vmap(of_key, in_axes=(None, 0, 0))(settings, states, shared)


@compiled
def _sum_targets(weights: Float[Array, "k n"], steps: Steps) -> Float[Array, "2 keys k"]:
    """The TD targets and the squared TD errors, summed over the piece."""

    def one(x: Array, cumulants: Array, discounts: Array, next_x: Array) -> Array:
        error = td_errors(weights, x, cumulants, discounts, next_x)
        return jnp.stack([error + weights @ x, error**2])

    seen = steps.x, steps.cumulants, steps.discounts, steps.next_x
    return jnp.moveaxis(jnp.sum(jax.vmap(jax.vmap(one))(*seen), axis=1), 0, 1)
