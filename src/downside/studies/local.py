"""The local engine: as many supervised workers as there are cores."""

import os
import queue
import socket
import threading
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path

from downside.studies.folder import Fate, trial_folder
from downside.studies.study import Limits, Trial
from downside.studies.supervising import Event, StoppedError, Supervisor


def run_local(
    path: Path, trials: Sequence[Trial], limits: Limits, workers: int | None, stop: threading.Event
) -> Generator[Event | None]:
    """Run trials side by side; None comes when nothing has happened for a while.

    Each worker has a thread that supervises it. When the iteration is given up, all workers are
    ended at once.
    """
    waiting = deque(trials)
    events: queue.Queue[Event | None] = queue.Queue()
    abandoned = threading.Event()
    n_workers = min(len(trials), workers or default_workers(trials))
    cache = cache_folder(path)

    def supervise() -> None:
        supervisor = Supervisor(cache)
        try:
            while not stop.is_set():
                try:
                    trial = waiting.popleft()
                except IndexError:
                    break
                events.put((trial, None))
                fate = _fate(supervisor, path, trial, limits, stop, abandoned)
                if isinstance(fate, Exception):
                    stop.set()  # before the next trial is taken
                events.put((trial, fate))
        finally:
            supervisor.close()
            events.put(None)

    threads = [threading.Thread(target=supervise, daemon=True) for _ in range(n_workers)]
    for thread in threads:
        thread.start()
    running = n_workers
    try:
        while running:
            try:
                event = events.get(timeout=0.2)
            except queue.Empty:
                yield None
                continue
            if event is None:
                running -= 1
            else:
                yield event
    finally:
        stop.set()
        abandoned.set()
        for thread in threads:
            thread.join()


def default_workers(trials: Sequence[Trial]) -> int:
    """One core per device."""
    most = max((trial.devices for trial in trials), default=1)
    return max(1, _cores() // most)


def cache_folder(path: Path) -> Path:
    """Where compiled programs are kept: for each machine apart, since they are made for it."""
    return path / "cache" / socket.gethostname()


def _fate(
    supervisor: Supervisor,
    path: Path,
    trial: Trial,
    limits: Limits,
    stop: threading.Event,
    abandoned: threading.Event,
) -> Fate | Exception:
    def stopped() -> bool:
        if abandoned.is_set():
            supervisor.close()
            raise StoppedError
        return stop.is_set()

    try:
        return supervisor.run(trial, trial_folder(path, trial), limits, stopped)
    except Exception as error:
        return error


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
