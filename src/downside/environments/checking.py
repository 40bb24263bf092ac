"""Looking an environment over before anything learns from it: what is wrong, and what to do."""

import copy
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

import gymnasium
import numpy as np
from gymnasium import Env, Space, spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.vector import VectorEnv

from downside.checks import check_count
from downside.environments.base import Environment
from downside.environments.gymnasium import GymnasiumEnv

Severity = Literal["error", "warning", "note"]

SUPPORTED = (spaces.Discrete, spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)
SMALL, LARGE = 1e-3, 1e3
MOST_EPISODES = 500
FEWEST_EPISODES = 5
FEW_STEPS = 50

# What Gymnasium's checker says of environments that are fine, its own among them.
HARMLESS = (
    "is not within the observation space",  # ours says more, and lets infinite bounds be
    "render",
    "different from the unwrapped version",
    "spec",
    "recommend using a symmetric and normalized space",
    "infinity",
    "Casting input",
    "same as the high value",
    "should be an int or np.integer",
    "precision lowered",
    "out of date",
    "deprecated",
)


@dataclass(frozen=True)
class Finding:
    """One thing about an environment: how bad, what it is, and what to do about it.

    >>> print(Finding("error", "the reward at step 3 is nan", "return a finite number"))
    error: the reward at step 3 is nan
           -> return a finite number
    """

    severity: Severity
    what: str
    advice: str

    def __str__(self) -> str:
        indent = " " * (len(self.severity) + 2)
        return f"{self.severity}: {self.what}\n{indent}-> {self.advice}"


@final
@dataclass(frozen=True)
class EnvironmentCheck:
    """What was found; ``ok`` unless something would break or falsify learning."""

    name: str
    findings: tuple[Finding, ...]
    n_steps: int = 0
    n_episodes: int = 0

    @property
    def ok(self) -> bool:
        """No errors; warnings and notes may stand."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """What must be repaired."""
        return [each for each in self.findings if each.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What is probably not meant."""
        return [each for each in self.findings if each.severity == "warning"]

    def __str__(self) -> str:
        rank = {name: i for i, name in enumerate(get_args(Severity))}
        lines = [str(each) for each in sorted(self.findings, key=lambda f: rank[f.severity])]
        seen = f"{self.n_steps:,} steps in {self.n_episodes} episodes of random actions"
        counts = Counter(each.severity for each in self.findings)
        words = ", ".join(_counted(counts[name], name) for name in rank if counts[name])
        return "\n".join([f"{self.name}: {words or 'nothing found'} ({seen})", *lines])


def check_env(
    env: Any,
    *,
    n_steps: int = 2000,
    max_episode_steps: int = 100_000,
    seconds: float = 30.0,
    seed: int = 0,
    raise_errors: bool = False,
) -> EnvironmentCheck:
    """Try an environment with random actions and say in plain words what is wrong with it.

    ``env`` is one of ours, a Gymnasium id, an environment, or a function that makes one. At least
    ``n_steps`` steps and 5 episodes are made (fewer if they are long, at most 500); one that is not
    over after ``max_episode_steps`` counts as endless. After ``seconds`` no more is tried.
    Gymnasium's own checker is run too. Nothing is raised for what is found, unless
    ``raise_errors``.

    >>> print(check_env("CartPole-v1", n_steps=200).ok)
    True
    """
    check_count("n_steps", n_steps, least=2)
    check_count("max_episode_steps", max_episode_steps, least=1)
    name = env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    notes = _Notes()
    made = _make(env, notes)
    trial = _Trial(notes, seed, time.monotonic() + seconds)
    if made is not None:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            trial.run(made, n_steps, max_episode_steps)
    result = EnvironmentCheck(name, tuple(notes.found), trial.n_steps, len(trial.ends))
    if raise_errors and not result.ok:
        raise ValueError(str(result))
    return result


@dataclass
class _Notes:
    """Findings, each kind once."""

    found: list[Finding] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def add(self, kind: str, severity: Severity, what: str, advice: str) -> None:
        if kind not in self.kinds:
            self.kinds.add(kind)
            self.found.append(Finding(severity, what, advice))

    @property
    def has_errors(self) -> bool:
        return any(each.severity == "error" for each in self.found)


def _make(env: Any, notes: _Notes) -> Env[Any, Any] | None:
    """The environment itself, or None with a finding."""
    made: Any = env
    try:
        if isinstance(env, Environment):
            made = GymnasiumEnv(env)
        elif isinstance(env, str):
            made = gymnasium.make(env, disable_env_checker=True)
        elif callable(env):
            made = env()
    except Exception as error:
        notes.add("make", "error", f"it cannot be made: {_words(error)}", "make it run first")
        return None
    if isinstance(made, VectorEnv):
        what, advice = "it is a vector environment", "check the environment of one copy"
        notes.add("vector", "error", what, advice)
        return None
    if not isinstance(made, Env):
        what = f"it is {type(made).__name__}, not a gymnasium.Env"
        notes.add("kind", "error", what, "derive it from gymnasium.Env, not from the old gym")
        return None
    for name in ("observation_space", "action_space"):
        space = getattr(made, name, None)
        if not isinstance(space, Space):
            what = f"{name} is {space!r}, not a space of Gymnasium"
            notes.add(name, "error", what, f"set self.{name}, such as spaces.Discrete(3)")
            continue
        _check_space(name, space, notes)
    return None if notes.kinds & {"observation_space", "action_space"} else made


def _check_space(name: str, space: Space[Any], notes: _Notes) -> None:
    for leaf in _leaves(space):
        if not isinstance(leaf, SUPPORTED):
            what = f"{name} holds {leaf}, which nothing here can learn from"
            advice = "use Discrete, Box, MultiBinary, MultiDiscrete, or Tuple and Dict of them"
            notes.add(name, "error", what, advice)
        elif isinstance(leaf, spaces.Box) and np.any(leaf.low > leaf.high):
            what = f"{name} has a lower bound above the upper one"
            notes.add(name, "error", what, "exchange low and high")


class _Trial:
    """Episodes of random actions, looked at step by step."""

    def __init__(self, notes: _Notes, seed: int, deadline: float) -> None:
        self.notes, self.seed, self.deadline = notes, seed, deadline
        self.n_steps = 0
        self.rewards: list[float] = []
        self.ends: list[tuple[int, bool]] = []  # length, terminated

    def run(self, env: Env[Any, Any], n_steps: int, max_episode_steps: int) -> None:
        env.action_space.seed(self.seed)
        for episode in range(MOST_EPISODES):
            if not self._episode(env, episode, max_episode_steps):
                break
            enough = len(self.ends) >= FEWEST_EPISODES or self.n_steps >= 5 * n_steps
            if self.n_steps >= n_steps and enough:
                break
        if self.notes.has_errors:
            return
        try:
            self._check_seed(env)
            self._check_copies(env)
        except Exception as error:
            what = f"it fails when it is run again: {_words(error)}"
            self.notes.add("again", "error", what, "let reset start from scratch, from any state")
        if not isinstance(env.unwrapped, GymnasiumEnv):  # the horizon of ours is the problem's
            self._check_ends()
        self._check_scale()
        self._check_with_gymnasium(env)

    def _episode(self, env: Env[Any, Any], episode: int, most: int) -> bool:
        """One episode; False where nothing more can be learnt by going on."""
        obs = self._reset(env, self.seed + episode)
        if self.notes.kinds & {"reset", "reset failed"}:
            return False
        self._check_observation(env.observation_space, obs, f"after reset {episode}")
        for count in range(most):
            if time.monotonic() > self.deadline:
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
        if not self.ends:
            return self._endless(count)
        what = f"it is slow: {self.n_steps:,} steps and {len(self.ends)} episodes in the time given"
        advice = "learning takes many thousand steps; make step faster, or give seconds= more"
        self.notes.add("slow", "note", what, advice)
        return False

    def _reset(self, env: Env[Any, Any], seed: int | None) -> Any:
        try:
            result: Any = env.reset(seed=seed)
        except TypeError as error:
            advice = "give reset the signature reset(self, *, seed=None, options=None)"
            self.notes.add(
                "reset failed", "error", f"reset(seed=...) fails: {_words(error)}", advice
            )
            return None
        except Exception as error:
            self.notes.add("reset failed", "error", f"reset fails: {_words(error)}", "repair it")
            return None
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            what = f"reset returned {_shown(result)}"
            self.notes.add("reset", "error", what, "return (observation, info), info a dictionary")
            return None
        return result[0]

    def _step(self, env: Env[Any, Any], action: Any, where: str) -> Any:
        try:
            result: Any = env.step(action)
        except Exception as error:
            what = f"step fails {where} with the action {action!r}: {_words(error)}"
            advice = "every action of the action space must be accepted until the episode ends"
            self.notes.add("step failed", "error", what, advice)
            return None
        if not isinstance(result, tuple) or len(result) != 5:
            is_old = isinstance(result, tuple) and len(result) == 4
            what = f"step returned {'four values' if is_old else _shown(result)}"
            advice = "return (observation, reward, terminated, truncated, info)"
            if is_old:
                advice += "; the old gym's done is terminated, and truncated at a time limit"
            self.notes.add("step", "error", what, advice)
            return None
        return result

    def _check_observation(self, space: Space[Any], obs: Any, where: str) -> None:
        for severity, what, advice in _misfits(space, obs, "the observation"):
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
            what = f"the reward {where} is {_shown(reward)}, not a number"
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
                what = f"{name} {where} is {_shown(flag)}, of type {type(flag).__name__}"
                is_number = np.ndim(flag) == 0 and flag in (0, 1)
                severity: Severity = "warning" if is_number else "error"
                self.notes.add(name, severity, what, f"return True or False: bool({name})")
        if not isinstance(info, dict):
            what = f"info {where} is {_shown(info)}"
            self.notes.add("info", "error", what, "return a dictionary, {} if there is nothing")

    def _replay(self, env: Env[Any, Any], actions: list[Any]) -> list[Any]:
        """What the environment shows when it is seeded and given these actions."""
        obs, _ = env.reset(seed=self.seed + 7)
        shown: list[Any] = [copy.deepcopy(obs)]
        for action in actions:
            obs, reward, terminated, truncated, _ = env.step(action)
            shown.append(copy.deepcopy((obs, float(reward), bool(terminated), bool(truncated))))
            if terminated or truncated:
                break
        return shown

    def _check_seed(self, env: Env[Any, Any]) -> None:
        actions = [env.action_space.sample() for _ in range(FEW_STEPS)]
        first, second = self._replay(env, actions), self._replay(env, actions)
        if not _same(first, second):
            pairs = enumerate(zip(first, second, strict=False))
            k = next((i for i, (a, b) in pairs if not _same(a, b)), 0)
            when = "in the first observation" if k == 0 else f"at step {k - 1}"
            self.notes.add(
                "seed",
                "warning",
                f"the same seed and the same actions lead to something else ({when})",
                "call super().reset(seed=seed), draw from self.np_random only, and let reset start "
                "from scratch; until then runs cannot be repeated, nor policies compared on the "
                "same luck",
            )

    def _check_copies(self, env: Env[Any, Any]) -> None:
        """Steps of a copy must not show in the original."""
        if "seed" in self.notes.kinds:
            return
        try:
            other = copy.deepcopy(env)
        except Exception:
            return  # what cannot be copied shares nothing with a copy
        actions = [env.action_space.sample() for _ in range(FEW_STEPS)]
        alone = self._replay(env, actions)
        env.reset(seed=self.seed + 7)
        other.reset(seed=self.seed + 8)
        running = True
        for action, expected in zip(actions, alone[1:], strict=False):
            if running:
                _, _, terminated, truncated, _ = other.step(other.action_space.sample())
                running = not (terminated or truncated)
            obs, reward, terminated, truncated, _ = env.step(action)
            if not _same((obs, float(reward), bool(terminated), bool(truncated)), expected):
                self.notes.add(
                    "shared",
                    "error",
                    "steps of one copy change another: state is shared between copies",
                    "keep the state in self, set in reset; not in the class, a global variable or "
                    "a default argument",
                )
                return

    def _check_ends(self) -> None:
        """A limit that is reported as an end."""
        lengths = {length for length, _ in self.ends}
        all_terminated = all(terminated for _, terminated in self.ends)
        enough = len(self.ends) >= FEWEST_EPISODES
        if enough and len(lengths) == 1 and all_terminated and lengths != {1}:
            (length,) = lengths
            self.notes.add(
                "limit",
                "warning",
                f"all {len(self.ends)} episodes end after exactly {length} steps with "
                "terminated=True",
                "if that is a time limit and the problem itself goes on, return truncated=True "
                "there (or use gymnasium's TimeLimit), since what would follow has a value; if the "
                "problem itself ends then, all is well",
            )

    def _check_scale(self) -> None:
        size = float(np.max(np.abs(self.rewards), initial=0.0))
        if size == 0.0:
            self.notes.add(
                "scale",
                "note",
                "every reward of random actions was 0",
                "nothing is learnt until a reward is found: see that random actions find some",
            )
        elif not SMALL <= size <= LARGE:
            self.notes.add(
                "scale",
                "note",
                f"rewards are up to {size:.3g} in size",
                "learning in batches (the default) measures in units of its own and does not mind; "
                'with way="online" the default step sizes are made for rewards of about 1: scale '
                "the rewards, or set step_size and critic_step_size",
            )

    def _check_with_gymnasium(self, env: Env[Any, Any]) -> None:
        """What Gymnasium's checker adds to all this."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                gymnasium_check(env.unwrapped, skip_render_check=True)
        except Exception as error:
            if not _is_harmless(str(error)):
                what = f"Gymnasium's checker: {_words(error)}"
                self.notes.add("gymnasium", "warning", what, "see gymnasium.utils.env_checker")
            return
        for each in caught:
            if not _is_harmless(str(each.message)):
                what = f"Gymnasium's checker: {_plain(str(each.message))}"
                self.notes.add(what, "note", what, "see gymnasium.utils.env_checker")


def _misfits(space: Space[Any], value: Any, name: str) -> Iterator[tuple[Severity, str, str]]:
    """How a value fails to be an element of its space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict):
            yield (
                "error",
                f"{name} is {_shown(value)}, not a dictionary",
                "return a dictionary, as its space",
            )
            return
        missing, extra = space.spaces.keys() - value.keys(), value.keys() - space.spaces.keys()
        if missing or extra:
            words = [f"lacks {', '.join(map(repr, sorted(missing)))}"] if missing else []
            words += [f"has {', '.join(map(repr, sorted(extra)))} too many"] if extra else []
            yield "error", f"{name} {' and '.join(words)}", "return the keys of its Dict space"
            return
        for key, part in space.spaces.items():
            yield from _misfits(part, value[key], f"{name}[{key!r}]")
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            what = f"{name} is {_shown(value)}, not a tuple of {len(space.spaces)}"
            yield "error", what, "return a tuple, as its space"
            return
        for i, (part, entry) in enumerate(zip(space.spaces, value, strict=True)):
            yield from _misfits(part, entry, f"{name}[{i}]")
        return
    yield from _leaf_misfits(space, value, name)


def _leaf_misfits(space: Space[Any], value: Any, name: str) -> Iterator[tuple[Severity, str, str]]:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    dtype = np.dtype(space.dtype)
    if array.dtype.kind not in "biuf":
        yield "error", f"{name} is {_shown(value)}, not numbers", f"return numbers, as {space}"
    elif array.shape != space.shape:
        what = f"{name} has the shape {array.shape}, and its space {space.shape}"
        yield "error", what, "return the shape of the space, or declare this one"
    elif array.dtype.kind == "f" and np.any(np.isnan(array)):
        yield "error", f"{name} holds NaN", "look for a division by 0 or an overflow in step"
    elif not np.can_cast(array.dtype, dtype, "same_kind"):
        what = f"{name} has the type {array.dtype}, and its space {dtype}"
        yield "error", what, f"return it as .astype(np.{dtype}), or declare the other type"
    elif isinstance(space, spaces.Box):
        if array.dtype != dtype:
            what = f"{name} has the type {array.dtype}, and its space {dtype}"
            yield "warning", what, f"return it as .astype(np.{dtype}), or declare the other type"
        if np.any(np.isinf(array)):
            yield "error", f"{name} is infinite", "return finite numbers: nothing learns from them"
            return
        over = np.maximum(space.low - array, array - space.high).max(initial=0.0)
        size = np.abs(array).max(initial=1.0)
        if over > 1e-4 * size:
            what = f"{name} lies outside its Box by {over:.3g}"
            advice = "declare wider bounds, or -inf and inf: features are scaled by the bounds"
            yield "warning", what, advice
    elif not space.contains(array.astype(dtype)[()] if array.ndim == 0 else array.astype(dtype)):
        yield "error", f"{name} is {_shown(value)}, outside {space}", "declare a larger space"


def _counted(n: int, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


def _leaves(space: Space[Any]) -> Iterator[Space[Any]]:
    if isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from _leaves(part)
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from _leaves(part)
    else:
        yield space


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, tuple | list):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(_same(a, b) for a, b in pairs)
    return bool(np.array_equal(first, second, equal_nan=np.asarray(first).dtype.kind == "f"))


def _shown(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {_plain(str(error))}"


def _plain(text: str) -> str:
    """Without the colours of Gymnasium's logger, on one line."""
    text = text.replace("\x1b[33m", "").replace("\x1b[0m", "").replace("WARN: ", "")
    return " ".join(text.split())[:300]


def _is_harmless(message: str) -> bool:
    return any(words in message for words in HARMLESS)
