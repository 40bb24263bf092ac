"""The paper's four environments against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Bandit, Consumption, Noise, Portfolio, Tree
from downside.environments.episodes import rollout
from downside.exact.bandit import bandit_arm_lpms, bandit_arm_means
from downside.exact.consumption import evaluate_fixed
from downside.exact.tree import tree_lpm, tree_mean, tree_proxy, tree_variance

DOUBLE = pytest.mark.parametrize("double", [False, True])


def noise(uniform=(), normal=()):
    return Noise(uniform=jnp.asarray(uniform, float), normal=jnp.asarray(normal, float))


def start(env):
    return env.reset(env.draw(jax.random.key(0)))[0]


def walk(env, actions, noises):
    """The transitions of given actions under given noise."""
    state, steps = start(env), []
    for action, given in zip(actions, noises, strict=True):
        steps.append(env.transition(state, jnp.asarray(action), given))
        state = steps[-1].next_state
    return steps


def reward_and_shortfall(step):
    return step.reward, jnp.maximum(step.mean_reward - step.reward, 0.0)


def draw_order(probabilities, obs, key):
    return jnp.sum(jax.random.uniform(key) >= jnp.cumsum(probabilities)[:-1])


def follow_plan(plan, obs, key):
    return plan[obs[0].astype(int)]


def uniform_consumer(obs, key):
    return jax.random.uniform(key, (2,)) * jnp.asarray([1.0, 0.2])


def agrees(samples, exact, other_error=0.0):
    samples = np.asarray(samples, float)
    error = np.hypot(samples.std() / np.sqrt(len(samples)), other_error)
    assert abs(samples.mean() - exact) < 4 * error


# Tree


@pytest.mark.parametrize(
    ("first", "second", "nodes", "rewards"),
    [
        (0, 0, (1, 3), (-1.0, -1.0)),
        (0, 1, (1, 4), (-1.0, 1.0)),
        (1, 0, (2, 5), (1.0, -1.0)),
        (1, 1, (2, 6), (1.0, 1.0)),
    ],
)
def test_tree_paths(first, second, nodes, rewards):
    steps = walk(Tree(discount=0.9), [first, second], [noise(), noise()])

    assert tuple(int(step.next_obs) for step in steps) == nodes
    assert tuple(float(step.reward) for step in steps) == rewards
    assert tuple(float(step.mean_reward) for step in steps) == rewards
    assert [int(step.time) for step in steps] == [0, 1]
    assert [bool(step.terminated) for step in steps] == [False, True]
    assert [float(step.discount) for step in steps] == pytest.approx([0.9, 0.0])


def test_tree_has_its_closed_forms():
    right, up, discount = 0.7, 0.35, 0.8

    def act(obs, key):
        chance = jnp.where(obs == 0, right, up)
        return (jax.random.uniform(key) < chance).astype(int)

    def measure(step):
        return step.reward, jnp.maximum(-step.reward, 0.0)

    sums = rollout(Tree(discount), act, jax.random.key(3), 40_000, measure=measure)
    returns, proxies = (np.asarray(x, float) for x in sums.discounted)
    mean = tree_mean(right, up, discount)

    agrees(returns, mean)
    agrees((returns - mean) ** 2, tree_variance(right, up, discount))
    agrees(np.maximum(-returns, 0.0), tree_lpm(right, up, discount))
    agrees(proxies, tree_proxy(right, up, discount))


# Bandit


def test_bandit_pulls_by_hand():
    # arms at Z = -0.5 and U = 0.875: 2 - 0.5 * 3, 5 - 0.5 * 4, and 1.5 * 0.125^(-1/3) = 3
    env = Bandit(mean_a=2.0, std_a=3.0, mean_b=5.0, std_b=4.0, pareto_scale=1.5, pareto_shape=3.0)
    pulls = [walk(env, [arm], [noise([0.875], [-0.5])])[0] for arm in range(3)]

    assert [float(pull.reward) for pull in pulls] == pytest.approx([0.5, 3.0, 3.0])
    assert [float(pull.mean_reward) for pull in pulls] == pytest.approx([2.0, 5.0, 2.25])
    assert all(bool(pull.terminated) and float(pull.discount) == 0.0 for pull in pulls)


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_bandit_arms_have_their_moments(arm):
    env = Bandit(mean_a=0.5, std_a=1.5, mean_b=3.0, std_b=2.0, pareto_scale=0.7, pareto_shape=3.5)
    act = Partial(draw_order, jnp.asarray(np.eye(3)[arm]))
    rewards = np.asarray(rollout(env, act, jax.random.key(8), 200_000).total, float)
    mean = bandit_arm_means(env)[arm]
    below = np.maximum(mean - rewards, 0.0)

    agrees(rewards, mean)
    agrees(below, bandit_arm_lpms(env)[arm])
    agrees(below**2, bandit_arm_lpms(env, order=2)[arm])


def test_the_pareto_arm_is_finite_at_the_ends_of_its_noise():
    ends = [0.0, np.nextafter(np.float32(1.0), np.float32(0.0))]
    rewards = [float(walk(Bandit(), [2], [noise([u], [0.0])])[0].reward) for u in ends]

    assert rewards[0] == pytest.approx(1.0)  # the scale: nothing lies below it
    assert np.isfinite(rewards[1])


# Portfolio


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
def test_portfolio_by_hand(accrual, entry, pending, payoff, defaults, double):
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


def test_liquid_wealth_keeps_its_floor():
    env = Portfolio(default_probability=0.9)

    def measure(step):
        return jnp.where(step.next_obs[0] < 0.0201 * (1 - 1e-5), 1.0, 0.0)

    sums = rollout(env, lambda obs, key: jnp.asarray(10), jax.random.key(4), 2_000, measure=measure)
    assert np.asarray(sums.total).max() == 0.0
    assert bool(np.all(np.asarray(sums.ended)))


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
    act = Partial(draw_order, jnp.asarray(chosen / chosen.sum()))
    sums = rollout(Portfolio(), act, jax.random.key(31), 50_000, measure=reward_and_shortfall)

    agrees(sums.total[0], *mean)
    agrees(sums.discounted[0], *discounted)
    agrees(sums.discounted[1], *proxy)


def test_rates_switch_with_their_probabilities():
    # high with 0.3 / (0.3 + 0.2) = 0.6 in the long run; after one step with 0.3
    env = Portfolio(up_probability=0.3, down_probability=0.2, horizon=200)

    def is_high(step):
        high = step.next_state.rate_is_high.astype(float)
        return jnp.where(step.time == 0, high, 0.0), jnp.where(step.time == 199, high, 0.0)

    sums = rollout(env, lambda obs, key: jnp.asarray(0), jax.random.key(6), 20_000, measure=is_high)
    agrees(sums.total[0], 0.3)
    agrees(sums.total[1], 0.6)


# Consumption


@DOUBLE
def test_consumption_by_hand(double):
    # W = 2, share 0.25, fraction 0.3: consumed 0.6, rest 1.4; dt = 0.04, sqrt(dt) = 0.2
    # growth = 1 + 0.1 * 0.04 + 0.25 ((0.9 - 0.1) 0.04 + 0.5 * 0.2 * 1.5) = 1.0495; W' = 1.4693
    # default: 0.6 + 0.75 * 1.4 = 1.65;  mean reward 0.6 + 0.2 * 1.05 = 0.81
    with jax.enable_x64(double):
        env = Consumption(
            liquid_drift=0.1,
            drift=0.9,
            volatility=0.5,
            default_probability=0.2,
            time_step=0.04,
            initial_wealth=2.0,
            discount=0.95,
            horizon=5,
        )
        kept = walk(env, [[0.25, 0.3]], [noise([0.21], [1.5])])[0]
        lost = walk(env, [[0.25, 0.3]], [noise([0.19], [1.5])])[0]

        assert kept.reward.dtype == jnp.asarray(1.0).dtype
        assert kept.obs == pytest.approx([0.0, 2.0])
        assert float(kept.reward) == pytest.approx(0.6)
        assert kept.next_obs == pytest.approx([1.0, 1.4693])
        assert not kept.terminated
        assert float(kept.discount) == pytest.approx(0.95)
        assert float(lost.reward) == pytest.approx(1.65)
        assert float(lost.next_obs[1]) == 0.0
        assert lost.terminated
        assert float(lost.discount) == 0.0
        assert float(kept.mean_reward) == pytest.approx(0.81)
        assert float(lost.mean_reward) == pytest.approx(0.81)


def test_actions_are_clipped():
    env = Consumption(default_probability=0.0)
    draw = [noise([0.5], [0.7])]
    bold, high = walk(env, [[1.8, 0.1]], draw)[0], walk(env, [[1.0, 0.1]], draw)[0]
    shy, low = walk(env, [[-0.4, 1.3]], draw)[0], walk(env, [[0.0, 1.0]], draw)[0]

    assert bold.next_obs == pytest.approx(high.next_obs)
    assert float(bold.action[0]) == pytest.approx(1.8)  # what the policy drew stays as it is
    assert float(shy.reward) == float(low.reward) == 1.0


def test_the_horizon_and_ruin_end_the_episode():
    env = Consumption(horizon=2, default_probability=0.0, ruin_wealth=0.05)
    calm = noise([0.5], [0.0])
    one, two = walk(env, [[0.0, 0.1]] * 2, [calm, calm])
    ruined = walk(env, [[0.0, 0.96]], [calm])[0]

    assert not one.terminated
    assert two.terminated
    assert ruined.terminated
    assert float(ruined.next_obs[1]) == pytest.approx(0.04 * 1.00025)


EVEN = 1.0 / (200 - np.arange(200))


def reward_and_gap_to_the_rate(step):
    target = Consumption().step_target(step)
    return step.reward, jnp.maximum(target - step.reward, 0.0)


@pytest.mark.parametrize(
    ("fractions", "share", "lpm"),
    [  # the lower partial moment about the initial wealth and its error, from 1e6 episodes
        (EVEN, 1.0, (0.10833, 26e-5)),
        (np.full(200, 0.01), 0.0, (0.08821, 5e-5)),
        (np.full(200, 0.01), 1.0, (0.08814, 22e-5)),
        (np.where(np.arange(200) < 199, 0.0, 1.0), 1.0, (0.25787, 44e-5)),
        (np.where(np.arange(200) < 10, 0.0, EVEN), 1.0, (0.11388, 27e-5)),
    ],
)
def test_consumption_has_its_closed_forms(fractions, share, lpm):
    env = Consumption(ruin_wealth=0.0)
    plan = jnp.asarray(np.stack([np.full(200, share), fractions], axis=1))
    act = Partial(follow_plan, plan)
    sums = rollout(env, act, jax.random.key(12), 20_000, measure=reward_and_gap_to_the_rate)
    returns, risks = (np.asarray(x, float) for x in sums.discounted)
    exact = evaluate_fixed(env, fractions, share)

    agrees(returns, exact.mean)
    agrees((returns - exact.mean) ** 2, exact.std**2)
    agrees(risks, exact.risk, other_error=1e-6)  # where there is no risk, rounding is left
    agrees(np.maximum(1.0 - returns, 0.0), *lpm)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        # step 0 of 4 with W = 3 and dt = 0.1; step 1 with W = 2.4 (0.6 consumed, nothing grows)
        ("fixed-rate", [3 / 4, 2.4 / 3]),
        ("printed-steps", [3 * 0.1 * 4, 2.4 * 0.1 * 3]),
        ("printed-time", [3 * 0.1, 2.4 * 0.1 * 0.9]),
        # an even share of 3; the default of step 1 is charged for steps 1, 2 and 3
        ("capital", [3 / 4, 3 * 3 / 4]),
    ],
)
def test_step_targets_by_hand(target, expected):
    env = Consumption(
        liquid_drift=0.0,
        default_probability=0.3,
        time_step=0.1,
        initial_wealth=3.0,
        horizon=4,
        target=target,
    )
    steps = walk(env, [[0.0, 0.2]] * 2, [noise([0.9], [0.0]), noise([0.1], [0.0])])

    assert [float(env.step_target(step)) for step in steps] == pytest.approx(expected)


def capital_sums():
    """Episodes that end by default, by ruin and at the horizon; targets, rewards, shortfalls."""
    env = Consumption(
        target="capital",
        initial_wealth=2.5,
        horizon=40,
        default_probability=0.01,
        ruin_wealth=0.04,
    )

    def measure(step):
        target = env.step_target(step)
        wealth = step.next_state.wealth
        ruined = step.terminated & (wealth > 0.0) & (wealth < 0.04)
        gap = jnp.maximum(target - step.reward, 0.0)
        return target, step.reward, gap, ruined.astype(float)

    return rollout(env, uniform_consumer, jax.random.key(9), 5_000, measure=measure)


def test_the_capital_target_on_every_path():
    """It sums to the initial wealth, so its proxy bounds the loss of capital, path by path."""
    sums = capital_sums()
    targets, returns, proxies, ruined = (np.asarray(x) for x in sums.total)
    early = np.asarray(sums.length) < 40
    loss = np.maximum(2.5 - returns, 0.0)

    assert (~early).any()
    assert ((ruined == 1.0) & early).any()
    assert ((ruined == 0.0) & early).any()
    assert targets == pytest.approx(np.full(5_000, 2.5), rel=1e-5)
    assert loss.max() > 0.1
    assert np.all(loss <= proxies + 1e-5)


@pytest.mark.parametrize(
    ("target", "total"),
    [
        ("fixed-rate", 1.0),
        ("capital", 1.0),
        # W falls evenly, so sum dt (T - t)^2 / T = dt (T + 1)(2 T + 1) / 6 with T = 10, dt = 0.1;
        # as time 1 it is dt times that. With T = 200 they come to 67.17 and 0.3358.
        ("printed-steps", 0.1 * 11 * 21 / 6),
        ("printed-time", 0.1**2 * 11 * 21 / 6),
    ],
)
def test_what_the_targets_of_an_even_consumer_sum_to(target, total):
    env = Consumption(
        liquid_drift=0.0, time_step=0.1, horizon=10, initial_wealth=2.5, target=target
    )
    evenly = [[0.0, 1.0 / (10 - t)] for t in range(10)]
    steps = walk(env, evenly, [noise([0.5], [0.3])] * 10)

    assert sum(float(env.step_target(s)) for s in steps) == pytest.approx(2.5 * total, rel=1e-5)


def test_an_even_consumer_meets_the_fixed_rate_target_whatever_the_prices():
    env = Consumption(horizon=10, volatility=0.5)
    evenly = [[0.9, 1.0 / (10 - t)] for t in range(10)]
    steps = walk(env, evenly, [noise([0.5], [z]) for z in np.linspace(-2.0, 1.0, 10)])

    targets = [float(env.step_target(step)) for step in steps]
    assert targets == pytest.approx([float(step.reward) for step in steps], rel=1e-5)
    assert sum(targets) != pytest.approx(1.0, rel=1e-3)  # the target follows the wealth


# All of them


def bandit_and_draws():
    return Bandit(mean_b=2.5, pareto_shape=3.2), start(Bandit()), jnp.asarray(2)


def portfolio_and_draws():
    env = Portfolio(default_probability=0.3)
    steps = walk(env, [4, 1, 0, 6], [noise([0.5, 0.05])] * 4)  # the first order matures next
    return env, steps[-1].next_state, jnp.asarray(3)


def consumption_and_draws():
    env = Consumption(default_probability=0.3)
    return env, walk(env, [[0.3, 0.2]], [noise([0.9], [0.4])])[0].next_state, jnp.array([0.6, 0.1])


@pytest.mark.parametrize("make", [bandit_and_draws, portfolio_and_draws, consumption_and_draws])
def test_mean_reward_is_the_average_of_the_rewards(make):
    env, state, action = make()
    draws = env.draw(jax.random.key(17), (100_000,))
    reward = jax.jit(jax.vmap(lambda draw: env.transition(state, action, draw).reward))
    rewards = reward(draws)

    agrees(rewards, float(env.mean_reward(state, action)))


@pytest.mark.parametrize("make", [portfolio_and_draws, consumption_and_draws])
@pytest.mark.parametrize("other", [0.05, 0.95])
def test_mean_reward_is_the_sum_over_both_outcomes(make, other):
    """The default is the only chance that the reward depends on, with probability 0.3."""
    env, state, action = make()

    def reward(default):
        return float(env.transition(state, action, noise([default, other], [other])).reward)

    mean = 0.3 * reward(0.1) + 0.7 * reward(0.8)

    assert reward(0.1) != reward(0.8)
    assert float(env.mean_reward(state, action)) == pytest.approx(mean, rel=1e-5)


def test_the_portfolio_signal_has_its_mean():
    # (r - R)+ is p (1 - p) log(1 + payoff / cash) on average: only a default falls short, by 1 - p
    env, state, action = portfolio_and_draws()
    step = [env.transition(state, action, noise([u, 0.5])) for u in (0.1, 0.8)]
    signals = [max(float(s.mean_reward - s.reward), 0.0) for s in step]
    ratio = float(step[1].next_obs[0] / step[0].next_obs[0])

    assert ratio > 1.1
    assert 0.3 * signals[0] + 0.7 * signals[1] == pytest.approx(0.21 * np.log(ratio), rel=1e-4)


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [
        (Tree, "discount", [0.2, 0.7]),
        (Bandit, "pareto_shape", [1.5, 3.0]),
        (Portfolio, "liquid_rate", [1.01, 1.2]),
        (Consumption, "initial_wealth", [0.5, 2.0]),
    ],
)
def test_parameters_can_be_vmapped(make, name, values):
    def first_step(value):
        env = make(**{name: value})
        key = jax.random.key(3)
        action = jnp.array([0.5, 0.2]) if make is Consumption else jnp.asarray(1)
        if make is Bandit:
            action = jnp.asarray(2)
        step = env.transition(env.reset(env.draw(key))[0], action, env.draw(key))
        return step.reward, step.discount, step.mean_reward

    together = jax.vmap(first_step)(jnp.asarray(values))
    one_by_one = [first_step(value) for value in values]

    assert any(float(got[0]) != float(got[1]) for got in together)
    for got, *expected in zip(together, *one_by_one, strict=True):
        assert got == pytest.approx([float(x) for x in expected], rel=1e-5)


@DOUBLE
@pytest.mark.parametrize("make", [Tree, Bandit, Portfolio, Consumption])
def test_every_number_has_the_precision_in_use(make, double):
    with jax.enable_x64(double):
        env = make()
        action = jnp.array([0.5, 0.2]) if make is Consumption else jnp.asarray(1)
        step = env.step(jax.random.key(1), start(env), action)
        wanted = jnp.float64 if double else jnp.float32
        kinds = {x.dtype for x in jax.tree.leaves(step) if jnp.issubdtype(x.dtype, jnp.floating)}

    assert kinds == {jnp.dtype(wanted)}


REFUSED = [
    (Tree, "discount", 1.2, r"discount is 1\.2; .*\[0, 1\]"),
    (Bandit, "std_a", 0.0, r"std_a is 0\.0; .*above 0"),
    (Bandit, "std_b", -1.0, r"std_b is -1\.0; .*above 0"),
    (Bandit, "mean_a", np.inf, r"mean_a is inf; .*finite"),
    (Bandit, "mean_b", np.nan, r"mean_b is nan; .*finite"),
    (Bandit, "pareto_scale", 0.0, r"pareto_scale is 0\.0; .*above 0"),
    (Bandit, "pareto_shape", 1.0, r"pareto_shape is 1\.0; .*above 1"),
    (Portfolio, "default_probability", 1.5, r"default_probability is 1\.5; .*\[0, 1\]"),
    (Portfolio, "up_probability", -0.1, r"up_probability is -0\.1; .*\[0, 1\]"),
    (Portfolio, "down_probability", np.nan, r"down_probability is nan; .*\[0, 1\]"),
    (Portfolio, "liquid_rate", 0.0, r"liquid_rate is 0\.0; .*above 0"),
    (Portfolio, "high_rate", np.inf, r"high_rate is inf; .*finite"),
    (Portfolio, "unit_cost", 1.1, r"unit_cost is 1\.1; .*at most 1"),
    (Consumption, "default_probability", -0.2, r"default_probability is -0\.2; .*\[0, 1\]"),
    (Consumption, "time_step", 0.0, r"time_step is 0\.0; .*above 0"),
    (Consumption, "initial_wealth", -1.0, r"initial_wealth is -1\.0; .*above 0"),
    (Consumption, "volatility", -0.1, r"volatility is -0\.1; .*not below 0"),
    (Consumption, "ruin_wealth", -0.1, r"ruin_wealth is -0\.1; .*not below 0"),
    (Consumption, "drift", np.inf, r"drift is inf; .*finite"),
    (Consumption, "liquid_drift", np.nan, r"liquid_drift is nan; .*finite"),
]


@pytest.mark.parametrize(("make", "name", "value", "advice"), REFUSED)
def test_bad_parameters_are_refused(make, name, value, advice):
    with pytest.raises(ValueError, match=advice):
        make(**{name: value})


@pytest.mark.parametrize(
    ("env", "name", "advice"),
    [
        (Portfolio(), "accrual", r"accrual is 'yearly'; choose one of 'compound', 'purchase'"),
        (Consumption(), "target", r"target is 'yearly'; choose one of 'fixed-rate'"),
    ],
)
def test_unknown_names_are_refused(env, name, advice):
    object.__setattr__(env, name, "yearly")  # past the type checks that are on in tests only
    with pytest.raises(ValueError, match=advice):
        env.__post_init__()


@pytest.mark.parametrize(
    ("make", "name", "value", "advice"),
    REFUSED,
)
def test_bad_parameters_are_refused_as_arrays_too(make, name, value, advice):
    with pytest.raises(ValueError, match=rf"{name} is .*; {advice.split('; ')[1]}"):
        make(**{name: jnp.asarray(value, jnp.float32)})


@pytest.mark.parametrize("make", [Portfolio, Consumption])
@pytest.mark.parametrize("name", ["horizon"])
def test_sizes_are_whole_and_positive(make, name):
    with pytest.raises(ValueError, match=r"horizon is 0; .*whole number, at least 1"):
        make(**{name: 0})


def test_good_parameters_may_be_float32_arrays():
    env = Consumption(drift=jnp.asarray(0.9), liquid_drift=jnp.asarray(0.1))

    assert float(env.drift) == pytest.approx(0.9)
