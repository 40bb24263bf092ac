"""Fig. 4: mean against risk on the portfolio as the threshold grows, beside what is possible."""

from dataclasses import dataclass

import jax
import numpy as np

from downside.experiments.base import Experiment, Results, Workshop
from downside.experiments.catalogue import Scale
from downside.experiments.portfolio_claims import judge
from downside.experiments.portfolio_runs import PRESETS, evaluate, policy_of, references, train


@dataclass(frozen=True)
class Run:
    """Presets that are trained as one batch, with so many seeds and steps each."""

    presets: tuple[str, ...]
    n_seeds: int
    n_steps: int


@dataclass(frozen=True)
class Plan:
    """Thresholds (inf is the risk-neutral agent), what is trained, and fresh episodes for each."""

    thresholds: tuple[float, ...]
    runs: tuple[Run, ...]
    n_episodes: int


_TENTHS = (*(i / 10 for i in range(11)), float("inf"))

PLANS: dict[Scale, Plan] = {
    "smoke": Plan(
        (0.1, 0.5, float("inf")),
        (Run(("printed", "figure"), 2, 20_000), Run(("recommended",), 2, 20_000)),
        500,
    ),
    "default": Plan(
        _TENTHS,
        (Run(("printed", "figure"), 5, 2_500_000), Run(("recommended",), 5, 250_000)),
        10_000,
    ),
    "full": Plan(
        _TENTHS,
        (
            Run(("figure",), 20, 2_500_000),
            Run(("printed",), 5, 50_000_000),
            Run(("recommended",), 20, 1_000_000),
            Run(("RCPO",), 20, 1_000_000),
        ),
        100_000,
    ),
}


def run(scale: Scale, seed: int, workshop: Workshop) -> Results:
    """Train every preset at every threshold; the final policies meet the same fresh episodes."""
    plan = PLANS[scale]
    thresholds = np.array(plan.thresholds)
    key = jax.random.fold_in(jax.random.key(seed), 4)
    results: dict[str, np.ndarray] = {
        "thresholds": thresholds,
        "presets": np.array([name for each in plan.runs for name in each.presets]),
        "episodes": np.array(plan.n_episodes),
    }
    for what, values in references(key, plan.n_episodes).items():
        results[f"{what}: two numbers"] = values
    for each in plan.runs:
        thetas = train(each.presets, thresholds, each.n_seeds, each.n_steps, seed, workshop)
        policy = policy_of(PRESETS[each.presets[0]])
        found = evaluate(policy, thetas, key, plan.n_episodes)
        for j, name in enumerate(each.presets):
            results[f"steps: {name}"] = np.array(each.n_steps)
            results |= {f"{what}: {name}": values[j] for what, values in found.items()}
    return results


EXPERIMENT = Experiment(run=run, judge=judge)
