"""Any Gymnasium environment, checked at every step, for training code that acts in Python."""

from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import Env, Space, spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv

from downside.checks import check_count, check_probability
from downside.records import record

_LEAVES = (spaces.Discrete, spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)


@record
class HostTransition:
    """One step of an episode in NumPy: what `Transition` is for compiled environments.

    ``discount`` is 0 after a termination and the discount of the problem otherwise, also at a
    truncation. Observations and actions have the structure of their spaces. ``mean_reward`` is
    ``info["mean_reward"]`` where the environment gives it.
    """

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    discount: float
    terminated: bool
    truncated: bool
    time: int
    mean_reward: float | None = None


def wrap(env: Any, discount: float = 1.0, horizon: int | None = None) -> "HostEnvironment":
    """Take a Gymnasium environment by its id, as it is, or from a function that makes it.

    >>> host = wrap("FrozenLake-v1", discount=0.9)
    >>> host.reset(seed=3).item()
    0
    >>> step = host.step(0)
    >>> step.reward, step.discount, step.time
    (0.0, 0.9, 0)
    """
    made: Any = env
    if isinstance(env, str):
        made = gymnasium.make(env)
    elif callable(env):
        made = env()
    if isinstance(made, VectorEnv):
        raise ValueError(
            f"{made} is a vector environment; give the environment of one copy, not of many"
        )
    if not isinstance(made, Env):
        raise ValueError(
            f"env is {made!r}; give a Gymnasium id, an environment, or a function without "
            "arguments that makes one"
        )
    return HostEnvironment(made, discount, horizon)


@final
class HostEnvironment:
    """A Gymnasium environment that is held to its word: five values, finite rewards, its spaces.

    Observations are copies in the type of their space, so an environment may reuse its arrays.
    Numbers a little outside the bounds of a Box are let through, as many environments overshoot
    them; NaN is not. A time limit of Gymnasium is a truncation, not part of the problem, unless a
    ``horizon`` says so: the step that reaches it is then a termination.

    >>> import gymnasium
    >>> host = HostEnvironment(gymnasium.make("CartPole-v1"), discount=0.99)
    >>> host.reset(seed=1).shape, host.step(1).reward
    ((4,), 1.0)
    """

    def __init__(
        self, env: Env[Any, Any], discount: float = 1.0, horizon: int | None = None
    ) -> None:
        check_probability("discount", discount)
        if horizon is not None:
            check_count("horizon", horizon, least=1)
        _check_supported(env.observation_space)
        _check_supported(env.action_space)
        self.env = env
        self.discount = discount
        self.horizon = horizon
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self._obs: Any = None
        self._time = 0
        self._episode = -1
        self._is_running = False

    def reset(self, seed: int | None = None) -> Any:
        """Start an episode and give its first observation."""
        self._time = 0
        self._episode += 1
        self._is_running = False
        result: Any = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(f"reset returned {result!r}; it must return (observation, info)")
        self._obs = _fit(self.observation_space, result[0], f"observation {self._when()}")
        self._is_running = True
        return self._obs

    def step(self, action: Any) -> HostTransition:
        """Make one step."""
        if not self._is_running:
            raise ResetNeeded("no episode is running; call reset() before step()")
        acted = _fit(self.action_space, action, f"action {self._when()}")
        result: Any = self.env.step(acted)
        if not isinstance(result, tuple) or len(result) != 5:
            found = f"{len(result)} values" if isinstance(result, tuple) else f"{result!r}"
            raise ValueError(
                f"step returned {found}; it must return (observation, reward, terminated, "
                "truncated, info), as Gymnasium does and the old gym with its four values did not"
            )
        next_obs, reward, terminated, truncated, info = result
        terminated = bool(terminated) or self._time + 1 == self.horizon
        transition = HostTransition(
            obs=self._obs,
            action=acted,
            reward=self._finite(reward),
            next_obs=_fit(self.observation_space, next_obs, f"observation {self._when()}"),
            discount=0.0 if terminated else self.discount,
            terminated=terminated,
            truncated=bool(truncated),
            time=self._time,
            mean_reward=float(info["mean_reward"]) if "mean_reward" in (info or {}) else None,
        )
        self._obs = transition.next_obs
        self._time += 1
        self._is_running = not (terminated or truncated)
        return transition

    def close(self) -> None:
        """Release what the environment holds."""
        self.env.close()

    def _finite(self, reward: Any) -> float:
        value = np.asarray(reward)
        is_number = value.shape == () and value.dtype.kind in "biuf"
        if not (is_number and np.isfinite(value)):
            raise ValueError(f"reward {self._when()} is {reward!r}; it must be a finite number")
        return float(value)

    def _when(self) -> str:
        return f"at step {self._time} of episode {self._episode}"


def _check_supported(space: Space[Any]) -> None:
    if isinstance(space, spaces.Tuple):
        parts = space.spaces
    elif isinstance(space, spaces.Dict):
        parts = tuple(space.spaces.values())
    elif isinstance(space, _LEAVES):
        return
    else:
        raise ValueError(
            f"the space {space} is not supported; supported are Discrete, Box, MultiBinary, "
            "MultiDiscrete, and Tuple and Dict of these"
        )
    for part in parts:
        _check_supported(part)


def _fit(space: Space[Any], value: Any, name: str) -> Any:
    """A copy of ``value`` in the types of ``space``; what does not fit is an error."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise ValueError(f"{name} is {value!r}; it needs the keys {', '.join(space.spaces)}")
        parts = space.spaces.items()
        return {key: _fit(part, value[key], f"{name}, entry {key!r},") for key, part in parts}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            raise ValueError(
                f"{name} is {value!r}; it must be a tuple of {len(space.spaces)} entries"
            )
        parts = enumerate(zip(space.spaces, value, strict=True))
        return tuple(_fit(part, entry, f"{name}, entry {i},") for i, (part, entry) in parts)
    array, dtype = np.asarray(value), np.dtype(space.dtype)
    if array.shape != space.shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(
            f"{name} has the shape {array.shape} and the type {array.dtype}; "
            f"its space {space} has {space.shape} and {dtype}"
        )
    if array.dtype.kind == "f" and np.any(np.isnan(array)):
        raise ValueError(f"{name} is {value!r}; it must hold numbers, not NaN")
    if not isinstance(space, spaces.Box) and not space.contains(array):
        raise ValueError(f"{name} is {value!r}, which is outside its space {space}")
    return array.astype(dtype)[()]
