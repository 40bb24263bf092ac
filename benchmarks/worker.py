"""One of our agents in a process of its own: `python -m benchmarks.worker JSON`, see `Process`.

The JSON holds the arguments of `agent_of` and ``seconds``, how long a measurement may take.
"""

import json
import sys
import time

from benchmarks.agents import agent_of, use_all_cores
from benchmarks.measuring import answer_turns

LEAST = 2000


def seconds_of(agent, n_steps):
    """Wall time of learning."""
    began = time.perf_counter()
    agent.learn(n_steps, progress_bar=False)
    return time.perf_counter() - began


def calibrate(agent, seconds):
    """Steps that take about so long, once everything is compiled."""
    n_steps = LEAST
    while (took := seconds_of(agent, n_steps)) < 0.25 * seconds:
        n_steps *= 4
    return max(LEAST, int(n_steps * seconds / took))


def main(seconds, **settings):
    """Set up, then answer."""
    use_all_cores()
    began = time.perf_counter()
    agent = agent_of(**settings)
    agent.learn(LEAST, progress_bar=False)
    first = time.perf_counter() - began
    n_steps = calibrate(agent, seconds)
    n_learners = settings["n_learners"]

    def measure():
        return 1e9 * seconds_of(agent, n_steps) / (n_steps * n_learners)

    answer_turns(measure, first_seconds=first, steps=n_steps)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
