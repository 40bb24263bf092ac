"""Whole episodes of a fixed policy, and the sums of their steps."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Int

from downside.batching import map_batch
from downside.environments.base import Environment, Transition
from downside.records import record

BLOCK_STEPS = 10  # after which episodes that run together may all have ended

Act = Callable[[Any, Array], Any]
"""What a policy does: (observation, key) -> action."""

Measure = Callable[[Transition[Any]], Any]
"""What is summed: a number of the transition, or a tree of numbers."""

StepMeasure = Callable[[Transition[Any], Any], Any]
"""The same, of the transition and the action that follows it."""


@record
class EpisodeSums:
    """What was measured, summed over an episode; arrays over episodes in the result of `rollout`.

    ``total`` is the plain sum, ``discounted`` the sum of discount^t times the measure. An episode
    that ``ended`` reached a termination within the steps that were allowed.
    """

    total: Any
    discounted: Any
    length: Int[Array, "..."]
    ended: Bool[Array, "..."]


def reward_of(transition: Transition[Any]) -> Array:
    """The reward: the default measure, whose sum is the return."""
    return transition.reward


def rollout(
    env: Environment[Any],
    act: Act,
    key: Array,
    n_episodes: int,
    *,
    measure: Measure = reward_of,
    max_steps: int | None = None,
    tile: int = 2048,
    first: int = 0,
) -> EpisodeSums:
    """Run ``n_episodes`` episodes in one compiled call and sum ``measure`` over each.

    They are numbered from ``first`` on. Episode i depends on the key and i alone, so that two
    policies meet the same noise. A policy or a measure with parameters is best given as
    ``jax.tree_util.Partial(function, parameters)``: it is then compiled once for all parameters.

    >>> from downside.environments.portfolio import Portfolio
    >>> never_buy = lambda obs, key: jnp.asarray(0)
    >>> sums = rollout(Portfolio(), never_buy, jax.random.key(0), n_episodes=3)
    >>> [round(float(g), 4) for g in sums.total]   # 50 log(1.005)
    [0.2494, 0.2494, 0.2494]
    """
    inner = measure if isinstance(measure, Partial) else Partial(measure)
    each_step = Partial(_of_transition, inner)
    return rollout_steps(env, act, key, n_episodes, each_step, max_steps, tile, first)


def rollout_steps(
    env: Environment[Any],
    act: Act,
    key: Array,
    n_episodes: int,
    measure: StepMeasure,
    max_steps: int | None = None,
    tile: int = 2048,
    first: int = 0,
) -> EpisodeSums:
    """`rollout` of a measure that also sees the action which follows the transition."""
    n_steps = _length(env, max_steps)
    actor, measuring = (f if isinstance(f, Partial) else Partial(f) for f in (act, measure))
    return _rollout(env, actor, measuring, key, first, n_episodes, n_steps, tile)


@partial(jax.jit, static_argnames=("n_episodes", "n_steps", "tile"))
def _rollout(
    env: Environment[Any],
    act: Partial,
    measure: Partial,
    key: Array,
    first: Any,
    n_episodes: int,
    n_steps: int,
    tile: int,
) -> EpisodeSums:
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(n_episodes))
    return map_batch(lambda k: run_episode(env, act, k, measure, n_steps), keys, tile=tile)


def _of_transition(measure: Partial, transition: Transition[Any], next_action: Any) -> Any:
    return measure(transition)


def rollout_paths(
    env: Environment[Any],
    act: Act,
    key: Array,
    n_episodes: int,
    *,
    measure: Measure,
    max_steps: int | None = None,
    block: int = 1024,
) -> tuple[Any, np.ndarray, np.ndarray]:
    """The episodes of `rollout`, with the rewards of every step.

    Gives the plain sums of ``measure`` over each episode (sums that discount put the discount into
    the measure), the rewards (episodes, steps), 0 after the end, and which episodes ended.

    >>> from downside.environments.portfolio import Portfolio
    >>> never_buy = lambda obs, key: jnp.asarray(0)
    >>> sums, rewards, ended = rollout_paths(Portfolio(), never_buy, jax.random.key(0), 3,
    ...                                      measure=reward_of)
    >>> rewards.shape, ended.tolist()
    ((3, 50), [True, True, True])
    """
    n_steps = _length(env, max_steps)
    inner = measure if isinstance(measure, Partial) else Partial(measure)
    measuring = Partial(_with_reward, Partial(_of_transition, inner))
    actor = act if isinstance(act, Partial) else Partial(act)
    size = min(block, n_episodes)
    found = [
        jax.tree.map(np.asarray, _paths(env, actor, measuring, key, first, n_steps, size))
        for first in range(0, n_episodes, size)
    ]
    together = jax.tree.map(lambda *parts: np.concatenate(parts)[:n_episodes], *found)
    sums, rewards, ended = together
    return jax.tree.map(lambda x: x.astype(float), sums), rewards.astype(float), ended


@partial(jax.jit, static_argnames=("n_steps", "size"))
def _paths(
    env: Environment[Any],
    act: Partial,
    measure: Partial,
    key: Array,
    first: Any,
    n_steps: int,
    size: int,
) -> tuple[Any, Array, Array]:
    def one(key: Array) -> tuple[Any, Array, Array]:
        (measured, rewards), alive, _, ended = run_path(env, act, key, measure, n_steps)
        counted = _count(measured, alive)
        return jax.tree.map(jnp.sum, counted), jnp.where(alive, rewards, 0.0), jnp.any(ended)

    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(size))
    return map_batch(one, keys, tile=size)


def _with_reward(measure: Partial, transition: Transition[Any], next_action: Any) -> Any:
    return measure(transition, next_action), transition.reward


def run_episode(
    env: Environment[Any], act: Act, key: Array, measure: StepMeasure, n_steps: int
) -> EpisodeSums:
    """Run one episode of at most ``n_steps``; what comes after its end counts for nothing.

    Steps are made block by block, until it has ended; of many that run together, until all have.
    """
    start, inputs = _start(env, act, key, n_steps)
    size = min(BLOCK_STEPS, n_steps)
    n_blocks = -(-n_steps // size)
    blocks = jax.tree.map(lambda x: _in_rows(x, n_blocks, size), inputs)

    def advance(i: Any, episode: Any) -> tuple[Any, EpisodeSums]:
        noise = jax.tree.map(lambda x: x[i], blocks)
        step = partial(_step, env, act, measure)
        episode, (measured, alive, weights, ended) = jax.lax.scan(step, episode, noise)
        alive = alive & (i * size + jnp.arange(size) < n_steps)  # not what fills the last row
        counted = _count(measured, alive)
        sums = EpisodeSums(
            total=jax.tree.map(jnp.sum, counted),
            discounted=jax.tree.map(lambda x: jnp.sum(weights * x), counted),
            length=jnp.sum(alive),
            ended=jnp.any(ended & alive),
        )
        return episode, sums

    def goes_on(carry: Any) -> Array:
        i, (_, _, alive, _), _ = carry
        return alive & (i < n_blocks)

    def add(carry: Any) -> Any:
        i, episode, sums = carry
        episode, more = advance(i, episode)
        return i + 1, episode, jax.tree.map(jnp.add, sums, more)

    # Zeros instead of a first block before the loop: a block is compiled once, not twice.
    shapes = jax.eval_shape(advance, 0, start)[1]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.lax.while_loop(goes_on, add, (jnp.asarray(0), start, nothing))[2]


def _in_rows(x: Array, n_rows: int, size: int) -> Array:
    """An array as rows of a size; the last one is filled up with the first entries."""
    return jnp.concatenate([x, x[: n_rows * size - len(x)]]).reshape(n_rows, size, *x.shape[1:])


def run_path(
    env: Environment[Any], act: Act, key: Array, measure: StepMeasure, n_steps: int
) -> tuple[Any, Array, Array, Array]:
    """What was measured at each of ``n_steps``; whether the episode lived, its weight, its end."""
    start, inputs = _start(env, act, key, n_steps)
    return jax.lax.scan(partial(_step, env, act, measure), start, inputs)[1]


def _start(env: Environment[Any], act: Act, key: Array, n_steps: int) -> tuple[Any, Any]:
    """(state, first action, alive, weight), and the noise of every step."""
    reset_key, noise_key, act_key = jax.random.split(key, 3)
    state, obs = env.reset(env.draw(reset_key))
    act_keys = jax.random.split(act_key, n_steps + 1)
    start = (state, act(obs, act_keys[0]), jnp.asarray(True), jnp.ones(()))
    return start, (env.draw(noise_key, (n_steps,)), act_keys[1:])


def _step(
    env: Environment[Any], act: Act, measure: StepMeasure, carry: Any, inputs: Any
) -> tuple[Any, Any]:
    state, action, alive, weight = carry
    noise, next_key = inputs
    transition = env.transition(state, action, noise)
    next_action = act(transition.next_obs, next_key)
    over = transition.terminated | transition.truncated
    ended = alive & transition.terminated
    return (
        (transition.next_state, next_action, alive & ~over, weight * transition.discount),
        (measure(transition, next_action), alive, weight, ended),
    )


def enough_steps(discount: float) -> int | None:
    """Until what follows weighs less than 1e-4; None where there is no discount.

    >>> enough_steps(0.9)
    88
    """
    if discount in (0.0, 1.0):
        return None if discount else 1
    return max(1, math.ceil(math.log(1e-4) / math.log(discount)))


def _count(measured: Any, alive: Array) -> Any:
    return jax.tree.map(lambda x: jnp.where(alive, x, 0.0), measured)


def _length(env: Environment[Any], max_steps: int | None) -> int:
    n_steps = env.horizon if max_steps is None else max_steps
    if n_steps is None:
        raise ValueError(
            f"{type(env).__name__} has no horizon; say how long an episode may last: max_steps=1000"
        )
    return n_steps
