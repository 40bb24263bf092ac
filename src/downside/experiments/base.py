"""What every experiment is made of: a run that leaves numbers, and claims judged from them."""

import importlib
import io
import json
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from downside.experiments.catalogue import EXPERIMENTS, Scale
from downside.store.writing import replace_file

SCHEMA = 1
Verdict = Literal["holds", "holds with a correction", "fails", "not reached at this scale"]
Results = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what was measured, and the verdict.

    ``what`` says in a few words what the number is, ``note`` what was found, its first sentence
    what a reader must know beside the verdict (the correction, if there is one). ``low`` and
    ``high`` are the interval of ``measured``; None where the number is exact. ``measured`` and
    every number of ``evidence``, on which the verdict rests, are None where nothing was reached.
    """

    id: str
    paper: str
    measured: float | None
    verdict: Verdict
    note: str
    what: str = ""
    low: float | None = None
    high: float | None = None
    evidence: Mapping[str, float | None] = field(default_factory=dict[str, float | None])

    @property
    def words(self) -> str:
        """The number with its interval, as people read it.

        >>> Claim("7 x", "", 4600.0, "holds", "", low=4500.0, high=4800.0).words
        '4,600 [4,500, 4,800]'
        >>> Claim("7 x", "", None, "not reached at this scale", "").words
        'not reached'
        """
        if self.low is None or self.high is None:
            return number(self.measured)
        return f"{number(self.measured)} [{number(self.low)}, {number(self.high)}]"


def number(value: float | None) -> str:
    """Three digits; all of them from a thousand to ten million.

    >>> [number(x) for x in (None, 0.02909, 4600.0, 655_000.0, 1.776e-15, -1.0)]
    ['not reached', '0.0291', '4,600', '655,000', '1.78e-15', '-1']
    """
    if value is None:
        return "not reached"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def reached(value: float) -> float | None:
    """JSON has no infinity: None stands for a number that was not reached.

    >>> reached(300.0), reached(float("inf"))
    (300.0, None)
    """
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class Workshop:
    """What a long run may use: a folder for unfinished work, and a place to show progress.

    What it finds in the folder was left by the same run that was interrupted.
    """

    folder: Path | None = None
    shows_progress: bool = False

    def bench(self, name: str) -> Path | None:
        """A folder for one part of the work.

        >>> Workshop().bench("figure") is None
        True
        """
        return None if self.folder is None else self.folder / name

    def part(self, name: str, make: Callable[[], Results]) -> Results:
        """The numbers of one part of the work: made once, then found.

        >>> Workshop().part("figure", lambda: {"mean": np.zeros(3)})["mean"].shape
        (3,)
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.npz"
        if not path.exists():
            file = io.BytesIO()
            np.savez_compressed(file, allow_pickle=False, **make())
            replace_file(path, file.getvalue())
        return load_arrays(path)


@dataclass(frozen=True)
class Experiment:
    """Data, run, judgement: ``run`` leaves arrays, ``judge`` reads nothing else."""

    run: Callable[[Scale, int, Workshop], Results]
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


def reproduce(
    name: str,
    folder: Path,
    *,
    scale: Scale,
    seed: int,
    command: str,
    resume: bool = False,
    shows_progress: bool = False,
) -> list[Claim]:
    """Run an experiment, save its numbers (results.npz), judge them (claims.json).

    Unfinished work is kept in ``folder/unfinished`` and removed at the end. ``resume`` goes on with
    it, and takes the numbers of a run that is complete as they are, if scale and seed are the same.
    """
    experiment = load_experiment(name)
    started = time.perf_counter()
    asked = {"schema": SCHEMA, "experiment": name, "scale": scale, "seed": seed}
    if resume and _holds(folder / "claims.json", asked):
        return experiment.judge(load_results(folder))
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "unfinished"
    if not (resume and _holds(unfinished / "run.json", asked)):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        (unfinished / "run.json").write_text(json.dumps(asked))
    (folder / "claims.json").unlink(missing_ok=True)
    results = experiment.run(scale, seed, Workshop(unfinished, shows_progress))
    np.savez_compressed(folder / "results.npz", allow_pickle=False, **results)
    claims = experiment.judge(results)
    document: dict[str, Any] = {
        **asked,
        "preset": None,
        "command": command,
        "seconds": round(time.perf_counter() - started, 2),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("downside", "jax", "numpy", "scipy")},
        },
        "claims": [asdict(claim) for claim in claims],
    }
    replace_file(folder / "claims.json", (json.dumps(document, indent=2) + "\n").encode())
    shutil.rmtree(unfinished)
    return claims


def _holds(path: Path, asked: Mapping[str, Any]) -> bool:
    """Whether a JSON file says that it is of this run."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return all(found.get(key) == value for key, value in asked.items())


def load_results(folder: Path) -> dict[str, np.ndarray]:
    """Read the numbers that a run left."""
    return load_arrays(folder / "results.npz")


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file, by their names."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)
