"""Whole episodes of a fixed policy, and the sums of their steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Int

from downside.batching import map_batch
from downside.environments.base import Environment, Transition
from downside.records import record

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
) -> EpisodeSums:
    """Run ``n_episodes`` episodes in one compiled call and sum ``measure`` over each.

    Episode i depends on the key and i alone, so that two policies meet the same noise. A policy or
    a measure with parameters is best given as ``jax.tree_util.Partial(function, parameters)``: it
    is then compiled once for all parameters.

    >>> from downside.environments.portfolio import Portfolio
    >>> never_buy = lambda obs, key: jnp.asarray(0)
    >>> sums = rollout(Portfolio(), never_buy, jax.random.key(0), n_episodes=3)
    >>> [round(float(g), 4) for g in sums.total]   # 50 log(1.005)
    [0.2494, 0.2494, 0.2494]
    """
    inner = measure if isinstance(measure, Partial) else Partial(measure)
    each_step = Partial(_of_transition, inner)
    return rollout_steps(env, act, key, n_episodes, each_step, max_steps, tile)


def rollout_steps(
    env: Environment[Any],
    act: Act,
    key: Array,
    n_episodes: int,
    measure: StepMeasure,
    max_steps: int | None = None,
    tile: int = 2048,
) -> EpisodeSums:
    """`rollout` of a measure that also sees the action which follows the transition."""
    n_steps = env.horizon if max_steps is None else max_steps
    if n_steps is None:
        raise ValueError(
            f"{type(env).__name__} has no horizon; say how long an episode may last: max_steps=1000"
        )
    actor, measuring = (f if isinstance(f, Partial) else Partial(f) for f in (act, measure))
    return _rollout(env, actor, measuring, key, n_episodes, n_steps, tile)


@partial(jax.jit, static_argnames=("n_episodes", "n_steps", "tile"))
def _rollout(
    env: Environment[Any],
    act: Partial,
    measure: Partial,
    key: Array,
    n_episodes: int,
    n_steps: int,
    tile: int,
) -> EpisodeSums:
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(n_episodes))
    return map_batch(lambda k: run_episode(env, act, k, measure, n_steps), keys, tile=tile)


def _of_transition(measure: Partial, transition: Transition[Any], next_action: Any) -> Any:
    return measure(transition)


def run_episode(
    env: Environment[Any], act: Act, key: Array, measure: StepMeasure, n_steps: int
) -> EpisodeSums:
    """Run one episode of at most ``n_steps``; what comes after its end counts for nothing."""
    reset_key, noise_key, act_key = jax.random.split(key, 3)
    state, obs = env.reset(env.draw(reset_key))
    noises = env.draw(noise_key, (n_steps,))
    act_keys = jax.random.split(act_key, n_steps + 1)

    def step(carry: Any, inputs: Any) -> tuple[Any, Any]:
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

    start = (state, act(obs, act_keys[0]), jnp.asarray(True), jnp.ones(()))
    _, (measured, alive, weights, ended) = jax.lax.scan(step, start, (noises, act_keys[1:]))
    counted = jax.tree.map(lambda x: jnp.where(alive, x, 0.0), measured)
    return EpisodeSums(
        total=jax.tree.map(jnp.sum, counted),
        discounted=jax.tree.map(lambda x: jnp.sum(weights * x), counted),
        length=jnp.sum(alive),
        ended=jnp.any(ended),
    )
