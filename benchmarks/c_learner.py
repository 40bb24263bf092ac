"""How fast a plain C program learns: one NRCPO learner, alone and two at a time.

    python benchmarks/c_learner.py [--problem portfolio] [--steps 5000000] [--repetitions 10]
                                   [--out FILE]

`c/learner.c` is compiled with strict and with fast arithmetic, in double and in single precision.
Builds and numbers of processes take turns within each repetition, so that the machine's noise
meets them alike. A time is the wall time from the first process's start to the last one's end,
over the steps of all of them; the CPU time that the processes report stands beside it, for
machines that others use too.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent / "c" / "learner.c"
COMPILER = "cc"
FLAGS = ["-std=gnu11", "-O3", "-march=native"]
BUILDS = {
    "double": [],
    "double, fast-math": ["-ffast-math"],
    "float": ["-DREAL=float"],
    "float, fast-math": ["-DREAL=float", "-ffast-math"],
}
N_PROCESSES = (1, 2)
THRESHOLDS = {"portfolio": 0.3, "consumption": 0.1, "bandit": 1.0}


def compile_learner(folder, build="double", problem="portfolio", source=SOURCE):
    """The path of the program, built in ``folder``; another source finds the same headers."""
    if shutil.which(COMPILER) is None:
        raise RuntimeError(f"there is no C compiler '{COMPILER}'; install one, such as gcc")
    program = Path(folder) / f"{problem}-{build.replace(', ', '-')}"
    chosen = [*BUILDS[build], f'-DPROBLEM="{problem}.h"', f"-I{SOURCE.parent}"]
    command = [COMPILER, *FLAGS, *chosen, str(source), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    return program


def run_learners(program, n_steps, n_processes=1, threshold=0.3, options=()):
    """What each process reports, and the wall time of all together in seconds."""
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            [program, str(seed), str(n_steps), str(threshold), *map(str, options)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(1, n_processes + 1)
    ]
    outputs = [process.communicate()[0] for process in running]
    seconds = time.perf_counter() - start
    for process in running:
        if process.returncode != 0:
            raise RuntimeError(f"{program} ended with the exit code {process.returncode}")
    return [json.loads(output) for output in outputs], seconds


def measure(problem, n_steps, repetitions):
    """Nanoseconds per learner-step of each build, by the number of processes.

    {build: {number of processes: {"ns", "quartiles", "cpu_ns"}}}; "ns" is a median.
    """
    threshold = THRESHOLDS[problem]
    wall = {(build, n): [] for build in BUILDS for n in N_PROCESSES}
    cpu = {key: [] for key in wall}
    with tempfile.TemporaryDirectory() as folder:
        programs = {build: compile_learner(folder, build, problem) for build in BUILDS}
        for _ in range(repetitions):
            for build, n in wall:
                reports, seconds = run_learners(programs[build], n_steps, n, threshold)
                wall[build, n].append(1e9 * seconds / sum(r["steps"] for r in reports))
                cpu[build, n].append(np.mean([r["cpu_ns_per_step"] for r in reports]))
    rows = {build: {} for build in BUILDS}
    for (build, n), times in wall.items():
        low, middle, high = np.percentile(times, [25, 50, 75]).tolist()
        cpu_ns = float(np.median(cpu[build, n]))
        rows[build][n] = {"ns": middle, "quartiles": [low, high], "cpu_ns": cpu_ns}
    return rows


def main():
    """Print a table; write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", choices=THRESHOLDS, default="portfolio")
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--out", help="write the numbers to this JSON file")
    options = parser.parse_args()

    rows = measure(options.problem, options.steps, options.repetitions)

    counts = f"{options.steps} steps, {options.repetitions} repetitions, {os.cpu_count()} cores"
    print(f"{options.problem}, {counts}")
    print(f"{'build':18} {'processes':>9} {'ns per step':>12} {'middle half':>15} {'CPU ns':>8}")
    for build, by_count in rows.items():
        for n, row in by_count.items():
            half = "{:.1f}-{:.1f}".format(*row["quartiles"])
            print(f"{build:18} {n:9} {row['ns']:12.1f} {half:>15} {row['cpu_ns']:8.1f}")
    if options.out:
        settings = {name: getattr(options, name) for name in ("problem", "steps", "repetitions")}
        Path(options.out).write_text(json.dumps(settings | {"builds": rows}))


if __name__ == "__main__":
    main()
