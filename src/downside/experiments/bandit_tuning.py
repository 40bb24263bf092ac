"""How the constants of the bandit's fast presets were found: the same search for every method.

A random search over as many settings for each method, in two rounds, on trials that no report
uses. A setting is as good as the worst of the three goals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from downside.experiments.bandit_runs import (
    BATCH_PRESETS,
    GOALS,
    PRESETS,
    BatchPreset,
    Preset,
    actor_critic,
    arm_curves,
    batch_gradient,
    samples_until,
    settling_times,
)

TUNING_SEED = 20_150
N_SETTINGS = 100
N_FINALISTS = 8
SHARES = (0.97, 0.955)  # of trials, by round: over 95%, since the best of many was also lucky


@dataclass(frozen=True)
class Search:
    """Ranges of the constants (log-uniform), and how long and how often each setting is tried."""

    ranges: dict[str, tuple[float, float]]
    spacing: int
    n_points: int
    n_trials: tuple[int, int]


_ASCENT = {"step_size": (0.03, 100.0), "halving": (1.0, 1000.0)}

SEARCHES = {
    "fast": Search(
        {"critic_step_size": (1.5e-3, 8e-3), "step_size": (0.015, 0.15), "pretraining": (200, 900)},
        spacing=50,
        n_points=50,
        n_trials=(300, 2000),
    ),
    "fast, exact tau": Search(
        {"critic_step_size": (3e-4, 3e-3), "step_size": (0.01, 0.5), "pretraining": (1000, 3600)},
        spacing=50,
        n_points=100,
        n_trials=(200, 1000),
    ),
    "Monte-Carlo, 100": Search(_ASCENT, spacing=100, n_points=80, n_trials=(200, 1000)),
    "Monte-Carlo, 100, tau held": Search(_ASCENT, spacing=100, n_points=80, n_trials=(200, 1000)),
    "Monte-Carlo, 10000": Search(_ASCENT, spacing=10_000, n_points=20, n_trials=(8, 40)),
}


@dataclass(frozen=True)
class Tuned:
    """A setting of the last round: samples needed for each goal, and the least share at the end."""

    preset: Preset | BatchPreset
    needed: tuple[float, ...]
    share: float


def tune(name: str, goals: Sequence[str] = tuple(GOALS)) -> list[Tuned]:
    """The finalists of the search for one method, the best for these goals first.

    The fast presets were tuned for all goals at once, the Monte-Carlo ascents for each goal.
    """
    search, rng = SEARCHES[name], np.random.default_rng(TUNING_SEED)
    base = PRESETS[name] if name in PRESETS else BATCH_PRESETS[name, goals[0]]
    candidates = [replace(base, **_draw(search, rng)) for _ in range(N_SETTINGS)]
    first, second = (tuning_keys(stage, n) for stage, n in enumerate(search.n_trials))
    finalists = _try(candidates, goals, search, first, SHARES[0])[:N_FINALISTS]
    return _try([one.preset for one in finalists], goals, search, second, SHARES[1])


def tuning_keys(stage: int, n_trials: int) -> Array:
    """One key for each trial of a round; none of them is reported."""
    return jax.random.split(jax.random.fold_in(jax.random.key(TUNING_SEED), stage), n_trials)


def _draw(search: Search, rng: np.random.Generator) -> dict[str, Any]:
    """One setting; what is counted stays a whole number."""
    drawn = {
        name: float(np.exp(rng.uniform(np.log(low), np.log(high))))
        for name, (low, high) in search.ranges.items()
    }
    return {name: round(x) if name == "pretraining" else x for name, x in drawn.items()}


def _try(
    presets: Sequence[Any], goals: Sequence[str], search: Search, keys: Array, share: float
) -> list[Tuned]:
    make: Any = actor_critic if isinstance(presets[0], Preset) else batch_gradient
    needed: list[np.ndarray] = []
    shares: list[np.ndarray] = []
    for goal in (GOALS[title] for title in goals):
        agents = [make(preset, goal) for preset in presets]
        right = arm_curves(agents, keys, search.spacing, search.n_points)[..., goal.right]
        times = settling_times(right, search.spacing)
        needed.append(samples_until(times, share))
        shares.append(np.isfinite(times).mean(axis=1))
    tried = [
        Tuned(preset, tuple(map(float, each)), float(at_end))
        for preset, each, at_end in zip(
            presets, np.transpose(needed), np.min(shares, axis=0), strict=True
        )
    ]
    return sorted(tried, key=lambda one: (max(one.needed), -one.share))
