"""Small Python environments for the tests of agents."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

_SHARED = np.random.default_rng(0)


class Drift(gymnasium.Env[Any, Any]):
    """Push a drifting point to the right; it ends by chance, and at 3 on either side.

    Action 1 moves right, which pays; a larger step also has a larger spread.
    """

    def __init__(self, scale: float = 1.0, honest: bool = True, **spoilt: Any) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.scale, self.honest, self.spoilt, self.count = scale, honest, spoilt, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.rng = self.np_random if self.honest else _SHARED
        self.x, self.time = float(self.rng.normal()), 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        move = (0.3 if action == 1 else -0.1) + 0.2 * (1 + action) * float(self.rng.normal())
        self.x += move
        self.time += 1
        self.count += 1
        over = bool(abs(self.x) > 3.0 or self.rng.random() < 0.1)
        result = (self._obs(), self.scale * move, over, self.time >= 12, {})
        if self.count == 55 and "result" in self.spoilt:
            return self.spoilt["result"](*result)
        return result

    def _obs(self) -> Any:
        return np.array([self.x, 0.1 * self.time], np.float32)


class Endless(Drift):
    """No episode of this one ends by itself."""

    def step(self, action: Any) -> Any:
        self.x = min(max(self.x, -2.0), 2.0)
        return (*super().step(action)[:2], False, False, {})


class Spaces(gymnasium.Env[Any, Any]):
    """Takes any action of its space, shows any observation, pays for the first number of it."""

    def __init__(self, observations: Any, actions: Any) -> None:
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        first = action
        while isinstance(first, dict | tuple):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        reward = float(np.ravel(first)[0])
        return (
            self.observation_space.sample(),
            reward,
            bool(self.np_random.random() < 0.2),
            False,
            {},
        )


class OwnResets(VectorEnv[Any, Any, Any]):
    """Three walks that cannot be reset one by one, as many vectorised simulators are.

    The reward of every step is another number; ``made`` holds those of each copy, in order.
    """

    num_envs = 3
    single_observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    single_action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (3, 2), np.float32)
    action_space = spaces.MultiDiscrete([2, 2, 2])

    def __init__(self, mode: AutoresetMode) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.made: list[list[float]] = [[], [], []]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if options:
            raise TypeError(f"unknown options {options}")
        self.rngs = [np.random.default_rng((seed or 0, i)) for i in range(3)]
        self.x = np.array([rng.normal() for rng in self.rngs])
        self.over = np.zeros(3, bool)
        return self._obs(), {}

    def step(self, actions: Any) -> Any:
        next_step = self.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        waiting = self.over if next_step else np.zeros(3, bool)
        rewards, over, info = np.zeros(3), np.zeros(3, bool), {}
        for i, rng in enumerate(self.rngs):
            if waiting[i]:
                self.x[i] = rng.normal()
                continue
            move = (0.3 if actions[i] else -0.1) + 0.2 * float(rng.normal())
            self.x[i] += move
            rewards[i], over[i] = move, rng.random() < (0.1, 0.2, 0.5)[i]
            self.made[i].append(move)
        if over.any() and not next_step:
            last = self._obs()
            info = {"final_obs": np.array([*last, None], object)[:3], "_final_obs": over}
            for i in np.flatnonzero(over):
                self.x[i] = self.rngs[i].normal()
        self.over = over
        return self._obs(), rewards, over, np.zeros(3, bool), info

    def _obs(self) -> Any:
        return np.stack([self.x, 0.5 * self.x**2], axis=1).astype(np.float32)
