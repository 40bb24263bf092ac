"""What is seen while a study runs: one live table, or lines in a log; like ``cli``, it prints."""

import os
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from downside.studies.study import Study, Trial

COLOURS = {"done": "green", "failed": "red", "running": "cyan", "damaged": "red"}
LOG_SECONDS, LOOK_SECONDS = 30.0, 1.0
LOG_COLUMNS = 160


def console_on(*, stderr: bool = False) -> Console:
    """Where to print: as wide as the terminal, and in files wide enough for tables and ids."""
    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = LOG_COLUMNS
    return console


class View:
    """What is seen while a study runs: one live table, or lines in a log; on standard error."""

    def __init__(self, folder: Path, study: "Study") -> None:
        self._folder, self._study = folder, study
        self._console = console_on(stderr=True)
        self._states: dict[str, str] = {}
        self._live: Live | None = None
        self._said = time.monotonic()
        self._seconds: list[float] = []  # that the trials took which are done
        self._most = 1  # trials that ran side by side
        self._looked = 0.0

    @contextmanager
    def shown(self, *, fresh: bool = False) -> Generator[None]:
        """Show the table as long as this lasts, if somebody can see it.

        ``fresh``: whatever the folder holds begins again.
        """
        from downside.studies.folder import fates

        if (self._folder / "study.json").exists() and not fresh:
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
            if what.state == "done":
                self._seconds.append(what.seconds)
            if self._live is None:
                words = f"{what.state} {trial.id} ({what.seconds:.1f} s)"
                reason = f": {what.reason}" if what.reason else ""
                self._say(f"{words}{reason}  [{self._counts()}]")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _counts(self) -> str:
        states = list(self._states.values())
        running = [t for t in self._study.trials if self._states[t.id] == "running"]
        waiting = sum(state not in ("done", "failed", "running") for state in states)
        self._most = max(self._most, len(running))
        words = counted(states)
        if self._seconds and (running or waiting):
            own = [seconds_left(self._folder, trial) for trial in running]
            words += f"; about {_span(time_left(self._seconds, own, waiting, self._most))} left"
        return words

    def _picture(self) -> Group:
        """Running trials first, then failed ones, then as many others as there is room for."""
        order = ("running", "failed", "damaged", "stopped", "done", "waiting")
        by_state = sorted(self._study.trials, key=lambda t: order.index(self._states[t.id]))
        room = max(5, self._console.height - 6)
        rows = [row_of(self._folder, trial, self._states[trial.id]) for trial in by_state[:room]]
        hidden = len(by_state) - len(rows)
        words = self._counts() + (f"; {hidden} not shown" if hidden > 0 else "")
        return Group(table_of(rows), Text(words))


def time_left(
    done: list[float], running: list[float | None], waiting: int, side_by_side: int
) -> float:
    """Seconds, if trials take as long as the median of those that are done.

    The first ones compile, and take longer than those to come. Of running ones it is known what
    they still need, or they are half done.

    >>> time_left([20.0, 2.0, 2.0], running=[None, 3.0], waiting=8, side_by_side=2)
    10.0
    """
    usual = statistics.median(done)
    left = [0.5 * usual if seconds is None else seconds for seconds in running]
    return max([(usual * waiting + sum(left)) / side_by_side, *left])


def seconds_left(folder: Path, trial: "Trial") -> float | None:
    """What a running training still needs, if it has said so."""
    from downside.store import newest_facts
    from downside.studies.folder import trial_folder

    found = newest_facts(trial_folder(folder, trial) / "run") if trial.kind == "env" else None
    if found is None or not found[1].get("speed"):
        return None
    step, facts = found
    return (facts["goal"] - step) * facts["learners"] / facts["speed"]


def row_of(folder: Path, trial: "Trial", state: str) -> dict[str, str]:
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
    speed = facts.get("speed", 0.0)  # of all learners together, without compiling
    if not speed and state != "running" and facts.get("seconds"):
        speed = step * facts["learners"] / facts["seconds"]
    row["steps/s"] = f"{speed:,.0f}" if speed else "starting" if state == "running" else ""
    if "mean" in facts:
        row["mean"] = f"{facts['mean']:.4g}"
    if facts.get("risks") and facts["risks"][0]:
        bounds, risks, multipliers = facts["thresholds"], facts["risks"], facts["multipliers"]
        pairs = zip(risks, bounds, strict=True)
        row["risk of bound"] = ", ".join(f"{risk[0]:.3g} of {bound[0]:g}" for risk, bound in pairs)
        row["multiplier"] = ", ".join(f"{each[0]:.3g}" for each in multipliers)
    if state == "running" and (left := seconds_left(folder, trial)) is not None:
        row["time left"] = _span(left)
    return row


def table_of(rows: list[dict[str, str]]) -> Table:
    """Rows as a table, with the columns that say something."""
    names = ("trial", "state", "steps/s", "mean", "risk of bound", "multiplier", "time left")
    used = [name for name in names if any(row.get(name) for row in rows)]
    table = Table(*used, box=None, header_style="bold")
    table.columns[0].overflow = "fold"  # an id is there to be copied
    for row in rows:
        cells = [row.get(name, "") for name in used]
        colour = COLOURS.get(row["state"])
        table.add_row(*cells, style=colour)
    return table


def counted(states: list[str]) -> str:
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


@contextmanager
def plainly() -> Generator[None]:
    """What is wrong with a folder is bad input: one sentence, exit code 2."""
    try:
        yield
    except RuntimeError as error:
        from downside.store import StoreError
        from downside.studies.trial import DiskError

        if isinstance(error, StoreError | DiskError):
            raise ValueError(str(error)) from error
        raise
