import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Consumption
from downside.environments.episodes import rollout
from downside.exact.consumption import evaluate_fixed
from simulation_checks import AS_ARRAY, DOUBLE, agrees, is_refused, noise, sample_rewards, walk


@DOUBLE
def test_one_step_by_hand(double):
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


def follow_plan(plan, obs, key):
    return plan[obs[0].astype(int)]


@pytest.mark.slow
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
def test_returns_have_their_closed_forms(fractions, share, lpm):
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


def uniform_consumer(obs, key):
    return jax.random.uniform(key, (2,)) * jnp.asarray([1.0, 0.2])


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


@pytest.mark.slow
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


def after_one_step():
    """An environment, a state with some wealth consumed, and an action."""
    env = Consumption(default_probability=0.3)
    step = walk(env, [[0.3, 0.2]], [noise([0.9], [0.4])])[0]
    return env, step.next_state, jnp.array([0.6, 0.1])


@pytest.mark.slow
def test_mean_reward_is_the_average_of_the_rewards():
    env, state, action = after_one_step()

    agrees(sample_rewards(env, state, action), float(env.mean_reward(state, action)))


@pytest.mark.parametrize("price", [0.05, 0.95])
def test_mean_reward_is_the_sum_over_both_outcomes(price):
    """The default is the only chance that the reward depends on, with probability 0.3."""
    env, state, action = after_one_step()
    lost, kept = (
        float(env.transition(state, action, noise([u], [price])).reward) for u in (0.1, 0.8)
    )

    assert lost != kept
    assert float(env.mean_reward(state, action)) == pytest.approx(0.3 * lost + 0.7 * kept, rel=1e-5)


@AS_ARRAY
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("default_probability", -0.2, r"default_probability is -0\.2; .*\[0, 1\]"),
        ("time_step", 0.0, r"time_step is 0\.0; .*above 0"),
        ("initial_wealth", -1.0, r"initial_wealth is -1\.0; .*above 0"),
        ("volatility", -0.1, r"volatility is -0\.1; .*not below 0"),
        ("ruin_wealth", -0.1, r"ruin_wealth is -0\.1; .*not below 0"),
        ("drift", np.inf, r"drift is inf; .*finite"),
        ("liquid_drift", np.nan, r"liquid_drift is nan; .*finite"),
    ],
)
def test_bad_parameters_are_refused(name, value, advice, as_array):
    is_refused(Consumption, name, value, advice, as_array)


def test_an_unknown_target_is_refused():
    env = Consumption()
    object.__setattr__(env, "target", "yearly")  # past the type checks that are on in tests only
    with pytest.raises(ValueError, match=r"target is 'yearly'; choose one of 'fixed-rate'"):
        env.__post_init__()


def test_the_horizon_is_whole_and_positive():
    with pytest.raises(ValueError, match=r"horizon is 0; .*whole number, at least 1"):
        Consumption(horizon=0)


def test_good_parameters_may_be_float32_arrays():
    env = Consumption(drift=jnp.asarray(0.9), liquid_drift=jnp.asarray(0.1))

    assert float(env.drift) == pytest.approx(0.9)
