"""A good environment, and how to break one thing in it."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env[Any, Any]):
    """A good environment: a walk on a line that ends at either side. Others break one thing."""

    observation_space: Any = spaces.Box(-5.0, 5.0, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.time = 0.0, 0
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.place += (1.0 if action else -1.0) * self.np_random.random()
        return self.obs(), self.reward(), self.over(), False, {}

    def obs(self) -> Any:
        return np.array([self.place, 0.5], np.float32)

    def reward(self) -> Any:
        return self.place

    def over(self) -> Any:
        return abs(self.place) > 4.0


def broken(name: str, **changes: Any) -> Any:
    """A walk with some of its parts replaced."""
    return type(name, (Walk,), changes)()


def rewards(value: Any, from_step: int = 0) -> Any:
    count = 0

    def reward(self: Any) -> Any:
        nonlocal count
        count += 1
        return value if count > from_step else self.place

    return broken("Rewards", reward=reward)


def observing(obs: Any, space: Any = None) -> Any:
    spaces_of = {} if space is None else {"observation_space": space}
    return broken("Observing", obs=obs, **spaces_of)


def stepping(change: Any) -> Any:
    return broken("Stepping", step=lambda self, action: change(*Walk.step(self, action)))
