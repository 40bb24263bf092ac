"""``downside reproduce``: the experiments of the paper as a study; like ``cli``, it prints.

OUT/
  study/              the study, a trial for each experiment, scale and seed
  EXPERIMENT/         what came out last: results.npz, claims.json, figures
  report.html         all of it on one page

Several experiments run side by side, each on its share of the cores. Nothing heavy is imported
before it is needed.
"""

import os
import shlex
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from downside.cli_progress import View, plainly
from downside.experiments.catalogue import EXPERIMENTS, LONGEST_FIRST, Scale

if TYPE_CHECKING:
    from downside.experiments.base import Claim
    from downside.studies.driving import Drive
    from downside.studies.study import Study, Trial

console = Console()
COLOURS = {
    "holds": "green",
    "holds with a correction": "yellow",
    "fails": "red",
    "not reached at this scale": "magenta",
}


def reproduce_command(
    experiment: Annotated[
        str, typer.Argument(help=f"all, or one of: {', '.join(EXPERIMENTS)}.")
    ] = "all",
    scale: Annotated[
        Scale, typer.Option(help="How much to compute: seconds, minutes, or all of it.")
    ] = "default",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for figures and verdicts.")] = Path("results"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what the folder holds of the same run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing while it runs.")] = False,
) -> None:
    """Reproduce the paper: run, judge each claim, draw the figures, write a report."""
    names = list(EXPERIMENTS) if experiment == "all" else [experiment]
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        choices = ", ".join(["all", *EXPERIMENTS])
        raise ValueError(f"there is no experiment {unknown[0]!r}; choose one of {choices}")
    for module in ("matplotlib", "altair", "vl_convert"):
        if find_spec(module) is None:  # better now than after minutes
            raise ModuleNotFoundError(f"No module named {module!r}")
    (out / "study").mkdir(parents=True, exist_ok=True)
    command = f"downside reproduce {experiment} --scale {scale} --seed {seed}"
    with plainly():
        from downside.studies.driving import run_study

        asked = _study(names, scale, seed)
        publisher = Publisher(out, command)
        view = View(out / "study", asked)

        def watch(event: Any) -> None:
            if not quiet:
                view.watch(event)
            if event is not None and getattr(event[1], "state", "") == "done":
                publisher.publish(event[0], event[1].seconds)

        with nullcontext() if quiet else view.shown(fresh=not resume):
            drive = run_study(
                out / "study",
                _grown(out / "study", asked),
                only=[trial.id for trial in asked.trials],
                anew=not resume,
                retry_failed=resume,
                watch=watch,
            )
    _finish(drive, asked, publisher, out, f"{command} --out {shlex.quote(str(out))} --resume")


class Publisher:
    """Puts the results of trials where people look for them: numbers, verdicts and figures."""

    def __init__(self, out: Path, command: str) -> None:
        self._out, self._command = out, command
        self.published: dict[str, tuple[list[Claim], list[Path]]] = {}

    def publish(self, trial: "Trial", seconds: float) -> None:
        """Judge and draw what a trial has left."""
        from downside.experiments.base import publish
        from downside.report.figures import draw
        from downside.studies.folder import trial_folder

        name, scale, seed = (trial.specification[key] for key in ("experiment", "scale", "seed"))
        folder = self._out / name
        claims = publish(
            name,
            (trial_folder(self._out / "study", trial) / "results.npz").read_bytes(),
            folder,
            scale=scale,
            seed=seed,
            seconds=seconds,
            command=self._command,
        )
        self.published[trial.id] = claims, [folder / "claims.json", *draw(name, folder)]


def _study(names: list[str], scale: Scale, seed: int) -> "Study":
    """A trial for each experiment, on its share of the cores."""
    from downside.studies.study import Study

    ordered = [name for name in LONGEST_FIRST if name in names]
    grid = {"experiment": ordered, "scale": [scale], "seed": [seed]}
    devices = max(1, (os.cpu_count() or 1) // len(names))
    return Study({"devices": devices}, grid, name="reproduce")


def _grown(path: Path, asked: "Study") -> "Study":
    """The study in a folder, with the trials that are asked for; what is there stays as it is."""
    from downside.studies.folder import STUDY, read_study
    from downside.studies.study import Study

    if not (path / STUDY).exists():
        return asked
    found = read_study(path).trials
    known = {trial.id for trial in found}
    new = [trial for trial in asked.trials if trial.id not in known]
    return Study.of([*found, *new], name=asked.name)


def _finish(drive: "Drive", asked: "Study", publisher: Publisher, out: Path, again: str) -> None:
    """Print what was found, and write the page; exit code 1 if something is missing."""
    from downside.report.page import write_page
    from downside.studies.folder import trial_folder

    missing: list[str] = []
    places = {name: i for i, name in enumerate(EXPERIMENTS)}
    for trial in sorted(asked.trials, key=lambda each: places[each.specification["experiment"]]):
        fate, name = drive.fates[trial.id], trial.specification["experiment"]
        if fate.state != "done":
            words = f"{name} failed: {fate.reason}" if fate.reason else f"{name} is not done"
            missing.append(f"{words}\n  {trial_folder(drive.path, trial)}")
            continue
        if trial.id not in publisher.published:  # it was done before
            publisher.publish(trial, fate.seconds)
        claims, files = publisher.published[trial.id]
        _print_claims(name, claims)
        for path in files:
            console.print(f"  {path}", highlight=False, soft_wrap=True)
    if len(missing) < len(asked.trials):
        console.print(
            f"\nthe whole on one page: {write_page(out)}", highlight=False, soft_wrap=True
        )
    if missing:
        stopped = [f"it stopped: {drive.stopped}"] if drive.stopped else []
        lines = "\n".join([*missing, *stopped, f"go on with: {again}"])
        Console(stderr=True).print(lines, markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _print_claims(name: str, claims: "list[Claim]") -> None:
    table = Table("claim", "the paper says", "measured", "verdict", title=EXPERIMENTS[name])
    for claim in claims:
        verdict = f"[{COLOURS[claim.verdict]}]{claim.verdict}[/]"
        measured = claim.words.replace(" [", "\n\\[")
        table.add_row(claim.id, claim.paper, measured, verdict, end_section=True)
    console.print(table)
    for claim in claims:
        meaning = f"Measured: {claim.what}. " if claim.what else ""
        console.print(f"[bold]{claim.id}[/]  {escape(meaning + claim.note)}", highlight=False)
