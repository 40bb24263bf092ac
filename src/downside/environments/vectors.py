"""Vector environments of Gymnasium, copy by copy: all make a step in one call.

What a copy returns is the same in each of Gymnasium's autoreset modes: the last observation of an
episode comes with its last step, and a reset is no step. Copies that a mask can reset
(``options={"reset_mask": ...}``, as in Gymnasium's own and in ours) begin every episode with a seed
of their own; others begin them by themselves.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, final

import numpy as np
from gymnasium import Env
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from downside.environments.gymnasium import GymnasiumVectorEnv
from downside.environments.python import HostEnvironment, time_limit

_PROBE_STEPS = 10


@final
class HostVector:
    """A vector environment; its ``copies`` check what comes from each.

    >>> import gymnasium
    >>> envs = SyncVectorEnv([lambda: gymnasium.make("FrozenLake-v1")] * 2)
    >>> vector = HostVector(envs)
    >>> vector.resets_each, vector.num_envs, vector.horizon
    (True, 2, 100)
    >>> [obs.item() for obs, info in vector.reset({0: 5, 1: 6}).values()]
    [0, 0]
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        discount: float | None = None,
        horizon: int | None = None,
    ) -> None:
        self.envs, self.num_envs = envs, int(envs.num_envs)
        self.observation_space = envs.single_observation_space
        self.action_space = envs.single_action_space
        self.mode = _mode_of(envs)
        self._over = np.zeros(self.num_envs, bool)
        self._obs: list[Any] = []
        model = _model_of(envs)
        self.time_limit = time_limit(model)
        if horizon is None and discount in (None, 1.0):
            horizon = self.time_limit
        self.discount, self.horizon = 1.0 if discount is None else discount, horizon
        wealth = bool(_attribute(model, "log_returns"))
        copies = (_Copy(self, i, log_returns=wealth) for i in range(self.num_envs))
        self.copies = [HostEnvironment(copy, self.discount, horizon) for copy in copies]
        self.resets_each = _resets_each(self)

    def reset(self, seeds: Mapping[int, int | None]) -> dict[int, tuple[Any, dict[str, Any]]]:
        """Begin episodes of some copies; of all, where they cannot be reset one by one."""
        if self.resets_each:
            return self.reset_some(seeds)
        obs, _ = self.envs.reset(seed=next(iter(seeds.values())))
        self._over[:] = False
        self._obs = self._split(obs)
        return {i: self.shown(i) for i in seeds}

    def reset_some(self, seeds: Mapping[int, int | None]) -> dict[int, tuple[Any, dict[str, Any]]]:
        """Begin episodes of some copies, by a mask."""
        mask = np.full(self.num_envs, not self._obs)  # all of them the first time
        mask[list(seeds)] = True
        each: Any = [seeds.get(i) for i in range(self.num_envs)]
        obs, _ = self.envs.reset(seed=each, options={"reset_mask": mask})
        self._over &= ~mask
        self._obs = self._split(obs)
        return {i: self.shown(i) for i in seeds}

    def step(self, actions: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What ``step`` of each copy would return; what ``reset`` would, where it began anew.

        That is the case after an end in the mode NEXT_STEP, if nobody has reset the copy.
        """
        # A new array for each step, since a copy may keep its action.
        room = create_empty_array(self.action_space, self.num_envs)
        result: Any = self.envs.step(concatenate(self.action_space, actions, room))
        if not isinstance(result, tuple) or len(result) != 5:
            raise ValueError(
                f"step of {self.envs} returned {result!r}; it must return (observations, rewards, "
                "terminations, truncations, infos)"
            )
        obs, *rows, info = result
        if any(np.shape(row) != (self.num_envs,) for row in rows):
            raise ValueError(
                f"rewards, terminations and truncations of {self.envs} have the shapes "
                f"{', '.join(str(np.shape(row)) for row in rows)}; each must be a number for each "
                f"of the {self.num_envs} copies"
            )
        rewards, terminated, truncated = (np.asarray(row) for row in rows)
        if terminated.dtype.kind not in "biu" or truncated.dtype.kind not in "biu":
            raise ValueError(
                f"terminations and truncations of {self.envs} are of type {terminated.dtype} and "
                f"{truncated.dtype}; give arrays of True and False"
            )
        terminated, truncated = terminated.astype(bool), truncated.astype(bool)
        began = self._over & (self.mode is AutoresetMode.NEXT_STEP)
        self._obs, self._over = self._split(obs), (terminated | truncated) & ~began
        ended = self._over & (self.mode is AutoresetMode.SAME_STEP)
        if ended.any() and "final_obs" not in info:
            raise ValueError(
                f"{self.envs} begins anew in the step that ends an episode (SAME_STEP), and its "
                'infos lack the last observation; give it as infos["final_obs"]'
            )
        found: list[tuple[Any, ...]] = []
        for i, row in enumerate(zip(rewards.tolist(), terminated, truncated, strict=True)):
            last = info["final_obs"][i] if ended[i] else self._obs[i]
            of_step = info.get("final_info", {}) if ended[i] else info
            found.append(self.shown(i) if began[i] else (last, *row, _mean_reward(of_step, i)))
        return found

    def shown(self, i: int) -> tuple[Any, dict[str, Any]]:
        """What ``reset`` of copy i would return, where it has just begun an episode."""
        return self._obs[i], {}

    def is_over(self, i: int) -> bool:
        """Whether the last step of copy i ended its episode."""
        return bool(self._over[i])

    def close(self) -> None:
        """Release what the environments hold."""
        self.envs.close()

    def _split(self, obs: Any) -> list[Any]:
        return list(iterate(self.envs.observation_space, obs))


@final
class _Copy(Env[Any, Any]):
    """One copy as an environment by itself: the others take the same actions, for nothing."""

    def __init__(self, vector: HostVector, i: int, *, log_returns: bool) -> None:
        self._vector, self._i, self.log_returns = vector, i, log_returns
        self.observation_space, self.action_space = vector.observation_space, vector.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """An episode; where copies cannot be reset one by one, they all begin."""
        return self._vector.reset({self._i: seed})[self._i]

    def step(self, action: Any) -> Any:
        """A step of all."""
        vector = self._vector
        found = vector.step([action] * vector.num_envs)[self._i]
        others = [j for j in range(vector.num_envs) if j != self._i and vector.is_over(j)]
        if vector.resets_each and others:
            vector.reset_some(dict.fromkeys(others))
        return found

    def close(self) -> None:
        """With all others."""
        self._vector.close()


def _mode_of(envs: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Said by the environment, or by its metadata, which those of one class may have in common."""
    mode: Any = getattr(envs.unwrapped, "autoreset_mode", None)
    mode = mode or (envs.metadata or {}).get("autoreset_mode")
    if mode is None:
        raise ValueError(
            f"{envs} does not say how its copies begin anew; set metadata = "
            '{"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}, or what it does'
        )
    return AutoresetMode(mode)


def _model_of(envs: VectorEnv[Any, Any, Any]) -> Any:
    """What tells of the copies: the first one, one that is made for that, or the whole."""
    inner = envs.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return inner.envs[0]
    if isinstance(inner, AsyncVectorEnv):
        made = inner.env_fns[0]()
        made.close()
        return made
    return inner


def _attribute(model: Any, name: str) -> Any:
    """Of an environment in its wrappers, or None."""
    try:
        return model.get_wrapper_attr(name) if isinstance(model, Env) else getattr(model, name)
    except AttributeError:
        return None


def _resets_each(vector: HostVector) -> bool:
    """Whether a mask resets single copies, each with its own seed.

    Without autoreset it must. Gymnasium's own and ours do, but for one that forgets such resets;
    others have to show it.
    """
    envs, inner = vector.envs, vector.envs.unwrapped
    next_step = vector.mode is AutoresetMode.NEXT_STEP
    if isinstance(inner, AsyncVectorEnv) and not inner.shared_memory:
        return not next_step
    known = SyncVectorEnv | AsyncVectorEnv | GymnasiumVectorEnv
    if isinstance(envs, known) or vector.mode is AutoresetMode.DISABLED:
        return True
    if next_step and not isinstance(inner, known):
        return False  # whether it forgets its own reset after ours cannot be seen
    return _leaves_others_alone(vector)


def _leaves_others_alone(vector: HostVector) -> bool:
    """Whether a reset of the first copy is seen not to change the others."""
    everyone, space = range(vector.num_envs), vector.action_space
    space.seed(0)
    try:
        vector.reset_some({i: i for i in everyone})
        started = [deepcopy(vector.shown(i)) for i in everyone[1:]]
        for _ in range(_PROBE_STEPS):
            if not any(vector.is_over(i) for i in everyone):
                vector.step([space.sample() for _ in everyone])
        before = [deepcopy(vector.shown(i)) for i in everyone[1:]]
        vector.reset_some({0: 0})
        after = [vector.shown(i) for i in everyone[1:]]
    except Exception:  # whatever it makes of arguments that it does not know
        return False
    return data_equivalence(before, after) and not data_equivalence(before, started)


def _mean_reward(info: Any, i: int) -> dict[str, float]:
    """The exact mean reward of copy i, if it gave it."""
    given = info.get("_mean_reward")  # which copies gave one; all, where it does not say
    if "mean_reward" not in info or (given is not None and not given[i]):
        return {}
    return {"mean_reward": float(info["mean_reward"][i])}
