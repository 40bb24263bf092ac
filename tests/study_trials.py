"""Trials for the tests of studies: quick functions, good ones and poisoned ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def square(x, seconds=0.0, notes=None, seed=0):
    """x squared, in so many seconds; each time it is computed, a line is added to the notes."""
    if notes is not None:
        with open(notes, "a") as file:
            file.write(f"{x}\n")
    time.sleep(seconds)
    return {"square": float(x) ** 2}


def anything(**values):
    """Takes all arguments."""
    return values


def broken_environment(error="RuntimeError"):
    """An environment that cannot be made."""
    raise {"RuntimeError": RuntimeError, "ValueError": ValueError}[error]("no data today")


def poisoned(how):
    """Good, or one of the ways in which a trial can go wrong."""
    return WAYS[how]()


def _loop():
    """Without end, and it has started another process that has none either."""
    print("child", subprocess.Popen(["sleep", "1000"]).pid)
    while True:
        pass


def _hog():
    held = []
    while True:
        held.append(bytearray(os.urandom(1000) * 20_000))
        time.sleep(0.01)


def _hog_below():
    """Small itself, and a process that it starts is not."""
    subprocess.run([sys.executable, "-c", "import time; held = b'x' * 10**9; time.sleep(1000)"])


def _once_killed():
    """Killed the first time; the trace of it is beside the log."""
    mark = Path(os.environ["STUDY_MARK"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": 5.0}


def _no_room():
    raise OSError(28, "No space left on device", "somewhere")


def _error():
    print("said before the end")
    raise ArithmeticError("seven is not a square")


def _lines():
    raise ArithmeticError("\nfirst line\nsecond line")


def _interrupt():
    raise KeyboardInterrupt("by the trial itself")


def alone(x):
    """Fails where another trial was before."""
    if VISITS:
        raise RuntimeError("somebody was here")
    VISITS.append(x)
    return {"value": x}


VISITS = []

WAYS = {
    "infinite": lambda: {"value": float("inf")},
    "number": lambda: 3.0,
    "good": lambda: {"value": 3.5},
    "error": _error,
    "nan": lambda: {"value": float("nan"), "other": 1.0},
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit": lambda: os._exit(7),
    "loop": _loop,
    "hog": _hog,
    "hog below": _hog_below,
    "killed once": _once_killed,
    "full disk": _no_room,
    "lines": _lines,
    "interrupt": _interrupt,
    "sys.exit": lambda: sys.exit(3),
    "ctrl-c": lambda: os.kill(os.getpid(), signal.SIGINT),
}
