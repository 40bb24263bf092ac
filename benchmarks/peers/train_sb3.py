"""Stable-Baselines3's PPO with its defaults and 8 environments, without a constraint."""

import torch
from problems import PROBLEMS
from snapshots import Snapshots, task
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn


def main(job):
    """Train to each budget in turn and save the policy there."""
    torch.set_num_threads(1)
    problem = PROBLEMS[job["problem"]]
    envs = DummyVecEnv([problem] * 8)
    model = PPO("MlpPolicy", envs, gamma=problem.discount, seed=job["seed"], device="cpu")
    snapshots = Snapshots(job["out"])
    for budget in job["budgets"]:
        model.learn(budget - model.num_timesteps, reset_num_timesteps=False)
        policy = model.policy
        layers = [m for m in policy.mlp_extractor.policy_net if isinstance(m, nn.Linear)]
        others = {}
        if hasattr(policy, "log_std"):
            others["log_std"] = policy.log_std.detach().numpy()
        snapshots.save(model.num_timesteps, [*layers, policy.action_net], "tanh", **others)


main(task())
