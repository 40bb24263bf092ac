"""The agent's own time per step on CartPole-v1, act and learn, without the environment's.

    python benchmarks/host_step.py [steps]

Prints one JSON document: microseconds of processor time per step, in one process and one
environment. ``agent`` is what a training run takes less what ``env.step`` and ``env.reset`` take
within it; ``learn`` is the compiled part of it. Stable-Baselines3's A2C stands beside it, measured
in the same way, where it is installed.
"""

import json
import sys
import time
from importlib.util import find_spec

import gymnasium

import downside as ds


class Timed(gymnasium.Wrapper):
    """Adds up what an environment takes."""

    seconds = 0.0

    def reset(self, **options):
        """Timed."""
        began = time.thread_time()
        found = self.env.reset(**options)
        Timed.seconds += time.thread_time() - began
        return found

    def step(self, action):
        """Timed."""
        began = time.thread_time()
        found = self.env.step(action)
        Timed.seconds += time.thread_time() - began
        return found


def timed_env():
    """CartPole with a clock."""
    return Timed(gymnasium.make("CartPole-v1"))


def own_time(learn, n_steps):
    """Processor time of all threads per step, less the environment's, in microseconds."""
    Timed.seconds, began = 0.0, time.process_time()
    learn(n_steps)
    return (time.process_time() - began - Timed.seconds) / n_steps * 1e6


def main(n_steps):
    """Measure."""
    agent = ds.NAC(timed_env, horizon=500)
    agent.learn(4000, progress_bar=False)  # compiles
    found = {
        "environment": "CartPole-v1",
        "steps": n_steps,
        "agent": own_time(lambda n: agent.learn(n, progress_bar=False), n_steps),
        "environment's own": Timed.seconds / n_steps * 1e6,
    }
    if find_spec("stable_baselines3"):
        from stable_baselines3 import A2C

        model = A2C("MlpPolicy", timed_env(), device="cpu")
        model.learn(100)
        found["A2C"] = own_time(model.learn, min(n_steps, 20_000))
        found["times less"] = found["A2C"] / found["agent"]
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), indent=1))
