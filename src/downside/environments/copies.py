"""Copies of an environment that run on and reset themselves, as pure functions of one copy."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Bool, Float, UInt32

from downside.environments.base import Environment
from downside.records import record


@record
class Stream:
    """Where random numbers come from: those of a step depend on its number and on these alone.

    The copies of one vector share the seed (64 bits as two numbers) and differ in the index.
    """

    seed: UInt32[Array | np.ndarray, "*copies 2"]
    index: UInt32[Array | np.ndarray, "*copies"]
    episode: UInt32[Array | np.ndarray, "*copies"]

    def next_episode(self) -> "Stream":
        """The stream of the episode after this one."""
        return replace(self, episode=self.episode + jnp.uint32(1))


@record
class Copy:
    """A copy in the middle of an episode, or at its end."""

    state: Any
    obs: Array
    stream: Stream
    step: UInt32[Array, "*copies"]
    is_over: Bool[Array, "*copies"]


@record
class Outcome:
    """What a step of a copy reports; ``final_obs`` was seen before any reset.

    Where the copy was reset instead of stepped, there was no transition and the reward is 0.
    """

    reward: Float[Array, ""]
    mean_reward: Float[Array, ""] | None
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    final_obs: Array
    has_stepped: Bool[Array, ""]


def begin(env: Environment[Any], stream: Stream) -> Copy:
    """Start the episode of the stream.

    >>> from downside.environments.tree import Tree
    >>> zero = jnp.uint32(0)
    >>> int(begin(Tree(), Stream(jnp.array([3, 5], jnp.uint32), zero, zero)).obs)
    0
    """
    start = jnp.uint32(0)
    state, obs = env.reset(_draw(env, stream, start))
    return Copy(_strong(state), _strong(obs), stream, start, jnp.asarray(False))


def step(
    env: Environment[Any], copy: Copy, action: Array, autoreset_mode: AutoresetMode
) -> tuple[Copy, Outcome]:
    """Make one step, and reset as the mode says: in the step after an end, at once, or never."""
    number = copy.step + jnp.uint32(1)  # 0 was the reset
    transition = env.transition(copy.state, action, _draw(env, copy.stream, number))
    is_over = transition.terminated | transition.truncated
    state, obs = _strong(transition.next_state), _strong(transition.next_obs)
    after = Copy(state, obs, copy.stream, number, is_over)
    has_stepped = jnp.asarray(True)
    if autoreset_mode is AutoresetMode.NEXT_STEP:
        has_stepped = ~copy.is_over
        after = pick(has_stepped, after, begin(env, copy.stream.next_episode()))
    elif autoreset_mode is AutoresetMode.SAME_STEP:
        after = pick(is_over, begin(env, copy.stream.next_episode()), after)
    return after, Outcome(
        reward=jnp.where(has_stepped, transition.reward, 0.0),
        mean_reward=transition.mean_reward,
        terminated=transition.terminated & has_stepped,
        truncated=transition.truncated & has_stepped,
        final_obs=transition.next_obs,
        has_stepped=has_stepped,
    )


def pick(condition: Bool[Array, ""], chosen: Copy, other: Copy) -> Copy:
    """``chosen`` where the condition holds, else ``other``."""
    return jax.tree.map(partial(jnp.where, condition), chosen, other)


def _draw(env: Environment[Any], stream: Stream, step: UInt32[Array, ""]) -> Any:
    key = jax.random.key(stream.seed[0])
    for number in (stream.seed[1], stream.index, stream.episode, step):
        key = jax.random.fold_in(key, number)
    return env.draw(key)


def _strong(tree: Any) -> Any:
    """Fix the types: a state that starts from plain numbers would else be compiled for twice."""
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), tree)
