"""Driving a study: its waiting trials on an engine, until all are done or something stops it."""

import threading
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from downside.checks import check_choice, check_count
from downside.studies.folder import Fate, StudyFolder, trial_folder
from downside.studies.local import run_local
from downside.studies.mending import set_aside
from downside.studies.study import Study, Trial
from downside.studies.supervising import Event, StoppedError
from downside.training.interrupts import Interrupts

Engine = Literal["local", "ray"]
Watch = Callable[[Event | None], None]


@dataclass(frozen=True)
class Drive:
    """How a drive ended: what has become of every trial, and why it stopped early, if it did."""

    path: Path
    study: Study
    fates: dict[str, Fate]
    stopped: str = ""

    @property
    def failed(self) -> list[Trial]:
        """The trials that have failed."""
        return [trial for trial in self.study.trials if self.fates[trial.id].state == "failed"]

    @property
    def left(self) -> list[Trial]:
        """The trials that are still to be made."""
        ended = ("done", "failed")
        return [trial for trial in self.study.trials if self.fates[trial.id].state not in ended]


def run_study(
    path: str | Path,
    study: Study | None = None,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    only: Collection[str] | None = None,
    anew: bool = False,
    watch: Watch = lambda event: None,
) -> Drive:
    """Run all trials of a study that are not done; without ``study``, that of the folder.

    Whatever stopped an earlier drive, this one goes on: done trials stay as they are, others go on
    from their checkpoints, and what is damaged is set aside. Failed ones are left alone unless
    ``retry_failed``. ``only`` are the ids of the trials that are meant, all by default; ``anew``,
    they begin again from nothing. ``watch`` is told of every event, and of None now and then.

    >>> import tempfile
    >>> study = Study({"function": "downside.studies.driving:hypotenuse", "arguments": {"a": 3.0}},
    ...               grid={"b": [4.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_study(folder, study).fates["hypotenuse/b=4.0"].state
    'done'
    """
    check_choice("engine", engine, get_args(Engine))
    if workers is not None:
        check_count("workers", workers, least=1)
    if address is not None and engine != "ray":
        raise ValueError(f"address is {address!r}; only the engine 'ray' has one")
    with StudyFolder.open(path, study) as folder:
        meant = [t for t in folder.study.trials if only is None or t.id in only]
        if anew:
            folder.forget(meant)
        before = folder.fates()
        if retry_failed:
            folder.forget_failures([t for t in meant if before[t.id].state == "failed"])
            before = folder.fates()
        waiting = [t for t in meant if before[t.id].state not in ("done", "failed")]
        for trial in waiting:
            set_aside(trial_folder(folder.path, trial))
        why = _drive(folder, waiting, engine, workers, address, watch) if waiting else ""
        return Drive(folder.path, folder.study, folder.fates(), why)


def hypotenuse(a: float, b: float) -> dict[str, float]:
    """A trial that takes no time."""
    return {"c": (a * a + b * b) ** 0.5}


def _drive(
    folder: StudyFolder,
    trials: list[Trial],
    engine: Engine,
    workers: int | None,
    address: str | None,
    watch: Watch,
) -> str:
    """Why the drive stopped early; nothing if it did not."""
    stop, why = threading.Event(), ""
    events = _events(folder, trials, engine, workers, address, stop)
    with Interrupts() as interrupts, closing(events):
        for event in events:
            if interrupts.seen is not None and not stop.is_set():
                stop.set()
                why = why or "it was interrupted"
            if event is not None and isinstance(event[1], Exception):
                stop.set()
                if not isinstance(event[1], StoppedError):
                    why = why or str(event[1])
            watch(event)
    return why


def _events(
    folder: StudyFolder,
    trials: list[Trial],
    engine: Engine,
    workers: int | None,
    address: str | None,
    stop: threading.Event,
) -> Generator[Event | None]:
    limits = folder.study.limits
    if engine == "local":
        return run_local(folder.path, trials, limits, workers, stop)
    from downside.studies.ray import run_ray

    return run_ray(folder.path, trials, limits, workers, address, stop)
