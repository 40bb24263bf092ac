"""The best policies of consumption under a threshold."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from consumption_markets import EVEN, LINEAR_TARGETS, other_market
from downside.environments import Consumption
from downside.exact import InfeasibleError
from downside.exact.consumption import _best_plan, _market, _merge, evaluate_fixed, optimum


@pytest.mark.parametrize(
    ("threshold", "mean", "multiplier"),
    [
        (0.0, 1.443506, 0.446),
        (0.01, 1.447949, 0.443),
        (0.05, 1.465180, 0.421),
        (0.1, 1.485584, 0.396),
        (0.2, 1.523047, 0.354),
        (0.5, 1.614696, 0.263),
        (1.0, 1.722066, 0.175),
        (2.0, 1.847450, 0.089),
        (5.0, 1.973708, 0.016),
        (np.inf, 2.001299, 0.0),
    ],
)
def test_known_optima(threshold, mean, multiplier):
    best = optimum(Consumption(), threshold)

    assert best.mean == pytest.approx(mean, abs=1e-6)
    assert best.multiplier == pytest.approx(multiplier, abs=6e-4)


def test_the_classical_answer_without_default():
    best = optimum(Consumption(default_probability=0.0), np.inf)

    assert best.mean == pytest.approx(1.005**199, rel=1e-12)


@pytest.mark.parametrize(("threshold", "wait"), [(0.05, 10), (0.1, 19)])
def test_the_best_policy_is_fully_risky_and_waits(threshold, wait):
    best = optimum(Consumption(), threshold)

    assert np.all(best.fractions[: wait - 1] == 0.0)
    assert 0.0 < best.fractions[wait - 1] < EVEN[wait - 1]  # what makes the threshold bind
    assert best.fractions[wait:] == pytest.approx(EVEN[wait:])
    assert best.shares[:-1] == pytest.approx(np.ones(199))


def programme(env, threshold):
    """J_R*(nu) and its slope as one linear programme over the expected amounts of every step.

    Columns per step: consumed, risky, liquid, and the shortfalls without and with a default. The
    amounts are discounted expectations over the paths that are alive.
    """
    n, p = env.horizon, env.default_probability
    step = env.time_step
    time = np.arange(n)
    rates = {
        "fixed-rate": 1.0 / (n - time),
        "printed-steps": step * (n - time),
        "printed-time": step * (1.0 - step * time),
    }[env.target]
    gain, risk = np.zeros((n, 5)), np.zeros((n, 5))
    gain[:, 0], gain[:, 2] = 1.0, p
    risk[:, 3], risk[:, 4] = 1.0 - p, p
    flow, short = np.zeros((n, n, 5)), np.zeros((2 * n, n, 5))
    for t in range(n):
        flow[t, t, :3] = 1.0
        if t > 0:
            survival = (1.0 - p) * env.discount
            flow[t, t - 1, 1] = -survival * (1.0 + env.drift * step)
            flow[t, t - 1, 2] = -survival * (1.0 + env.liquid_drift * step)
        for row, counted, slack in ((2 * t, [0], 3), (2 * t + 1, [0, 2], 4)):
            short[row, t, :3] = rates[t]
            short[row, t, counted] -= 1.0
            short[row, t, slack] = -1.0
    start = np.zeros(n)
    start[0] = env.initial_wealth
    upper = np.vstack([short.reshape(2 * n, -1), risk.reshape(1, -1)])
    solved = linprog(
        -gain.ravel(),
        A_ub=upper,
        b_ub=np.append(np.zeros(2 * n), threshold),
        A_eq=flow.reshape(n, -1),
        b_eq=start,
        method="highs",
    )
    assert solved.status == 0
    return -solved.fun, -solved.ineqlin.marginals[-1]


@pytest.mark.parametrize("target", LINEAR_TARGETS)
@pytest.mark.parametrize("seed", range(20))
def test_a_linear_programme_finds_the_same_optimum(target, seed):
    """Markets in which either asset may be the better one, at thresholds that bind."""
    rng = np.random.default_rng(seed)
    env = other_market(
        target=target,
        drift=rng.uniform(0.0, 5.0),
        liquid_drift=rng.uniform(0.0, 4.0),
        default_probability=rng.uniform(0.0, 0.3),
        discount=rng.uniform(0.9, 1.0),
    )
    threshold = rng.uniform(0.05, 0.95) * max(optimum(env, np.inf).risk, 0.01)
    best = optimum(env, threshold)
    mean, multiplier = programme(env, threshold)

    assert best.mean == pytest.approx(mean, rel=1e-8)
    assert best.multiplier == pytest.approx(multiplier, rel=1e-6, abs=1e-9)
    assert best.risk <= threshold * (1 + 1e-9)


@settings(deadline=None, max_examples=50)
@given(weight=st.floats(0.0, 1.0), multiplier=st.floats(0.0, 1.0))
def test_merged_plans_keep_the_mean_and_do_not_raise_the_risk(weight, multiplier):
    env = other_market(drift=3.0, default_probability=0.05)
    market = _market(env)
    plans = [_best_plan(market, 1.0, multiplier), _best_plan(market, 0.0, 1.0)]
    merged = _merge(market, *plans, weight)
    consumed, risky, liquid = merged.amounts.T
    shares = np.where(consumed < 1.0, risky / np.maximum(risky + liquid, 1e-300), 0.0)
    answer = evaluate_fixed(env, consumed, shares)

    means, risks = np.array([[2.5 * plan.mean, 2.5 * plan.risk] for plan in plans]).T
    assert answer.mean == pytest.approx(weight * means[0] + (1 - weight) * means[1])
    assert answer.risk <= weight * risks[0] + (1 - weight) * risks[1] + 1e-12


def test_the_optimum_reports_its_own_policy():
    env = other_market(drift=3.0, default_probability=0.05)
    best = optimum(env, 0.4)
    answer = evaluate_fixed(env, best.fractions, best.shares)

    assert (best.mean, best.std, best.risk) == (answer.mean, answer.std, answer.risk)
    assert best.risk == pytest.approx(0.4)
    assert best.multiplier > 0.0


unit = st.floats(0.0, 1.0)


@settings(deadline=None, max_examples=100)
@given(
    fractions=st.lists(unit, min_size=4, max_size=4),
    shares=st.lists(unit, min_size=4, max_size=4),
    target=st.sampled_from(LINEAR_TARGETS),
    default_probability=st.floats(0.0, 0.5),
)
def test_no_policy_beats_the_optimum_at_its_own_risk(
    fractions, shares, target, default_probability
):
    env = other_market(horizon=4, target=target, default_probability=default_probability)
    answer = evaluate_fixed(env, fractions, shares)

    best = optimum(env, answer.risk * (1 + 1e-12))

    assert answer.mean <= best.mean * (1 + 1e-9)


def test_the_best_mean_is_concave_in_the_threshold_and_the_multiplier_is_its_slope():
    env = other_market(drift=3.0, default_probability=0.05, horizon=9)
    thresholds = np.linspace(0.0, optimum(env, np.inf).risk, 14)
    found = [optimum(env, nu) for nu in thresholds]

    for (low, lower), (high, higher) in pairwise(zip(thresholds, found, strict=True)):
        slope = (higher.mean - lower.mean) / (high - low)
        assert lower.multiplier >= slope - 1e-9
        assert slope >= higher.multiplier - 1e-9


def test_the_least_threshold_gets_the_smallest_multiplier_that_enforces_it():
    at_zero = optimum(Consumption(), 0.0)
    market = _market(Consumption())

    assert at_zero.risk == pytest.approx(0.0, abs=1e-12)
    assert _best_plan(market, 1.0, at_zero.multiplier + 1e-6).risk == 0.0
    assert _best_plan(market, 1.0, at_zero.multiplier - 1e-6).risk > 1e-4


def test_among_equally_careful_plans_the_best_is_taken():
    careful = _best_plan(_market(Consumption()), mean_weight=0.0, risk_weight=1.0)

    assert careful.risk == 0.0
    assert careful.mean == pytest.approx(1.443506, abs=1e-6)  # consume 1 / (T - t), fully risky


def test_among_equally_good_plans_the_most_careful_is_taken():
    # Two steps, all is consumed at the second. Kept liquid a unit is worth 0.2 + 0.8 * 1.5, at risk
    # 0.8 * 1.75: the same 1.4. Short of the target 1/2 is the liquid one only without a default,
    # 0.8 / 2 on average, the risky one always, 1 / 2.
    env = Consumption(
        liquid_drift=0.5,
        drift=0.75,
        default_probability=0.2,
        time_step=1.0,
        initial_wealth=2.5,
        horizon=2,
    )
    best = optimum(env, np.inf)

    assert best.mean == pytest.approx(2.5 * 1.4)
    assert best.risk == pytest.approx(2.5 * 0.4)


def test_a_threshold_that_nobody_meets_is_refused():
    # time step 1, two steps: the targets are 2 W and 1 W. Consuming all at once is short by
    # 2.5 (2 - 1) and leaves nothing to be short of later.
    env = Consumption(time_step=1.0, horizon=2, initial_wealth=2.5, target="printed-steps")

    assert optimum(env, 2.5).risk == pytest.approx(2.5)
    with pytest.raises(InfeasibleError, match=r"threshold is 2\.4; .* below 2\.5 .*at least that"):
        optimum(env, 2.4)


def test_numbers_may_be_jax_arrays():
    best = optimum(Consumption(drift=jnp.asarray(1.0), discount=jnp.asarray(1.0)), 0.05)

    assert best.mean == pytest.approx(1.465180, abs=1e-6)
