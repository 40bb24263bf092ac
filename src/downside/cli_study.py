"""``downside study``: run, watch, resume and sum up studies; like ``cli``, it prints.

Nothing heavy is imported before a command needs it.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from downside.cli_options import look_here
from downside.cli_progress import View, console_on, counted, plainly, row_of, table_of

if TYPE_CHECKING:
    from downside.studies.driving import Drive
    from downside.studies.study import Study

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
MOST_ROWS = 50
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Trials side by side; as many as there are cores.")
]


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

    look_here()
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
    with plainly():
        from downside.store import holder
        from downside.studies.folder import read_study

        study, driver = read_study(folder), holder(folder)
        states = _states(folder, study, running=driver is not None)
    if as_json:
        print(json.dumps({"trials": states, "process": str(driver) if driver else None}))
        return
    console = console_on()
    console.print(table_of(list(states.values())))
    for row in states.values():
        if "reason" in row:
            _print_reason(console, row["state"], row["trial"], row["reason"])
    console.print(counted([row["state"] for row in states.values()]), highlight=False)
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
    with plainly():
        from downside.store.errors import explaining
        from downside.studies.collecting import collect

        results = collect(folder)
        with explaining(f"{file} could not be written"):
            results.sink_parquet(file) if file.suffix == ".parquet" else results.sink_csv(file)
        _say_damaged(folder)
    console_on().print(str(file), highlight=False, soft_wrap=True)


@study_app.command("report")
def report_command(folder: Folder) -> None:
    """Sum up a study, setting by setting, as FOLDER/report.html and summary.csv."""
    with plainly():
        from downside.store.errors import explaining
        from downside.store.writing import replace_file
        from downside.studies.collecting import summarise

        summary = summarise(folder)
        _say_damaged(folder)
        console = console_on()
        console.print(_summary_table(summary))
        from downside.report.study_page import study_page

        views = {"summary.csv": summary.write_csv(), "report.html": study_page(folder)}
        for path, text in ((folder / name, text) for name, text in views.items()):
            with explaining(f"{path} could not be written"):
                replace_file(path, text.encode())
            console.print(str(path), highlight=False, soft_wrap=True)


def _say_damaged(folder: Path) -> None:
    """Say which trials are left out, and how to make them again."""
    from downside.studies.folder import fates, read_study

    found = fates(folder, read_study(folder))
    damaged = [name for name, fate in found.items() if fate.state == "damaged"]
    if damaged:
        command = _command("resume", folder)
        words = f"left out, damaged: {', '.join(damaged)}; make them again with: {command}"
        console_on(stderr=True).print(words, markup=False, highlight=False, soft_wrap=True)


def _drive(
    folder: Path,
    study: "Study | None",
    engine: Engine,
    address: str | None,
    workers: int | None,
    *,
    retry_failed: bool = False,
) -> None:
    with plainly():
        from downside.studies.driving import run_study
        from downside.studies.folder import read_study

        view = View(folder, study or read_study(folder))
        if engine == "ray":  # whose head takes the command with it when it dies
            words = f"if Ray dies, go on with: {_command('resume', folder)}"
            console_on(stderr=True).print(words, markup=False, highlight=False, soft_wrap=True)
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


def _states(folder: Path, study: "Study", *, running: bool) -> dict[str, dict[str, str]]:
    from downside.studies.folder import fates, is_running, trial_folder

    rows: dict[str, dict[str, str]] = {}
    found = fates(folder, study)
    for trial in study.trials:
        fate = found[trial.id]
        at_work = running and fate.state == "stopped" and is_running(trial_folder(folder, trial))
        row = row_of(folder, trial, "running" if at_work else fate.state)
        rows[trial.id] = {**row, "reason": fate.reason} if fate.reason else row
    return rows


def _print_end(drive: "Drive") -> None:
    from downside.studies.collecting import summarise
    from downside.studies.folder import trial_folder

    console = console_on()
    states = [fate.state for fate in drive.fates.values()]
    if "done" in states or "failed" in states:
        console.print(_summary_table(summarise(drive.path)))
    for trial in drive.failed:
        reason, place = drive.fates[trial.id].reason, trial_folder(drive.path, trial)
        _print_reason(console, "failed", trial.id, reason)
        console.print(f"  {place}", markup=False, highlight=False, soft_wrap=True)
    if drive.stopped:
        console.print(f"the study stopped: {drive.stopped}", style="red", markup=False)
    console.print(counted(states), highlight=False)
    console.print(f"results: {drive.path}", highlight=False, markup=False, soft_wrap=True)
    _print_next(console, drive.path, states)


def _print_reason(console: Console, state: str, trial: str, reason: str) -> None:
    words = f"{state} {trial}: {reason}"
    console.print(words, style="red", markup=False, highlight=False, soft_wrap=True)


def _print_next(console: Console, folder: Path, states: list[str]) -> None:
    ended = all(state in ("done", "failed") for state in states)
    name = "resume" if not ended else "retry-failed" if "failed" in states else "report"
    words = f"next: {_command(name, folder)}"
    console.print(words, highlight=False, markup=False, soft_wrap=True)


def _command(name: str, folder: Path) -> str:
    return shlex.join(["downside", "study", name, str(folder)])


def _summary_table(summary: Any) -> Table:
    """Per setting: mean and risk with intervals over seeds, share that meets it, failures."""
    from downside.studies.collecting import in_words

    rows = [in_words(row) for row in summary.head(MOST_ROWS).to_dicts()]
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    hidden = summary.height - len(rows)
    more = f"and {hidden:,} more" if hidden else None
    table = Table(*used, box=None, header_style="bold", caption=more, caption_justify="left")
    table.columns[0].overflow = "fold"
    for row in rows:
        table.add_row(*(row[name] for name in used))
    return table
