"""A study of short trainings on both engines: same numbers, wall time, and what kills cost.

    python -m benchmarks.studies [--steps 300000] [--trials 200] [--engines local,ray]
                                 [--more-trials 300] [--kills local=100,ray=50]
                                 [--driver-kills 5] [--folder DIR] [--out FILE]

The trials are NRCPO on the bandit, one device each. Every engine runs the study undisturbed. Then
it is run anew among `kill -9` of workers, spread over the study and at random moments of their
trials, and of the driver; the local engine's study has ``more-trials``. On Ray, a worker is our
process or that of Ray above it.

"Ideal" is the time that one trial takes alone on the machine, its programs compiled and its worker
warm, times the trials, spread over the cores. What kills make to be
computed again is counted in steps by the workers themselves (see `benchmarks.killing`): all that
were begun, beyond those of the trials. Besides, a kill costs seconds: the start of Python and JAX
and the loading of programs, before the first save of an attempt, and the judging after the last.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.killing import COUNTED, kill_and_measure, steps_made, victims, workers_of
from downside.studies.collecting import collect
from downside.studies.driving import run_study
from downside.studies.folder import fates, read_study, trial_folder
from downside.studies.study import Study
from downside.studies.trial import count_attempts

N_SEEDS = 2
STUDY = """
[base]
env = "benchmarks.killing:bandit"
settings = {{ target = 1.0, threshold = 0.2 }}
n_seeds = {n_seeds}
total_timesteps = {steps}
n_eval_episodes = 1000
[grid]
seed = {seeds}
"""


def write_study(folder, n_trials, steps):
    """A file with so many trials, each with a seed of its own."""
    file = Path(folder) / f"{n_trials}.toml"
    file.write_text(STUDY.format(steps=steps, seeds=list(range(n_trials)), n_seeds=N_SEEDS))
    return file


def start(file, out, engine):
    """The command that a user types, in a process of its own."""
    command = [sys.executable, "-m", "downside", "study", "run", str(file), "--out", str(out)]
    environment = {**os.environ, COUNTED: str(out.with_suffix(".steps").absolute())}
    with open(out.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(
            [*command, "--engine", engine], stdout=log, stderr=log, env=environment
        )


def machinery(folder, engine, n_trials=500):
    """What a trial costs besides its own work: trials that take no time, and a look at all."""
    base = {"function": "downside.studies.driving:hypotenuse", "arguments": {"a": 3.0}}
    began = time.perf_counter()
    out = Path(folder) / f"nothing-{engine}"
    run_study(out, Study(base, {"b": list(range(n_trials))}), engine=engine)
    wall = time.perf_counter() - began
    began = time.perf_counter()
    read(out)
    look = time.perf_counter() - began
    ended = sorted((trial_folder(out, t) / "manifest.json").stat().st_mtime for t in trials(out))
    return {
        "trials": n_trials,
        "wall_seconds": round(wall, 1),
        "trials_per_second": round((n_trials - 1) / (ended[-1] - ended[0]), 1),
        "look_milliseconds_per_trial": round(1e3 * look / n_trials, 2),
        "load": os.getloadavg()[0],
    }


def trials(out):
    """Those of a study's folder."""
    return read_study(out).trials


def alone(file, out):
    """The seconds that a trial takes with the machine for itself, in a worker that is warm."""
    few = Study.of(Study.from_toml(file).trials[:7], name="alone")
    run_study(out, few, workers=1)
    seconds = [fate.seconds for fate in read(out).values()]
    return statistics.median(seconds[1:])


def read(out):
    """What has become of every trial; all must be done."""
    found = fates(out, read_study(out))
    wrong = [f"{name}: {fate}" for name, fate in found.items() if fate.state != "done"]
    assert not wrong, wrong
    return found


def digests(out):
    """The SHA-256 of all results, by trial."""
    return {name: fate.files for name, fate in read(out).items()}


def undisturbed(file, out, engine, one):
    """Run a study, and how long that took; ``one`` are the seconds of a trial alone."""
    began = time.perf_counter()
    process = start(file, out, engine)
    assert process.wait() == 0, out.with_suffix(".log").read_text()
    wall = time.perf_counter() - began
    seconds = sorted(fate.seconds for fate in read(out).values())
    cores = os.cpu_count() or 1
    return {
        "trials": len(seconds),
        "wall_seconds": round(wall, 1),
        "ideal_seconds": round(one * len(seconds) / cores, 1),
        "median_trial_seconds": round(seconds[len(seconds) // 2], 3),
        "slowest_trial_seconds": round(seconds[-1], 1),
        "trials_per_hour": round(3600 * len(seconds) / wall),
        "files_per_trial": round(len(_files(out)) / len(seconds), 2),
        "load": os.getloadavg()[0],
    }


def disturbed(file, out, engine, n_trials, steps, n_kills, n_driver_kills, rng):
    """Run a study among kills, and what they cost."""
    began, lost, workers, drivers = time.perf_counter(), [], 0, 0
    process = start(file, out, engine)
    for i in range(n_kills):
        while _n_done(out) < (i + 0.5) * n_trials / (n_kills + 1) or not workers_of(process.pid):
            assert process.poll() is None, out.with_suffix(".log").read_text()
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 2.0))
        if found := victims(process.pid, "bandit"):
            lost += kill_and_measure(rng.choice(found), out)
            workers += 1
        if (i + 1) * (n_driver_kills + 1) // (n_kills + 1) > drivers:
            lost += kill_and_measure(process.pid, out)
            process.wait()
            drivers += 1
            process = start(file, out, engine)
    assert process.wait() == 0, out.with_suffix(".log").read_text()
    return {
        "trials": n_trials,
        "workers_killed": workers,
        "drivers_killed": drivers,
        "wall_seconds": round(time.perf_counter() - began, 1),
        **_cost(out, lost, n_trials * steps),
    }


def _cost(out, lost, steps):
    """Every trial done once, none doubled; and the share of the steps that was made again."""
    study, found = read_study(out), read(out)
    places = {trial.id: trial_folder(out, trial) for trial in study.trials}
    rows = collect(out).collect().group_by("trial").len()
    after = [name for name, p in places.items() if count_attempts(p) != found[name].attempts]
    again = steps_made(out.with_suffix(".steps")) - steps
    seconds = {kind: [s for learning, s in lost if learning == kind] for kind in (True, False)}
    return {
        "trials_done": len(found),
        "trials_doubled": rows.filter(rows["len"] != N_SEEDS).height + len(after),
        "attempts": sum(fate.attempts for fate in found.values()),
        "steps": steps,
        "steps_again": again,
        "share_again": round(again / steps, 4),
        "kills_while_learning": len(seconds[True]),
        "seconds_since_saves": round(sum(seconds[True]), 1),
        "seconds_of_starting_and_judging": round(sum(seconds[False]), 1),
        "load": os.getloadavg()[0],
    }


def measure(options, folder, report, save):
    """All parts that have no numbers yet, one after the other; they are saved after each."""
    n, steps, rng = options.trials, options.steps, random.Random(7)
    engines = list(filter(None, options.engines.split(",")))
    kills = {name: int(n) for name, n in (pair.split("=") for pair in options.kills.split(","))}
    report |= {"steps": steps, "cores": os.cpu_count() or 1}
    if "alone_seconds" not in report:
        report["alone_seconds"] = alone(write_study(folder, n, steps), Path(folder) / "alone")
        save(report)
    for engine in engines:
        if engine in report.setdefault("machinery", {}):
            continue
        report["machinery"][engine] = machinery(folder, engine)
        save(report)
    for engine in engines:
        if engine in report.setdefault("undisturbed", {}):
            continue
        out = Path(folder) / engine
        entry = undisturbed(write_study(folder, n, steps), out, engine, report["alone_seconds"])
        entry["same_bits"] = digests(out) == digests(Path(folder) / engines[0])
        report["undisturbed"][engine] = entry
        save(report)
    for engine in engines:
        if engine in report.setdefault("kills", {}):
            continue
        n_trials = n + (options.more_trials if engine == "local" else 0)
        file = write_study(folder, n_trials, steps)
        if engine == "local":
            undisturbed(file, Path(folder) / engine, engine, 0.0)  # the study grows
        out = Path(folder) / f"{engine}-kills"
        shutil.rmtree(out, ignore_errors=True)
        out.with_suffix(".steps").unlink(missing_ok=True)
        n_kills = kills.get(engine, 0)
        kills_of = n_kills, options.driver_kills
        entry = disturbed(file, out, engine, n_trials, steps, *kills_of, rng)
        entry["same_bits"] = digests(out) == digests(Path(folder) / engine)
        report["kills"][engine] = entry
        save(report)


def _n_done(out):
    return sum(1 for _ in out.glob("trials/*/*/manifest.json"))


def _files(out):
    return [path for path in out.glob("trials/**/*") if path.is_file()]


def main():
    """Print the numbers; write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--more-trials", type=int, default=300)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--engines", default="local,ray")
    parser.add_argument("--kills", default="local=100,ray=50")
    parser.add_argument("--driver-kills", type=int, default=5)
    parser.add_argument("--folder", help="keep the studies here")
    parser.add_argument("--out", help="write the numbers to this JSON file, and go on with it")
    options = parser.parse_args()

    def save(report):
        print(json.dumps(report), flush=True)
        if options.out:
            Path(options.out).parent.mkdir(parents=True, exist_ok=True)
            Path(options.out).write_text(json.dumps(report, indent=2) + "\n")

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = Path(options.out) if options.out and options.folder else None
        report = json.loads(found.read_text()) if found and found.exists() else {}
        measure(options, folder, report, save)


if __name__ == "__main__":
    main()
