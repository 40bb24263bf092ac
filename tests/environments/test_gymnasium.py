import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence

from downside.environments import Tree
from downside.environments.gymnasium import GymnasiumEnv
from registered_environments import (
    KINDS,
    PARAMETERS,
    Drift,
    actions_for,
    every_id,
    goes_on_when_pickled,
    make,
)

UNBOUNDED = {"downside/Portfolio-v0", "downside/Consumption-v0"}


def play(env: gymnasium.Env[Any, Any], n_steps: int) -> list[Any]:
    """What ``n_steps`` steps give, episode after episode."""
    seen: list[Any] = []
    for action in actions_for(env, n_steps):
        result = env.step(action)
        seen.append(result)
        if result[2] or result[3]:
            seen.append(env.reset())
    return seen


@every_id
def test_gymnasiums_checker_only_warns_of_what_is_unbounded(env_id: str):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(make(env_id).unwrapped)
    assert len(caught) == (env_id in UNBOUNDED)
    for warning in caught:
        assert "A Box observation space maximum value is infinity" in str(warning.message)


@every_id
def test_parameters_reach_the_environment(env_id: str):
    assert make(env_id).unwrapped.environment == KINDS[env_id](**PARAMETERS[env_id])


@every_id
def test_nothing_limits_the_steps_but_the_problem(env_id: str):
    assert make(env_id).spec.max_episode_steps is None


@every_id
def test_a_seed_determines_all_that_follows(env_id: str):
    first, second = make(env_id), make(env_id)
    played = []
    for env in (first, second, first):
        env.reset(seed=123)
        played.append(play(env, 40))
    assert all(data_equivalence(played[0], other, exact=True) for other in played[1:])


@pytest.mark.parametrize("seeds", [(123, 124), (0, 1), (5, 2**32 + 5), (3, 3 + 2**70)])
def test_other_seeds_and_later_episodes_are_other_numbers(seeds: tuple[int, int]):
    env = GymnasiumEnv("Bandit")
    rewards = []
    for seed in seeds:
        env.reset(seed=seed)
        for _ in range(3):
            rewards.append(env.step(0)[1])
            env.reset()
    assert len(set(rewards)) == len(rewards)


def test_without_a_seed_two_environments_differ_and_tell_their_seed():
    rewards = []
    for env in (GymnasiumEnv("Bandit"), GymnasiumEnv("Bandit")):
        env.reset()
        reward = env.step(0)[1]
        env.reset(seed=env.np_random_seed)
        assert env.step(0)[1] == reward
        rewards.append(reward)
    assert rewards[0] != rewards[1]


@pytest.mark.parametrize("choices", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_tree_by_hand(choices: tuple[int, int]):
    env = make("downside/Tree-v0")
    first, second = choices
    assert env.reset(seed=1) == (0, {})
    reward = 2.0 * first - 1.0
    assert env.step(first) == (1 + first, reward, False, False, {"mean_reward": reward})
    reward = 2.0 * second - 1.0
    expected = (3 + 2 * first + second, reward, True, False, {"mean_reward": reward})
    assert env.step(second) == expected


@pytest.mark.parametrize("action", [-1, 11, 2.0, [3], float("nan"), "buy", True])
def test_an_illegal_order_is_refused(action: Any):
    env = GymnasiumEnv("Portfolio")
    env.reset(seed=2)
    with pytest.raises(ValueError, match="it must be a whole number from 0 to 10"):
        env.step(action)


@pytest.mark.parametrize("action", [0.5, [0.5], [0.5, float("nan")], [[0.5, 0.5]], ["a", "b"]])
def test_an_illegal_share_is_refused(action: Any):
    env = GymnasiumEnv("Consumption")
    env.reset(seed=2)
    with pytest.raises(ValueError, match=r"must be numbers of the shape \(2,\), none of them NaN"):
        env.step(action)


def test_a_share_outside_its_box_is_clipped_by_the_environment():
    env = GymnasiumEnv("Consumption")
    results = []
    for action in ([-3.0, 7.0], [0.0, 1.0]):
        env.reset(seed=2)
        results.append(env.step(action))
    assert data_equivalence(*results)


@every_id
def test_a_step_needs_a_running_episode(env_id: str):
    env = make(env_id).unwrapped
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(env.action_space.sample())
    env.reset(seed=1)
    while not env.step(env.action_space.sample())[2]:
        pass
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(env.action_space.sample())


@pytest.mark.parametrize(
    ("env_id", "action", "expected"),
    [
        ("downside/Tree-v0", 1, "at right"),
        ("downside/Bandit-v0", 1, "arm pulled"),
        ("downside/Portfolio-v0", 0, "step 1/7  liquid 1.0050  pending [0.000, 0.000"),
        ("downside/Consumption-v0", [0.0, 0.1], "step 1/9  wealth 0.9002"),
    ],
)
def test_a_person_can_read_the_state(env_id: str, action: Any, expected: str):
    env = make(env_id, render_mode="ansi")
    env.reset(seed=4)
    env.step(np.asarray(action))
    assert expected in env.render()


def test_rendering_without_a_mode_warns_and_an_unknown_mode_is_refused():
    env = GymnasiumEnv("Tree")
    env.reset()
    with pytest.warns(UserWarning, match='render_mode="ansi"'):
        assert env.render() is None
    with pytest.raises(ValueError, match="choose one of 'ansi'"):
        GymnasiumEnv("Tree", render_mode="human")


@every_id
def test_a_pickled_environment_goes_on_as_the_original(env_id: str):
    goes_on_when_pickled(make(env_id))


@every_id
def test_a_spec_makes_the_same_environment_again(env_id: str):
    env = make(env_id)
    for spec in (env.spec, gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())):
        again = spec.make()
        assert again.unwrapped.environment == env.unwrapped.environment


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="choose one of 'Tree', 'Bandit'"):
        GymnasiumEnv("Forest")
    with pytest.raises(ValueError, match="give discount to its constructor"):
        GymnasiumEnv(Tree(), discount=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        gymnasium.make("downside/Tree-v0", colour="red")


def test_instances_with_other_numbers_share_what_is_compiled():
    Drift.n_compiled = 0
    for drift in (0.1, 0.2, 0.3):
        env = GymnasiumEnv(Drift(drift))
        env.reset(seed=3)
        env.step(1)
        env.step(2)
    assert Drift.n_compiled == 1
