"""OmniSafe's RCPO with its defaults, but for the batch: 20,000 steps are for runs of 1e7.

OmniSafe imports robot environments that do not import on Python 3.11; an empty module stands for
them, since none is used here.
"""

import sys
from types import ModuleType
from typing import ClassVar

sys.modules["safety_gymnasium"] = ModuleType("safety_gymnasium")

import omnisafe  # noqa: E402
import torch  # noqa: E402
from omnisafe.envs.core import CMDP, env_register  # noqa: E402
from problems import PROBLEMS  # noqa: E402
from snapshots import Snapshots, task  # noqa: E402
from torch import nn  # noqa: E402

BATCH = 2000


@env_register
class Wrapped(CMDP):
    """A problem as OmniSafe wants it: tensors, and the cost beside the reward."""

    _support_envs: ClassVar = list(PROBLEMS)
    need_auto_reset_wrapper, need_time_limit_wrapper = True, False
    _num_envs = 1

    def __init__(self, env_id, num_envs=1, device="cpu", **options):
        super().__init__(env_id)
        self._env = PROBLEMS[env_id](box=True)
        self._observation_space = self._env.observation_space
        self._action_space = self._env.action_space

    def step(self, action):
        """One step."""
        obs, reward, ended, cut, info = self._env.step(action.detach().numpy())
        found = [torch.as_tensor(x, dtype=torch.float32) for x in (obs, reward, info["cost"])]
        last = {"final_observation": found[0]}
        return *found, torch.as_tensor(ended), torch.as_tensor(cut), last

    def reset(self, seed=None, options=None):
        """A new episode."""
        obs, info = self._env.reset(seed=seed)
        return torch.as_tensor(obs), info

    @property
    def max_episode_steps(self):
        """The horizon."""
        return self._env.horizon

    def set_seed(self, seed):
        """Of the environment."""
        self._env.reset(seed=seed)

    def render(self):
        """Nothing to see."""

    def close(self):
        """Nothing to close."""


def main(job):
    """Train once; policies are saved at the end of the epochs that fill a budget."""
    discount = PROBLEMS[job["problem"]].discount
    settings = {
        "seed": job["seed"],
        "train_cfgs": {"total_steps": job["budgets"][-1], "torch_threads": 1},
        "algo_cfgs": {"steps_per_epoch": BATCH, "gamma": discount, "cost_gamma": 1.0},
        "logger_cfgs": {"use_tensorboard": False, "log_dir": job["out"], "save_model_freq": 1},
        "lagrange_cfgs": {"cost_limit": job["threshold"]},
    }
    learner = omnisafe.Agent("RCPO", job["problem"], custom_cfgs=settings).agent
    snapshots, epochs = Snapshots(job["out"]), iter(range(1, 10**9))

    def save():
        steps = next(epochs) * BATCH
        if steps in job["budgets"]:
            actor, normaliser = learner._actor_critic.actor, learner._env.save()["obs_normalizer"]
            snapshots.save(
                steps,
                [m for m in actor.mean if isinstance(m, nn.Linear)],
                "tanh",
                log_std=actor.log_std.detach(),
                centre=normaliser.mean,
                scale=normaliser.std,
                clip=5.0,
            )

    learner.logger.torch_save = save
    learner.learn()


main(task())
