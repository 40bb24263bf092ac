"""Time against learners, steps, features and actions: the exponents, which should be 1 at most.

Portfolio, float32, one process, sizes in turns. An exponent is fitted to the larger half of the
sizes; below, the fixed costs of a call and of a tile show.
"""

from benchmarks.agents import agent_of
from benchmarks.measuring import exponent, say, spread, take_turns
from benchmarks.worker import LEAST, seconds_of

SIZES = {
    "learners": (1, 8, 64, 256, 1024, 4096),
    "steps": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "features": (7, 20, 70, 200, 700),
    "actions": (2, 5, 11, 30, 100),
}
QUICK = {
    "learners": (64, 128),
    "steps": (2000, 8000),
    "features": (7, 14),
    "actions": (2, 4),
}


def run(quick, peers):
    """For each axis: seconds by size, spread over turns, and the fitted exponent."""
    repetitions = 2 if quick else 5
    found = {"repetitions": repetitions, "axes": {}}
    for axis, sizes in (QUICK if quick else SIZES).items():
        say(f"scaling: {axis} {sizes}")
        times = take_turns({n: _contestant(axis, n) for n in sizes}, repetitions)
        rows = {n: spread(row) for n, row in times.items()}
        medians = [row["median"] for row in rows.values()]
        found["axes"][axis] = {
            "seconds": {str(n): row for n, row in rows.items()},
            "exponent": exponent(list(sizes), medians),
        }
    return found


def _contestant(axis, size):
    settings = {
        "learners": {"n_learners": size},
        "steps": {"n_learners": 64},
        "features": {"n_learners": 16, "n_features": size},
        "actions": {"n_learners": 64, "n_actions": size},
    }[axis]
    n_steps = size if axis == "steps" else LEAST
    agent = agent_of("portfolio", **settings)
    agent.learn(LEAST, progress_bar=False)
    return lambda: seconds_of(agent, n_steps)
