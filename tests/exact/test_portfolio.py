import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.tree_util import Partial

from downside.environments import Noise, Portfolio
from downside.environments.episodes import rollout
from downside.exact.portfolio import (
    concave_hull,
    hull_value,
    two_number_action,
    two_number_policies,
)

N_EPISODES = 10_000


@pytest.fixture(scope="module")
def policies():
    return two_number_policies(Portfolio(), jax.random.key(20), N_EPISODES)


def index(policies, low, high):
    return int(np.flatnonzero((policies.orders == [low, high]).all(axis=1))[0])


@pytest.mark.slow
def test_all_pairs_of_orders_are_there(policies):
    pairs = {tuple(pair) for pair in policies.orders.tolist()}

    assert pairs == {(low, high) for low in range(11) for high in range(11)}
    assert policies.proxy.shape == (121,)


@pytest.mark.slow
def test_never_buying_is_known_exactly(policies):
    never = index(policies, 0, 0)

    assert policies.mean[never] == pytest.approx(50 * np.log(1.005), rel=1e-5)
    annuity = (1 - 0.99**50) / 0.01
    assert policies.discounted_mean[never] == pytest.approx(annuity * np.log(1.005), rel=1e-5)
    assert policies.std[never] == pytest.approx(0.0, abs=1e-9)
    assert policies.proxy[never] == pytest.approx(0.0, abs=1e-6)
    assert policies.minimum[never] == pytest.approx(policies.mean[never])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "mean", "discounted", "std", "lpm1", "lpm2", "proxy"),
    [  # value and standard error from 1e6 episodes
        (1, (0.40707, 8e-5), (0.30443, 6e-5), (0.07610, 6e-5), (0.03021, 2e-5), None, (0.08084, 0)),
        (
            5,
            (0.84658, 25e-5),
            (0.59095, 21e-5),
            (0.24730, 21e-5),
            (0.09710, 8e-5),
            (0.03342, 7e-5),
            (0.42224, 7e-5),
        ),
        (
            10,
            (1.18195, 39e-5),
            (0.76219, 37e-5),
            (0.39051, 63e-5),
            (0.14312, 13e-5),
            (0.09736, 43e-5),
            (1.38790, 52e-5),
        ),
    ],
)
def test_known_constant_orders(policies, order, mean, discounted, std, lpm1, lpm2, proxy):
    at = index(policies, order, order)
    wider = np.sqrt(1e6 / N_EPISODES)

    for values, errors, known in (
        (policies.mean, policies.mean_error, mean),
        (policies.discounted_mean, policies.discounted_mean_error, discounted),
        (policies.proxy, policies.proxy_error, proxy),
    ):
        assert abs(values[at] - known[0]) < 4 * np.hypot(errors[at], known[1])
    for values, known in ((policies.std, std), (policies.lpm1, lpm1), (policies.lpm2, lpm2)):
        if known is not None:
            assert abs(values[at] - known[0]) < 4 * np.hypot(known[1] * wider, known[1])


@pytest.mark.slow
def test_a_lower_proxy_can_come_with_a_higher_lpm(policies):
    bold, steady = index(policies, 0, 10), index(policies, 3, 3)

    gap = policies.mean[bold] - policies.mean[steady]
    assert abs(gap) < 4 * np.hypot(policies.mean_error[bold], policies.mean_error[steady])
    assert abs(policies.mean[steady] - 0.655) < 4 * policies.mean_error[steady]
    assert policies.proxy[bold] + 4 * policies.proxy_error[bold] < policies.proxy[steady]
    assert policies.lpm1[bold] > 1.5 * policies.lpm1[steady]


@pytest.mark.slow
def test_known_frontier(policies):
    known = [0.431, 0.536, 0.598, 0.646, 0.681, 0.706, 0.723, 0.735, 0.745, 0.750]
    thresholds = np.arange(1, 11) / 10
    hull = concave_hull(policies.proxy, policies.discounted_mean)
    found = hull_value(hull, thresholds)

    slopes = np.diff(hull.mean) / np.diff(hull.risk)
    segment = np.searchsorted(hull.risk, thresholds) - 1
    ends = hull.indices[np.stack([segment, segment + 1])]
    mean_error = policies.discounted_mean_error[ends].max(axis=0)
    error = mean_error + slopes[segment] * policies.proxy_error[ends].max(axis=0)
    assert np.all(np.abs(found - known) < 4 * error)
    assert policies.orders[hull.indices[0]].tolist() == [0, 0]


@pytest.mark.slow
def test_each_policy_is_the_rollout_with_the_same_key():
    env = Portfolio(default_probability=0.2, max_order=3, horizon=20, discount=0.9)
    key = jax.random.key(5)
    found = two_number_policies(env, key, n_episodes=300)
    at = index(found, 1, 3)

    def measure(step):
        return step.reward, jnp.maximum(step.mean_reward - step.reward, 0.0)

    act = Partial(two_number_action, jnp.asarray([1, 3]))
    sums = rollout(env, act, key, 300, measure=measure)
    returns = np.asarray(sums.total[0], float)
    discounted, proxies = (np.asarray(x, float) for x in sums.discounted)
    below = np.maximum(returns.mean() - returns, 0.0)

    assert found.orders.shape == (16, 2)
    assert found.mean[at] == pytest.approx(returns.mean(), rel=1e-5)
    assert found.mean_error[at] == pytest.approx(returns.std(ddof=1) / np.sqrt(300), rel=1e-4)
    assert found.discounted_mean[at] == pytest.approx(discounted.mean(), rel=1e-5)
    assert found.discounted_mean_error[at] == pytest.approx(
        discounted.std(ddof=1) / np.sqrt(300), rel=1e-4
    )
    assert found.std[at] == pytest.approx(returns.std(), rel=1e-4)
    assert found.lpm1[at] == pytest.approx(below.mean(), rel=1e-4)
    assert found.lpm2[at] == pytest.approx((below**2).mean(), rel=1e-4)
    assert found.proxy[at] == pytest.approx(proxies.mean(), rel=1e-4)
    assert found.proxy_error[at] == pytest.approx(proxies.std(ddof=1) / np.sqrt(300), rel=1e-4)
    assert found.minimum[at] == pytest.approx(returns.min(), rel=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_the_observation_tells_the_rate_exactly(double):
    """Also after many low rates in a row, where rounding leaves a deviation that is not 0."""
    env = Portfolio(up_probability=0.02, down_probability=0.3, horizon=400)
    uniform = np.random.default_rng(2).random((200, 400, 2))

    def step(state, draw):
        transition = env.transition(state, jnp.asarray(0), Noise(draw, draw[:0]))
        order = two_number_action(jnp.asarray([3, 8]), transition.next_obs, jax.random.key(0))
        high = transition.next_state.rate_is_high
        return transition.next_state, ((order == 8) != high, high)

    def episode(draws):
        start, _ = env.reset(Noise(draws[0], draws[0, :0]))
        return jax.lax.scan(step, start, draws)[1]

    with jax.enable_x64(double):
        mistaken, high = jax.jit(jax.vmap(episode))(jnp.asarray(uniform, float))

    assert np.asarray(high).any()
    assert not np.asarray(mistaken).any()


def test_rates_that_cannot_be_told_apart_are_refused():
    env = Portfolio(high_rate=1.03, low_rate=1.05)
    with pytest.raises(
        ValueError, match=r"high_rate is 1\.03 and low_rate 1\.05; .*above low_rate"
    ):
        two_number_policies(env, jax.random.key(0), 10)


def test_hull_by_hand():
    # from (1, 2) the lines to (4, 5), (3, 3) and (2, 2.4) rise by 1, 0.5 and 0.4 per unit of risk;
    # (6, 4.5) has more risk and less mean than (4, 5), (1, 1) less mean at the same risk
    hull = concave_hull(risk=[3.0, 1.0, 6.0, 4.0, 1.0, 2.0], mean=[3.0, 2.0, 4.5, 5.0, 1.0, 2.4])

    assert hull.indices.tolist() == [1, 3]
    assert hull_value(hull, [0.9, 1.0, 2.5, 4.0, 7.0]).tolist() == [-np.inf, 2.0, 3.5, 5.0, 5.0]


points = st.lists(
    st.tuples(st.floats(0.0, 10.0, width=16), st.floats(-5.0, 5.0, width=16)),
    min_size=1,
    max_size=12,
)


@given(points=points, threshold=st.floats(0.0, 10.0, width=16))
def test_hull_is_the_best_mixture_of_two(points, threshold):
    """The best mean of mixtures with a mean risk of at most the threshold, over all pairs."""
    risk, mean = np.array(points).T
    best = max((m for r, m in points if r <= threshold), default=-np.inf)
    for r, m in points:
        for s, n in points:
            if r <= threshold < s:
                best = max(best, m + (n - m) * (threshold - r) / (s - r))

    found = hull_value(concave_hull(risk, mean), threshold)

    assert float(found) == pytest.approx(best, abs=1e-9)
