"""One trial in its folder, from its specification alone: what every engine runs."""

import errno
import faulthandler
import hashlib
import io
import math
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from downside.specification import load
from downside.store import files
from downside.store.errors import StoreError, explaining
from downside.store.lock import Lock
from downside.store.writing import replace_file
from downside.studies.folder import Fate, read_fate, write_fate
from downside.studies.study import Trial

ATTEMPT = "--- attempt "
TRACEBACK = "traceback.txt"
TELL = signal.SIGUSR1  # asks a worker where it is, before it is ended at a limit
_STOPS = (signal.SIGINT, signal.SIGTERM)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_REFUSING = {*_FULL, errno.EIO, errno.EACCES, errno.EPERM}


class AgainError(Exception):
    """The trial failed in a process that others have used: it should be tried in a new one."""


class DiskError(RuntimeError):
    """The disk refuses: no fault of the trial, and the study stops."""


@dataclass(frozen=True)
class Outcome:
    """What a trial brought: rows of numbers, files, and why it counts as failed, if it does."""

    rows: list[dict[str, Any]]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    failure: str = ""


def run_trial(trial: Trial, folder: Path, *, is_last: bool = True) -> Fate:
    """Run a trial unless it is done or has failed, and leave its results in its folder.

    A trial that was stopped goes on from its newest checkpoint. An error of the trial is a fate
    like another, or `AgainError` unless this ``is_last``; errors of the disk are raised.
    """
    with _disk_errors(), explaining(f"{folder} could not be written"):
        files.make_folders(folder)
        lock = Lock(folder / "lock")
    try:
        with _disk_errors():
            fate = read_fate(folder, trial)
            if fate.state in ("done", "failed"):
                return fate
            with _logging(folder) as attempts, _stacks(folder / TRACEBACK):
                return _attempt(trial, folder, attempts, is_last)
    finally:
        lock.release()


def write_failure(
    trial: Trial,
    folder: Path,
    reason: str,
    seconds: float,
    *,
    kept: bool,
    environment: Mapping[str, str] = os.environ,
) -> Fate:
    """Note that a trial has failed; its process is gone, or it could not say more.

    ``environment`` is that in which the trial ran.
    """
    with _disk_errors():
        files.make_folders(folder)
        stacks = folder / TRACEBACK
        if not stacks.exists() or not stacks.stat().st_size:
            replace_file(stacks, f"{reason}; it left no traceback\n".encode())
        attempts = count_attempts(folder)
        fate = Fate("failed", reason, round(seconds, 3), attempts, kept)
        return _keep(trial, folder, fate, [], environment)


def count_attempts(folder: Path) -> int:
    """How often a process has begun or gone on with the trial in this folder."""
    try:
        log = (folder / "log.txt").read_text(errors="replace")
    except FileNotFoundError:
        return 0
    return sum(line.startswith(ATTEMPT) for line in log.splitlines())


def _attempt(trial: Trial, folder: Path, attempts: int, is_last: bool) -> Fate:
    began = time.perf_counter()

    def fate(state: Any, reason: str = "", **options: Any) -> Fate:
        return Fate(state, reason, round(time.perf_counter() - began, 3), attempts, **options)

    with _noting_stops() as is_stopped:
        try:
            outcome = _RUN[trial.kind](trial.specification, folder)
        except BaseException as error:  # a trial may raise KeyboardInterrupt or SystemExit itself
            if is_stopped() or _is_behind(error, _FULL):
                raise
            text = traceback.format_exc()
            if not is_last:
                sys.stderr.write(text)  # into the log
                raise AgainError(_in_a_line(error)) from error
            replace_file(folder / TRACEBACK, text.encode())
            return _keep(trial, folder, fate("failed", _in_a_line(error), kept=False), [])
    if outcome.failure and not is_last:
        raise AgainError(outcome.failure)
    for name, content in outcome.files.items():
        replace_file(folder / name, content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in outcome.files.items()}
    if outcome.failure:
        replace_file(folder / TRACEBACK, f"{outcome.failure}; no error was raised\n".encode())
    state = "failed" if outcome.failure else "done"
    end = fate(state, outcome.failure, kept=not outcome.failure, files=sums)
    kept = _keep(trial, folder, end, outcome.rows)
    if trial.kind == "experiment":
        files.remove_tree(folder / "run")  # its parts are in the results
    return kept


def _in_a_line(error: BaseException) -> str:
    """An error as a reason, which stands in tables and logs; the rest is in the traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])


@contextmanager
def _noting_stops() -> Generator[Callable[[], bool]]:
    """Whether a signal has asked this process to stop; whoever handles it still does."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)

    def is_stopped() -> bool:
        try:
            return any(number in _STOPS for number in os.read(ours, 65536))
        except BlockingIOError:  # none has come
            return False

    try:
        yield is_stopped
    finally:
        signal.set_wakeup_fd(before)
        os.close(ours)
        os.close(theirs)


def _keep(
    trial: Trial,
    folder: Path,
    fate: Fate,
    rows: list[dict[str, Any]],
    environment: Mapping[str, str] = os.environ,
) -> Fate:
    from downside.studies.collecting import results_of

    content = io.BytesIO()
    results_of(trial, fate.state, fate.reason, rows).write_parquet(content)
    replace_file(folder / "results.parquet", content.getvalue())
    sums = {**fate.files, "results.parquet": hashlib.sha256(content.getvalue()).hexdigest()}
    whole = Fate(fate.state, fate.reason, fate.seconds, fate.attempts, fate.kept, sums)
    facts = {
        "host": socket.gethostname(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {key: environment.get(key, "") for key in _NOTED},
    }
    write_fate(folder, trial, whole, facts)
    return whole


_NOTED = ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "PJRT_NPROC")


def _run_training(specification: dict[str, Any], folder: Path) -> Outcome:
    from downside.studies.training import run_training

    return Outcome(*run_training(specification, folder))


def _run_experiment(specification: dict[str, Any], folder: Path) -> Outcome:
    from downside.experiments.base import run_experiment

    name, scale, seed = (specification[key] for key in ("experiment", "scale", "seed"))
    numbers, claims = run_experiment(name, folder / "run", scale=scale, seed=seed)
    rows = [
        {
            "name": claim.id,
            "value": claim.measured,
            "low": claim.low,
            "high": claim.high,
            "verdict": claim.verdict,
        }
        for claim in claims
    ]
    return Outcome(rows, {"results.npz": numbers})


def _run_function(specification: dict[str, Any], folder: Path) -> Outcome:
    found = load("function", specification["function"])(**specification["arguments"])
    if not isinstance(found, Mapping):
        raise TypeError(f"{specification['function']} gave {found!r}, not numbers by names")
    values = {str(k): float(v) for k, v in cast("Mapping[Any, Any]", found).items()}
    rows: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in values.items()]
    wrong = [f"{name}: not finite ({x})" for name, x in values.items() if not math.isfinite(x)]
    return Outcome(rows, failure=", ".join(wrong))


_RUN = {"env": _run_training, "experiment": _run_experiment, "function": _run_function}


@contextmanager
def _logging(folder: Path) -> Generator[int]:
    """Send what is printed, by Python or by libraries, to the trial's log."""
    attempts = count_attempts(folder) + 1
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(descriptor) for descriptor in (1, 2)]
    try:
        who = f"process {os.getpid()} on {socket.gethostname()}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        files.write(log, f"{ATTEMPT}{attempts}: {who} at {now}\n".encode())
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        yield attempts
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, old in zip((1, 2), before, strict=True):
            os.dup2(old, descriptor)
            os.close(old)
        os.close(log)


@contextmanager
def _stacks(path: Path) -> Generator[None]:
    """Write where Python is to a file, should it crash, or when the supervisor asks."""
    before = faulthandler.is_enabled()
    with open(path, "wb") as file:
        faulthandler.enable(file)
        faulthandler.register(TELL, file)
        try:
            yield
        finally:
            faulthandler.unregister(TELL)
            faulthandler.disable()
            if before:
                faulthandler.enable()
            if not path.stat().st_size:
                path.unlink()


@contextmanager
def _disk_errors() -> Generator[None]:
    try:
        yield
    except (OSError, StoreError) as error:
        if _is_behind(error, _REFUSING):
            plain = isinstance(error, OSError)
            words = f"{error.strerror} ({error.filename or 'in a trial'})" if plain else str(error)
            raise DiskError(words) from error
        raise


def _is_behind(error: BaseException | None, numbers: set[int]) -> bool:
    """Whether one of these refusals of the system is behind an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__
    return False
