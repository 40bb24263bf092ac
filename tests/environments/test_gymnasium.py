import pickle
import warnings
from functools import cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scipy import stats

from downside.environments import Bandit, Consumption, Environment, Portfolio, Transition, Tree
from downside.environments.episodes import rollout
from downside.environments.gymnasium import GymnasiumEnv, GymnasiumVectorEnv
from downside.records import record
from downside.registration import register_environments

register_environments()

KINDS = {f"downside/{kind.__name__}-v0": kind for kind in (Tree, Bandit, Portfolio, Consumption)}
PARAMETERS = {
    "downside/Tree-v0": {"discount": 0.9},
    "downside/Bandit-v0": {"std_b": 3.0, "pareto_shape": 2.5},
    "downside/Portfolio-v0": {"default_probability": 0.3, "horizon": 7},
    "downside/Consumption-v0": {"default_probability": 0.2, "horizon": 9},
}
UNBOUNDED = {"downside/Portfolio-v0", "downside/Consumption-v0"}
every_id = pytest.mark.parametrize("env_id", list(KINDS))
every_mode = pytest.mark.parametrize("mode", list(AutoresetMode))

N_COPIES = 5  # in most tests, which then share what is compiled
FOUR_SIGMA = 2 * stats.norm.sf(4.0)


def make(env_id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(env_id, **PARAMETERS[env_id], **kwargs)


def make_vec(env_id: str, **kwargs: Any) -> Any:
    return gymnasium.make_vec(env_id, num_envs=N_COPIES, **PARAMETERS[env_id], **kwargs)


def actions_for(env: Any, n_steps: int, seed: int = 5) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(n_steps)]


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
    environment = KINDS[env_id](**PARAMETERS[env_id])
    assert make(env_id).unwrapped.environment == environment
    assert make_vec(env_id).environment == environment


@every_id
def test_nothing_limits_the_steps_but_the_problem(env_id: str):
    assert make(env_id).spec.max_episode_steps is None


@every_id
def test_every_observation_lies_in_its_space(env_id: str):
    envs = make_vec(env_id)
    obs, _ = envs.reset(seed=11)
    for actions in actions_for(envs, 100):
        assert obs in envs.observation_space
        assert obs.dtype == envs.observation_space.dtype
        obs, rewards, *_ = envs.step(actions)
        assert rewards.dtype == np.float64


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


def bandit_rewards(seed: int, num_envs: int, n_episodes: int) -> np.ndarray:
    """The pulls of arm A: a normal number for each copy and episode."""
    envs = GymnasiumVectorEnv("Bandit", num_envs=num_envs, autoreset_mode="SameStep")
    envs.reset(seed=seed)
    pulls = np.zeros(num_envs, int)
    return np.stack([envs.step(pulls)[1] for _ in range(n_episodes)], axis=1)


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


def test_illegal_actions_of_a_vector_are_refused():
    envs = make_vec("downside/Tree-v0")
    envs.reset(seed=2)
    for actions in ([0, 1], [0, 1, 2, 1, 0], 1, [0.0] * 5):
        with pytest.raises(ValueError, match="must be an element of MultiDiscrete"):
            envs.step(actions)


@every_id
def test_a_step_needs_a_running_episode(env_id: str):
    env = make(env_id).unwrapped
    envs = make_vec(env_id, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(env.action_space.sample())
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        envs.step(envs.action_space.sample())
    with pytest.raises(ResetNeeded, match="reset all copies"):
        envs.reset(options={"reset_mask": np.arange(N_COPIES) < 2})
    env.reset(seed=1)
    while not env.step(env.action_space.sample())[2]:
        pass
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(env.action_space.sample())
    envs.reset(seed=1)
    while not envs.step(envs.action_space.sample())[2].any():
        pass
    with pytest.raises(ResetNeeded, match="reset_mask"):
        envs.step(envs.action_space.sample())


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
    envs = make_vec(env_id, render_mode="ansi")
    envs.reset(seed=[4] * N_COPIES)
    envs.step(np.stack([action] * N_COPIES))
    assert envs.render() == (env.render(),) * N_COPIES


def test_rendering_without_a_mode_warns_and_an_unknown_mode_is_refused():
    for env in (GymnasiumEnv("Tree"), GymnasiumVectorEnv("Tree", 2)):
        env.reset()
        with pytest.warns(UserWarning, match='render_mode="ansi"'):
            assert env.render() is None
    with pytest.raises(ValueError, match="choose one of 'ansi'"):
        GymnasiumEnv("Tree", render_mode="human")
    with pytest.raises(ResetNeeded, match=r"reset\(\) before render"):
        GymnasiumVectorEnv("Tree", 2, render_mode="ansi").render()


@every_id
def test_a_pickled_environment_goes_on_as_the_original(env_id: str):
    for env in (make(env_id), make_vec(env_id)):
        env.reset(seed=21)
        env.step(env.action_space.sample())
        env.reset()
        twin = pickle.loads(pickle.dumps(env))
        action = env.action_space.sample()
        assert data_equivalence(env.step(action), twin.step(action), exact=True)


@every_id
def test_a_spec_makes_the_same_environment_again(env_id: str):
    env = make(env_id)
    for spec in (env.spec, gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())):
        again = spec.make()
        assert again.unwrapped.environment == env.unwrapped.environment
    envs = make_vec(env_id)
    assert gymnasium.make_vec(envs.spec).environment == env.unwrapped.environment
    sync = make_vec(env_id, vectorization_mode="sync")
    assert isinstance(sync, SyncVectorEnv)
    sync.reset(seed=1)
    sync.step(sync.action_space.sample())


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="choose one of 'Tree', 'Bandit'"):
        GymnasiumEnv("Forest")
    with pytest.raises(ValueError, match="give discount to its constructor"):
        GymnasiumEnv(Tree(), discount=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        gymnasium.make("downside/Tree-v0", colour="red")
    with pytest.raises(ValueError, match="'NextStep', 'SameStep', 'Disabled'"):
        GymnasiumVectorEnv("Tree", 2, autoreset_mode="never")
    with pytest.raises(ValueError, match="num_envs is 0"):
        GymnasiumVectorEnv("Tree", 0)


@record
class Drift(Environment[Any]):
    """A walk with no mean reward, which counts how often it is compiled."""

    drift: float
    discount: float = 0.9
    horizon = None
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(3)
    n_compiled = 0

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        return jax.random.normal(key, shape)

    def reset(self, noise: Any) -> Any:
        return jnp.asarray(0.0), jnp.zeros(1)

    def mean_reward(self, state: Any, action: Any) -> None:
        return None

    def transition(self, state: Any, action: Any, noise: Any) -> Transition[Any]:
        Drift.n_compiled += 1
        place = state + self.drift + noise
        return Transition(
            obs=state[None],
            action=action,
            reward=place,
            mean_reward=None,
            next_obs=place[None],
            next_state=place,
            discount=jnp.asarray(self.discount),
            terminated=jnp.asarray(False),
            truncated=place > 2.0,
            time=jnp.asarray(0),
        )

    def render(self, state: Any) -> str:
        return f"{float(state):.2f}"


def test_instances_with_other_numbers_share_what_is_compiled():
    Drift.n_compiled = 0
    for drift in (0.1, 0.2, 0.3):
        env = GymnasiumEnv(Drift(drift))
        env.reset(seed=3)
        env.step(1)
        env.step(2)
    assert Drift.n_compiled == 1
    for drift in (0.1, 0.2):
        envs = GymnasiumVectorEnv(Drift(drift), 6)
        envs.reset(seed=3)
        for _ in range(10):
            assert envs.step([0, 1, 2, 0, 1, 2])[4] == {}
    assert Drift.n_compiled == 2
