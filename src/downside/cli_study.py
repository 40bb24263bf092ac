"""``downside study``: run, watch, resume and sum up studies; like ``cli``, it prints.

Nothing heavy is imported before a command needs it.
"""

import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from downside.studies.driving import Drive
    from downside.studies.study import Study, Trial

study_app = typer.Typer(
    help="Many trials, on one machine or many, none lost and none made twice.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Engine = Literal["local", "ray"]
Folder = Annotated[Path, typer.Argument(help="Folder of a study.")]
EngineOption = Annotated[Engine, typer.Option(help="Processes of this machine, or Ray.")]
AddressOption = Annotated[
    str | None,
    typer.Option(help="An existing Ray cluster, such as auto; else Ray is started here."),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Trials side by side; as many as there are cores.")
]
COLOURS = {"done": "green", "failed": "red", "running": "cyan", "damaged": "red"}
LOG_SECONDS, LOOK_SECONDS = 30.0, 1.0


@study_app.command("run")
def run_command(
    file: Annotated[Path, typer.Argument(help="A TOML file with [base], [grid] and [limits].")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study; studies/NAME if none is given.")
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    workers: WorkersOption = None,
) -> None:
    """Run a study; run again, it goes on."""
    from downside.studies.study import Study

    study = Study.from_toml(file)
    _drive(out or Path("studies") / study.name, study, engine, address, workers)


@study_app.command("resume")
def resume_command(
    folder: Folder,
    engine: EngineOption = "local",
    address: AddressOption = None,
    workers: WorkersOption = None,
) -> None:
    """Go on with a study that was stopped; done and failed trials are left alone."""
    _drive(folder, None, engine, address, workers)


@study_app.command("retry-failed")
def retry_command(
    folder: Folder,
    engine: EngineOption = "local",
    address: AddressOption = None,
    workers: WorkersOption = None,
) -> None:
    """Try failed trials once more, and go on with all others."""
    _drive(folder, None, engine, address, workers, retry_failed=True)


@study_app.command("status")
def status_command(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead.")] = False,
) -> None:
    """What has become of every trial, and whether a process is at work."""
    with _store_errors():
        from downside.store import holder
        from downside.studies.folder import read_study

        study, driver = read_study(folder), holder(folder)
        states = _states(folder, study, running=driver is not None)
    if as_json:
        print(json.dumps({"trials": states, "process": str(driver) if driver else None}))
        return
    console = Console()
    console.print(_table(list(states.values())))
    console.print(_counts([row["state"] for row in states.values()]), highlight=False)
    console.print(f"process: {driver or 'none'}", highlight=False, markup=False, soft_wrap=True)
    if driver is None:
        _print_next(console, folder, [row["state"] for row in states.values()])


@study_app.command("collect")
def collect_command(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(help="A .parquet or .csv file; FOLDER/results.parquet if none.")
    ] = None,
) -> None:
    """Write all results so far as one table: a row per learner, claim or value."""
    file = out or folder / "results.parquet"
    if file.suffix not in (".parquet", ".csv"):
        raise ValueError(f"the file is {file}; give one that ends with .parquet or .csv")
    with _store_errors():
        from downside.studies.collecting import collect

        results = collect(folder)
        results.sink_parquet(file) if file.suffix == ".parquet" else results.sink_csv(file)
    Console().print(str(file), highlight=False, soft_wrap=True)


@study_app.command("report")
def report_command(folder: Folder) -> None:
    """Sum up a study, setting by setting; also written to FOLDER/summary.csv."""
    with _store_errors():
        from downside.studies.collecting import summarise

        summary = summarise(folder)
        summary.write_csv(folder / "summary.csv")
    console = Console()
    console.print(_summary_table(summary))
    console.print(str(folder / "summary.csv"), highlight=False, soft_wrap=True)


def _drive(
    folder: Path,
    study: "Study | None",
    engine: Engine,
    address: str | None,
    workers: int | None,
    *,
    retry_failed: bool = False,
) -> None:
    with _store_errors():
        from downside.studies.driving import run_study
        from downside.studies.folder import read_study

        view = View(folder, study or read_study(folder))
        with view.shown():
            drive = run_study(
                folder,
                study,
                engine=engine,
                address=address,
                workers=workers,
                retry_failed=retry_failed,
                watch=view.watch,
            )
    _print_end(drive)
    if drive.failed or drive.left:
        sys.exit(1)


class View:
    """What is seen while a study runs: one live table, or lines in a log; on standard error."""

    def __init__(self, folder: Path, study: "Study") -> None:
        self._folder, self._study = folder, study
        self._console = Console(stderr=True)
        self._states: dict[str, str] = {}
        self._live: Live | None = None
        self._began = self._said = time.monotonic()
        self._ended, self._looked = 0, 0.0

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show the table as long as this lasts, if somebody can see it."""
        from downside.studies.folder import fates

        if (self._folder / "study.json").exists():
            found = fates(self._folder, self._study)
            self._states = {name: fate.state for name, fate in found.items()}
        else:
            self._states = {trial.id: "waiting" for trial in self._study.trials}
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield

    def watch(self, event: Any) -> None:
        """Take note of an event, and show it."""
        if event is not None:
            self._note(*event)
        now = time.monotonic()
        if self._live is not None:
            if now > self._looked + LOOK_SECONDS:
                self._looked = now
                self._live.update(self._picture(), refresh=True)
        elif now > self._said + LOG_SECONDS:
            self._say(self._counts())

    def _note(self, trial: "Trial", what: Any) -> None:
        if what is None:
            self._states[trial.id] = "running"
        elif isinstance(what, Exception):
            self._states[trial.id] = "stopped"
        else:
            self._states[trial.id] = what.state
            self._ended += 1
            if self._live is None:
                words = f"{what.state} {trial.id} ({what.seconds:.1f} s)"
                reason = f": {what.reason}" if what.reason else ""
                self._say(f"{words}{reason}  [{self._counts()}]")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _counts(self) -> str:
        states = list(self._states.values())
        left = sum(state not in ("done", "failed", "damaged") for state in states)
        words = _counts(states)
        if self._ended and left:
            seconds = (time.monotonic() - self._began) / self._ended * left
            words += f"; about {_span(seconds)} left"
        return words

    def _picture(self) -> Group:
        """Running trials first, then failed ones, then as many others as there is room for."""
        order = ("running", "failed", "damaged", "stopped", "done", "waiting")
        by_state = sorted(self._study.trials, key=lambda t: order.index(self._states[t.id]))
        room = max(5, self._console.height - 6)
        rows = [_row(self._folder, trial, self._states[trial.id]) for trial in by_state[:room]]
        hidden = len(by_state) - len(rows)
        words = self._counts() + (f"; {hidden} not shown" if hidden > 0 else "")
        return Group(_table(rows), Text(words))


def _row(folder: Path, trial: "Trial", state: str) -> dict[str, str]:
    """A line about a trial, with numbers from its newest checkpoint."""
    from downside.store import newest_facts
    from downside.studies.folder import trial_folder

    row = {"trial": trial.id, "state": state, "steps/s": "", "mean": "", "risk of bound": ""}
    row |= {"multiplier": "", "time left": ""}
    begun = state in ("running", "stopped", "done", "failed") and trial.kind == "env"
    found = newest_facts(trial_folder(folder, trial) / "run") if begun else None
    if found is None:
        return row
    step, facts = found
    speed = step / facts["seconds"] if facts.get("seconds") else 0.0
    row["steps/s"] = f"{speed * facts['learners']:,.0f}" if speed else "starting"
    if "mean" in facts:
        row["mean"] = f"{facts['mean']:.4g}"
    if facts.get("risks") and facts["risks"][0]:
        bounds, risks, multipliers = facts["thresholds"], facts["risks"], facts["multipliers"]
        pairs = zip(risks, bounds, strict=True)
        row["risk of bound"] = ", ".join(f"{risk[0]:.3g} of {bound[0]:g}" for risk, bound in pairs)
        row["multiplier"] = ", ".join(f"{each[0]:.3g}" for each in multipliers)
    if state == "running" and speed:
        row["time left"] = _span((facts["goal"] - step) / speed)
    return row


def _states(folder: Path, study: "Study", *, running: bool) -> dict[str, dict[str, str]]:
    from downside.studies.folder import fates, is_running, trial_folder

    rows: dict[str, dict[str, str]] = {}
    found = fates(folder, study)
    for trial in study.trials:
        fate = found[trial.id]
        at_work = running and fate.state == "stopped" and is_running(trial_folder(folder, trial))
        row = _row(folder, trial, "running" if at_work else fate.state)
        rows[trial.id] = {**row, "reason": fate.reason} if fate.reason else row
    return rows


def _table(rows: list[dict[str, str]]) -> Table:
    names = ("trial", "state", "steps/s", "mean", "risk of bound", "multiplier", "time left")
    used = [name for name in names if any(row.get(name) for row in rows)]
    table = Table(*used, box=None, header_style="bold")
    table.columns[0].overflow = "fold"  # an id is there to be copied
    for row in rows:
        cells = [row.get(name, "") for name in used]
        colour = COLOURS.get(row["state"])
        table.add_row(*cells, style=colour)
    return table


def _counts(states: list[str]) -> str:
    """12 of 40 done, 1 failed, 2 running, 25 waiting."""
    words = [f"{states.count('done')} of {len(states)} done"]
    others = ("failed", "damaged", "running", "stopped", "waiting")
    words += [f"{states.count(each)} {each}" for each in others if each in states]
    return ", ".join(words)


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _print_end(drive: "Drive") -> None:
    from downside.studies.collecting import summarise
    from downside.studies.folder import trial_folder

    console = Console()
    states = [fate.state for fate in drive.fates.values()]
    if "done" in states or "failed" in states:
        console.print(_summary_table(summarise(drive.path)))
    for trial in drive.failed:
        reason, place = drive.fates[trial.id].reason, trial_folder(drive.path, trial)
        console.print(f"failed {trial.id}: {reason}", style="red", markup=False, highlight=False)
        console.print(f"  {place}", markup=False, highlight=False, soft_wrap=True)
    if drive.stopped:
        console.print(f"the study stopped: {drive.stopped}", style="red", markup=False)
    console.print(_counts(states), highlight=False)
    console.print(f"results: {drive.path}", highlight=False, markup=False, soft_wrap=True)
    _print_next(console, drive.path, states)


def _print_next(console: Console, folder: Path, states: list[str]) -> None:
    import shlex

    ended = all(state in ("done", "failed") for state in states)
    command = "resume" if not ended else "retry-failed" if "failed" in states else "collect"
    words = shlex.join(["downside", "study", command, str(folder)])
    console.print(f"next: {words}", highlight=False, markup=False, soft_wrap=True)


def _summary_table(summary: Any) -> Table:
    """Per setting: mean and risk with intervals over seeds, share that meets it, failures."""

    def number(row: dict[str, Any], name: str) -> str:
        if row[name] is None:
            return ""
        reach = row.get(f"{name}_reach")
        return f"{row[name]:.4g}" + (f" ± {reach:.2g}" if reach is not None else "")

    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "setting": lambda row: row["setting"],
        "value": lambda row: row["name"] or "",
        "mean": lambda row: number(row, "mean"),
        "risk": lambda row: number(row, "risk"),
        "bound": lambda row: number(row, "threshold"),
        "meet it": lambda row: "" if row["meet"] is None else f"{row['meet']:.0%}",
        "multiplier": lambda row: number(row, "multiplier"),
        "n": lambda row: str(row["n"]),
        "failures": lambda row: str(row["failures"] or ""),
    }
    rows = [{name: cell(row) for name, cell in columns.items()} for row in summary.to_dicts()]
    used = [name for name in columns if any(row[name] for row in rows)]
    table = Table(*used, box=None, header_style="bold")
    table.columns[0].overflow = "fold"
    for row in rows:
        table.add_row(*(row[name] for name in used))
    return table


@contextmanager
def _store_errors() -> Generator[None]:
    """What is wrong with a folder is bad input: one sentence, exit code 2."""
    try:
        yield
    except RuntimeError as error:
        from downside.store import StoreError
        from downside.studies.trial import DiskError

        if isinstance(error, StoreError | DiskError):
            raise ValueError(str(error)) from error
        raise
