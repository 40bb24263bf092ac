import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Portfolio, WithReturn
from downside.environments.episodes import rollout
from simulation_checks import (
    AS_ARRAY,
    DOUBLE,
    agrees,
    draw_action,
    is_refused,
    noise,
    sample_rewards,
    walk,
)

SMALL = {
    "liquid_rate": 1.02,
    "high_rate": 1.5,
    "low_rate": 1.1,
    "up_probability": 0.1,
    "down_probability": 0.6,
    "default_probability": 0.25,
    "unit_cost": 0.1,
    "discount": 0.9,
    "maturity": 2,
    "horizon": 3,
}


@DOUBLE
@pytest.mark.parametrize(
    ("accrual", "entry", "pending", "payoff"),
    [
        ("compound", 0.33, [0.495, 0.9], 0.7425),
        ("purchase", 0.33, [0.33, 0.9], 0.33),
        ("maturity", 0.30, [0.30, 0.6], 0.45),
    ],
)
@pytest.mark.parametrize("defaults", [False, True])
def test_three_steps_by_hand(accrual, entry, pending, payoff, defaults, double):
    # 1. low rate, order 3: 0.3 bought, cash 1.02 * 0.7 = 0.714; the rate switches up
    # 2. high rate, order 9 is cut to floor((0.714 - 0.1) / 0.1) = 6: cash 1.02 * 0.114 = 0.11628
    # 3. high rate, order 0: cash 1.02 * 0.11628, the 0.3 of step 1 pay or are lost; down it goes
    # The order grows at the rates of the steps: 0.3 * 1.1 (bought), * 1.5 (step 2), * 1.5 (step 3);
    # "purchase" pays 0.3 * 1.1 and "maturity" 0.3 * 1.5, once.
    with jax.enable_x64(double):
        env = Portfolio(**SMALL, accrual=accrual)
        default = 0.2 if defaults else 0.3
        draws = [noise([0.9, 0.05]), noise([0.1, 0.7]), noise([default, 0.5])]
        one, two, three = walk(env, [3, 9, 0], draws)
        cash = 1.02 * 0.11628
        paid, lost = np.log((cash + payoff) / 0.11628), np.log(cash / 0.11628)

        assert one.reward.dtype == jnp.asarray(1.0).dtype
        assert one.obs == pytest.approx([1.0, 0.0, 0.0, 0.0])
        assert one.next_obs == pytest.approx([0.714, 0.0, entry, 1.5 - 1.1], rel=1e-5)
        assert float(one.reward) == pytest.approx(np.log(0.714), rel=1e-5)
        assert two.next_obs == pytest.approx([0.11628, *pending, 1.5 - 1.3], rel=1e-5)
        assert float(two.reward) == pytest.approx(np.log(0.11628 / 0.714), rel=1e-5)
        assert float(three.reward) == pytest.approx(lost if defaults else paid, rel=1e-5)
        assert float(three.mean_reward) == pytest.approx(0.75 * paid + 0.25 * lost, rel=1e-5)
        assert float(three.next_obs[-1]) == pytest.approx(1.1 - 4.1 / 3, rel=1e-4)
        assert [bool(s.terminated) for s in (one, two, three)] == [False, False, True]
        assert float(two.discount) == pytest.approx(0.9)
        assert float(three.discount) == 0.0


def test_nothing_is_lost_where_nothing_matures():
    step = walk(Portfolio(), [7], [noise([0.0, 0.9])])[0]

    assert float(step.next_obs[0]) == pytest.approx(1.005 * 0.86)
    assert float(step.reward) == pytest.approx(float(step.mean_reward))


@DOUBLE
def test_one_unit_always_stays_liquid(double):
    # 1 is 50 units of 0.02, so 49 can be bought; 0.02 * 1.005 is left, which buys nothing
    with jax.enable_x64(double):
        env = Portfolio(max_order=60)
        first, second = walk(env, [60, 60], [noise([0.5, 0.5])] * 2)

    assert float(first.next_obs[0]) == pytest.approx(0.0201, rel=1e-5)
    assert float(second.next_obs[0]) == pytest.approx(0.0201 * 1.005, rel=1e-5)


@pytest.mark.slow
def test_liquid_wealth_keeps_its_floor():
    env = Portfolio(default_probability=0.9)

    def measure(step):
        return jnp.where(step.next_obs[0] < 0.0201 * (1 - 1e-5), 1.0, 0.0)

    sums = rollout(env, lambda obs, key: jnp.asarray(10), jax.random.key(4), 2_000, measure=measure)
    assert np.asarray(sums.total).max() == 0.0
    assert bool(np.all(np.asarray(sums.ended)))


def reward_and_shortfall(step):
    return step.reward, jnp.maximum(step.mean_reward - step.reward, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("orders", "mean", "discounted", "proxy"),
    [  # value and standard error from 1e6 episodes; the last draws its order uniformly
        (0, (50 * np.log(1.005), 1e-5), (0.19700, 1e-5), (0.0, 1e-6)),
        (1, (0.40707, 8e-5), (0.30443, 6e-5), (0.08084, 4e-5)),
        (5, (0.84658, 25e-5), (0.59095, 21e-5), (0.42224, 7e-5)),
        (10, (1.18195, 39e-5), (0.76219, 37e-5), (1.38790, 52e-5)),
        (slice(None), (0.83625, 29e-5), (0.57852, 25e-5), (0.45231, 13e-5)),
    ],
)
def test_simple_orders_have_their_known_means(orders, mean, discounted, proxy):
    chosen = np.zeros(11)
    chosen[orders] = 1.0
    act = Partial(draw_action, jnp.asarray(chosen / chosen.sum()))
    sums = rollout(Portfolio(), act, jax.random.key(31), 50_000, measure=reward_and_shortfall)

    agrees(sums.total[0], *mean)
    agrees(sums.discounted[0], *discounted)
    agrees(sums.discounted[1], *proxy)


@pytest.mark.slow
def test_rates_switch_with_their_probabilities():
    # high with 0.3 / (0.3 + 0.2) = 0.6 in the long run; after one step with 0.3
    env = Portfolio(up_probability=0.3, down_probability=0.2, horizon=200)

    def is_high(step):
        high = step.next_state.rate_is_high.astype(float)
        return jnp.where(step.time == 0, high, 0.0), jnp.where(step.time == 199, high, 0.0)

    sums = rollout(env, lambda obs, key: jnp.asarray(0), jax.random.key(6), 20_000, measure=is_high)
    agrees(sums.total[0], 0.3)
    agrees(sums.total[1], 0.6)


def with_a_maturing_order():
    """An environment, a state in which the first of four orders matures next, and an order."""
    env = Portfolio(default_probability=0.3)
    steps = walk(env, [4, 1, 0, 6], [noise([0.5, 0.05])] * 4)
    return env, steps[-1].next_state, jnp.asarray(3)


@pytest.mark.slow
def test_mean_reward_is_the_average_of_the_rewards():
    env, state, order = with_a_maturing_order()

    agrees(sample_rewards(env, state, order), float(env.mean_reward(state, order)))


@pytest.mark.parametrize("other", [0.05, 0.95])
def test_mean_reward_is_the_sum_over_both_outcomes(other):
    """The default is the only chance that the reward depends on, with probability 0.3."""
    env, state, order = with_a_maturing_order()
    lost, paid = (float(env.transition(state, order, noise([u, other])).reward) for u in (0.1, 0.8))

    assert lost != paid
    assert float(env.mean_reward(state, order)) == pytest.approx(0.3 * lost + 0.7 * paid, rel=1e-5)


def test_the_risk_signal_has_its_mean():
    # (r - R)+ is p (1 - p) log(1 + payoff / cash) on average: only a default falls short, by 1 - p
    env, state, order = with_a_maturing_order()
    step = [env.transition(state, order, noise([u, 0.5])) for u in (0.1, 0.8)]
    signals = [max(float(s.mean_reward - s.reward), 0.0) for s in step]
    ratio = float(step[1].next_obs[0] / step[0].next_obs[0])

    assert ratio > 1.1
    assert 0.3 * signals[0] + 0.7 * signals[1] == pytest.approx(0.21 * np.log(ratio), rel=1e-4)


@AS_ARRAY
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("default_probability", 1.5, r"default_probability is 1\.5; .*\[0, 1\]"),
        ("up_probability", -0.1, r"up_probability is -0\.1; .*\[0, 1\]"),
        ("down_probability", np.nan, r"down_probability is nan; .*\[0, 1\]"),
        ("liquid_rate", 0.0, r"liquid_rate is 0\.0; .*above 0"),
        ("high_rate", np.inf, r"high_rate is inf; .*finite"),
        ("unit_cost", 1.1, r"unit_cost is 1\.1; .*at most 1"),
    ],
)
def test_bad_parameters_are_refused(name, value, advice, as_array):
    is_refused(Portfolio, name, value, advice, as_array)


def test_an_unknown_accrual_is_refused():
    env = Portfolio()
    object.__setattr__(env, "accrual", "yearly")  # past the type checks that are on in tests only
    with pytest.raises(
        ValueError, match=r"accrual is 'yearly'; choose one of 'compound', 'purchase'"
    ):
        env.__post_init__()


def test_the_horizon_is_whole_and_positive():
    with pytest.raises(ValueError, match=r"horizon is 0; .*whole number, at least 1"):
        Portfolio(horizon=0)


def test_the_return_so_far_is_shown_where_the_parameters_are_traced():
    env = WithReturn(Portfolio(liquid_rate=1.02))
    noise = env.draw(jax.random.key(4))

    @jax.jit
    def first_step(env):
        state, _ = env.reset(noise)
        return env.transition(state, jnp.asarray(0), noise).next_obs

    np.testing.assert_allclose(first_step(env)[-2:], [np.log(1.02), 1 / 50], rtol=1e-5)
