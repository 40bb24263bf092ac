"""Experience from a Python environment: act on the host, learn from what was recorded."""

from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np

from downside.environments.python import HostEnvironment, HostTransition

HostAct = Callable[[Any, np.random.Generator], Any]
"""What a policy does on the host: (observation, generator) -> action."""


@final
class HostStream:
    """An endless stream of steps under one policy, episode after episode.

    Every reset is seeded from (seed, stream, episode), so a stream can be repeated.

    >>> from downside.environments.python import wrap
    >>> stream = HostStream(wrap("FrozenLake-v1"), lambda obs, rng: rng.integers(4), seed=(0, 1))
    >>> transitions, next_actions = stream.record(5)
    >>> transitions.obs.shape, next_actions.shape
    ((5,), (5,))
    """

    def __init__(
        self,
        host: HostEnvironment,
        act: HostAct,
        seed: tuple[int, ...],
        max_steps: int | None = None,
    ) -> None:
        self._host = host
        self._act = act
        self._seed = seed
        self._max_steps = max_steps
        self._rng = np.random.default_rng(seed)
        self._episode = 0
        self._begin()

    def record(self, n_steps: int) -> tuple[HostTransition, Any]:
        """The next ``n_steps``, stacked, and the action that follows each of them."""
        steps = [self._step() for _ in range(n_steps)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *steps)

    def _begin(self) -> None:
        words = np.random.SeedSequence((*self._seed, self._episode)).generate_state(1)
        obs = self._host.reset(seed=int(words[0]))
        self._action = self._act(obs, self._rng)
        self._episode += 1

    def _step(self) -> tuple[HostTransition, Any]:
        transition = self._host.step(self._action)
        if transition.time + 1 == self._max_steps:
            transition = _cut(transition)
        next_action = self._act(transition.next_obs, self._rng)
        if transition.terminated or transition.truncated:
            self._begin()
        else:
            self._action = next_action
        return transition, next_action


def _cut(transition: HostTransition) -> HostTransition:
    return HostTransition(**{**vars(transition), "truncated": True})
