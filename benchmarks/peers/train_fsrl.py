"""FSRL's PPO with a PID-controlled Lagrange multiplier, its defaults throughout.

With a "limit" in the task, costs are scaled so that the threshold becomes that limit: the gains of
the multiplier are made for limits of about 10.
"""

import gymnasium
from fsrl.agent import PPOLagAgent
from problems import PROBLEMS
from snapshots import Snapshots, task
from tianshou.env import DummyVectorEnv
from torch import nn

STEPS_PER_EPOCH = 10_000


class Counted(gymnasium.Wrapper):
    """Counts the steps of all copies, since epochs end with whole episodes; scales the cost."""

    steps, scale = 0, 1.0

    def step(self, action):
        """Counted and scaled."""
        Counted.steps += 1
        obs, reward, ended, cut, info = self.env.step(action)
        return obs, reward, ended, cut, {"cost": Counted.scale * info["cost"]}


def main(job):
    """Train to each budget in turn and save the policy there."""
    problem = PROBLEMS[job["problem"]]
    limit = job.get("limit") or job["threshold"]
    Counted.scale = limit / job["threshold"]
    envs = DummyVectorEnv([lambda: Counted(problem(box=True))] * 20)
    envs.seed(job["seed"])
    agent = PPOLagAgent(
        problem(box=True),
        cost_limit=limit,
        gamma=problem.discount,
        thread=1,
        seed=job["seed"],
        max_grad_norm=0.5,
    )
    settings = {"epoch": 1, "batch_size": 256, "reward_threshold": 1e9}
    settings |= {"verbose": False, "show_progress": False, "save_ckpt": False}
    snapshots = Snapshots(job["out"])
    for budget in job["budgets"]:
        while Counted.steps < budget:
            size = min(STEPS_PER_EPOCH, budget - Counted.steps)
            agent.learn(envs, step_per_epoch=size, **settings)
        actor = agent.policy.actor
        layers = [m for m in actor.modules() if isinstance(m, nn.Linear)]
        log_std = actor.sigma_param.detach().reshape(-1)
        snapshots.save(Counted.steps, layers, "relu", log_std=log_std, squashed=1.0)


main(task())
