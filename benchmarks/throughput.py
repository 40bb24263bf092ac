"""Nanoseconds per learner-step: ours in batches, plain C, a NumPy loop, Stable-Baselines3.

Ours runs with everything a user gets, through `Agent`: records, checks for finite numbers, one
device per core. All contestants of a problem take turns; what counts is the ratio within a turn.
"""

import json
import shutil
import tempfile
from contextlib import ExitStack

import numpy as np

from benchmarks.c_learner import COMPILER, THRESHOLDS, compile_learner, run_learners
from benchmarks.measuring import CORES, Process, python, ratio, say, spread, take_turns
from benchmarks.venvs import SCRIPTS, venv

PROBLEMS = ("portfolio", "consumption", "bandit")
REFERENCE = "ours, 512, float32"
VARIANTS = {  # of the portfolio's learners
    "network of 64 and 64": {"hidden": (64, 64)},
    "LSTD": {"critic": "RecursiveLSTD"},
    "Monte-Carlo": {"critic": "MonteCarlo"},
}
C_BUILDS = {"C": "double", "C, fast-math": "double, fast-math"}
C_NANOSECONDS = {"portfolio": 250, "consumption": 400, "bandit": 80}  # for the length of a turn


def run(quick, peers):
    """Times of every contestant, and ours as multiples of them."""
    repetitions, seconds = (2, 0.1) if quick else (7, 1.0)
    batches = (8,) if quick else (1, 8, 64, 512, 4096)
    return {
        "repetitions": repetitions,
        "seconds per turn": seconds,
        "problems": {
            problem: _one(problem, batches, repetitions, seconds, peers) for problem in PROBLEMS
        },
    }


def _one(problem, batches, repetitions, seconds, peers):
    with ExitStack() as stack:
        contestants = _ours(problem, batches, seconds)
        missing = {}
        if problem == "portfolio":
            contestants |= _variants(batches, seconds)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        contestants |= c_learners(problem, folder, seconds, missing)
        settings = json.dumps({"problem": problem, "seconds": seconds})
        contestants["NumPy loop"] = Process(python("-m", "benchmarks.numpy_learner", settings))
        contestants |= _stable_baselines(problem, seconds, peers, missing)
        processes = {k: c for k, c in contestants.items() if isinstance(c, Process)}
        for process in processes.values():
            stack.callback(process.close)
        say(f"{problem}: {len(contestants)} contestants, {repetitions} turns each")
        times = take_turns(contestants, repetitions)
    return summary(times, {k: p.setup for k, p in processes.items()}, missing)


def summary(times, setups, missing):
    """Spread of each time, and of ours (512 learners, both widths) over each of the others."""
    ours = [name for name in times if name.startswith("ours")]
    batch = "512" if REFERENCE in times else ours[-1].split(", ")[1]
    return {
        "ns": {name: spread(row) for name, row in times.items()},
        "ours over theirs": {
            f"{own} / {name}": ratio(times[own], row)
            for own in ours
            if own.split(", ")[1] == batch
            for name, row in times.items()
            if name != own
        },
        "setup": setups,
        "missing": missing,
    }


def _ours(problem, batches, seconds):
    pairs = [(n, precision) for precision in ("float32", "float64") for n in batches]
    return {f"ours, {n}, {p}": _learners(problem, n, seconds, precision=p) for n, p in pairs}


def _variants(batches, seconds):
    """Other policies and critics: few learners and many."""
    return {
        f"ours, {n}, float32, {name}": _learners("portfolio", n, seconds, **variant)
        for name, variant in VARIANTS.items()
        for n in batches
        if n in (1, 64)
    }


def _learners(problem, n, seconds, **settings):
    say(f"{problem}: setting up {n} learners {settings}")
    known = {"problem": problem, "n_learners": n, "seconds": seconds}
    return Process(python("-m", "benchmarks.worker", json.dumps(known | settings)))


def c_learners(problem, folder, seconds, missing):
    """One process, and one per core."""
    if shutil.which(COMPILER) is None:
        missing["C"] = f"there is no C compiler {COMPILER}"
        return {}
    programs = {name: compile_learner(folder, build, problem) for name, build in C_BUILDS.items()}
    n_steps = int(1e9 * seconds / C_NANOSECONDS[problem])

    def turn(program, n):
        reports, took = run_learners(program, n_steps, n, THRESHOLDS[problem])
        return 1e9 * took / np.sum([report["steps"] for report in reports])

    return {
        f"{name}, {n} process{'es' if n > 1 else ''}": lambda p=program, n=n: turn(p, n)
        for name, program in programs.items()
        for n in sorted({1, CORES})
    }


def _stable_baselines(problem, seconds, peers, missing):
    if not peers:
        return {}
    place = venv("sb3")
    if place.python is None:
        missing["Stable-Baselines3"] = place.error
        return {}
    found = {}
    for algorithm in ("A2C", "PPO"):
        settings = {"problem": problem, "algorithm": algorithm, "seconds": seconds}
        command = place.command("time_sb3.py", json.dumps(settings))
        found[f"Stable-Baselines3 {algorithm}, 8 environments"] = Process(command, cwd=SCRIPTS)
    return found
