import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Consumption, Portfolio, Tabular
from downside.environments.episodes import reward_of, rollout, rollout_paths
from downside.exact import return_distribution, start_value
from random_mdps import random_mdp, random_policy


def choose(policy, obs, key):
    return jax.random.choice(key, policy.shape[1], p=policy[obs])


@pytest.mark.slow
def test_returns_of_a_random_mdp_match_the_exact_answers():
    # 20,000 episodes, each number within 4 standard errors: fails by chance once in 5,000 runs.
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, horizon=6, discount=0.9, reward_std=0.4)
    policy = random_policy(rng, mdp)
    act = Partial(choose, jnp.asarray(policy, jnp.float32))

    sums = rollout(mdp, act, jax.random.key(2), 20_000)

    returns = np.asarray(sums.discounted, float)
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - start_value(mdp, policy)) < 4 * error
    short = np.maximum(0.9 - returns, 0.0)
    exact = return_distribution(mdp, policy).lower_partial_moment(0.9)
    assert abs(short.mean() - exact) < 4 * short.std() / np.sqrt(len(short))
    assert np.all(sums.ended)


@pytest.mark.slow
def test_episodes_that_are_stopped_in_blocks_are_whole_paths():
    # About one step in eight ends an episode: most end within the first block of ten, some never.
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, horizon=None, discount=0.9, end_share=0.12)
    act = Partial(choose, jnp.asarray(random_policy(rng, mdp), jnp.float32))
    given = mdp, act, jax.random.key(3), 200
    totals, rewards, ended = rollout_paths(*given, measure=reward_of, max_steps=40)
    np.testing.assert_allclose(totals, rewards.sum(axis=1), rtol=1e-5, atol=1e-5)
    lengths = np.sum(rewards != 0.0, axis=1)

    for n_steps in (1, 7, 10, 23, 40):
        sums = rollout(*given, max_steps=n_steps)

        # Step by step the noise is the same, however many steps are allowed.
        first = rewards[:, :n_steps]
        np.testing.assert_allclose(sums.total, first.sum(axis=1), rtol=1e-5, atol=1e-5)
        weights = 0.9 ** np.arange(n_steps)
        np.testing.assert_allclose(sums.discounted, first @ weights, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(sums.length, np.minimum(lengths, n_steps))
        np.testing.assert_array_equal(sums.ended, ended & (lengths <= n_steps))
        assert 0 < np.sum(sums.ended) < 200


@pytest.mark.slow
def test_two_policies_meet_the_same_noise():
    # With no default and orders of 2 and 3 the rates are all that is random: higher orders win
    # on every single path.
    env = Portfolio(default_probability=0.0)

    def order(n, obs, key):
        return n

    few = rollout(env, Partial(order, jnp.asarray(2)), jax.random.key(8), 500)
    more = rollout(env, Partial(order, jnp.asarray(3)), jax.random.key(8), 500)
    assert np.all(more.total > few.total)


def test_nothing_counts_after_the_end():
    # A default at the first step ends the episode: reward 0.25 + the liquid half of 0.75.
    env = Consumption(default_probability=1.0)
    half_risky = lambda obs, key: jnp.asarray([0.5, 0.25])  # noqa: E731
    sums = rollout(env, half_risky, jax.random.key(1), 3)
    assert np.allclose(sums.total, 0.625)
    assert sums.length.tolist() == [1, 1, 1]


def test_discounting_and_several_measures():
    env = Tabular([[[1.0]]], [[[2.0]]], horizon=3, discount=0.5)
    stay = lambda obs, key: jnp.asarray(0)  # noqa: E731
    measure = lambda step: {"twice": 2.0 * step.reward, "time": step.time.astype(float)}  # noqa: E731
    sums = rollout(env, stay, jax.random.key(0), 2, measure=measure)
    assert sums.discounted["twice"].tolist() == [7.0, 7.0]  # 4 (1 + 0.5 + 0.25)
    assert sums.total["time"].tolist() == [3.0, 3.0]


def test_an_endless_environment_needs_a_limit():
    env = Tabular([[[1.0]]], [[[2.0]]], discount=0.5)
    stay = lambda obs, key: jnp.asarray(0)  # noqa: E731
    with pytest.raises(ValueError, match="max_steps=1000"):
        rollout(env, stay, jax.random.key(0), 2)
    cut = rollout(env, stay, jax.random.key(0), 2, max_steps=4)
    assert cut.total.tolist() == [8.0, 8.0]
    assert not np.any(cut.ended)
