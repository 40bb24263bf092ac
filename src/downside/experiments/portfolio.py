"""Fig. 4: mean against risk on the portfolio as the threshold grows, beside what is possible."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from downside.experiments.base import Experiment, Results, Workshop
from downside.experiments.catalogue import Scale
from downside.experiments.portfolio_claims import judge
from downside.experiments.portfolio_runs import (
    AFFINE,
    PRESETS,
    SCALED,
    Settings,
    evaluate,
    references,
    settings_of,
    train,
)
from downside.experiments.portfolio_variants import SHORTER, VARIANTS
from downside.training.batches import Batches


@dataclass(frozen=True)
class Run:
    """Presets that are trained as one batch, with so many seeds and steps each."""

    presets: tuple[str, ...]
    n_seeds: int
    n_steps: int


@dataclass(frozen=True)
class Plan:
    """Thresholds (inf is the risk-neutral agent), what is trained, and fresh episodes for each.

    ``variants`` are of `VARIANTS`, each trained for as many steps as the preset that it is like.
    """

    thresholds: tuple[float, ...]
    runs: tuple[Run, ...]
    n_episodes: int
    variants: tuple[str, ...] = ()
    n_variant_seeds: int = 5


_TENTHS = (*(i / 10 for i in range(11)), float("inf"))

PLANS: dict[Scale, Plan] = {
    "smoke": Plan(
        (0.1, 0.5, float("inf")),
        (Run(("printed", "figure"), 2, 20_000), Run(("recommended",), 2, 20_000)),
        500,
        ("rewards x 10", "LPM measured", "LPM itself", SHORTER, "figure, rewards x 10"),
        n_variant_seeds=2,
    ),
    "default": Plan(
        _TENTHS,
        (
            Run(("printed",), 5, 500_000),
            Run(("figure",), 5, 2_000_000),
            Run(("recommended",), 5, 1_000_000),
        ),
        10_000,
    ),
    "full": Plan(
        _TENTHS,
        (
            Run(("figure",), 10, 2_500_000),
            Run(("recommended",), 5, 2_000_000),
            Run(("RCPO",), 5, 2_000_000),
            Run(("printed",), 5, 50_000_000),  # a million episodes
        ),
        10_000,
        tuple(VARIANTS),
    ),
}


def run(scale: Scale, seed: int, workshop: Workshop) -> Results:
    """Train every preset at every threshold; the final policies meet the same fresh episodes."""
    plan = PLANS[scale]
    key = jax.random.fold_in(jax.random.key(seed), 4)
    results: dict[str, np.ndarray] = {
        "thresholds": np.array(plan.thresholds),
        "presets": np.array([name for each in plan.runs for name in each.presets]),
        "episodes": np.array(plan.n_episodes),
    }
    for what, values in references(key, plan.n_episodes).items():
        results[f"{what}: two numbers"] = values

    def learn(names: Sequence[str], settings: Sequence[Settings], n_seeds: int, steps: int) -> None:
        """Settings of several names, as many of each, are one batch."""
        title = "-".join(names).replace(",", "").replace(" ", "-")

        def make() -> Results:
            folder = workshop.bench(title)
            thetas = train(settings, n_seeds, steps, seed, folder)
            thetas = thetas.reshape(len(names), -1, *thetas.shape[1:])
            policy = SCALED if isinstance(settings[0], Batches) else AFFINE
            return evaluate(policy, thetas, key, plan.n_episodes)

        found = workshop.part(title, make)
        for j, name in enumerate(names):
            results[f"steps: {name}"] = np.array(steps)
            results.update({f"{what}: {name}": values[j] for what, values in found.items()})

    for each in plan.runs:
        presets = [PRESETS[name] for name in each.presets]
        settings = [settings_of(preset, nu) for preset in presets for nu in plan.thresholds]
        learn(each.presets, settings, each.n_seeds, each.n_steps)
    if plan.variants:
        results["variants"] = np.array(plan.variants)
    for names in _batches(plan.variants):
        chosen = [VARIANTS[name] for name in names]
        settings = [variant.learner(value) for variant in chosen for value in variant.sweep]
        steps = int(chosen[0].share * int(results[f"steps: {chosen[0].like}"]))
        learn(names, settings, plan.n_variant_seeds, steps)
        for name, variant in zip(names, chosen, strict=True):
            results[f"sweep: {name}"] = np.array(variant.sweep)
            results[f"like: {name}"] = np.array(variant.like)
            results[f"measure: {name}"] = np.array(variant.measure)
    return results


def _batches(names: Sequence[str]) -> list[list[str]]:
    """Names of variants that are trained as one, in the order of the first of each."""
    batches: dict[str, list[str]] = {}
    for name in names:
        batches.setdefault(VARIANTS[name].batch or name, []).append(name)
    return list(batches.values())


EXPERIMENT = Experiment(run=run, judge=judge)
