"""The engine beside a plain C program: NRCPO on the portfolio, cost per learner and step.

    python benchmarks/portfolio.py [--learners 512] [--steps 20000] [--repetitions 10] [--out FILE]

Both learn the same way (online, two critics, a multiplier, a policy step every 200 steps). Ours
does all that a user gets: records, checks for finite numbers, one device per core. The C program
runs in as many processes as there are cores. They take turns, so that the machine's noise meets
them alike; what counts is the ratio within a repetition.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("PJRT_NPROC", "1")  # as the command line does

import jax

jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)

import numpy as np  # noqa: E402
from c_learner import compile_learner, run_learners  # noqa: E402

import downside as ds  # noqa: E402

C_STEPS = 3_000_000


def agent_of(n_learners, precision):
    """Learners of the paper's policy under the threshold of the C program."""
    policy = ds.Gibbs(ds.Polynomial(6), 11)
    options = {"way": "online", "policy": policy, "n_seeds": n_learners, "precision": precision}
    return ds.NRCPO(ds.Portfolio(discount=0.99), target=ds.Centralised(), threshold=0.3, **options)


def compare(n_learners, n_steps, repetitions, precision="float32"):
    """Nanoseconds per learner-step of ours and of each C build, for every repetition."""
    agent = agent_of(n_learners, precision).learn(200, progress_bar=False)
    times = {"ours": [], "double": [], "double, fast-math": []}
    with tempfile.TemporaryDirectory() as folder:
        programs = {build: compile_learner(folder, build) for build in times if build != "ours"}
        for _ in range(repetitions):
            began = time.perf_counter()
            agent.learn(n_steps, progress_bar=False)
            seconds = time.perf_counter() - began
            times["ours"].append(1e9 * seconds / (n_steps * n_learners))
            for build, program in programs.items():
                reports, seconds = run_learners(program, C_STEPS, os.cpu_count() or 1)
                times[build].append(1e9 * seconds / sum(r["steps"] for r in reports))
    return {name: np.array(row) for name, row in times.items()}


def main():
    """Print times and ratios; write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--out", help="write the numbers to this JSON file")
    options = parser.parse_args()

    times = compare(options.learners, options.steps, options.repetitions, options.precision)

    report = {"learners": options.learners, "precision": options.precision, "ns": {}, "ratio": {}}
    for name, row in times.items():
        report["ns"][name] = float(np.median(row))
        low, middle, high = np.percentile(times["ours"] / row, [25, 50, 75]).tolist()
        report["ratio"][name] = {"median": middle, "middle_half": [low, high]}
        if name == "ours":
            print(f"ours, {options.learners} learners: {report['ns'][name]:.0f} ns")
        else:
            print(
                f"C, {name}: {report['ns'][name]:.0f} ns; ours is {middle:.2f} times that", end=""
            )
            print(f" ({low:.2f} to {high:.2f})")
    if options.out:
        Path(options.out).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
