"""Stable-Baselines3's A2C or PPO with 8 environments, defaults throughout: time per step.

Takes {"problem", "algorithm", "seconds"} as JSON, says ready, and then measures once for each line
on standard input.
"""

import json
import sys
import time

import stable_baselines3
from problems import PROBLEMS
from stable_baselines3.common.vec_env import DummyVecEnv


def main(problem, algorithm, seconds):
    """Measure at least one whole rollout, and as many as take about so long."""
    envs = DummyVecEnv([PROBLEMS[problem]] * 8)
    make = getattr(stable_baselines3, algorithm)
    model = make("MlpPolicy", envs, gamma=PROBLEMS[problem].discount, device="cpu")
    model.learn(1)
    chunk = model.n_steps * 8
    print(json.dumps({"version": stable_baselines3.__version__}), flush=True)
    for _ in sys.stdin:
        began, before = time.perf_counter(), model.num_timesteps
        while time.perf_counter() < began + seconds:
            model.learn(max(chunk, 400), reset_num_timesteps=False)
        per_step = (time.perf_counter() - began) / (model.num_timesteps - before)
        print(json.dumps({"ns": 1e9 * per_step}), flush=True)


main(**json.loads(sys.argv[1]))
