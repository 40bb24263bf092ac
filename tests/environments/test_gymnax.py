import subprocess
import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from downside.environments import Bandit, Consumption, Environment, Portfolio, Tabular, Tree
from downside.environments.episodes import rollout
from downside.environments.gymnasium import GymnasiumVectorEnv
from downside.environments.gymnax import FromGymnax, ToGymnax

gymnax = pytest.importorskip("gymnax")

THEIRS = ["CartPole-v1", "Pendulum-v1", "Catch-bsuite", "FrozenLake-misc"]
OURS = [
    Tree(discount=0.9),
    Bandit(std_b=3.0),
    Portfolio(default_probability=0.3, horizon=4),
    Consumption(default_probability=0.2, horizon=5),
    Tabular(
        transitions=[[[0.75, 0.25], [0.25, 0.75]], [[0.5, 0.5], [0.125, 0.875]]],
        rewards=[[[1.0, 2.0], [3.0, 4.0]], [[0.5, 0.25], [-1.0, -2.0]]],
        start=[0.25, 0.75],
        discount=0.9,
        horizon=3,
    ),
]
every_one_of_ours = pytest.mark.parametrize("environment", OURS, ids=lambda e: type(e).__name__)


def equal(left: Any, right: Any) -> None:
    for value, reference in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_it_steps_as_gymnax_does(name: str):
    theirs, params = gymnax.make(name)
    params = params.replace(max_steps_in_episode=6)
    env = FromGymnax(theirs, params, discount=0.9)
    keys = jax.random.split(jax.random.key(12), 7)
    their_reset, their_step = jax.jit(theirs.reset_env), jax.jit(theirs.step_env)
    step = jax.jit(env.step)
    state, obs = jax.jit(env.reset)(env.draw(keys[0]))
    with jax.numpy_dtype_promotion("standard"):
        expected, inner = their_reset(jax.random.fold_in(env.draw(keys[0]), 0), params)
    env.action_space.seed(3)
    for time in range(6):
        equal((obs, state.inner), (expected, inner))
        action = jnp.asarray(env.action_space.sample())
        made = step(keys[time + 1], state, action)
        action = action.astype(theirs.action_space(params).dtype)
        with jax.numpy_dtype_promotion("standard"):
            key = jax.random.fold_in(env.draw(keys[time + 1]), 1)
            expected, inner, reward, terminated, _ = their_step(key, inner, action, params)
        equal((made.obs, made.reward, made.terminated), (obs, reward, terminated))
        assert int(made.time) == time
        assert bool(made.truncated) == (time == 5)
        assert float(made.discount) == pytest.approx(0.0 if terminated else 0.9)
        assert made.mean_reward is None
        state, obs = made.next_state, made.next_obs
        if terminated:
            break


@pytest.mark.parametrize(
    ("name", "observations", "actions"),
    [
        ("CartPole-v1", (4,), spaces.Discrete(2)),
        ("Pendulum-v1", (3,), spaces.Box(-2.0, 2.0, (1,), np.float32)),
        ("Catch-bsuite", (10, 5), spaces.Discrete(3)),
        ("FrozenLake-misc", (), spaces.Discrete(4)),
    ],
)
def test_spaces_become_gymnasiums(name: str, observations: tuple[int, ...], actions: Any):
    env = FromGymnax(gymnax.make(name)[0])
    assert env.observation_space.shape == observations
    assert env.action_space == actions


@pytest.mark.slow
def test_a_termination_cuts_the_discount_and_a_time_limit_does_not():
    env = FromGymnax(gymnax.make("CartPole-v1")[0], discount=0.9)
    short = FromGymnax(env.env, env.params.replace(max_steps_in_episode=3), discount=0.9)
    push = lambda obs, key: jnp.asarray(1)  # noqa: E731
    fallen = rollout(env, push, jax.random.key(1), 8, max_steps=50)
    assert np.all(fallen.ended)
    assert np.all((fallen.length > 5) & (fallen.length < 20))
    np.testing.assert_allclose(fallen.total, fallen.length)
    np.testing.assert_allclose(
        fallen.discounted, (1 - 0.9 ** np.asarray(fallen.length)) / 0.1, rtol=1e-5
    )
    cut = rollout(short, push, jax.random.key(1), 8, max_steps=50)
    assert not np.any(cut.ended)
    assert np.all(cut.length == 3)


@pytest.mark.slow
def test_its_parameters_can_be_vmapped_over():
    env, params = gymnax.make("CartPole-v1")
    key = jax.random.key(5)

    def speed(force: Any) -> Any:
        varied = FromGymnax(env, params.replace(force_mag=force))
        state, _ = varied.reset(varied.draw(key))
        return varied.step(key, state, jnp.asarray(1)).next_obs[1]

    forces = jnp.array([5.0, 10.0, 20.0])
    together = jax.vmap(speed)(forces)
    np.testing.assert_allclose(together, [speed(force) for force in forces], rtol=1e-5)
    batch = FromGymnax(env, jax.tree.map(jnp.asarray, params.replace(force_mag=forces)))
    assert any(leaf.shape == (3,) for leaf in map(jnp.asarray, jax.tree.leaves(batch)))


@pytest.mark.slow
def test_the_reset_takes_other_numbers_than_the_step():
    env = FromGymnax(gymnax.make("Catch-bsuite")[0])

    @jax.jit
    @jax.vmap
    def balls(noise: Any) -> Any:
        state, _ = env.reset(noise)
        # after an end of its own, Catch draws a new ball in its step, as it does in its reset
        done = replace(state, inner=state.inner.replace(prev_done=jnp.asarray(True)))
        stepped = env.transition(done, jnp.asarray(1), noise).next_state
        return state.inner.ball_x, stepped.inner.ball_x

    drawn, drawn_again = balls(env.draw(jax.random.key(7), (50,)))
    assert set(drawn.tolist()) == set(drawn_again.tolist()) == set(range(5))
    assert np.any(drawn != drawn_again)


@pytest.mark.slow
def test_it_can_go_out_again_as_a_gymnasium_vector():
    theirs, params = gymnax.make("CartPole-v1")
    env = FromGymnax(theirs, params.replace(max_steps_in_episode=4))
    envs = GymnasiumVectorEnv(env, 3, autoreset_mode="SameStep", render_mode="ansi")
    obs, _ = envs.reset(seed=2)
    assert obs in envs.observation_space
    for _ in range(4):
        obs, rewards, terminated, truncated, info = envs.step([0, 1, 0])
    assert truncated.all()
    assert not terminated.any()
    assert rewards.tolist() == [1.0, 1.0, 1.0]
    assert info["_final_obs"].all()
    assert "x_dot" in envs.render()[0]
    assert "theta" in envs.render()[0]


def test_what_is_no_gymnax_environment_is_refused():
    with pytest.raises(ValueError, match=r"first of the two values of gymnax.make\(id\)"):
        FromGymnax(gymnax.make("CartPole-v1"))
    with pytest.raises(ValueError, match="discount is 2"):
        FromGymnax(gymnax.make("CartPole-v1")[0], discount=2.0)


@pytest.mark.slow
@every_one_of_ours
def test_ours_step_the_same_in_the_style_of_gymnax(environment: Environment[Any]):
    env = ToGymnax(environment)
    assert env.name == type(environment).__name__
    assert env.default_params is environment
    keys = jax.random.split(jax.random.key(3), 8)
    obs, state = env.reset(keys[0])
    equal((state, obs), environment.reset(environment.draw(keys[0])))
    environment.action_space.seed(9)
    n_ends = 0
    for key in keys[1:]:
        action = jnp.asarray(environment.action_space.sample())
        step_key, reset_key = jax.random.split(key)
        expected = environment.step(step_key, state, action)
        obs, state, reward, terminated, truncated, info = env.step(key, state, action)
        equal(
            (reward, terminated, truncated, info["final_observation"], info["discount"]),
            (
                expected.reward,
                expected.terminated,
                expected.truncated,
                expected.next_obs,
                expected.discount,
            ),
        )
        equal(info["mean_reward"], expected.mean_reward)
        following = expected.next_state, expected.next_obs
        if terminated:
            n_ends += 1
            following = environment.reset(environment.draw(reset_key))
        equal((state, obs), following)
    assert n_ends > 0


@every_one_of_ours
def test_the_spaces_of_ours_survive_the_way_out_and_back(environment: Environment[Any]):
    env = ToGymnax(environment)
    back = gymnax.environments.spaces.gymnax_space_to_gym_space
    assert back(env.observation_space(env.default_params)) == environment.observation_space
    assert back(env.action_space(env.default_params)) == environment.action_space
    continuous = isinstance(environment, Consumption)
    assert env.num_actions == (2 if continuous else environment.action_space.n)


def test_the_parameters_of_ours_are_an_argument():
    env = ToGymnax(Portfolio())
    key = jax.random.key(2)
    _, state = env.reset(key)
    rates = jnp.array([1.01, 1.02, 1.5])
    params = jax.vmap(lambda rate: Portfolio(liquid_rate=rate))(rates)
    axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, params)
    _, _, rewards, *_ = jax.vmap(env.step, in_axes=(None, None, None, axes))(
        key, state, jnp.asarray(0), params
    )
    np.testing.assert_allclose(rewards, np.log(rates), rtol=1e-5)  # buying nothing earns the rate


def test_wrappers_of_gymnax_accept_ours():
    from gymnax.wrappers import LogWrapper

    env = LogWrapper(ToGymnax(Tree()))
    with jax.numpy_dtype_promotion("standard"):  # as gymnax needs it
        _, state = env.reset(jax.random.key(0))
        for _ in range(2):
            *_, terminated, _, info = made = env.step(jax.random.key(1), state, jnp.asarray(1))
            state = made[1]
    assert terminated
    assert float(info["returned_episode_returns"]) == 2.0
    assert int(info["returned_episode_lengths"]) == 2


def test_a_space_that_gymnax_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Tree, "action_space", spaces.MultiBinary(3))
    with pytest.raises(ValueError, match="gymnax has no space like MultiBinary"):
        ToGymnax(Tree()).action_space()


def test_gymnax_is_imported_on_use_only():
    code = "import downside.environments.gymnax, sys; assert 'gymnax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
