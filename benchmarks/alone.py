"""A single learner beside one of 512: as it is by default, and with its loop as one kernel.

XLA launches some forty small kernels for a step; for one learner the launches are most of the cost.
It can compile a small loop as one kernel. That is a switch for a whole process, and some settings
round otherwise in a tile of 1, though the portfolio does not. So it is not on by default, and is
measured here as what a user can ask for.
"""

import json
import os

from benchmarks.measuring import Process, python, ratio, say, spread, take_turns

ONE_KERNEL = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=10000000"
BATCH = "one of 512"


def run(quick, peers):
    """Times of a learner-step, and as multiples of that in a batch."""
    repetitions, seconds, n = (2, 0.1, 8) if quick else (7, 1.0, 512)
    contestants = {
        BATCH: _learners(seconds, n),
        "alone": _learners(seconds, 1),
        "alone, one kernel": _learners(seconds, 1, tile=1, flags=ONE_KERNEL),
    }
    say(f"alone: {len(contestants)} contestants, {repetitions} turns each")
    times = take_turns(contestants, repetitions)
    for process in contestants.values():
        process.close()
    return {
        "repetitions": repetitions,
        "ns": {name: spread(row) for name, row in times.items()},
        "times the batch": {name: ratio(row, times[BATCH]) for name, row in times.items()},
    }


def _learners(seconds, n_learners, tile=None, flags=""):
    settings = {"problem": "portfolio", "n_learners": n_learners, "seconds": seconds}
    settings |= {} if tile is None else {"tile": tile}
    all_flags = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    command = python("-m", "benchmarks.worker", json.dumps(settings))
    return Process(command, environment={"XLA_FLAGS": all_flags})
