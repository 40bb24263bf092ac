"""Vector environments show the same episodes in every autoreset mode."""

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from downside.environments.gymnasium import GymnasiumVectorEnv
from downside.environments.vectors import HostVector
from host_environments import Drift, OwnResets, Spaces

every_mode = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
PAIR = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1.0, 1.0, (2,))})


def episodes(vector: HostVector, n_steps: int) -> list[list[Any]]:
    """What every copy returns, episode k of copy i seeded with (i, k)."""
    found: list[list[Any]] = [[] for _ in vector.copies]
    counts = dict.fromkeys(range(vector.num_envs), 0)
    begin = list(counts)
    space = vector.action_space
    space.seed(5)
    for _ in range(n_steps):
        if begin:
            seeds = {i: 100 * i + counts[i] for i in begin}
            for i, (obs, _) in vector.reset(seeds).items():
                found[i].append(obs)
                counts[i] += 1
        results = vector.step([space.sample() for _ in vector.copies])
        for mine, result in zip(found, results, strict=True):
            mine.append(result)
        begin = [i for i in counts if vector.is_over(i)]
    return found


@every_mode
@pytest.mark.parametrize("kind", ["numbers", "dictionaries", "ours"])
def test_copies_return_the_same_in_every_mode(kind: str, mode: AutoresetMode):
    # In SAME_STEP the last observation comes from the infos, and every reset happens twice.
    def make() -> Any:
        return Drift() if kind == "numbers" else Spaces(deepcopy(PAIR), deepcopy(PAIR))

    def vector(mode: AutoresetMode) -> Any:
        if kind == "ours":  # which rounds a little differently when it steps alone
            return GymnasiumVectorEnv("Consumption", 3, autoreset_mode=mode)
        return SyncVectorEnv([make] * 3, autoreset_mode=mode)

    envs, expected_from = vector(mode), vector(AutoresetMode.DISABLED)
    found, expected = episodes(HostVector(envs), 60), episodes(HostVector(expected_from), 60)
    assert data_equivalence(found, expected)
    if kind != "ours":
        assert len(found[0]) > 65  # several episodes


def test_a_time_limit_belongs_to_the_problem_unless_there_is_a_discount():
    envs = SyncVectorEnv([lambda: TimeLimit(Drift(), 9)] * 2)
    assert HostVector(envs).horizon == 9
    assert HostVector(envs, discount=0.9).horizon is None
    assert HostVector(gymnasium.make_vec("CartPole-v1", num_envs=2)).horizon == 500


class Forgetful(OwnResets):
    """Takes a mask, and resets all."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed[0] if isinstance(seed, list) else seed)


@pytest.mark.parametrize(
    ("envs", "answer"),
    [
        (SyncVectorEnv([Drift] * 2), True),
        (GymnasiumVectorEnv("Bandit", 2), True),
        (gymnasium.wrappers.vector.ClipReward(SyncVectorEnv([Drift] * 2), -9.0, 9.0), True),
        (OwnResets(AutoresetMode.NEXT_STEP), False),
        (Forgetful(AutoresetMode.SAME_STEP), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_can_reset_single_copies_is_found_out(envs: VectorEnv[Any, Any, Any], answer: bool):
    assert HostVector(envs).resets_each == answer


def test_what_is_missing_is_asked_for():
    envs: Any = OwnResets(AutoresetMode.NEXT_STEP)
    envs.metadata = {}
    with pytest.raises(ValueError, match=r"set metadata = .*autoreset_mode"):
        HostVector(envs)
    envs = OwnResets(AutoresetMode.NEXT_STEP)
    vector = HostVector(envs)
    vector.reset({0: 1})
    step = envs.step
    envs.step = lambda actions: step(actions)[:4]
    with pytest.raises(ValueError, match=r"must return \(observations, rewards"):
        vector.step([0, 0, 0])
    envs.step = lambda actions: (step(actions)[0], np.ones(2), *step(actions)[2:])
    with pytest.raises(ValueError, match=r"shapes \(2,\), \(3,\), \(3,\).*3 copies"):
        vector.step([0, 0, 0])


class Turnover(gymnasium.Env[Any, Any]):
    """Pays what an action is above the one before, which it keeps as it came."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.before = np.zeros(1, np.float32)
        return self.before, {}

    def step(self, action: Any) -> Any:
        reward, self.before = float(action[0] - self.before[0]), action
        return np.zeros(1, np.float32), reward, False, False, {}


def test_an_environment_may_keep_its_action():
    vector = HostVector(SyncVectorEnv([Turnover] * 2), discount=0.9)
    vector.reset({0: 1, 1: 2})
    actions = [np.full(1, x, np.float32) for x in (0.25, 0.5, 0.125)]
    rewards = [vector.step([action] * 2)[1][1] for action in actions]
    assert rewards == [0.25, 0.25, -0.375]


def test_vectors_that_break_their_contract_are_named(monkeypatch: pytest.MonkeyPatch):
    envs = SyncVectorEnv([Drift] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    vector = HostVector(envs)
    vector.reset({0: 1, 1: 2})
    zero, one = np.zeros(2), np.ones(2, bool)
    obs = np.zeros((2, *envs.single_observation_space.shape), np.float32)
    monkeypatch.setattr(envs, "step", lambda actions: (obs, zero, zero, one, {}))
    with pytest.raises(
        ValueError, match=r"of type float64 and bool; give arrays of True and False"
    ):
        vector.step([vector.action_space.sample()] * 2)
    monkeypatch.setattr(envs, "step", lambda actions: (obs, zero, one, one, {}))
    with pytest.raises(ValueError, match=r'give it as infos\["final_obs"\]'):
        vector.step([vector.action_space.sample()] * 2)
