"""Stable-Baselines3's PPO on a Gymnasium task: defaults, or the settings that its RL Zoo tuned."""

import json
import sys
import time

import torch
from scoring import score
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


def falling(start):
    """A rate that falls to 0 in a straight line."""
    return lambda left: start * left


DEFAULTS = {"n_envs": 8}
ZOO = {
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "learning_rate": falling(0.001),
        "clip_range": falling(0.2),
    },
    "Acrobot-v1": {
        "n_envs": 16,
        "normalize": True,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "n_epochs": 4,
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "n_steps": 1024,
        "gamma": 0.9,
        "learning_rate": 0.001,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
}


def main(task, tuned, seed, budgets, n_episodes):
    """A JSON list: the score at each budget, learning in one go to the last."""
    torch.set_num_threads(1)
    settings = dict(ZOO[task] if tuned else DEFAULTS)
    envs = make_vec_env(task, n_envs=settings.pop("n_envs"), seed=seed)
    normalised = settings.pop("normalize", False)
    if normalised:
        envs = VecNormalize(envs)
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    rows, aside, began = [], 0.0, time.process_time()

    def act(greedy):
        def choose(observation):
            seen = envs.normalize_obs(observation) if normalised else observation
            return model.predict(seen, deterministic=greedy)[0]

        return choose

    def look(values, names):
        """At the first end of a rollout from each budget on."""
        nonlocal aside
        if len(rows) < len(budgets) and model.num_timesteps >= budgets[len(rows)]:
            before = time.process_time()
            row = {"steps": model.num_timesteps, "cpu seconds": before - began - aside}
            for name, greedy in (("mean", False), ("greedy mean", True)):
                row[name] = score(task, act(greedy), n_episodes)
            rows.append(row)
            aside += time.process_time() - before
        return True

    model.learn(budgets[-1], callback=look)
    look(None, None)
    print(json.dumps(rows))


main(**json.loads(sys.argv[1]))
