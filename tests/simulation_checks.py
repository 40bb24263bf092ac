"""What the tests of single environments share: steps under given noise, sampled means, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.environments import Noise

DOUBLE = pytest.mark.parametrize("double", [False, True])
AS_ARRAY = pytest.mark.parametrize("as_array", [False, True])


def noise(uniform=(), normal=()):
    return Noise(uniform=jnp.asarray(uniform, float), normal=jnp.asarray(normal, float))


def start(env):
    return env.reset(env.draw(jax.random.key(0)))[0]


def walk(env, actions, noises):
    """The transitions of given actions under given noise."""
    state, steps = start(env), []
    for action, given in zip(actions, noises, strict=True):
        steps.append(env.transition(state, jnp.asarray(action), given))
        state = steps[-1].next_state
    return steps


def draw_action(probabilities, obs, key):
    """A policy that draws its action with the same probabilities everywhere."""
    return jnp.sum(jax.random.uniform(key) >= jnp.cumsum(probabilities)[:-1])


def sample_rewards(env, state, action):
    """The rewards of one action in one state under 100,000 draws."""
    draws = env.draw(jax.random.key(17), (100_000,))
    return jax.jit(jax.vmap(lambda draw: env.transition(state, action, draw).reward))(draws)


def agrees(samples, exact, other_error=0.0):
    """Within 4 standard errors: wrong by chance once in 15,000 runs."""
    samples = np.asarray(samples, float)
    error = np.hypot(samples.std() / np.sqrt(len(samples)), other_error)
    gap = abs(samples.mean() - exact)
    assert gap < 4 * error, f"{samples.mean()} is {gap / error:.1f} standard errors from {exact}"


def is_refused(make, name, value, advice, as_array):
    """As a number and as a float32 array, which shows more digits of the number."""
    given = jnp.asarray(value, jnp.float32) if as_array else value
    expected = rf"{name} is .*; {advice.split('; ')[1]}" if as_array else advice
    with pytest.raises(ValueError, match=expected):
        make(**{name: given})
