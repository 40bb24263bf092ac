"""Expected SARSA: the next features are averaged over the next action."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from downside.critics.base import Features


def expected_features(
    features: Callable[[Any, Any], Features], obs: Any, probabilities: Any
) -> Features:
    """sum_a pi(a | obs) x(obs, a), to be given to a critic as ``next_x``.

    With it SARSA becomes expected SARSA: the same fixed point with less noise. For compatible
    features the score averages out, so the first part is 0 and no sum is needed.

    >>> actions = lambda obs, action: jax.nn.one_hot(action, 3)
    >>> expected_features(actions, None, jnp.array([0.5, 0.25, 0.25])).tolist()
    [0.5, 0.25, 0.25]
    """
    every = jax.vmap(lambda action: features(obs, action))(jnp.arange(probabilities.shape[-1]))
    return probabilities @ every
