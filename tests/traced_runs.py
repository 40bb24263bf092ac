"""A small run under strace, many times over: one process imports, and forks a child per run.

Started as a program, it reads the names of folders; for each it forks a child that
waits for a byte from the pipe FOLDER.go, by when it is traced, and then saves the steps 1, 2, 2
in that folder. What the child says goes to the file FOLDER.log.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from downside.store import RunFolder, StoreError
from store_samples import IDENTITY, arrays_of

ALLOW_ANY_TRACER = (0x59616D61, ctypes.c_long(-1))  # prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)


def serve():
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            os._exit(follow(line.strip()))
        print(os.waitpid(child, 0)[1], flush=True)


def follow(folder):
    log = os.open(f"{folder}.log", os.O_CREAT | os.O_WRONLY)
    go = os.open(f"{folder}.go", os.O_RDWR)  # both ways, so that opening does not wait
    ctypes.CDLL(None).prctl(*ALLOW_ANY_TRACER)
    os.write(1, f"{os.getpid()}\n".encode())
    os.read(go, 1)
    try:
        with RunFolder.open(folder, IDENTITY, keep=1) as run:
            for step in (1, 2, 2):
                if not try_to_save(run, step, log):
                    try_to_save(run, step, log)
        return 0
    except BaseException:
        os.write(log, traceback.format_exc().encode())
        return 1


def try_to_save(run, step, log):
    try:
        run.save(step, arrays_of(step), {"seconds": step / 4})
    except StoreError as error:
        os.write(log, f"refused {step}: {error}\n".encode())
        return False
    os.write(log, f"acknowledged {step}\n".encode())
    return True


class Server:
    """The forking process, as the tests see it."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def run(self, folder, *options):
        """One run below strace: how it ended (as of waitpid), and what it said."""
        os.mkfifo(f"{folder}.go")
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        child = self._process.stdout.readline().strip()
        strace = subprocess.Popen(
            ["strace", "-p", child, *options], stderr=subprocess.PIPE, text=True
        )
        attached = strace.stderr.readline()
        Path(f"{folder}.go").write_text("go")
        ended = int(self._process.stdout.readline())
        words = strace.communicate()[1]
        if "attached" not in attached:
            pytest.skip(f"strace may not attach to a process here: {attached}{words}")
        return ended, Path(f"{folder}.log").read_text()

    def close(self):
        with self._process:
            self._process.stdin.close()


def why_not():
    """Why strace cannot be used here; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(["strace", "-qq", "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()}"


if __name__ == "__main__":
    serve()
