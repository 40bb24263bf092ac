"""What every environment promises. A new environment is one line in ENVIRONMENTS."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from downside.environments import Bandit, Consumption, Portfolio, Tree
from random_mdps import random_mdp

ENVIRONMENTS = {
    "tree": Tree(discount=0.9),
    "bandit": Bandit(std_b=3.0),
    "portfolio": Portfolio(default_probability=0.3, horizon=7),
    "portfolio, purchase": Portfolio(accrual="purchase", maturity=2, horizon=7),
    "portfolio, maturity": Portfolio(accrual="maturity", max_order=4, horizon=7),
    "consumption": Consumption(default_probability=0.05, horizon=9),
    "consumption, capital": Consumption(target="capital", horizon=9, initial_wealth=2.0),
    "tabular": random_mdp(np.random.default_rng(2), horizon=6, discount=0.8, reward_std=0.5),
}
FEW_EPS = 16 * float(jnp.finfo(jnp.float32).eps)


@pytest.fixture(params=ENVIRONMENTS, name="env")
def every_environment(request):
    return ENVIRONMENTS[request.param]


def random_action(env, seed):
    space = env.action_space
    space.seed(seed)
    return jnp.asarray(space.sample(), int if isinstance(space, spaces.Discrete) else float)


@jax.jit
def make_transition(env, state, action, noise):
    return env.transition(state, action, noise)


def walk(env, seed):
    """Eight random steps in a row, through ends and all."""
    state, _ = env.reset(env.draw(jax.random.key(seed)))
    noises = env.draw(jax.random.key(seed + 1), (8,))
    steps = []
    for t in range(8):
        noise = jax.tree.map(lambda x, t=t: x[t], noises)
        steps.append(make_transition(env, state, random_action(env, 8 * seed + t), noise))
        state = steps[-1].next_state
    return steps


def test_observations_lie_in_the_space(env):
    for step in walk(env, 1):
        for obs in (step.obs, step.next_obs):
            value = np.asarray(obs)
            assert env.observation_space.contains(
                int(value) if value.ndim == 0 else value.astype(np.float32)
            )
        if step.terminated:
            break


def test_each_step_continues_the_one_before(env):
    steps = walk(env, 2)
    for time, (step, following) in enumerate(itertools.pairwise(steps)):
        assert int(step.time) == time
        assert np.array_equal(step.next_obs, following.obs)


def test_the_discount_is_zero_exactly_at_a_termination(env):
    for step in walk(env, 3):
        expected = 0.0 if step.terminated else float(env.discount)
        assert float(step.discount) == pytest.approx(expected)
        assert not step.truncated


def test_the_horizon_terminates(env):
    steps = walk(env, 4)
    last = steps[min(env.horizon, len(steps)) - 1]
    if env.horizon <= len(steps):
        assert last.terminated


def test_a_transition_is_a_pure_function_of_state_action_and_noise(env):
    state, _ = env.reset(env.draw(jax.random.key(5)))
    action, noise = random_action(env, 6), env.draw(jax.random.key(7))
    once, again = (env.transition(state, action, noise) for _ in range(2))
    assert jax.tree.all(jax.tree.map(np.array_equal, once, again))


def test_states_keep_their_types_so_that_a_loop_can_carry_them(env):
    state, obs = env.reset(env.draw(jax.random.key(8)))
    step = env.step(jax.random.key(9), state, random_action(env, 10))
    for before, after in (
        (jax.tree.leaves(state), jax.tree.leaves(step.next_state)),
        ([obs], [step.next_obs]),
    ):
        kinds = [[(x.shape, x.dtype) for x in leaves] for leaves in (before, after)]
        assert kinds[0] == kinds[1]


def test_noise_can_be_drawn_in_bulk(env):
    one, many = env.draw(jax.random.key(1)), env.draw(jax.random.key(1), (4, 3))
    for single, bulk in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
        assert bulk.shape == (4, 3, *single.shape)


@pytest.mark.slow
def test_the_mean_reward_is_the_mean_of_the_rewards(env):
    # 20,000 draws after a few steps; 4 standard errors fail by chance once in 15,000 runs. The
    # variance of the Pareto arm is infinite, so the bandit is pulled at its normal arms only.
    steps = walk(env, 11)
    state = next((s.next_state for s in steps[2:3] if not s.terminated), None)
    if state is None:
        state, _ = env.reset(env.draw(jax.random.key(12)))
    action = jnp.asarray(1) if isinstance(env, Bandit) else random_action(env, 13)
    noise = env.draw(jax.random.key(14), (20_000,))

    rewards = jax.vmap(lambda n: env.transition(state, action, n).reward)(noise)

    rewards = np.asarray(rewards, float)
    error = rewards.std() / np.sqrt(rewards.size)
    exact = float(env.mean_reward(state, action))
    assert abs(rewards.mean() - exact) <= 4 * error + 1e-6
    first = env.transition(state, action, jax.tree.map(lambda x: x[0], noise))
    assert float(first.mean_reward) == pytest.approx(exact)


NUMBERS = [
    ("tree", "discount", (0.25, 0.75)),
    ("bandit", "mean_b", (-2.0, 3.5)),
    ("bandit", "pareto_shape", (1.5, 3.0)),
    ("portfolio", "default_probability", (0.04, 0.93)),
    ("portfolio", "liquid_rate", (1.01, 1.2)),
    ("portfolio, purchase", "low_rate", (1.02, 1.4)),
    ("portfolio, maturity", "unit_cost", (0.02, 0.09)),
    ("consumption", "liquid_drift", (0.1, 0.7)),
    ("consumption", "initial_wealth", (0.5, 2.0)),
    ("consumption, capital", "volatility", (0.2, 0.9)),
    (
        "tabular",
        "rewards",
        (ENVIRONMENTS["tabular"].rewards, 3.0 - ENVIRONMENTS["tabular"].rewards),
    ),
    ("tabular", "discount", (0.25, 0.75)),
]


@jax.jit
def numbers_of_a_walk(env, actions, noises):
    """Rewards, mean rewards, observations and discounts; six steps, so that orders mature."""

    def one_step(state, given):
        step = env.transition(state, *given)
        return step.next_state, (step.reward, step.mean_reward, step.next_obs, step.discount)

    state, _ = env.reset(jax.tree.map(lambda x: x[0], noises))
    return jax.lax.scan(one_step, state, (actions, noises))[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "values"), NUMBERS)
def test_it_can_be_vmapped_over_its_numbers(name, number, values):
    env = ENVIRONMENTS[name]
    actions = jnp.stack([random_action(env, seed) for seed in range(6)])
    noises = env.draw(jax.random.key(2), (6,))

    def walk_with(value):
        return numbers_of_a_walk(replace(env, **{number: value}), actions, noises)

    together = jax.vmap(walk_with)(jnp.asarray(values, jnp.float32))
    one_by_one = [walk_with(value) for value in values]

    rewards, _, _, discounts = together
    assert not np.allclose(*(discounts if number == "discount" else rewards))
    for got, *expected in zip(together, *one_by_one, strict=True):
        np.testing.assert_allclose(got, np.stack(expected), rtol=1e-5, atol=1e-6)


def test_every_environment_is_vmapped_over_something():
    assert {name for name, _, _ in NUMBERS} == set(ENVIRONMENTS)


def test_a_state_can_be_read(env):
    state, _ = env.reset(env.draw(jax.random.key(1)))
    assert len(env.render(state)) > 3


@pytest.mark.parametrize("double", [False, True])
def test_every_number_has_the_precision_in_use(env, double):
    with jax.enable_x64(double):
        state, obs = env.reset(env.draw(jax.random.key(1)))
        step = make_transition(env, state, random_action(env, 2), env.draw(jax.random.key(3)))
    numbers = [x.dtype for x in jax.tree.leaves((state, obs, step)) if x.dtype.kind == "f"]
    assert set(numbers) == {jnp.dtype(jnp.float64 if double else jnp.float32)}


@pytest.mark.slow
def test_single_and_double_precision_agree(env):
    # The same states, actions and noise, drawn in double precision and rounded. One step is a few
    # operations on numbers near 1, each of which rounds by half an eps.
    with jax.enable_x64(True):
        state, _ = env.reset(env.draw(jax.random.key(21)))
        noises = env.draw(jax.random.key(22), (6,))
        steps = []
        for t in range(6):
            given = state, random_action(env, t), jax.tree.map(lambda x, t=t: x[t], noises)
            steps.append((given, make_transition(env, *given)))
            state = steps[-1][1].next_state
        steps = jax.tree.map(np.asarray, steps)

    for given, double in steps:
        single = make_transition(env, *jax.tree.map(jnp.asarray, given))
        assert (single.reward.dtype, double.reward.dtype) == (jnp.float32, jnp.float64)
        for name in ("reward", "mean_reward", "next_obs", "discount", "terminated"):
            rounded, exact = getattr(single, name), getattr(double, name)
            np.testing.assert_allclose(rounded, exact, rtol=FEW_EPS, atol=FEW_EPS, err_msg=name)
