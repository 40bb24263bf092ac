"""A study of short trainings on both engines: same numbers, wall time, and what kills cost.

    python benchmarks/studies.py [--trials 200] [--steps 100000] [--engines local,ray]
                                 [--kills 100] [--driver-kills 5] [--out FILE]

The trials are NRCPO on the bandit, one device each. Each engine runs the study undisturbed, then
once more with `kill -9` of workers and of the driver at random times. "Ideal" is the time that the
trials themselves took, spread over the cores; what kills lose is measured
at each of them: the time since the trial's last checkpoint if it was learning, else the time since
it began (starting JAX, compiling or loading programs).
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from downside.studies.driving import run_study
from downside.studies.folder import fates, read_study
from downside.studies.study import Study

STUDY = """
name = "benchmark"
[base]
env = "downside/Bandit-v0"
settings = {{ target = 1.0 }}
n_seeds = 2
total_timesteps = {steps}
n_eval_episodes = 1000
[grid]
threshold = {thresholds}
seed = {seeds}
"""


def write_study(folder, n_trials, steps):
    """A file with so many trials: ten seeds of every threshold."""
    seeds = list(range(min(10, n_trials)))
    thresholds = [round(0.1 + 0.01 * i, 3) for i in range(max(1, n_trials // len(seeds)))]
    file = Path(folder) / "study.toml"
    file.write_text(STUDY.format(steps=steps, thresholds=thresholds, seeds=seeds))
    return file


def start(file, out, engine):
    """The command that a user types, in a process of its own."""
    command = [sys.executable, "-m", "downside", "study", "run", str(file), "--out", str(out)]
    with open(out.with_suffix(".log"), "ab") as log:
        return subprocess.Popen([*command, "--engine", engine], stdout=log, stderr=log)


def workers_of(pid):
    """The processes in which the trials of a driver run, on Linux."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return [p for p in found if _is_worker(p)] + [w for p in found for w in workers_of(p)]


def disturbed(file, out, engine, n_kills, n_driver_kills, pause, rng):
    """Run a study to its end among kills; how many there were."""
    done = driver_kills = 0
    lost: list[tuple[float, float]] = []
    due = sorted(rng.sample(range(max(1, n_kills)), min(n_driver_kills, n_kills)))
    process = start(file, out, engine)
    while True:
        time.sleep(rng.uniform(0.0, 2.0 * pause))
        if process.poll() is not None:
            return done, driver_kills, lost
        found = workers_of(process.pid)
        if found and done < n_kills:
            chosen = rng.choice(found)
            lost.append(lost_by(chosen, out))
            with suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGKILL)
            done += 1
        if len(due) > driver_kills and done > due[driver_kills]:
            lost += [lost_by(worker, out) for worker in workers_of(process.pid)]
            process.kill()
            process.wait()
            driver_kills += 1
            process = start(file, out, engine)


def read(out):
    """Digest, seconds and attempts of every trial."""
    found = fates(out, read_study(out))
    wrong = [f"{name}: {fate}" for name, fate in found.items() if fate.state != "done"]
    assert not wrong, wrong
    return found


def lost_by(pid, out):
    """Seconds that the death of a worker loses: of learning since the last save, of starting.

    Before the first save of an attempt that has made steps, Python and JAX start and programs are
    compiled or loaded.
    """
    for lock in out.glob("trials/*/*/*/lock"):
        with suppress(OSError, ValueError):
            text = lock.read_text()
            if text and json.loads(text)["pid"] == pid:
                began, now = lock.stat().st_mtime, time.time()
                saved = [
                    path.stat().st_mtime
                    for path in lock.parent.glob("run/checkpoints/0*")
                    if int(path.name) > 0 and path.stat().st_mtime > began
                ]
                return (now - max(saved), 0.0) if saved else (0.0, now - began)
    return 0.0, 0.0


def machinery(folder, n_trials=500):
    """What a trial costs besides its own work: trials that take no time, and a look at all."""
    base = {"function": "downside.studies.driving:hypotenuse", "arguments": {"a": 3.0}}
    began = time.perf_counter()
    run_study(out := Path(folder) / "nothing", Study(base, {"b": list(range(n_trials))}))
    wall = time.perf_counter() - began
    began = time.perf_counter()
    read(out)
    look = time.perf_counter() - began
    return {
        "trials": n_trials,
        "trials_per_second": round(n_trials / wall, 1),
        "look_milliseconds_per_trial": round(1e3 * look / n_trials, 2),
        "load": os.getloadavg()[0],
    }


def measure(options, folder):
    """Undisturbed and disturbed runs on every engine."""
    file = write_study(folder, options.trials, options.steps)
    rng, cores = random.Random(7), os.cpu_count() or 1
    report = {"trials": options.trials, "steps": options.steps, "cores": cores, "engines": {}}
    report["machinery"] = machinery(folder)
    print("machinery", json.dumps(report["machinery"]), flush=True)
    reference = None
    for engine in filter(None, options.engines.split(",")):
        began = time.perf_counter()
        process = start(file, out := Path(folder) / engine, engine)
        assert process.wait() == 0, out.with_suffix(".log").read_text()
        wall = time.perf_counter() - began
        found = read(out)
        seconds = [fate.seconds for fate in found.values()]
        digests = {name: fate.files for name, fate in found.items()}
        reference = reference or digests
        entry = {
            "wall_seconds": round(wall, 1),
            "ideal_seconds": round(sum(seconds) / cores, 1),
            "median_trial_seconds": round(sorted(seconds)[len(seconds) // 2], 3),
            "slowest_trial_seconds": round(max(seconds), 1),
            "load": os.getloadavg()[0],
            "trials_per_hour": round(3600 * options.trials / wall),
            "files_per_trial": sum(1 for _ in out.glob("trials/**/*") if _.is_file())
            / options.trials,
            "same_bits": digests == reference,
        }
        report["engines"][engine] = entry
        print(engine, json.dumps(entry), flush=True)
        if options.kills:
            entry["kills"] = _kills(
                options, file, folder, engine, wall, sum(seconds), rng, reference
            )
            print(engine, json.dumps(entry["kills"]), flush=True)
    return report


def _kills(options, file, folder, engine, wall, busy, rng, reference):
    out = Path(folder) / f"{engine}-kills"
    began = time.perf_counter()
    n_driver = options.driver_kills
    pause = wall / (options.kills + 1)
    n, n_driver, lost = disturbed(file, out, engine, options.kills, n_driver, pause, rng)
    seconds = time.perf_counter() - began
    found = read(out)
    attempts = sum(fate.attempts for fate in found.values())
    return {
        "workers_killed": n,
        "drivers_killed": n_driver,
        "wall_seconds": round(seconds, 1),
        "attempts": attempts,
        "learning_lost_seconds": round(sum(learning for learning, _ in lost), 1),
        "starting_lost_seconds": round(sum(starting for _, starting in lost), 1),
        "share_of_learning_again": round(sum(learning for learning, _ in lost) / busy, 4),
        "trials_done": len(found),
        "same_bits": {name: fate.files for name, fate in found.items()} == reference,
    }


def _is_worker(pid):
    with suppress(OSError):
        return b"downside.studies.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def main():
    """Print the numbers; write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--engines", default="local,ray")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--driver-kills", type=int, default=0)
    parser.add_argument("--out", help="write the numbers to this JSON file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options, folder)
    if options.out:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        Path(options.out).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
