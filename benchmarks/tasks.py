"""Mean return on Gymnasium tasks at equal samples: our NAC with its defaults, beside PPO.

Stable-Baselines3's PPO learns once with its defaults and once with the settings that its authors'
RL Zoo has tuned for the task. Nothing is bounded here: this is about samples alone. A run that is
done is kept.
"""

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.measuring import CORES, say
from benchmarks.peers.scoring import score
from benchmarks.venvs import SCRIPTS, venv

TASKS = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")
PEERS = {"Stable-Baselines3 PPO": False, "Stable-Baselines3 PPO, tuned for the task": True}
SEED = 91_001


def run(quick, peers, out):
    """A row for each task, method, budget and seed."""
    plan = {"budgets": [2000, 4000], "n_episodes": 2} if quick else {}
    plan = {"budgets": [30_000, 100_000], "n_episodes": 100} | plan
    seeds = range(1 if quick else 3)
    folder = out / ("tasks-quick" if quick else "tasks")
    folder.mkdir(parents=True, exist_ok=True)
    place, jobs = venv("sb3") if peers else None, []
    if place is not None and place.python is not None:
        jobs = [(task, name, seed) for seed in seeds for task in TASKS for name in PEERS]
    with ThreadPoolExecutor(CORES) as pool:
        found = list(pool.map(lambda job: _theirs(place, *job, plan, folder), jobs))
    rows = [row for part in found for row in part]
    for task in TASKS:
        for seed in seeds:
            rows += _ours(task, seed, plan, folder)
    missing = {} if place is None or place.python else dict.fromkeys(PEERS, place.error)
    return {**plan, "rows": rows, "missing": missing}


def _kept(folder, task, method, seed, work):
    """The rows of a run, made once."""
    file = folder / f"{task}-{method.replace(' ', '_')}-{seed}.json"
    if not file.exists():
        say(f"tasks: {method}, {task}, seed {seed}")
        file.write_text(json.dumps(work()))
    known = {"task": task, "method": method, "seed": seed}
    return [known | row for row in json.loads(file.read_text())]


def _theirs(place, task, method, seed, plan, folder):
    def work():
        job = json.dumps({"task": task, "tuned": PEERS[method], "seed": seed, **plan})
        command = place.command("score_sb3.py", job)
        done = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return _kept(folder, task, method, seed, work)


def _ours(task, seed, plan, folder):
    """Processor time is with compilation."""
    import downside as ds

    def work():
        agent, rows, cpu = ds.NAC(task, seed=SEED + seed), [], 0.0
        for budget in plan["budgets"]:
            began = time.process_time()
            agent.learn(budget - agent.steps, progress_bar=False)
            cpu += time.process_time() - began
            row = {"steps": agent.steps, "cpu seconds": cpu}
            for name, greedy in (("mean", False), ("greedy mean", True)):

                def act(observation, greedy=greedy):
                    return agent.predict(observation, deterministic=greedy)[0]

                row[name] = score(task, act, plan["n_episodes"])
            rows.append(row)
        return rows

    return _kept(folder, task, "ours, NAC", seed, work)
