"""The estimator's own time per step on CartPole-v1, act and learn, beside Stable-Baselines3's A2C.

Processor time of all threads in one process and one environment, less what ``env.step`` and
``env.reset`` take. `python -m benchmarks.host STEPS` is our contestant.
"""

import sys

from benchmarks.measuring import Process, answer_turns, python, ratio, spread, take_turns
from benchmarks.peers.timed import own_ns, timed_env
from benchmarks.venvs import SCRIPTS, venv


def run(quick, peers):
    """Our time per step, and how many times less it is than A2C's."""
    repetitions, n_steps = (2, 2000) if quick else (5, 50_000)
    contestants = {"ours": Process(python("-m", "benchmarks.host", str(n_steps)))}
    missing = {}
    if peers:
        place = venv("sb3")
        if place.python is None:
            missing["Stable-Baselines3"] = place.error
        else:
            command = place.command("time_cartpole.py", str(n_steps // 5))
            contestants["Stable-Baselines3 A2C"] = Process(command, cwd=SCRIPTS)
            alone = ["env", "OMP_NUM_THREADS=1", *command]
            contestants["Stable-Baselines3 A2C, one thread"] = Process(alone, cwd=SCRIPTS)
    times = take_turns(contestants, repetitions)
    for process in contestants.values():
        process.close()
    return {
        "environment": "CartPole-v1",
        "steps per turn": n_steps,
        "repetitions": repetitions,
        "ns": {name: spread(row) for name, row in times.items()},
        "ours over theirs": {
            name: ratio(times["ours"], row) for name, row in times.items() if name != "ours"
        },
        "missing": missing,
    }


def main(n_steps):
    """Set up, then answer."""
    import downside as ds

    agent = ds.NAC(timed_env, horizon=500)
    agent.learn(4000, progress_bar=False)
    answer_turns(lambda: own_ns(lambda n: agent.learn(n, progress_bar=False), n_steps))


if __name__ == "__main__":
    main(int(sys.argv[1]))
