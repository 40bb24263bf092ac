"""What every experiment is made of: a run that leaves numbers, and claims judged from them."""

import importlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from downside.experiments.catalogue import EXPERIMENTS, Scale

SCHEMA = 1
Verdict = Literal["holds", "holds with a correction", "fails", "not reached at this scale"]
Results = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what was measured, and the verdict.

    ``low`` and ``high`` are the interval of ``measured``; None where the number is exact.
    ``evidence`` holds every number that the verdict rests on, by name.
    """

    id: str
    paper: str
    measured: float
    verdict: Verdict
    note: str
    low: float | None = None
    high: float | None = None
    evidence: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Experiment:
    """Data, run, judgement: ``run`` leaves arrays, ``judge`` reads nothing else."""

    run: Callable[[Scale, int], Results]
    judge: Callable[[Results], list[Claim]]


def load_experiment(name: str) -> Experiment:
    """Import an experiment by its name.

    >>> load_experiment("nothing")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: there is no experiment 'nothing'; choose one of landscape, bandit, portfolio, ...
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}")
    return importlib.import_module(f"downside.experiments.{name}").EXPERIMENT


def reproduce(name: str, folder: Path, *, scale: Scale, seed: int, command: str) -> list[Claim]:
    """Run an experiment, save its numbers (results.npz), judge them (claims.json)."""
    experiment = load_experiment(name)
    started = time.perf_counter()
    results = experiment.run(scale, seed)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "results.npz", allow_pickle=False, **results)
    claims = experiment.judge(results)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": name,
        "preset": None,
        "scale": scale,
        "seed": seed,
        "command": command,
        "seconds": round(time.perf_counter() - started, 2),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("downside", "jax", "numpy", "scipy")},
        },
        "claims": [asdict(claim) for claim in claims],
    }
    (folder / "claims.json").write_text(json.dumps(document, indent=2) + "\n")
    return claims


def load_results(folder: Path) -> dict[str, np.ndarray]:
    """Read the numbers that a run left."""
    with np.load(folder / "results.npz", allow_pickle=False) as archive:
        return dict(archive)
