"""What every part of the benchmark shares: the machine, turns, spreads, and where results go."""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
STATUS = Path("/proc/self/status")
CORES = os.cpu_count() or 1


def say(words):
    """A line of progress, on standard error."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)


def machine():
    """What the numbers depend on, and how busy the machine was when they were taken."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": CORES,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": version("jax"),
        "numpy": version("numpy"),
        "load at the start": round(os.getloadavg()[0], 2),
    }


def spread(values):
    """Median and middle half of repetitions.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
    {'median': 3.0, 'low': 2.0, 'high': 4.0, 'n': 5}
    """
    low, middle, high = np.percentile(values, [25, 50, 75]).tolist()
    return {"median": middle, "low": low, "high": high, "n": len(values)}


def ratio(ours, theirs):
    """Spread of the ratio within each repetition: the machine's noise met both alike."""
    return spread(np.asarray(ours) / np.asarray(theirs))


def take_turns(contestants, repetitions):
    """{name: numbers} of functions that measure themselves, one after the other, again and again.

    >>> take_turns({"a": lambda: 1.0, "b": lambda: 2.0}, repetitions=2)
    {'a': [1.0, 1.0], 'b': [2.0, 2.0]}
    """
    found = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, measure in contestants.items():
            found[name].append(measure())
    return found


def exponent(sizes, times):
    """The slope of log time against log size over the larger half of the sizes.

    >>> round(exponent([1, 2, 4, 8, 16], [9.0, 9.0, 3 * 16, 3 * 64, 3 * 256]), 6)
    2.0
    """
    half = len(sizes) // 2 if len(sizes) > 3 else 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(times[half:]), 1)[0])


def peak_memory():
    """Of this process, in MB.

    On Linux not what `resource` says: that has the peak of the process that started this one.
    """
    if STATUS.exists():
        line = next(row for row in STATUS.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Process:
    """A program that sets itself up, says so, and then measures once for each line it is sent."""

    def __init__(self, command, cwd=ROOT, environment=None):
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.setup = self._read()

    def __call__(self):
        """One measurement."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._read()["ns"]

    def close(self):
        """Let it end."""
        self._process.stdin.close()
        self._process.wait()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args[1:]} ended early; see its error above")
        return json.loads(line)


def python(*arguments):
    """The command that runs Python as this process does, with the same modules."""
    return [sys.executable, *arguments]


def answer_turns(measure, **setup):
    """The other end of a `Process`: say ready, then measure whenever asked to."""
    print(json.dumps(setup), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"ns": measure()}), flush=True)
