"""The targets of the proxy: what each one bounds, and where it does not. All numbers are exact."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import Partial

from downside.environments import Tabular
from downside.exact import (
    action_values,
    path_shortfall,
    proxy,
    return_distribution,
    risk_cumulants,
    start_value,
)
from downside.signals import (
    Centralised,
    Constraint,
    Custom,
    Fixed,
    Penalty,
    Predictions,
    Proxy,
    Reward,
    TDError,
    annuity,
    as_target,
)
from random_mdps import random_mdp, random_policy

ROUNDING = 1e-9
seeds = st.integers(0, 10_000)
targets = st.floats(-3.0, 5.0)
horizons = st.integers(1, 4)
discounts = st.sampled_from([0.6, 0.9, 1.0])


def constant(value, transition):
    return value


def at_start(mdp, policy, target, order=1):
    return start_value(mdp, policy, risk_cumulants(mdp, policy, target, order))


def problem(seed, horizon, discount, end_share):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=horizon, discount=discount, end_share=end_share, reward_std=0.3)
    return mdp, random_policy(rng, mdp)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, tau=targets, horizon=horizons, discount=discounts)
def test_a_fixed_target_split_over_the_horizon_bounds_the_lpm_with_early_ends_too(
    seed, tau, horizon, discount
):
    mdp, policy = problem(seed, horizon, discount, end_share=0.4)
    lpm = return_distribution(mdp, policy).lower_partial_moment(tau)
    assert lpm <= at_start(mdp, policy, Fixed(tau)) + ROUNDING


@settings(max_examples=60, deadline=None)
@given(seed=seeds, tau=targets, horizon=horizons, order=st.sampled_from([1.5, 2.0, 3.0]))
def test_higher_orders_need_the_factor(seed, tau, horizon, order):
    mdp, policy = problem(seed, horizon, 0.9, end_share=0.0)
    lpm = return_distribution(mdp, policy).lower_partial_moment(tau, order)
    factor = float(annuity(0.9, float(horizon))) ** (order - 1)
    assert lpm <= factor * at_start(mdp, policy, Fixed(tau), order) + ROUNDING


def test_without_the_factor_the_bound_of_order_two_fails():
    # Two certain rewards of 0 against tau = 2: LPM_2 = 4, the proxy 1 + 1, the factor 2.
    mdp = Tabular([[[1.0]]], [[[0.0]]], horizon=2)
    assert return_distribution(mdp, [[1.0]]).lower_partial_moment(2.0, 2) == pytest.approx(4.0)
    assert at_start(mdp, [[1.0]], Fixed(2.0), order=2) == pytest.approx(2.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the return takes too many values")  # its error is allowed for
@settings(max_examples=40, deadline=None)
@given(seed=seeds, tau=targets)
def test_a_fixed_target_without_horizon_bounds_the_lpm(seed, tau):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=0.6, end_share=0.4)
    policy = random_policy(rng, mdp)
    returns = return_distribution(mdp, policy, tolerance=1e-3, max_atoms=2000)
    bound = at_start(mdp, policy, Fixed(tau))
    assert returns.lower_partial_moment(tau) <= bound + returns.error + ROUNDING


def test_the_printed_split_over_a_finite_horizon_is_no_bound():
    # Two certain rewards of 0.4, g = 0.9, tau = 1: G = 0.76, so the LPM is 0.24; (1 - g) tau = 0.1
    # is met at every step, so the printed proxy is 0. The split over the horizon has 0.24.
    mdp = Tabular([[[1.0]]], [[[0.4]]], horizon=2, discount=0.9)
    lpm = return_distribution(mdp, [[1.0]]).lower_partial_moment(1.0)
    assert lpm == pytest.approx(0.24)
    assert at_start(mdp, [[1.0]], Custom(Partial(constant, 0.1))) == 0.0
    assert at_start(mdp, [[1.0]], Fixed(1.0)) == pytest.approx(0.24)


def test_an_early_end_that_is_not_charged_escapes_the_target():
    # One reward of 0.5 ends a problem of four steps; tau = 2 asks for 0.5 at each.
    mdp = Tabular([[[1.0]]], [[[0.5]]], ends=True, horizon=4)
    assert return_distribution(mdp, [[1.0]]).lower_partial_moment(2.0) == pytest.approx(1.5)
    assert at_start(mdp, [[1.0]], Custom(Partial(constant, 0.5))) == 0.0
    assert at_start(mdp, [[1.0]], Fixed(2.0)) == pytest.approx(1.5)


def test_the_centralised_target_does_not_see_the_luck_of_the_transitions():
    # Reward 0, then +1 or -1 with equal chance: the proxy is 0, the LPM g / 2.
    mdp = Tabular(
        transitions=[[[0.5, 0.5]], [[1.0, 0.0]], [[1.0, 0.0]]],
        rewards=[[[0.0]], [[1.0]], [[-1.0]]],
        next_states=[[[1, 2]], [[1, 1]], [[2, 2]]],
        horizon=2,
        discount=0.7,
    )
    policy = np.ones((3, 1))
    assert at_start(mdp, policy, Centralised()) == 0.0
    assert return_distribution(mdp, policy).lower_partial_moment(0.0) == pytest.approx(0.35)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_the_centralised_target_bounds_the_lpm_of_one_step_and_one_action(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=1, discount=0.9, n_actions=1, n_states=1)
    policy = np.ones((1, 1))
    returns = return_distribution(mdp, policy)
    lpm = returns.lower_partial_moment(returns.mean())
    assert lpm == pytest.approx(at_start(mdp, policy, Centralised()), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, horizon=horizons, discount=discounts)
def test_the_td_error_bounds_the_lpm_about_the_value_of_each_state_and_action(
    seed, horizon, discount
):
    mdp, policy = problem(seed, horizon, discount, end_share=0.3)
    q, risk = action_values(mdp, policy)[0], proxy(mdp, policy, TDError())[0]
    for s, a in np.ndindex(q.shape):
        returns = return_distribution(mdp, policy, state=s, action=a)
        assert returns.lower_partial_moment(float(q[s, a])) <= risk[s, a] + ROUNDING


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=seeds, tau=targets, horizon=horizons, discount=discounts)
def test_the_two_inequalities_hold_for_every_target(seed, tau, horizon, discount):
    mdp, policy = problem(seed, horizon, discount, end_share=0.3)
    lpm = return_distribution(mdp, policy).lower_partial_moment(tau)
    for target in (Fixed(0.7), Centralised(), Custom(Partial(constant, 0.3))):
        risk = at_start(mdp, policy, target)
        assert path_shortfall(mdp, policy, target) <= risk + ROUNDING
        rest = rest_of_target(mdp, policy, target, tau)
        assert lpm <= risk + rest + ROUNDING


def rest_of_target(mdp, policy, target, tau):
    """E[(tau - T_G)+], from the distribution of the path's own sum of targets."""
    from downside.exact import step_targets

    quiet = Tabular(
        mdp.transitions,
        0.0,
        next_states=mdp.next_states,
        ends=mdp.ends,
        start=mdp.start,
        discount=mdp.discount,
        horizon=mdp.horizon,
    )
    sums = step_targets(mdp, policy, target)[..., 0]
    return return_distribution(quiet, policy, cumulants=sums).lower_partial_moment(tau)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=seeds, discount=st.floats(0.0, 0.99), order=st.sampled_from([1.0, 2.0]))
def test_the_operator_of_the_proxy_shrinks_distances_by_the_discount(seed, discount, order):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=discount, end_share=0.2)
    policy = random_policy(rng, mdp)
    for target in (Fixed(1.3), Centralised(), TDError(), Custom(Partial(constant, 0.4))):
        signal = np.sum(mdp.transitions * risk_cumulants(mdp, policy, target, order), -1)
        f, h = rng.normal(size=(2, *signal.shape))
        once, other = (signal + backup(mdp, policy, guess) for guess in (f, h))
        assert np.max(np.abs(once - other)) <= discount * np.max(np.abs(f - h)) + ROUNDING
        fixed_point = proxy(mdp, policy, target, order)
        again = signal + backup(mdp, policy, fixed_point)
        assert again == pytest.approx(fixed_point, abs=1e-8)


def backup(mdp, policy, values):
    following = np.sum(policy * values, -1)[mdp.next_states] * ~mdp.ends
    return float(mdp.discount) * np.sum(mdp.transitions * following, -1)


class Step:
    """A transition, as far as signals look at one."""

    def __init__(self, reward, time=0, terminated=False):
        self.reward, self.mean_reward = jnp.asarray(reward), jnp.asarray(0.4)
        self.discount = jnp.asarray(0.0 if terminated else 0.9)
        self.time, self.terminated = jnp.asarray(time), jnp.asarray(terminated)


def test_signals_by_hand():
    step, nothing = Step(reward=-0.6), Predictions()
    assert float(Reward(0.9).cumulant(step, nothing)) == pytest.approx(-0.6)
    assert float(Proxy(Centralised(), 0.9).cumulant(step, nothing)) == pytest.approx(1.0)
    assert float(Proxy(Centralised(), 0.9, order=2).cumulant(step, nothing)) == pytest.approx(1.0)
    values = Predictions(value=jnp.asarray(2.0), next_value=jnp.asarray(1.5))
    # q(s, a) - g q(s', a') = 2 - 0.9 * 1.5 = 0.65, less the reward: 1.25
    assert float(Proxy(TDError(), 0.9).cumulant(step, values)) == pytest.approx(1.25)
    volatility = Penalty(lambda t: (t.reward - t.mean_reward) ** 2, 0.9)
    assert float(volatility.cumulant(step, nothing)) == pytest.approx(1.0)


@pytest.mark.parametrize(("time", "share"), [(0, 4.0), (2, 2.0), (3, 1.0)])
def test_an_end_is_charged_for_the_steps_that_are_left(time, share):
    # tau = 2 over four steps without discount: 0.5 each.
    step = Step(reward=0.0, time=time, terminated=True)
    target = Fixed(2.0).step_target(step, Predictions(), 1.0, 4)
    assert float(target) == pytest.approx(0.5 * share)


def test_targets_in_users_words():
    assert as_target(100) == Fixed(100.0)
    assert as_target(TDError()) == TDError()
    assert isinstance(as_target(lambda t: t.reward), Custom)
    with pytest.raises(ValueError, match=r"Fixed\(100.0\), Centralised\(\), TDError\(\)"):
        as_target("mean")


def test_every_target_says_what_it_bounds():
    for target in (Fixed(1.0), Centralised(), TDError(), Custom(lambda t: t.reward)):
        assert "bound" in target.guarantee
    assert Centralised().guarantee.startswith("no bound on the LPM")


def test_bad_orders_are_refused():
    with pytest.raises(ValueError, match="orders of 1 or more"):
        Proxy(Centralised(), 0.9, order=-1)
    assert Constraint(Fixed(1.0), threshold=0.2).order == 1


def test_a_shortfall_is_never_below_0_and_no_bound_on_it_is_but_a_penalty_may_be():
    with pytest.raises(ValueError, match=r"threshold is -0\.1; .* at least 0 as a shortfall is"):
        Constraint(Fixed(1.0), threshold=-0.1)
    assert Constraint(Penalty(lambda transition: -transition.reward, 0.9), -0.1).threshold == -0.1
