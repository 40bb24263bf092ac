"""What every experiment is made of: a run that leaves numbers, and claims judged from them."""

import importlib
import io
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from downside.experiments.catalogue import EXPERIMENTS, Scale
from downside.store.writing import replace_file

SCHEMA = 1
Verdict = Literal["holds", "holds with a correction", "fails", "not reached at this scale"]
Results = Mapping[str, np.ndarray]


OURS = "(not in the paper)"
MOST_MEANS = 16  # rows; longer ones are curves


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
    def is_ours(self) -> bool:
        """Whether the paper does not say it."""
        return self.paper.startswith(OURS)

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


def too_early(claim: Claim, preset: str, steps: int, enough: int) -> Claim:
    """A claim that is not judged, since a preset was trained for too few steps."""
    why = f"Preset {preset} was trained for {steps:,} steps here; we judge from {enough:,} on."
    return replace(claim, verdict="not reached at this scale", note=why)


def left_out(name: str, paper: str) -> Claim:
    """A claim whose runs are too long for this scale."""
    why = "Not run at this scale; it is with --scale full."
    return Claim(name, paper, measured=None, verdict="not reached at this scale", note=why)


@dataclass(frozen=True)
class Workshop:
    """What a long run may use: a folder for unfinished work.

    What it finds in the folder was left by the same run that was interrupted.
    """

    folder: Path | None = None

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
            replace_file(path, _npz(make()))
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


def run_experiment(name: str, work: Path, *, scale: Scale, seed: int) -> tuple[bytes, list[Claim]]:
    """The numbers of an experiment as an npz file, and the verdicts on them.

    Work that was interrupted is found in ``work`` by the same run, and not done again.
    """
    experiment = load_experiment(name)
    work.mkdir(parents=True, exist_ok=True)
    results = experiment.run(scale, seed, Workshop(work))
    return _npz(results), experiment.judge(results)


def publish(
    name: str,
    numbers: bytes,
    folder: Path,
    *,
    scale: Scale,
    seed: int,
    seconds: float,
    command: str,
) -> list[Claim]:
    """Put the numbers of a run (results.npz) and the verdicts on them (claims.json) into a folder.

    The claims are judged from the numbers alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claims.json").unlink(missing_ok=True)
    replace_file(folder / "results.npz", numbers)
    results = load_results(folder)
    claims = load_experiment(name).judge(results)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": name,
        "scale": scale,
        "seed": seed,
        "command": command,
        "seconds": round(seconds, 2),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("downside", "jax", "numpy", "scipy")},
        },
        "claims": [asdict(claim) for claim in claims],
        "means": _means(results),
    }
    replace_file(folder / "claims.json", (json.dumps(document, indent=2) + "\n").encode())
    return claims


def _means(results: Results) -> dict[str, Any]:
    """What tables are made of: short rows of numbers, and the means over seeds of (rows, seeds).

    Infinity is None, since JSON has no word for it.
    """
    found: dict[str, Any] = {}
    for name, values in results.items():
        if values.dtype.kind not in "fi" or len(np.atleast_1d(values)) > MOST_MEANS:
            continue
        if values.ndim < 3:
            rows = values.mean(axis=-1) if values.ndim == 2 else values
            found[name] = _plain(np.round(rows.astype(float), 6)) if rows.ndim else values.item()
    return found


def _plain(rows: np.ndarray) -> list[float | None]:
    return [x if np.isfinite(x) else None for x in rows.tolist()]


def load_results(folder: Path) -> dict[str, np.ndarray]:
    """Read the numbers that a run left."""
    return load_arrays(folder / "results.npz")


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file, by their names."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def _npz(arrays: Results) -> bytes:
    """As a file; equal arrays give equal bytes."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()
