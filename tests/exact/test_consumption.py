from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import Partial
from scipy.optimize import linprog

from downside.environments import Consumption
from downside.environments.episodes import rollout
from downside.exact import InfeasibleError
from downside.exact.consumption import (
    _best_plan,
    _market,
    _merge,
    evaluate_fixed,
    optimum,
)

STEPS = np.arange(200)
EVEN = 1.0 / (200 - STEPS)
AT_THE_END = np.where(STEPS == 199, 1.0, 0.0)
LINEAR_TARGETS = ["fixed-rate", "printed-steps", "printed-time"]


def other_market(**changes):
    """Parameters with nothing neutral in them."""
    numbers = {
        "liquid_drift": 0.3,
        "drift": 0.9,
        "volatility": 0.4,
        "default_probability": 0.2,
        "time_step": 0.15,
        "initial_wealth": 2.5,
        "ruin_wealth": 0.0,
        "discount": 0.9,
        "horizon": 6,
    }
    return Consumption(**{**numbers, **changes})


FRACTIONS = np.array([0.1, 0.25, 0.02, 0.4, 0.3, 0.7])
SHARES = np.array([0.9, 0.2, 0.55, 1.0, 0.35, 0.6])


@pytest.mark.parametrize(
    ("fractions", "share", "mean", "std", "risk"),
    [
        (EVEN, 0.0, 1.022908, 0.00563, 0.0),
        (EVEN, 1.0, 1.443506, 0.57173, 0.0),
        (0.01, 0.0, 0.915377, 0.05826, 0.508029),
        (0.01, 1.0, 1.117216, 0.33714, 1.224952),
        (AT_THE_END, 1.0, 2.001299, 1.31803, 8.614846),
        (np.where(STEPS < 10, 0.0, EVEN), 1.0, 1.466013, 0.60074, 0.051981),
    ],
)
def test_known_values_of_fixed_policies(fractions, share, mean, std, risk):
    answer = evaluate_fixed(Consumption(), fractions, share)

    assert answer.mean == pytest.approx(mean, abs=1e-6)
    assert answer.std == pytest.approx(std, abs=1e-5)
    assert answer.risk == pytest.approx(risk, abs=1e-6)


def test_two_steps_by_hand():
    # 2.5 of wealth; fractions 0.1, 0.25; shares 0.9, 0.2; growth 1.135 risky and 1.045 liquid.
    # step 0: 0.25 consumed, 0.225 liquid, 2.025 risky; target 1.25
    # default (0.2):  G = 0.475, signal 0.775
    # otherwise:      W' = 2.025 (1.135 + 0.4 sqrt(0.15) Z) + 0.225 * 1.045 = 2.5335 + spread Z
    #   step 1: 0.25 W' consumed, 0.6 W' liquid; target W'
    #   default (0.2): reward 0.85 W', signal 0.15 W';  otherwise 0.25 W', signal 0.75 W'
    #   so on average 0.37 W' and 0.63 W'; the second moment of the factor is 0.1945
    wealth, spread = 2.5335, 2.025 * 0.4 * np.sqrt(0.15)
    mean = 0.2 * 0.475 + 0.8 * (0.25 + 0.9 * 0.37 * wealth)
    risk = 0.2 * 0.775 + 0.8 * (1.0 + 0.9 * 0.63 * wealth)
    second = 0.2 * 0.475**2 + 0.8 * (
        0.25**2 + 2 * 0.25 * 0.9 * 0.37 * wealth + 0.81 * 0.1945 * (wealth**2 + spread**2)
    )

    answer = evaluate_fixed(other_market(horizon=2), FRACTIONS[:2], SHARES[:2])

    assert answer.mean == pytest.approx(mean, rel=1e-12)
    assert answer.risk == pytest.approx(risk, rel=1e-12)
    assert answer.std == pytest.approx(np.sqrt(second - mean**2), rel=1e-12)


@pytest.mark.parametrize("target", LINEAR_TARGETS)
def test_all_paths_give_the_same_moments(target):
    """Three nodes integrate the normal price exactly, as the return is linear in each price."""
    env = other_market(target=target, horizon=4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    outcomes = [
        (None, 0.2),
        *((z, 0.8 * w) for z, w in zip(nodes, weights / weights.sum(), strict=True)),
    ]
    rates = {
        "fixed-rate": [1 / 4, 1 / 3, 1 / 2, 1.0],
        "printed-steps": [0.6, 0.45, 0.3, 0.15],
        "printed-time": [0.15 * (1 - 0.15 * t) for t in range(4)],
    }[target]
    moments = np.zeros(3)
    for path in product(outcomes, repeat=4):
        wealth, total, risk, probability = 2.5, 0.0, 0.0, 1.0
        for t, (z, weight) in enumerate(path):
            probability *= weight
            consumed = FRACTIONS[t] * wealth
            rest = wealth - consumed
            liquid, risky = (1 - SHARES[t]) * rest, SHARES[t] * rest
            reward = consumed + (liquid if z is None else 0.0)
            total += 0.9**t * reward
            risk += 0.9**t * max(rates[t] * wealth - reward, 0.0)
            if z is None:
                wealth = 0.0
            else:
                wealth = 1.045 * liquid + (1.135 + 0.4 * np.sqrt(0.15) * z) * risky
        moments += probability * np.array([total, total**2, risk])

    answer = evaluate_fixed(env, FRACTIONS[:4], SHARES[:4])

    assert answer.mean == pytest.approx(moments[0], rel=1e-10)
    assert answer.std == pytest.approx(np.sqrt(moments[1] - moments[0] ** 2), rel=1e-10)
    assert answer.risk == pytest.approx(moments[2], rel=1e-10)


@pytest.mark.slow
def test_simulation_agrees():
    envs = [other_market(target=target) for target in LINEAR_TARGETS]

    def act(plan, obs, key):
        return plan[obs[0].astype(int)]

    def measure(step):
        gaps = [jnp.maximum(env.step_target(step) - step.reward, 0.0) for env in envs]
        return step.reward, *gaps

    plan = jnp.asarray(np.stack([SHARES, FRACTIONS], axis=1))
    sums = rollout(envs[0], Partial(act, plan), jax.random.key(11), 100_000, measure=measure)
    returns, *risks = (np.asarray(x, float) for x in sums.discounted)
    answers = [evaluate_fixed(env, FRACTIONS, SHARES) for env in envs]

    squares = (returns - answers[0].mean) ** 2
    for samples, exact in (
        (returns, answers[0].mean),
        (squares, answers[0].std ** 2),
        *((samples, answer.risk) for samples, answer in zip(risks, answers, strict=True)),
    ):
        error = samples.std() / np.sqrt(len(samples))
        assert abs(samples.mean() - exact) < 4 * error


def test_a_sure_thing_has_no_deviation():
    sure = other_market(default_probability=0.0)
    answer = evaluate_fixed(sure, FRACTIONS, 0.0)

    wealth = 2.5 * 1.045 ** np.arange(6) * np.cumprod([1.0, *(1 - FRACTIONS[:-1])])
    assert answer.std == 0.0
    assert answer.mean == pytest.approx(np.sum(0.9 ** np.arange(6) * FRACTIONS * wealth))


def test_every_answer_scales_with_the_initial_wealth():
    one = evaluate_fixed(other_market(initial_wealth=1.0), FRACTIONS, SHARES)
    three = evaluate_fixed(other_market(initial_wealth=3.0), FRACTIONS, SHARES)

    assert three.mean == pytest.approx(3 * one.mean)
    assert three.std == pytest.approx(3 * one.std)
    assert three.risk == pytest.approx(3 * one.risk)


def test_a_target_that_is_not_linear_in_wealth_is_refused():
    env = Consumption(target="capital")
    with pytest.raises(ValueError, match=r"'capital'.*simulate with .*rollout"):
        evaluate_fixed(env, 0.1, 0.5)
    with pytest.raises(ValueError, match="'capital'"):
        optimum(env, 0.1)


def test_policies_of_the_wrong_shape_or_range_are_refused():
    with pytest.raises(ValueError, match=r"fractions has the shape \(3,\).*\(200,\)"):
        evaluate_fixed(Consumption(), [0.1, 0.2, 0.3], 0.5)
    with pytest.raises(ValueError, match=r"shares is 1\.5; .*\[0, 1\]"):
        evaluate_fixed(Consumption(), 0.1, 1.5)


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


def test_a_certain_default_leaves_one_step():
    # 0.02 of the wealth is consumed, 0.05 of the other 0.98 is liquid; the target is a sixth
    env = other_market(default_probability=1.0)
    answer = evaluate_fixed(env, 0.02, 0.95)

    assert answer.mean == pytest.approx(2.5 * 0.069)
    assert answer.std == 0.0
    assert answer.risk == pytest.approx(2.5 * (1 / 6 - 0.069))
    assert optimum(env, np.inf).mean == pytest.approx(2.5)


def test_numbers_may_be_jax_arrays():
    best = optimum(Consumption(drift=jnp.asarray(1.0), discount=jnp.asarray(1.0)), 0.05)

    assert best.mean == pytest.approx(1.465180, abs=1e-6)
