"""Figs. 1 and 2: the tree, and its landscape of mean, variance and lower partial moment."""

import numpy as np

from downside.exact.tree import (
    tree_centralised_lpm,
    tree_lpm,
    tree_mean,
    tree_proxy,
    tree_variance,
)
from downside.experiments.base import Claim, Experiment, Results, Workshop
from downside.experiments.catalogue import Scale
from downside.experiments.theorem import judge_compatible, run_compatible
from downside.experiments.theory import ROUNDING, judge_theory, run_theory

N_RANDOM = {"smoke": 10, "default": 100, "full": 1000}
GRID = np.linspace(0.0, 1.0, 101)


def run(scale: Scale, seed: int, workshop: Workshop) -> Results:
    """Every number that the figures and the verdicts need."""
    n = N_RANDOM[scale]
    compatible = run_compatible(np.random.default_rng((seed, 6)), n)
    return {**_landscape(), **run_theory(n, seed), **compatible}


def judge(results: Results) -> list[Claim]:
    """The verdicts on claims 1 to 6."""
    return [*judge_theory(results), _judge_landscape(results), judge_compatible(results)]


def _landscape() -> dict[str, np.ndarray]:
    """The four panels of Fig. 2 and the proxy, over (theta1, theta2)."""
    theta1, theta2 = np.meshgrid(GRID, GRID, indexing="ij")
    mean, variance = tree_mean(theta1, theta2), tree_variance(theta1, theta2)
    lpm = tree_lpm(theta1, theta2)
    panels = {
        "variance": -variance,
        "mean_variance": mean - variance,
        "lpm": -lpm,
        "mean_lpm": mean - lpm,
        "proxy": -tree_proxy(theta1, theta2),
        "centralised_lpm": -tree_centralised_lpm(theta1, theta2),
    }
    return {f"panel_{name}": values for name, values in panels.items()} | {
        f"optima_{name}": local_maxima(values) for name, values in panels.items()
    }


def local_maxima(values: np.ndarray) -> np.ndarray:
    """The grid points (i, j) that no neighbour exceeds, and that exceed some neighbour."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    n, m = values.shape
    shifts = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    around = np.stack([padded[i : i + n, j : j + m] for i, j in shifts])
    lower = np.where(np.isfinite(around), around, np.inf).min(0)
    return np.argwhere((values >= around.max(0) - ROUNDING) & (values > lower + ROUNDING))


def _judge_landscape(results: Results) -> Claim:
    counts = {
        name: float(len(results[f"optima_{name}"]))
        for name in ("mean_variance", "mean_lpm", "proxy", "lpm", "centralised_lpm")
    }
    corner = [[len(GRID) - 1] * 2]
    single = all(results[f"optima_{name}"].tolist() == corner for name in ("mean_lpm", "proxy"))
    edges = np.all(np.any(results["optima_lpm"] == len(GRID) - 1, axis=1))  # theta1 or theta2 is 1
    as_noted = counts["mean_variance"] == 4 and counts["centralised_lpm"] == 4 and bool(edges)
    return Claim(
        id="5 landscape",
        paper=(
            "Fig. 2: mean-variance has local optima at deterministic policies, "
            "the LPM has a single optimum at (1, 1)"
        ),
        measured=counts["mean_lpm"],
        verdict="holds with a correction" if single and as_noted else "fails",
        what="local maxima of E - LPM on a grid of policies",
        note=(
            "Mean less LPM has its one optimum at (1, 1), and so has the proxy, but the LPM alone "
            "is 0 on both edges theta1 = 1 and theta2 = 1. Mean less variance has four local "
            "optima, one at each corner (the paper's three are those that are not global). What "
            "helps is the fixed target 0: the LPM about the mean has a minimum at each corner."
        ),
        evidence={f"local optima: {name}": count for name, count in counts.items()},
    )


EXPERIMENT = Experiment(run=run, judge=judge)
