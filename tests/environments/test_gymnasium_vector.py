from functools import cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scipy import stats

from downside.environments import Bandit, Consumption, Environment, Portfolio
from downside.environments.episodes import rollout
from downside.environments.gymnasium import GymnasiumVectorEnv
from registered_environments import (
    KINDS,
    N_COPIES,
    PARAMETERS,
    Drift,
    actions_for,
    every_id,
    goes_on_when_pickled,
    make,
    make_vec,
)

every_mode = pytest.mark.parametrize("mode", list(AutoresetMode))

FOUR_SIGMA = 2 * stats.norm.sf(4.0)


@every_id
def test_parameters_reach_the_environment(env_id: str):
    assert make_vec(env_id).environment == KINDS[env_id](**PARAMETERS[env_id])


@every_id
def test_every_observation_lies_in_its_space(env_id: str):
    envs = make_vec(env_id)
    obs, _ = envs.reset(seed=11)
    for actions in actions_for(envs, 100):
        assert obs in envs.observation_space
        assert obs.dtype == envs.observation_space.dtype
        obs, rewards, *_ = envs.step(actions)
        assert rewards.dtype == np.float64


def bandit_rewards(seed: int, num_envs: int, n_episodes: int) -> np.ndarray:
    """The pulls of arm A: a normal number for each copy and episode."""
    envs = GymnasiumVectorEnv("Bandit", num_envs=num_envs, autoreset_mode="SameStep")
    envs.reset(seed=seed)
    pulls = np.zeros(num_envs, int)
    return np.stack([envs.step(pulls)[1] for _ in range(n_episodes)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("neighbour", ["copy", "seed", "episode", "copy of the next seed"])
def test_neighbours_are_independent(neighbour: str):
    ours, next_seed = bandit_rewards(41, 100, 60), bandit_rewards(42, 100, 60)
    left, right = {
        "copy": (ours[:-1], ours[1:]),
        "seed": (ours, next_seed),
        "episode": (ours[:, :-1], ours[:, 1:]),
        "copy of the next seed": (ours[1:], next_seed[:-1]),
    }[neighbour]
    assert not np.any(left == right)
    correlation = np.corrcoef(left.ravel(), right.ravel())[0, 1]
    assert abs(correlation) < 4 / np.sqrt(left.size)


@pytest.mark.slow
@every_mode
@every_id
def test_a_vector_does_what_gymnasium_does_with_single_copies(env_id: str, mode: AutoresetMode):
    ours = make_vec(env_id, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: make(env_id)] * N_COPIES, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is mode
    assert data_equivalence(ours.reset(seed=range(30, 30 + N_COPIES)), theirs.reset(seed=30))
    n_ends = 0
    for actions in actions_for(ours, 25):
        mine, reference = ours.step(actions), theirs.step(actions)
        assert data_equivalence(mine, reference)
        over = mine[2] | mine[3]
        n_ends += over.sum()
        if mode is AutoresetMode.DISABLED and over.any():
            mine, reference = (e.reset(options={"reset_mask": over}) for e in (ours, theirs))
            assert data_equivalence(mine, reference)
    assert n_ends > 5


@every_id
def test_copy_0_of_a_vector_is_the_single_environment(env_id: str):
    env, envs = make(env_id), make_vec(env_id, autoreset_mode="Disabled")
    obs, _ = env.reset(seed=77)
    many, _ = envs.reset(seed=77)
    over = False
    for actions in actions_for(envs, 20):
        if over:
            obs, many = env.reset()[0], envs.reset()[0]
        np.testing.assert_allclose(many[0], obs, rtol=1e-6)
        obs, reward, over, _, info = env.step(actions[0])
        many, rewards, overs, _, infos = envs.step(actions)
        np.testing.assert_allclose(rewards[0], reward, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(infos["mean_reward"][0], info["mean_reward"], rtol=1e-4)
        assert overs[0] == over
        if overs.any() and not over:
            many, _ = envs.reset(options={"reset_mask": overs})


@cache
def episodes_by_hand(env: Environment[Any], seed: int, copy: int, action: Any, n_steps: int) -> Any:
    """(obs, reward, next obs) of every step, from the pure environment and its random numbers."""
    words = seeding.np_random(seed)[0].integers(2**32, size=2, dtype=np.uint32)

    def noise(episode: int, step: int) -> Any:
        key = jax.random.key(words[0])
        for number in (words[1], copy, episode, step):
            key = jax.random.fold_in(key, number)
        return env.draw(key)

    seen = []
    episode, step = 0, 0
    state, obs = env.reset(noise(episode, step))
    for _ in range(n_steps):
        step += 1
        made = env.transition(state, jnp.asarray(action), noise(episode, step))
        seen.append((np.asarray(obs), float(made.reward), np.asarray(made.next_obs)))
        state, obs = made.next_state, made.next_obs
        if made.terminated:
            episode, step = episode + 1, 0
            state, obs = env.reset(noise(episode, step))
    return seen


@every_mode
def test_each_transition_is_given_once(mode: AutoresetMode):
    envs = make_vec("downside/Consumption-v0", autoreset_mode=mode)
    action, n_steps = (0.6, 0.1), 30
    obs, _ = envs.reset(seed=19)
    seen: list[list[Any]] = [[] for _ in range(N_COPIES)]
    resets = np.zeros(N_COPIES, bool)
    while min(map(len, seen)) < n_steps:
        next_obs, rewards, over, _, info = envs.step([action] * N_COPIES)
        for copy in np.flatnonzero(~resets):
            last = next_obs[copy]
            if mode is AutoresetMode.SAME_STEP and over[copy]:
                last = info["final_obs"][copy]
            seen[copy].append((obs[copy], rewards[copy], last))
        obs = next_obs
        resets = over & (mode is AutoresetMode.NEXT_STEP)
        if mode is AutoresetMode.DISABLED and over.any():
            obs, _ = envs.reset(options={"reset_mask": over})
    for copy in (0, 3):
        by_hand = episodes_by_hand(envs.environment, 19, copy, action, n_steps)
        for mine, expected in zip(seen[copy][:n_steps], by_hand, strict=True):
            for value, reference in zip(mine, expected, strict=True):
                np.testing.assert_allclose(value, reference, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "action"),
    [
        (Portfolio(default_probability=0.2, horizon=20), 6),
        (Consumption(default_probability=0.05, horizon=15), [0.7, 0.2]),
        (Bandit(pareto_shape=2.5), 2),
    ],
)
def test_returns_are_distributed_as_in_the_compiled_rollout(
    environment: Environment[Any], action: Any
):
    n = 2000
    envs = GymnasiumVectorEnv(environment, n, autoreset_mode="SameStep")
    envs.reset(seed=6)
    actions = np.tile(np.asarray(action), (n, *[1] * np.ndim(action)))
    returns, alive = np.zeros(n), np.ones(n, bool)
    while alive.any():
        _, rewards, terminated, _, _ = envs.step(actions)
        returns += np.where(alive, rewards, 0.0)
        alive &= ~terminated
    constant = jnp.asarray(action)
    sums = rollout(environment, lambda obs, key: constant, jax.random.key(60), n)
    reference = np.asarray(sums.total)
    error = np.sqrt((returns.var() + reference.var()) / n)
    assert abs(returns.mean() - reference.mean()) < 4 * error
    assert stats.ks_2samp(returns, reference).pvalue > FOUR_SIGMA


def test_the_mean_reward_of_the_bandit_by_hand():
    envs = make_vec("downside/Bandit-v0")
    envs.reset(seed=1)
    _, _, terminated, truncated, info = envs.step(np.array([0, 1, 2, 1, 0]))
    # the Pareto arm: scale * shape / (shape - 1) = 2.5 / 1.5
    np.testing.assert_allclose(info["mean_reward"], [1.0, 4.0, 5 / 3, 4.0, 1.0], rtol=1e-6)
    assert info["_mean_reward"].all()
    assert terminated.all()
    assert not truncated.any()
    assert envs.step(np.array([0, 1, 2, 1, 0]))[4] == {}  # this step is the reset


def test_illegal_actions_of_a_vector_are_refused():
    envs = make_vec("downside/Tree-v0")
    envs.reset(seed=2)
    for actions in ([0, 1], [0, 1, 2, 1, 0], 1, [0.0] * 5):
        with pytest.raises(ValueError, match="must be an element of MultiDiscrete"):
            envs.step(actions)


def test_a_mask_resets_and_seeds_its_copies_only():
    envs = make_vec("downside/Portfolio-v0", autoreset_mode="Disabled")
    orders = np.array([4, 5, 6, 7, 8])
    envs.reset(seed=5)
    for _ in range(3):
        running = envs.step(orders)[0]
    options = {"reset_mask": np.array([False, True, False, False, False])}
    obs, _ = envs.reset(seed=[8, 9, 10, 11, 12], options=options)
    assert "reset_mask" in options
    others = [0, 2, 3, 4]
    np.testing.assert_array_equal(obs[others], running[others])
    np.testing.assert_array_equal(obs[1], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    single = make("downside/Portfolio-v0").unwrapped
    single.reset(seed=9)
    for _ in range(4):
        np.testing.assert_allclose(envs.step(orders)[0][1], single.step(5)[0], rtol=1e-6)


def test_a_copy_without_a_new_seed_goes_on_with_its_stream():
    envs = make_vec("downside/Bandit-v0", autoreset_mode="Disabled")
    arms = np.zeros(N_COPIES, int)
    rewards = []
    for seeds in (None, [None, 8, None, 8, None]):
        envs.reset(seed=5)
        envs.step(arms)
        envs.reset(seed=seeds)
        rewards.append(envs.step(arms)[1])
    same = rewards[0] == rewards[1]
    np.testing.assert_array_equal(same, [True, False, True, False, True])
    assert rewards[1][1] == rewards[1][3]


@pytest.mark.parametrize("mask", [np.array([True, False]), np.array([1, 0, 1, 0, 0]), [[True] * 5]])
def test_a_wrong_mask_is_refused(mask: Any):
    envs = make_vec("downside/Tree-v0")
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=r"must be \(5,\) and bool"):
        envs.reset(options={"reset_mask": mask})


def test_seeds_must_be_one_or_one_per_copy():
    with pytest.raises(ValueError, match="seed has 2 entries for 3 copies"):
        GymnasiumVectorEnv("Tree", 3).reset(seed=[1, 2])


@every_id
def test_a_step_needs_running_episodes(env_id: str):
    envs = make_vec(env_id, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        envs.step(envs.action_space.sample())
    with pytest.raises(ResetNeeded, match="reset all copies"):
        envs.reset(options={"reset_mask": np.arange(N_COPIES) < 2})
    envs.reset(seed=1)
    while not envs.step(envs.action_space.sample())[2].any():
        pass
    with pytest.raises(ResetNeeded, match="reset_mask"):
        envs.step(envs.action_space.sample())


@every_id
def test_every_copy_is_rendered_as_the_single_environment_is(env_id: str):
    env, envs = make(env_id, render_mode="ansi"), make_vec(env_id, render_mode="ansi")
    env.action_space.seed(3)
    action = env.action_space.sample()
    env.reset(seed=4)
    env.step(action)
    envs.reset(seed=[4] * N_COPIES)
    envs.step(np.stack([action] * N_COPIES))
    assert envs.render() == (env.render(),) * N_COPIES


def test_rendering_without_a_mode_warns_and_needs_a_reset():
    envs = GymnasiumVectorEnv("Tree", 2)
    envs.reset()
    with pytest.warns(UserWarning, match='render_mode="ansi"'):
        assert envs.render() is None
    with pytest.raises(ResetNeeded, match=r"reset\(\) before render"):
        GymnasiumVectorEnv("Tree", 2, render_mode="ansi").render()


@every_id
def test_pickled_environments_go_on_as_the_originals(env_id: str):
    goes_on_when_pickled(make_vec(env_id))


@every_id
def test_a_spec_makes_the_same_environments_again(env_id: str):
    envs = make_vec(env_id)
    assert gymnasium.make_vec(envs.spec).environment == envs.environment
    sync = make_vec(env_id, vectorization_mode="sync")
    assert isinstance(sync, SyncVectorEnv)
    sync.reset(seed=1)
    sync.step(sync.action_space.sample())


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="'NextStep', 'SameStep', 'Disabled'"):
        GymnasiumVectorEnv("Tree", 2, autoreset_mode="never")
    with pytest.raises(ValueError, match="num_envs is 0"):
        GymnasiumVectorEnv("Tree", 0)


def test_instances_with_other_numbers_share_what_is_compiled():
    Drift.n_compiled = 0
    for drift in (0.1, 0.2):
        envs = GymnasiumVectorEnv(Drift(drift), 6)
        envs.reset(seed=3)
        for _ in range(10):
            assert envs.step([0, 1, 2, 0, 1, 2])[4] == {}
    assert Drift.n_compiled == 1
