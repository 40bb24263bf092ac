"""`downside reproduce all`, as `make reproduce` runs it: how long, and how much of it compiles.

Once with no compiled programs on disk and once with those that the first run left there. JAX says
how long it traced, lowered and compiled (or loaded) each program; what it traces within another
trace counts twice, so the seconds of compiling are an upper limit.
"""

import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import ROOT, python, say, spread


def run(quick, peers):
    """Seconds of the whole command, of its workers, and of what they spent on compiling."""
    repetitions, scale = 1, "smoke" if quick else "default"  # ten minutes
    rows = {"first start": [], "second start": []}
    for i in range(repetitions):
        say(f"reproduce: repetition {i + 1} of {repetitions}, scale {scale}")
        with tempfile.TemporaryDirectory() as folder:
            for name in rows:
                rows[name].append(_reproduce(scale, Path(folder) / name, Path(folder) / "cache"))
    return {
        "repetitions": repetitions,
        "scale": scale,
        "starts": {
            name: {what: spread([row[what] for row in found]) for what in found[0]}
            for name, found in rows.items()
        },
    }


def _reproduce(scale, out, cache):
    """One run in a process of its own."""
    environment = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_LOG_COMPILES": "1"}
    command = python("-m", "downside", "reproduce", "all", "--scale", scale, "--out", str(out))
    began = time.perf_counter()
    subprocess.run(
        [*command, "--quiet"],
        check=True,
        capture_output=True,
        env=os.environ | environment,
        cwd=ROOT,
    )
    seconds = time.perf_counter() - began
    logs = [file.read_text() for file in out.glob("study/trials/**/log.txt")]
    compiling = sum(map(compiling_seconds, logs))
    loading = sum(compiling_seconds(log, "XLA compilation") for log in logs)
    working = sum(json.loads(file.read_text())["seconds"] for file in out.glob("*/claims.json"))
    return {
        "seconds": seconds,
        "seconds of all workers": working,
        "of these, tracing and compiling": compiling,
        "of these, in XLA or loading from disk": loading,
        "share of tracing and compiling": compiling / working,
    }


def compiling_seconds(log, what=""):
    """All that JAX says it spent before programs ran, or on one part of it.

    >>> log = "Finished tracing f in 0.25 sec\\nFinished XLA compilation of jit(f) in 1.5 sec"
    >>> compiling_seconds(log), compiling_seconds(log, "XLA compilation")
    (1.75, 1.5)
    """
    return sum(map(float, re.findall(rf"^Finished {what}.* in ([0-9.]+) sec$", log, re.MULTILINE)))
