"""Killing the processes of a study with `kill -9`, on Linux, and what that loses.

What is computed again is counted in steps, exactly: trials on the `bandit` of this module add the
steps of every chunk that they begin to a file, and what stands there beyond the steps of all
trials was made more than once. A chunk in which a process was killed counts as a whole.
"""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from downside.environments import Bandit
from downside.store import newest_facts
from downside.training import run

COUNTED = "STUDY_STEPS"
"""The variable of the environment that names the file in which steps are counted."""


def bandit():
    """The bandit, in a process that counts its steps from now on, if it is asked to."""
    if COUNTED in os.environ and run.advance.__module__ != __name__:
        run.advance = _counting(run.advance, os.environ[COUNTED])
    return Bandit()


def _counting(advance, file):
    def counted(settings, learners, keys, first, last, *, fresh=True):
        with open(file, "a") as steps:
            steps.write(f"{(last - first) * settings.period}\n")
        return advance(settings, learners, keys, first, last, fresh=fresh)

    return counted


def steps_made(file):
    """The steps that all processes together have begun."""
    return sum(map(int, Path(file).read_text().split()))


def children(pid):
    """The processes below a process."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found + [below for child in found for below in children(child)]


def is_called(pid, words):
    """Whether a process was started with these words."""
    with suppress(OSError):
        return words in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def is_worker(pid):
    """Whether trials run in a process."""
    return is_called(pid, b"downside.studies.worker")


def workers_of(pid):
    """The processes below a driver in which trials run."""
    return [child for child in children(pid) if is_worker(child)]


def victims(driver, name):
    """The workers of a driver, and on Ray the processes that supervise them."""
    below = children(driver)
    above = [child for child in below if is_called(child, f"ray::{name}".encode())]
    return [child for child in below if is_worker(child)] + above


def kill(pid):
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_and_measure(pid, study):
    """Kill a process of a study; for each worker that dies with it, whether it was learning, and
    the seconds since it began or last saved."""
    dead = [p for p in (pid, *children(pid)) if is_worker(p)]
    kill(pid)
    now = time.time()
    return [found for each in dead if (found := _lost(each, study, now))]


def _lost(pid, study, now):
    """Before the first save of its attempt a worker starts, after the last one it judges."""
    for lock in study.glob("trials/*/*/lock"):
        with suppress(OSError, ValueError):
            if json.loads(lock.read_text() or "{}").get("pid") != pid:
                continue
            began = lock.stat().st_mtime
            saves = [
                path.stat().st_mtime
                for path in lock.parent.glob("run/checkpoints/0*")
                if int(path.name) > 0 and path.stat().st_mtime > began
            ]
            found = newest_facts(lock.parent / "run")
            is_learning = bool(saves) and not (found and found[0] >= found[1]["goal"])
            return is_learning, now - max([began, *saves])
    return None
