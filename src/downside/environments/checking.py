"""Looking an environment over before anything learns from it: what is wrong, and what to do."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Env, Space, spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.vector import VectorEnv

from downside.checks import check_count
from downside.environments.base import Environment
from downside.environments.findings import EnvironmentCheck, Notes, in_words, plain
from downside.environments.gymnasium import GymnasiumEnv
from downside.environments.misfits import MOST_REWARD, leaves
from downside.environments.python import EMPTY
from downside.environments.repeating import check_repeats
from downside.environments.trial import FEWEST_EPISODES, Trial

SUPPORTED = (spaces.Discrete, spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)
SMALL, LARGE = 1e-3, 1e3
LEAST, MOST = 1e-15, MOST_REWARD
FEW_STEPS, FEWER_STEPS = 50, 3

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
    "Deterministic",  # ours looks at more steps, and infos may differ
    "truncates after 1 step",  # ours says so where it is so
    "expecting a numpy array",  # ours
    "space is not allowed",  # ours
    "truth value of an array",  # what is no NumPy array: ours
)


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
    notes = Notes()
    made = _make(env, notes)
    trial = Trial(notes, seed, time.monotonic() + seconds)
    if made is not None:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            trial.run(made, n_steps, max_episode_steps)
            if not notes.has_errors:
                _look_closer(made, trial, _maker_of(env, made))
    result = EnvironmentCheck(name, tuple(notes.found), trial.n_steps, len(trial.ends))
    if raise_errors and not result.ok:
        raise ValueError(str(result))
    return result


def _look_closer(
    env: Env[Any, Any], trial: Trial, make: Callable[[], Env[Any, Any]] | None
) -> None:
    """What can be said once episodes run."""
    notes = trial.notes
    try:
        n_steps = FEW_STEPS if trial.has_time else FEWER_STEPS
        check_repeats(env, notes, trial.seed, n_steps, make)
    except Exception as error:
        what = f"it fails when it is run again: {in_words(error)}"
        notes.add("again", "error", what, "let reset start from scratch, from any state")
    if not isinstance(env.unwrapped, GymnasiumEnv):  # the horizon of ours is the problem's
        _check_ends(trial)
    _check_scale(trial)
    _check_with_gymnasium(env, notes)


def _maker_of(env: Any, made: Env[Any, Any]) -> Callable[[], Env[Any, Any]] | None:
    """What makes another one, where that is known: simulators in C do not like to be copied."""
    if isinstance(env, Environment) or (isinstance(env, Env) and made.spec is None):
        return None
    again: Any = gymnasium.make
    if callable(env) and not isinstance(env, Env):
        again = env
        return lambda: again()
    spec = made.spec
    return None if spec is None else lambda: again(spec, disable_env_checker=True)


def _make(env: Any, notes: Notes) -> Env[Any, Any] | None:
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
        notes.add("make", "error", f"it cannot be made: {in_words(error)}", "make it run first")
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


def _check_space(name: str, space: Space[Any], notes: Notes) -> None:
    for leaf in leaves(space):
        if not isinstance(leaf, SUPPORTED):
            what = f"{name} holds {leaf}, which nothing here can learn from"
            advice = "use Discrete, Box, MultiBinary, MultiDiscrete, or Tuple and Dict of them"
            notes.add(name, "error", what, advice)
        elif isinstance(leaf, spaces.Box) and np.any(leaf.low > leaf.high):
            what = f"{name} has a lower bound above the upper one"
            notes.add(name, "error", what, "exchange low and high")
        elif name == "action_space" and _has_single(leaf):
            what = f"{name} holds {leaf}, of which a part has one value only"
            notes.add(name, "error", what, "leave it out: there is nothing to choose")
        elif name == "observation_space" and _is_image(leaf):
            notes.add(
                "image",
                "note",
                f"{name} holds pictures, {leaf}",
                "the default features are the single numbers, at most 5,000, of which little is "
                "learnt from a picture; show what matters in it as a few numbers, or give basis=",
            )
    if isinstance(space, spaces.Tuple | spaces.Dict) and not list(leaves(space)):
        notes.add(name, "error", f"{name} is {space}, which is empty", EMPTY)
    elif any(0 in (leaf.shape or ()) for leaf in leaves(space)):
        notes.add(name, "error", f"{name} is {space}, which holds no numbers", EMPTY)


def _has_single(space: Space[Any]) -> bool:
    """Whether it asks for a choice among one."""
    if isinstance(space, spaces.Discrete):
        return bool(space.n == 1)
    return isinstance(space, spaces.MultiDiscrete) and bool(np.any(space.nvec == 1))


def _is_image(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) >= 2 and space.dtype == np.uint8


def _check_ends(trial: Trial) -> None:
    """A limit that is reported as an end, or at once."""
    lengths = {length for length, _ in trial.ends}
    all_terminated = all(terminated for _, terminated in trial.ends)
    enough = len(trial.ends) >= FEWEST_EPISODES
    if enough and lengths == {1} and not any(terminated for _, terminated in trial.ends):
        what = f"all {len(trial.ends)} episodes are truncated after their first step"
        trial.notes.add("limit", "warning", what, "truncate at a time limit only")
    if enough and len(lengths) == 1 and all_terminated and lengths != {1}:
        (length,) = lengths
        trial.notes.add(
            "limit",
            "warning",
            f"all {len(trial.ends)} episodes end after exactly {length} steps with terminated=True",
            "if that is a time limit and the problem itself goes on, return truncated=True "
            "there (or use gymnasium's TimeLimit), since what would follow has a value; if the "
            "problem itself ends then, all is well",
        )


def _check_scale(trial: Trial) -> None:
    size = float(np.max(np.abs(trial.rewards), initial=0.0))
    if size == 0.0:
        trial.notes.add(
            "scale",
            "note",
            "every reward of random actions was 0",
            "nothing is learnt until a reward is found: see that random actions find some",
        )
    elif not LEAST <= size <= MOST:
        trial.notes.add(
            "scale",
            "warning",
            f"rewards are up to {size:.3g} in size, which float32 has no room for",
            "give them in other units, so that they are of a size about 1",
        )
    elif not SMALL <= size <= LARGE:
        trial.notes.add(
            "scale",
            "note",
            f"rewards are up to {size:.3g} in size",
            "learning in batches (the default) measures in units of its own and does not mind; "
            'with way="online" the default step sizes are made for rewards of about 1: scale '
            "the rewards, or set step_size and critic_step_size",
        )


def _check_with_gymnasium(env: Env[Any, Any], notes: Notes) -> None:
    """What Gymnasium's checker adds to all this."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gymnasium_check(env.unwrapped, skip_render_check=True)
    except Exception as error:
        if not _is_harmless(str(error)):
            what = f"Gymnasium's checker: {in_words(error)}"
            notes.add("gymnasium", "warning", what, "see gymnasium.utils.env_checker")
        return
    for each in caught:
        if not _is_harmless(str(each.message)):
            what = f"Gymnasium's checker: {plain(str(each.message))}"
            notes.add(what, "note", what, "see gymnasium.utils.env_checker")


def _is_harmless(message: str) -> bool:
    return any(words in message for words in HARMLESS)
