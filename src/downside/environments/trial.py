"""Trying an environment: episodes of random actions, looked at step by step."""

import time
from typing import Any, final

import numpy as np
from gymnasium import Env, Space

from downside.environments.findings import Notes, Severity, in_words, shown
from downside.environments.misfits import misfits

MOST_EPISODES = 500
FEWEST_EPISODES = 5
MANY_STEPS = 1000


@final
class Trial:
    """Episodes of random actions, looked at step by step."""

    def __init__(self, notes: Notes, seed: int, deadline: float) -> None:
        self.notes, self.seed, self.deadline = notes, seed, deadline
        self.n_steps = 0
        self.rewards: list[float] = []
        self.ends: list[tuple[int, bool]] = []  # length, terminated

    def run(self, env: Env[Any, Any], n_steps: int, max_episode_steps: int) -> None:
        """At least ``n_steps`` and five episodes, unless they are long or something is wrong."""
        env.action_space.seed(self.seed)
        for episode in range(MOST_EPISODES):
            if not self._episode(env, episode, max_episode_steps):
                break
            enough = len(self.ends) >= FEWEST_EPISODES or self.n_steps >= 5 * n_steps
            if self.n_steps >= n_steps and enough:
                break

    @property
    def has_time(self) -> bool:
        """Whether more may be tried."""
        return time.monotonic() <= self.deadline

    def _episode(self, env: Env[Any, Any], episode: int, most: int) -> bool:
        """One episode; False where nothing more can be learnt by going on."""
        obs = self._reset(env, self.seed + episode)
        if self.notes.kinds & {"reset", "reset failed"}:
            return False
        self._check_observation(env.observation_space, obs, f"after reset {episode}")
        for count in range(most):
            if not self.has_time:
                return self._out_of_time(count)
            where = f"at step {count} of episode {episode}"
            result = self._step(env, env.action_space.sample(), where)
            if result is None:
                return False
            obs, reward, terminated, truncated, info = result
            self._check_observation(env.observation_space, obs, where)
            self._check_reward(reward, where)
            self._check_flags(terminated, truncated, info, where)
            if self.notes.has_errors:
                return False
            self.n_steps += 1
            if bool(terminated) or bool(truncated):
                self.ends.append((count + 1, bool(terminated)))
                return True
        return self._endless(most)

    def _endless(self, n_steps: int) -> bool:
        self.notes.add(
            "endless",
            "warning",
            f"an episode did not end within {n_steps:,} steps of random actions",
            "end it (terminated=True), or set a time limit: gymnasium.make(..., "
            "max_episode_steps=1000) or gymnasium.wrappers.TimeLimit; without an end no risk of an "
            "episode can be measured",
        )
        return False

    def _out_of_time(self, count: int) -> bool:
        """Stopped by the clock: in an endless episode, or among slow ones."""
        if not self.ends and count >= MANY_STEPS:
            return self._endless(count)
        what = f"it is slow: {self.n_steps:,} steps and {len(self.ends)} episodes in the time given"
        advice = "learning takes many thousand steps; make step faster, or give seconds= more"
        self.notes.add("slow", "note", what, advice)
        return False

    def _reset(self, env: Env[Any, Any], seed: int | None) -> Any:
        try:
            result: Any = env.reset(seed=seed)
        except Exception as error:
            what, advice = f"reset fails: {in_words(error)}", "repair it"
            if isinstance(error, TypeError) and "keyword argument 'seed'" in str(error):
                what = f"reset(seed=...) fails: {in_words(error)}"
                advice = "give reset the signature reset(self, *, seed=None, options=None)"
            self.notes.add("reset failed", "error", what, advice)
            return None
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            what = f"reset returned {shown(result)}"
            self.notes.add("reset", "error", what, "return (observation, info), info a dictionary")
            return None
        return result[0]

    def _step(self, env: Env[Any, Any], action: Any, where: str) -> Any:
        try:
            result: Any = env.step(action)
        except Exception as error:
            what = f"step fails {where} with the action {action!r}: {in_words(error)}"
            advice = "every action of the action space must be accepted until the episode ends"
            self.notes.add("step failed", "error", what, advice)
            return None
        if not isinstance(result, tuple) or len(result) != 5:
            is_old = isinstance(result, tuple) and len(result) == 4
            what = f"step returned {'four values' if is_old else shown(result)}"
            advice = "return (observation, reward, terminated, truncated, info)"
            if is_old:
                advice += "; the old gym's done is terminated, and truncated at a time limit"
            self.notes.add("step", "error", what, advice)
            return None
        return result

    def _check_observation(self, space: Space[Any], obs: Any, where: str) -> None:
        for severity, what, advice in misfits(space, obs, "the observation"):
            self.notes.add(f"{severity} {advice}", severity, f"{what} {where}", advice)

    def _check_reward(self, reward: Any, where: str) -> None:
        try:
            value = np.asarray(reward)
        except ValueError:
            value = np.asarray(None)
        if value.shape != ():
            what = f"the reward {where} is an array of shape {value.shape}"
            self.notes.add("reward", "error", what, "return one number: float(reward)")
        elif value.dtype.kind not in "biuf":
            what = f"the reward {where} is {shown(reward)}, not a number"
            self.notes.add("reward", "error", what, "return one number: float(reward)")
        elif not np.isfinite(value):
            what = f"the reward {where} is {reward}"
            advice = (
                "return a finite number; look for a division by 0, log(0) or an overflow in step"
            )
            self.notes.add("reward", "error", what, advice)
        else:
            self.rewards.append(float(value))

    def _check_flags(self, terminated: Any, truncated: Any, info: Any, where: str) -> None:
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                what = f"{name} {where} is {shown(flag)}, of type {type(flag).__name__}"
                is_number = np.ndim(flag) == 0 and np.asarray(flag).dtype.kind in "biuf"
                is_number = is_number and flag in (0, 1)
                severity: Severity = "warning" if is_number else "error"
                self.notes.add(name, severity, what, f"return True or False: bool({name})")
        if not isinstance(info, dict):
            what = f"info {where} is {shown(info)}"
            self.notes.add("info", "error", what, "return a dictionary, {} if there is nothing")
        elif "mean_reward" in info and not _is_finite_number(info["mean_reward"]):
            what = f"info['mean_reward'] {where} is {shown(info['mean_reward'])}"
            self.notes.add("mean", "error", what, "give one finite number, or leave it out")


def _is_finite_number(value: Any) -> bool:
    number = np.asarray(value)
    return number.shape == () and number.dtype.kind in "biuf" and bool(np.isfinite(number))
