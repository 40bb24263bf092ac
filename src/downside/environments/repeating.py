"""Whether an environment repeats itself from its seed, and its copies leave one another alone."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env

from downside.environments.findings import Notes

OTHERWISE = "the same seed and the same actions lead to something else"
SEEDED = (
    "call super().reset(seed=seed), draw from self.np_random only, and let reset start from "
    "scratch; until then runs cannot be repeated, nor policies compared on the same luck"
)


def check_repeats(
    env: Env[Any, Any],
    notes: Notes,
    seed: int,
    n_steps: int,
    make: Callable[[], Env[Any, Any]] | None,
) -> None:
    """The same seed and the same actions must lead to the same, with copies about or without.

    ``make`` gives another one; without it a copy is taken.
    """
    _check_seed(env, notes, seed, n_steps)
    if "seed" in notes.kinds:
        return
    try:
        other = make() if make else copy.deepcopy(env)
    except Exception:
        return  # what cannot be copied shares nothing with a copy
    if other is env:
        what = "the function gives one and the same environment each time"
        notes.add("shared", "warning", what, "let it make a new one, such as lambda: MyEnv()")
        return
    _check_copies(env, other, notes, seed, n_steps)
    if make:
        other.close()


def _replay(env: Env[Any, Any], actions: list[Any], seed: int) -> list[Any]:
    """What the environment shows when it is seeded and given these actions."""
    obs, _ = env.reset(seed=seed + 7)
    shown: list[Any] = [copy.deepcopy(obs)]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        shown.append(copy.deepcopy((obs, float(reward), bool(terminated), bool(truncated))))
        if terminated or truncated:
            break
    return shown


def difference(first: list[Any], second: list[Any]) -> str | None:
    """Where two replays differ, in words, or None."""
    if same(first, second):
        return None
    pairs = enumerate(zip(first, second, strict=False))
    k = next((i for i, (a, b) in pairs if not same(a, b)), 0)
    return "in the first observation" if k == 0 else f"at step {k - 1}"


def _check_seed(env: Env[Any, Any], notes: Notes, seed: int, n_steps: int) -> None:
    actions = [env.action_space.sample() for _ in range(n_steps)]
    when = difference(_replay(env, actions, seed), _replay(env, actions, seed))
    if when is not None:
        notes.add("seed", "warning", f"{OTHERWISE} ({when})", SEEDED)


def _check_copies(
    env: Env[Any, Any], other: Env[Any, Any], notes: Notes, seed: int, n_steps: int
) -> None:
    """Steps of a copy must not show in the original."""
    actions = [env.action_space.sample() for _ in range(n_steps)]
    alone = _replay(env, actions, seed)
    env.reset(seed=seed + 7)
    other.reset(seed=seed + 8)
    running = True
    for action, expected in zip(actions, alone[1:], strict=False):
        if running:
            _, _, terminated, truncated, _ = other.step(other.action_space.sample())
            running = not (terminated or truncated)
        obs, reward, terminated, truncated, _ = env.step(action)
        if not same((obs, float(reward), bool(terminated), bool(truncated)), expected):
            _name_difference(notes, when=difference(alone, _replay(env, actions, seed)))
            return


def _name_difference(notes: Notes, when: str | None) -> None:
    """Whether copies share a state, or it is the environment alone that comes out otherwise."""
    if when is None:
        notes.add(
            "shared",
            "error",
            "steps of one copy change another: state is shared between copies",
            "keep the state in self, set in reset; not in the class, a global variable or "
            "a default argument",
        )
    else:
        notes.add(
            "seed",
            "note",
            f"once a copy had been at work, {OTHERWISE} ({when}), as in some simulators in C",
            "runs may then not be repeated to the last bit; nothing else depends on it",
        )


def same(first: Any, second: Any) -> bool:
    """Whether two values have the same structure, types and numbers; NaN equals NaN."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, tuple | list):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(same(a, b) for a, b in pairs)
    return bool(np.array_equal(first, second, equal_nan=np.asarray(first).dtype.kind == "f"))
