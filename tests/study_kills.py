"""A driver in a process of its own, and those who kill it and its workers."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).parent
DRIVER = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell ignores it in the background
from downside.studies.driving import run_study
from downside.studies.study import Study
folder, base, grid, options = sys.argv[1], *map(json.loads, sys.argv[2:5])
study = Study(base, grid, **options.pop("limits", {}))
drive = run_study(folder, study, **options)
print(json.dumps([len(drive.failed), len(drive.left), drive.stopped]))
"""


def start_driver(folder, base, grid, **options):
    words = [json.dumps(each) for each in (base, grid, options)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
