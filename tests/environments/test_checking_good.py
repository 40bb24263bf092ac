"""Environments that are good, or only slow: no alarm, and no long wait."""

from time import monotonic
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from downside.environments import Consumption, Portfolio, Tree
from downside.environments.checking import check_env
from downside.registration import register_environments
from walks import Walk, broken, stepping

register_environments()


class InC(Walk):
    """As a simulator behind a pointer, which a copy of the Python object shares."""

    def __init__(self) -> None:
        self.box: Any = [0.0]

    def __deepcopy__(self, memo: Any) -> Any:
        copied = InC()
        copied.box = self.box
        return copied

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.box[0] = 0.0
        return super().reset(seed=seed)

    def obs(self) -> Any:
        self.box[0] = np.clip(self.box[0] + self.place, -5.0, 5.0)
        return np.array([self.box[0], 0.5], np.float32)


GOOD = [
    Walk(),
    InC,
    stepping(lambda obs, reward, over, cut, info: (obs, reward, np.bool_(over), np.False_, info)),
    stepping(lambda *values: (*values[:4], {"clock": monotonic()})),
    TimeLimit(broken("Long", over=lambda self: False, obs=lambda self: np.zeros(2, "f")), 100),
    "CartPole-v1",
    "Acrobot-v1",
    "FrozenLake-v1",
    "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3",
    "Blackjack-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "CliffWalking-v1",
    "downside/Bandit-v0",
    Tree(),
    Portfolio(),
    Consumption(),
]


@pytest.mark.parametrize("env", GOOD, ids=lambda env: getattr(env, "__name__", str(env))[:24])
def test_good_environments_raise_no_alarm(env):
    result = check_env(env, n_steps=300)
    assert result.ok
    assert not result.warnings, str(result)


def test_a_slow_environment_is_not_waited_for():
    result = check_env(Walk(), seconds=0.0)
    assert result.n_steps == 0
    assert any("it is slow: 0 steps" in each.what for each in result.findings)


def test_nor_is_it_run_again_for_long():
    class Slow(Walk):
        n_steps = 0

        def step(self, action: Any) -> Any:
            Slow.n_steps += 1
            return super().step(action)

    check_env(Slow(), seconds=0.0)
    assert 0 < Slow.n_steps < 40
