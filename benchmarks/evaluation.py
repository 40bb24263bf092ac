"""What surrounds the learning: judging, stepping, starting, compiling, importing, memory.

`python -m benchmarks.evaluation JSON` is the process that starts and learns once, for times and
memory that belong to a whole process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.agents import agent_of, use_all_cores
from benchmarks.measuring import (
    ROOT,
    exponent,
    peak_memory,
    python,
    ratio,
    say,
    spread,
    take_turns,
)

LIBRARIES = "import jax, gymnasium, scipy"
IMPORTS = {
    "python alone": "pass",
    "jax, gymnasium, scipy": LIBRARIES,
    "downside": "import downside",
    "downside and its agents": "import downside; downside.NRCPO",
}


def run(quick, peers):
    """Each a spread over repetitions."""
    repetitions = 2 if quick else 5
    found = {"repetitions": repetitions}
    for name, part in (
        ("rates", _rates),
        ("starts", _starts),
        ("imports", _imports),
        ("memory", _memory),
    ):
        say(f"evaluation: {name}")
        found[name] = part(quick, repetitions)
    return found


def _rates(quick, repetitions):
    """Nanoseconds per step of `Agent.evaluate`, of a rollout, and of two Gymnasium versions."""
    import jax

    import downside as ds
    from downside.environments.episodes import rollout

    n = 200 if quick else 10_000
    contestants = {}
    for problem in ("portfolio", "consumption", "bandit"):
        agent = agent_of(problem, 1).learn(1000, progress_bar=False)
        n_steps = n * agent.env.horizon

        def judge(agent=agent, n_steps=n_steps):
            return _ns(lambda: agent.evaluate(n, seed=2), n_steps)

        contestants[f"evaluate, {problem}"] = judge
    env, key = ds.Portfolio(), jax.random.key(0)

    def roll():
        return _ns(lambda: jax.block_until_ready(rollout(env, _buy, key, n)), n * env.horizon)

    contestants["rollout, portfolio"] = roll
    contestants |= _gymnasium_steps(20 if quick else 500)
    for measure in contestants.values():
        measure()  # compiles
    times = take_turns(contestants, repetitions)
    return {name: spread(row) for name, row in times.items()}


def _gymnasium_steps(n_calls):
    """Our environment through Gymnasium: 512 copies in one call, and NumPy's single one."""
    import gymnasium
    import numpy as np

    from benchmarks.peers.problems import Portfolio

    many = gymnasium.make_vec("downside/Portfolio-v0", num_envs=512)
    many.reset(seed=0)
    one = Portfolio()
    one.reset(seed=0)
    orders = np.full(512, 5)

    def step_many():
        for _ in range(n_calls):
            many.step(orders)

    def step_one():
        for _ in range(n_calls):
            if one.step(5)[2]:
                one.reset()

    return {
        "Gymnasium vector, 512 copies": lambda: _ns(step_many, 512 * n_calls),
        "NumPy environment, one copy": lambda: _ns(step_one, n_calls),
    }


def _buy(obs, key):
    import jax.numpy as jnp

    return jnp.asarray(5)


def _ns(work, n_steps):
    began = time.perf_counter()
    work()
    return 1e9 * (time.perf_counter() - began) / n_steps


def _starts(quick, repetitions):
    """Seconds of a process that learns: with an empty cache on disk, and with a warm one."""
    rows = {"first": [], "second": []}
    for _ in range(1 if quick else repetitions):
        with tempfile.TemporaryDirectory() as cache:
            for name in rows:
                settings = {"problem": "portfolio", "n_learners": 8, "n_steps": 2000}
                rows[name].append(_whole_process(settings, cache))
    parts = ("process", "compile", "to first result")
    return {
        f"{name} start, {part}": spread([row[part] for row in rows[name]])
        for name in rows
        for part in parts
    }


def _memory(quick, repetitions):
    """Peak memory in MB against steps and against learners, in processes of their own."""
    learners = (8, 64) if quick else (64, 256, 1024, 4096)
    steps = (2000, 8000) if quick else (10_000, 100_000, 1_000_000)
    base = {"problem": "portfolio"}
    by_steps = [_whole_process(base | {"n_learners": 64, "n_steps": n})["peak"] for n in steps]
    by_learners = [_whole_process(base | {"n_learners": n, "n_steps": 2000}) for n in learners]
    grown = [row["peak"] - row["peak before"] for row in by_learners]
    return {
        "MB by steps, 64 learners": dict(zip(map(str, steps), by_steps, strict=True)),
        "MB of learning by learners": dict(zip(map(str, learners), grown, strict=True)),
        "exponent in learners": exponent(learners, grown),
    }


def _imports(quick, repetitions):
    """Seconds of `python -c ...`, and of the command's help; ratios to the libraries' imports."""
    contestants = {
        name: lambda code=code: _seconds(python("-c", code)) for name, code in IMPORTS.items()
    }
    contestants["downside --help"] = lambda: _seconds(python("-m", "downside", "--help"))
    times = take_turns(contestants, repetitions)
    libraries = times["jax, gymnasium, scipy"]
    return {
        "seconds": {name: spread(row) for name, row in times.items()},
        "over jax, gymnasium, scipy": {name: ratio(row, libraries) for name, row in times.items()},
    }


def _seconds(command):
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - began


def _whole_process(settings, cache=None):
    """What a process that learns says of itself, and how long it took from outside."""
    env = dict(os.environ)
    if cache is not None:
        env["JAX_COMPILATION_CACHE_DIR"] = cache
        env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = python("-m", "benchmarks.evaluation", json.dumps(settings))
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env, cwd=ROOT)
    return json.loads(done.stdout) | {"process": time.perf_counter() - began}


def main(problem, n_learners, n_steps):
    """Learn twice, the second time compiled; times in seconds, memory in MB."""
    use_all_cores()
    began = time.perf_counter()
    import downside

    agent = agent_of(problem, n_learners)
    before = peak_memory()
    learning = time.perf_counter()
    agent.learn(n_steps, progress_bar=False)
    first = time.perf_counter() - learning
    learning = time.perf_counter()
    agent.learn(n_steps, progress_bar=False)
    second = time.perf_counter() - learning
    document = {
        "version": downside.__version__,
        "compile": first - second,
        "to first result": time.perf_counter() - began - second,
        "peak before": before,
        "peak": peak_memory(),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
