"""Killing the processes of a study with `kill -9`, on Linux, and what that loses."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from downside.store import newest_facts


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
    """Kill a process of a study; seconds of learning that this loses, and of all else."""
    dead = [p for p in (pid, *children(pid)) if is_worker(p)]
    kill(pid)
    now = time.time()
    lost = [_lost(each, study, now) for each in dead]
    return sum(learning for learning, _ in lost), sum(starting for _, starting in lost)


def _lost(pid, study, now):
    """What a worker that died now had not saved: (learning, 0), or (0, seconds) before and after.

    Before the first save of its attempt it starts, after the last one it judges its policies.
    """
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
            if found is not None and found[0] >= found[1]["goal"]:
                return 0.0, now - max([began, *saves])
            return (now - max(saves), 0.0) if saves else (0.0, now - began)
    return 0.0, 0.0
