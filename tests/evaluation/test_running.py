import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Consumption, Portfolio
from downside.evaluation import Interval, evaluate_risk
from downside.exact import path_shortfall, return_distribution, risk_cumulants, start_value
from downside.exact.consumption import evaluate_fixed
from downside.signals import Centralised, Fixed, TDError
from random_mdps import random_mdp, random_policy


def choose(policy, obs, key):
    return jax.random.choice(key, policy.shape[1], p=policy[obs])


@pytest.mark.slow
@pytest.mark.parametrize("target", [Fixed(1.3), Centralised()], ids=["fixed", "centralised"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_three_numbers_are_the_exact_ones(target, order):
    # 20,000 episodes; 4 standard errors are 2.04 half-widths of the interval. Four numbers in four
    # cases: fails by chance once in 1,000 runs.
    rng = np.random.default_rng(6)
    mdp = random_mdp(rng, horizon=4, discount=0.9, reward_std=0.3)
    policy = random_policy(rng, mdp)
    act = Partial(choose, jnp.asarray(policy, jnp.float32))

    numbers = evaluate_risk(mdp, act, target, order, key=jax.random.key(4), n_episodes=20_000)

    returns = return_distribution(mdp, policy)
    about = 1.3 if isinstance(target, Fixed) else returns.mean()
    for measured, exact in (
        (numbers.mean, returns.mean()),
        (numbers.proxy, start_value(mdp, policy, risk_cumulants(mdp, policy, target, order))),
        (numbers.path_shortfall, path_shortfall(mdp, policy, target, order)),
        (numbers.lpm, returns.lower_partial_moment(about, order)),
    ):
        assert abs(measured.value - exact) < 2.04 * (measured.high - measured.value)


@pytest.mark.slow
def test_a_function_of_the_transition_is_a_target():
    env = Consumption()
    policy = lambda obs, key: jnp.asarray([1.0, 0.01])  # noqa: E731
    numbers = evaluate_risk(env, policy, env.step_target, key=jax.random.key(1), n_episodes=4000)
    exact = evaluate_fixed(env, 0.01, 1.0)
    assert abs(numbers.proxy.value - exact.risk) < 2.04 * (numbers.proxy.high - numbers.proxy.value)
    assert abs(numbers.mean.value - exact.mean) < 2.04 * (numbers.mean.high - numbers.mean.value)


@pytest.mark.slow
def test_it_prints_the_three_numbers_and_the_guarantee():
    numbers = evaluate_risk(
        Portfolio(),
        lambda obs, key: jnp.asarray(5),
        Centralised(),
        key=jax.random.key(2),
        n_episodes=200,
    )
    text = str(numbers)
    for words in (
        "proxy about the mean rewards",
        "path shortfall",
        "about the mean",
        "no bound on the",
    ):
        assert words in text


def test_a_td_error_needs_values():
    with pytest.raises(ValueError, match="needs the value function"):
        evaluate_risk(Portfolio(), lambda obs, key: 0, TDError(), key=jax.random.key(0))


def test_the_interval_of_a_mean_by_hand():
    # 1, 2, 3, 6: mean 3, deviation sqrt(14/3), standard error sqrt(14/12).
    interval = Interval.of_mean([1.0, 2.0, 3.0, 6.0])
    assert interval.value == 3.0
    assert interval.high - 3.0 == pytest.approx(3.182446 * np.sqrt(14 / 12))  # Student, 3 degrees
    assert interval.low + interval.high == pytest.approx(6.0)
