"""A process that runs trials, and its supervisor: limits, crashes, and trying again.

A worker takes one trial after the other, because starting Python and JAX and loading the compiled
programs costs seconds. It is replaced whenever anything goes wrong in it, and a trial never has to
answer for those before it: what happens in a worker that is not new is tried again in a new one.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from downside.store.checkpoint import checkpoints
from downside.store.errors import StoreError
from downside.store.plain import encode
from downside.studies.folder import Fate, read_fate
from downside.studies.study import Limits, Trial
from downside.studies.trial import TELL, TRACEBACK, DiskError, count_attempts, write_failure
from downside.studies.worker import AGAIN, BEGUN

MOST_KILLS, MOST_CRASHES, MOST_STARTS = 20, 2, 30
"""Attempts without progress before a trial fails: kills come from outside, crashes from within.

A worker that dies before it has begun says nothing about the trial, until very many have."""

LOOK_SECONDS = 0.1
STOP_SECONDS = 60.0
TELL_SECONDS = 2.0
START_SECONDS = 300.0  # of a process, which do not count as the trial's
_SENT = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PAGE = os.sysconf("SC_PAGE_SIZE")


Event = tuple[Trial, Fate | Exception | None]
"""A trial that was begun (None), has ended (its fate), or cannot go on (why)."""


class StoppedError(Exception):
    """The study is being stopped; the trial goes on when it is resumed."""


def worker_environment(trial: Trial, cache: Path, outside: Mapping[str, str]) -> dict[str, str]:
    """Everything that JAX must be told before it starts, so that a trial's bits are its own.

    One thread per device: two workers do not fight over cores, and libraries that split their sums
    between threads always split them alike.
    """
    fixed = {
        "JAX_NUM_CPU_DEVICES": str(trial.devices),
        "JAX_COMPILATION_CACHE_DIR": outside.get("JAX_COMPILATION_CACHE_DIR") or str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # else programs know their cache's name
        "PJRT_NPROC": "1",
        "OMP_NUM_THREADS": str(trial.devices),
        "OPENBLAS_NUM_THREADS": str(trial.devices),
        "POLARS_MAX_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([*filter(None, sys.path), os.getcwd()])),
        "PYTHONUNBUFFERED": "1",
    }
    if not trial.specification["gpus"]:
        fixed["JAX_PLATFORMS"] = "cpu"
    return {**outside, **fixed}


@final
class Supervisor:
    """One worker after the other; only one trial at a time."""

    def __init__(self, cache: Path) -> None:
        self._cache, self._environment = cache, dict[str, str]()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers, self._n_trials = -1, 0
        self._began: float | None = None  # when the newest attempt did
        self._oom_kills = 0  # before it

    def run(self, trial: Trial, folder: Path, limits: Limits, stopped: Callable[[], bool]) -> Fate:
        """Run a trial to its end, whatever happens to its process on the way."""
        kills = crashes = starts = 0
        before, begun = _progress(folder), count_attempts(folder)
        while True:
            self._start(trial)
            is_new = self._n_trials == 1
            found = self._once(trial, folder, limits, stopped)
            if isinstance(found, Fate):
                return found
            if stopped():
                raise StoppedError
            reason, is_crash, is_final = found
            now = _progress(folder)
            if now > before:
                kills, crashes, before = 0, 0, now
            if count_attempts(folder) == begun:
                starts += 1
                is_final = is_final or starts >= MOST_STARTS
            else:
                kills, crashes = kills + (not is_crash), crashes + is_crash
                starts, begun = 0, count_attempts(folder)
            if is_final or (is_new and crashes >= MOST_CRASHES) or kills >= MOST_KILLS:
                count = f", {kills + crashes} times without progress"
                words = reason if is_final else reason + count
                seconds = 0.0 if self._began is None else time.monotonic() - self._began
                environment = self._environment
                return write_failure(
                    trial, folder, words, seconds, kept=True, environment=environment
                )

    def close(self) -> None:
        """End the worker and what it has started, now."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            os.close(self._answers)
            self._process = None

    def _start(self, trial: Trial) -> None:
        """See to it that a worker with the right environment waits for orders."""
        environment = worker_environment(trial, self._cache, os.environ)
        if self._process is not None and (
            environment != self._environment or self._process.poll() is not None
        ):
            self.close()
        if self._process is None:
            self._answers, theirs = os.pipe()
            command = [sys.executable, "-m", "downside.studies.worker"]
            try:
                self._process = subprocess.Popen(
                    [*command, str(os.getpid()), str(theirs)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=None,
                    pass_fds=[theirs],
                    env=environment,
                    start_new_session=True,  # a Ctrl-C at the terminal is for the driver alone
                )
            finally:
                os.close(theirs)
            self._environment, self._n_trials = environment, 0
        self._n_trials += 1

    def _once(
        self, trial: Trial, folder: Path, limits: Limits, stopped: Callable[[], bool]
    ) -> Fate | tuple[str, bool, bool]:
        """One attempt: a fate, or (why it ended without one, was it a crash, is that the end)."""
        assert self._process is not None
        is_new = self._n_trials == 1
        order = {"trial": encode("trial", asdict(trial)), "folder": str(folder), "is_new": is_new}
        deadline, self._began = time.monotonic() + START_SECONDS, None
        self._oom_kills = _oom_kills()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._obituary()
        asked = 0.0
        while True:
            if select.select([self._answers], [], [], LOOK_SECONDS)[0]:
                line = self._read_line()
                if line is None:
                    return self._obituary()
                answer = json.loads(line)
                if answer["state"] == AGAIN:
                    self.close()
                    return answer["reason"], True, False
                if answer["state"] != BEGUN:
                    return self._judged(answer, trial, folder)
                self._began = time.monotonic()
                deadline = self._began + limits.seconds
            now = time.monotonic()
            if stopped():
                asked = asked or self._ask_to_stop(now)
                if now > asked + STOP_SECONDS:
                    self.close()
                    raise StoppedError
            elif now > deadline:
                self._end_at_limit(folder)
                if self._began is None:
                    return f"its process did not start within {START_SECONDS:g} s", False, False
                return f"took longer than its limit of {limits.seconds:g} s", True, True
            elif (used := _memory_gb(self._process.pid, limits.memory_gb)) > limits.memory_gb:
                self._end_at_limit(folder)
                words = f"used {used:.3g} GB of memory, more than its limit of {limits.memory_gb:g}"
                return words, True, is_new  # else others may have left it there

    def _ask_to_stop(self, now: float) -> float:
        assert self._process is not None
        self._process.terminate()  # an agent that learns finishes its chunk and saves
        return now

    def _end_at_limit(self, folder: Path) -> None:
        """End the worker; if a trial has begun in it, it says first where it is."""
        assert self._process is not None
        if self._began is not None:
            self._process.send_signal(TELL)
            _wait_for(folder / TRACEBACK)
        self.close()

    def _judged(self, answer: dict[str, Any], trial: Trial, folder: Path) -> Fate:
        if answer["state"] == "disk":
            raise DiskError(answer["reason"])
        if answer["state"] == "refused":
            raise StoreError(answer["reason"])
        fate = read_fate(folder, trial)
        if fate.state not in ("done", "failed"):
            raise StoreError(f"{folder} was changed while the trial ran: {fate.reason}")
        if fate.state == "failed":
            self.close()  # nothing of it may reach the next trial
        return fate

    def _obituary(self) -> tuple[str, bool, bool]:
        assert self._process is not None
        code = self._process.wait()
        self.close()
        if code == -signal.SIGKILL and _oom_kills() > self._oom_kills:
            return "the system ended its process for lack of memory", True, False
        if code < 0:
            number = signal.Signals(-code)
            return f"its process was ended by {number.name}", number not in _SENT, False
        return f"its process ended with exit code {code}", True, False

    def _read_line(self) -> bytes | None:
        """The rest of a line; None when the process is gone."""
        line = bytearray()
        while not line.endswith(b"\n"):
            part = os.read(self._answers, 1)  # not more: another line may follow
            if not part:
                return None
            line += part
        return bytes(line)


def _wait_for(path: Path) -> None:
    """Until a file that is being written has its text, or `TELL_SECONDS` are over."""
    size, latest = 0, time.monotonic() + TELL_SECONDS
    while time.monotonic() < latest:
        time.sleep(LOOK_SECONDS)
        with suppress(OSError):
            before, size = size, path.stat().st_size
            if size and size == before:
                return


def _progress(folder: Path) -> int:
    """The steps that are saved: of the run, or of all runs of an experiment."""
    return sum(_saved_steps(each.parent) for each in (folder / "run").glob("**/checkpoints"))


def _saved_steps(run: Path) -> int:
    try:
        return max(checkpoints(run), default=-1) + 1
    except StoreError:
        return 0


def _oom_kills() -> int:
    """How often the system has ended a process for lack of memory, where it says so."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _memory_gb(pid: int, limit: float) -> float:
    """What a process and all below it hold in memory now; 0 where the system does not say.

    Counted at once, pages that several of them share count for each; only if that is beyond the
    limit they are looked at one by one, and each counts once.
    """
    if limit == math.inf:
        return 0.0
    family = _family(pid)
    if (upper := sum(map(_resident, family)) / 1e9) <= limit:
        return upper
    return sum(map(_proportional, family)) / 1e9


def _family(pid: int) -> list[int]:
    """A process and all that it has started, and they, as far as they are still below it."""
    found = [pid]
    for parent in found:
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, file.read_text().split())
    return found


def _resident(pid: int) -> float:
    """Bytes in memory, shared or not."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0.0


def _proportional(pid: int) -> float:
    """Bytes in memory, a page that n processes share as a n-th of it."""
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return _resident(pid)
