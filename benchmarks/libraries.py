"""What safe-RL libraries get out of the same samples and the same processor time, judged alike.

OmniSafe's RCPO and FSRL's PPO-Lagrangian bound the sum of ``info["cost"]``, which is our proxy;
Stable-Baselines3's PPO is the risk-neutral line. Each trains in its own virtual environment on the
problems in `peers/problems.py`; policies come back as arrays and meet the same fresh episodes as
ours. A run that is done is kept: the part can be stopped and started again.
"""

import json
import math
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.judging import Judge
from benchmarks.measuring import CORES, say
from benchmarks.ours import train_ours
from benchmarks.venvs import SCRIPTS, venv

NAMES = {
    "omnisafe": "OmniSafe RCPO",
    "fsrl": "FSRL PPO-Lagrangian",
    "fsrl-scaled": "FSRL PPO-Lagrangian, costs scaled to a limit of 10",
    "sb3": "Stable-Baselines3 PPO, risk-neutral",
}
LIMITS = {"fsrl-scaled": 10.0}
THRESHOLDS = {"portfolio": (0.1, 0.3), "consumption": (0.1,)}


@dataclass(frozen=True)
class Plan:
    """Seeds, budgets in steps (the larger ones for ours alone), and episodes for each judgement.

    Ours has ``n_ours`` seeds: they cost little, and three say little.
    """

    seeds: tuple = (0, 1, 2)
    n_ours: int = 10
    budgets: tuple = (100_000, 300_000)
    more: tuple = (1_000_000,)
    n_episodes: int = 10_000


QUICK = Plan(seeds=(0,), n_ours=1, budgets=(4000,), more=(), n_episodes=200)


@dataclass(frozen=True)
class Job:
    """One training of a peer."""

    peer: str
    problem: str
    threshold: float
    seed: int

    @property
    def library(self):
        """The virtual environment it needs and the script it runs."""
        return self.peer.split("-")[0]

    def folder(self, out):
        """Where it leaves its policies."""
        return out / f"{self.peer}-{self.problem}-{self.threshold:g}-{self.seed}"


def jobs_of(peer, seeds):
    """The trainings of a peer, all of a seed before the next."""
    return [
        Job(peer, problem, threshold, seed)
        for seed in seeds
        for problem, thresholds in THRESHOLDS.items()
        for threshold in ((math.inf,) if peer == "sb3" else thresholds)
    ]


def run(quick, peers, out, train=True):
    """A row for each method, problem, threshold, budget and seed; ``train`` False judges only."""
    plan = QUICK if quick else Plan()
    folder = out / ("libraries-quick" if quick else "libraries")
    why, jobs = {}, []
    for peer in NAMES if peers else ():
        mine = jobs_of(peer, plan.seeds)
        place = venv(mine[0].library)
        if place.python is None:
            why |= dict.fromkeys(mine, place.error)
        else:
            jobs += mine
    jobs.sort(key=lambda job: job.seed)
    if train:
        with ThreadPoolExecutor(CORES) as pool:
            failed = list(pool.map(lambda job: _train(job, plan, folder), jobs))
        why |= {job: words for job, words in zip(jobs, failed, strict=True) if words}
    rows = []
    for problem, thresholds in THRESHOLDS.items():
        judge = Judge(problem, plan.n_episodes)
        for job in jobs:
            if job.problem == problem:
                rows += _judged(job, judge, folder)
        for threshold in (*thresholds, math.inf):
            rows += _ours(problem, threshold, plan, judge, folder, train)
    return {
        "budgets": plan.budgets,
        "seeds": len(plan.seeds),
        "episodes": plan.n_episodes,
        "rows": [_finite(row) for row in rows],
        "missing": _missing([*why, *jobs], rows, why),
    }


def _missing(jobs, rows, why):
    """Methods without any row, and the reason."""
    there = {(row["method"], row["problem"], row["threshold"]) for row in rows}
    found = {}
    for job in jobs:
        title = (NAMES[job.peer], job.problem, job.threshold)
        if title not in there:
            found.setdefault(title, why.get(job, "not run yet"))
    return [
        {"method": method, "problem": problem, "nu": f"{threshold:g}", "why": words}
        for (method, problem, threshold), words in found.items()
    ]


def _ours(problem, threshold, plan, judge, out, train):
    """Our rows, kept as the peers' trainings are."""
    file = out / f"ours-{problem}-{threshold:g}.json"
    if file.exists():
        return json.loads(file.read_text())
    if not train:
        return []
    say(f"libraries: ours, {problem}, nu = {threshold:g}")
    rows = train_ours(problem, threshold, plan, judge)
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows))
    return rows


def _train(job, plan, out):
    """Train unless it is done; the last line of the error where it fails."""
    folder = job.folder(out)
    if _snapshots(folder) and _snapshots(folder)[-1]["steps"] >= plan.budgets[-1]:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(f"libraries: {NAMES[job.peer]}, {job.problem}, nu = {job.threshold:g}, seed {job.seed}")
    task = {
        "problem": job.problem,
        "threshold": job.threshold if math.isfinite(job.threshold) else None,
        "seed": job.seed,
        "budgets": plan.budgets,
        "limit": LIMITS.get(job.peer),
        "out": str(folder.resolve()),
    }
    command = venv(job.library).command(f"train_{job.library}.py", json.dumps(task))
    log = folder / "log.txt"
    with log.open("w") as file:
        done = subprocess.run(command, cwd=SCRIPTS, stdout=file, stderr=subprocess.STDOUT)
    return log.read_text().strip().splitlines()[-1] if done.returncode else None


def _snapshots(folder):
    lines = folder / "snapshots.jsonl"
    if not lines.exists():
        return []
    return [json.loads(line) for line in lines.read_text().splitlines()]


def _judged(job, judge, out):
    """The rows of a peer's training: a budget, the sampled and the greedy policy."""
    rows = []
    for snapshot in _snapshots(job.folder(out)):
        policy = job.folder(out) / f"{snapshot['steps']}.npz"
        kept = policy.with_name(f"{snapshot['steps']}-judged-{judge.n_episodes}.json")
        known = {
            "method": NAMES[job.peer],
            "problem": job.problem,
            "threshold": job.threshold,
            "seed": job.seed,
            "steps": snapshot["steps"],
            "cpu seconds": round(snapshot["cpu"], 1),
        }
        if not kept.exists():
            kept.write_text(json.dumps(judge.network(policy, job.threshold)))
        rows.append(known | json.loads(kept.read_text()))
    return rows


def _finite(row):
    """JSON has no infinity: an infinite threshold is None."""
    return row | {"threshold": row["threshold"] if math.isfinite(row["threshold"]) else None}
