"""Episodes that are cut short, so that a discounted problem is always met where it begins.

A policy that never ends its episode would otherwise leave the first states behind for good, though
the discounted return depends on them most, and no sampled sum would ever reach the multiplier.
"""

import math
from dataclasses import replace
from typing import Any

import jax.numpy as jnp

TIMES = 3.0
"""How often 1 / (1 - discount) steps: what is left then weighs e^-3, a twentieth."""


def usual_limit(discount: float, horizon: int | None) -> int | None:
    """Steps after which an episode is cut; none where the problem ends by itself.

    >>> usual_limit(0.99, None), usual_limit(0.99, 100), usual_limit(1.0, None)
    (300, None, None)
    """
    if horizon is not None or not 0.0 <= discount < 1.0:
        return None
    return math.ceil(round(TIMES / (1.0 - discount), 6))


def cut_short(agent: Any, transition: Any) -> Any:
    """The step, truncated where it is the last one of ``agent.episode_limit``."""
    if agent.episode_limit is None:
        return transition
    late = transition.time + 1 >= agent.episode_limit
    return replace(transition, truncated=transition.truncated | (late & ~transition.terminated))


def with_the_rest(agent: Any, learner: Any, episode: Any, transition: Any) -> Any:
    """The episode; where it is cut short, with the predicted sums of what would have followed."""
    if agent.episode_limit is None:
        return episode
    cut = transition.truncated & ~transition.terminated
    rest = learner.weights @ agent.features(transition.next_obs, transition.time + 1)
    return replace(episode, sums=episode.sums + jnp.where(cut, episode.weights * rest, 0.0))
