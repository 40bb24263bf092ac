"""Any Gymnasium environment, checked at every step, for training code that acts in Python."""

from collections.abc import Callable
from math import isfinite
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import Env, Space, spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv

from downside.checks import check_count, check_probability
from downside.environments.findings import shown
from downside.environments.misfits import LARGEST
from downside.records import record

EMPTY = "declare what is observed or chosen; for nothing at all, spaces.Discrete(1) observed"
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


def settled(host: "HostEnvironment", discount: float | None, horizon: int | None) -> Any:
    """The discount and horizon of the problem where the user leaves them open.

    Without a discount the return is the plain sum of the rewards, and a time limit of Gymnasium
    belongs to the problem; with one, the limit only cuts the experience short.

    >>> settled(wrap("CartPole-v1"), None, None).horizon, wrap("CartPole-v1", 0.99).horizon
    (500, None)
    """
    if horizon is None and discount in (None, 1.0):
        horizon = time_limit(host.env)
    return HostEnvironment(host.env, 1.0 if discount is None else discount, horizon)


def time_limit(env: Any) -> int | None:
    """That of the registration, or of a TimeLimit wrapper."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return env._max_episode_steps  # pyright: ignore[reportPrivateUsage]
        env = env.env
    return None


@final
class HostEnvironment:
    """A Gymnasium environment that is held to its word: five values, finite rewards, its spaces.

    Observations are copies in the type of their space, so an environment may reuse its arrays.
    Numbers a little outside the bounds of a Box are let through, as many environments overshoot
    them; NaN and infinity are not. A time limit of Gymnasium is a truncation, not part of the
    problem, unless a ``horizon`` says so: the step that reaches it is then a termination.

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
        self._is_plain = _plain_check(env.observation_space)

    @property
    def time_limit(self) -> int | None:
        """That of Gymnasium, whether it belongs to the problem or not."""
        return time_limit(self.env)

    @property
    def time(self) -> int:
        """The steps that the episode has made."""
        return self._time

    def reset(self, seed: int | None = None) -> Any:
        """Start an episode and give its first observation."""
        self._is_running = False
        try:
            result: Any = self.env.reset(seed=seed)
        except TypeError as error:
            if "seed" not in str(error):
                raise
            raise ValueError(
                f"reset(seed=...) fails: {error}; give it the signature "
                "reset(self, *, seed=None, options=None)"
            ) from error
        return self.begin(result)

    def begin(self, result: Any) -> Any:
        """The first observation of an episode, from what the environment's reset returned."""
        self._time = 0
        self._episode += 1
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise ValueError(
                f"reset returned {shown(result)}; it must return (observation, info), info a "
                "dictionary"
            )
        self._obs = _fit(self.observation_space, result[0], f"observation {self._when()}")
        self._is_running = True
        return self._obs

    def step(self, action: Any) -> HostTransition:
        """Make one step."""
        if not self._is_running:
            raise ResetNeeded("no episode is running; call reset() before step()")
        acted = _fit(self.action_space, action, f"action {self._when()}")
        obs, time = self._obs, self._time
        next_obs, reward, terminated, truncated, mean_reward = self.advance(acted)
        self._obs = _copied(next_obs)
        return HostTransition(
            obs=obs,
            action=acted,
            reward=reward,
            next_obs=self._obs,
            discount=0.0 if terminated else self.discount,
            terminated=terminated,
            truncated=truncated,
            time=time,
            mean_reward=mean_reward,
        )

    def advance(self, action: Any) -> tuple[Any, float, bool, bool, float | None]:
        """Make one step with an action that is known to be legal, as fast as checks allow.

        Observation, reward, terminated, truncated and ``info["mean_reward"]``, all checked. The
        observation may be the environment's own array: copy it before the next step.
        """
        return self.accept(self.env.step(action))

    def accept(self, result: Any) -> tuple[Any, float, bool, bool, float | None]:
        """What `advance` gives, from what the environment's step returned."""
        if not isinstance(result, tuple) or len(result) != 5:
            found = f"{len(result)} values" if isinstance(result, tuple) else shown(result)
            raise ValueError(
                f"step returned {found}; it must return (observation, reward, terminated, "
                "truncated, info), as Gymnasium does and the old gym with its four values did not"
            )
        next_obs, reward, terminated, truncated, info = result
        if not self._is_plain(next_obs):
            next_obs = _fit(self.observation_space, next_obs, f"observation {self._when()}")
        if not (isinstance(reward, float) and isfinite(reward)):
            reward = self._finite("reward", reward)
        if type(terminated) is not bool:
            terminated = self._flag("terminated", terminated)
        if type(truncated) is not bool:
            truncated = self._flag("truncated", truncated)
        if not isinstance(info, dict):
            raise ValueError(
                f"info {self._when()} is {shown(info)}; it must be a dictionary, {{}} if there is "
                "nothing"
            )
        mean = None
        if info and "mean_reward" in info:
            mean = self._finite("info['mean_reward']", info["mean_reward"])
        self._time += 1
        terminated = terminated or self._time == self.horizon
        self._is_running = not (terminated or truncated)
        return next_obs, reward, terminated, truncated, mean

    def close(self) -> None:
        """Release what the environment holds."""
        self.env.close()

    def _finite(self, name: str, number: Any) -> float:
        value = _array(number)
        is_number = value.shape == () and value.dtype.kind in "biuf"
        if not (is_number and np.isfinite(value)):
            advice = "" if is_number else ", such as float(reward)"
            raise ValueError(
                f"{name} {self._when()} is {shown(number)}; it must be one finite number{advice}"
            )
        return float(value)

    def _flag(self, name: str, flag: Any) -> bool:
        value = _array(flag)
        if value.shape != () or value.dtype.kind not in "biuf" or value not in (0, 1):
            raise ValueError(f"{name} {self._when()} is {shown(flag)}; it must be True or False")
        return bool(flag)

    def _when(self) -> str:
        return f"at step {self._time} of episode {self._episode}"


def _check_supported(space: Space[Any]) -> None:
    if isinstance(space, spaces.Tuple):
        parts = space.spaces
    elif isinstance(space, spaces.Dict):
        parts = tuple(space.spaces.values())
    elif isinstance(space, _LEAVES):
        parts = ()
        if isinstance(space, spaces.Box | spaces.MultiBinary) and 0 in space.shape:
            raise ValueError(f"the space {space} holds no numbers; {EMPTY}")
    else:
        raise ValueError(
            f"the space {space} is not supported; supported are Discrete, Box, MultiBinary, "
            "MultiDiscrete, and Tuple and Dict of these"
        )
    if isinstance(space, spaces.Tuple | spaces.Dict) and not parts:
        raise ValueError(f"the space {space} is empty; {EMPTY}")
    for part in parts:
        _check_supported(part)


def _plain_check(space: Space[Any]) -> Callable[[Any], bool]:
    """The usual case in less than a microsecond: whether an observation is as its space says."""
    shape, dtype, array = space.shape, space.dtype, np.ndarray
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n)
        return lambda obs: isinstance(obs, int | np.integer) and bool(low <= obs < high)
    if not isinstance(space, spaces.Box) or dtype is None or dtype.kind != "f" or shape == ():
        return lambda obs: False

    def is_plain(obs: Any) -> bool:
        if type(obs) is not array or obs.dtype != dtype or obs.shape != shape:
            return False
        flat = obs if len(obs.shape) == 1 else obs.reshape(-1)
        return isfinite(flat.dot(flat))  # not finite where one of its numbers is not

    return is_plain


def _array(value: Any) -> np.ndarray:
    """What NumPy makes of it; nothing, of lists of unequal lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def _copied(obs: Any) -> Any:
    """A copy that later steps cannot change; what `_fit` made is one already."""
    return obs.copy() if isinstance(obs, np.ndarray) else obs


def _fit(space: Space[Any], value: Any, name: str) -> Any:
    """A copy of ``value`` in the types of ``space``; what does not fit is an error."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            keys = ", ".join(space.spaces)
            raise ValueError(f"{name} is {shown(value)}; it needs the keys {keys}")
        parts = space.spaces.items()
        return {key: _fit(part, value[key], f"{name}, entry {key!r},") for key, part in parts}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            raise ValueError(
                f"{name} is {shown(value)}; it must be a tuple of {len(space.spaces)} entries"
            )
        parts = enumerate(zip(space.spaces, value, strict=True))
        return tuple(_fit(part, entry, f"{name}, entry {i},") for i, (part, entry) in parts)
    array, dtype = _array(value), np.dtype(space.dtype)
    if array.shape != space.shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(
            f"{name} has the shape {array.shape} and the type {array.dtype}; "
            f"its space {space} has {space.shape} and {dtype}"
        )
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name} is {shown(value)}; it must hold numbers, not NaN and not infinity"
        )
    if array.dtype.kind == "f" and array.itemsize > 4 and np.any(np.abs(array) > LARGEST):
        raise ValueError(f"{name} is {shown(value)}; it must be smaller, such as a logarithm")
    fitted = array.astype(dtype)[()]
    if not isinstance(space, spaces.Box) and not space.contains(fitted):
        raise ValueError(f"{name} is {shown(value)}, which is outside its space {space}")
    return fitted
