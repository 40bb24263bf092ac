from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from downside import exact
from downside.agents import PID, FixedMultiplier
from downside.bases import OneHot, Polynomial
from downside.control import NAC, NRCPO
from downside.policies import Gibbs
from downside.signals import Centralised, Constraint
from downside.training.keeping import named, restored, with_settling
from downside.training.settling import PATIENCE, Settling, kept_open, pace_of_clock
from random_mdps import random_mdp


def test_the_average_of_policies_is_the_weighted_mean():
    # The k-th of n policies weighs k (k + 1) (k + 2) (k + 3). If its parameter is k, the mean is
    # 5 C(n + 5, 6) / C(n + 4, 5) - 4 = (5 n + 1) / 6.
    settling = Settling(jnp.zeros(()), jnp.zeros(1), bound_at=jnp.asarray(60))
    for n in range(1, 101):
        settling = settling.averaged(jnp.array([float(n)]), jnp.asarray(n), jnp.asarray(n))
        if n in (1, 7, 100):
            assert float(settling.theta[0]) == pytest.approx((5 * n + 1) / 6, rel=1e-5)
    slack_for_long = settling.averaged(jnp.array([7.0]), jnp.asarray(101), jnp.asarray(120))
    assert float(slack_for_long.theta[0]) == 7.0


@pytest.mark.parametrize(
    ("rule", "was", "excess", "pace"),
    [
        (PID(rate=0.4, gain=4.0, weight=0.5, growing=True), 0.5, 0.3, PATIENCE),  # still above
        (PID(rate=0.4, gain=4.0, weight=0.5, growing=True), 0.5, -0.3, 1.0),  # to the other side
        (PID(rate=0.4, gain=4.0, weight=0.5, growing=True), -0.5, -0.3, 1.0),  # no need of it
        (PID(rate=1e4, gain=0.0, weight=0.5), 0.5, 0.3, 1.0),  # nothing but risk counts
        (PID(rate=0.4, gain=4.0, weight=0.5, limit=0.1), 0.5, 0.3, 1.0),  # at its limit
        (FixedMultiplier(2.0), 0.5, 0.3, 1.0),
    ],
)
def test_the_clock_waits_while_a_multiplier_looks_for_its_value(rule, was, excess, pace):
    before = rule.update(rule.init(), jnp.asarray(was), 0.0)
    after = rule.update(before, jnp.asarray(excess), 0.0)
    assert float(pace_of_clock(rule, before, jnp.asarray(excess), after)) == pytest.approx(pace)


def test_under_a_bound_the_average_is_shown_and_without_one_the_last_policy():
    mdp = random_mdp(np.random.default_rng(5), horizon=None, discount=0.9, n_states=4)
    free = NAC(mdp).learn(20_000, progress_bar=False)
    np.testing.assert_array_equal(free.theta, free._state.learners.theta)
    agent = NRCPO(mdp, target=Centralised(), threshold=[0.1, np.inf])
    agent.learn(20_000, progress_bar=False)
    lag = np.abs(agent.theta - agent._state.learners.theta).max(axis=1)
    assert lag[0] > 1e-3
    assert lag[1] == 0.0


@pytest.mark.parametrize("counted", [False, True])
def test_a_run_goes_on_with_its_clock_and_average_and_older_ones_begin_them(tmp_path, counted):
    mdp = random_mdp(np.random.default_rng(5), horizon=None, discount=0.9, n_states=4)
    settings = {"constraints": [Constraint(Centralised(), 0.1), Constraint(1.0, 0.5)]}
    settings["counted"] = counted
    once = NRCPO(mdp, **settings).learn(20_000, progress_bar=False)
    first = NRCPO(mdp, **settings, folder=tmp_path).learn(8000, progress_bar=False)
    again = NRCPO(mdp, **settings, folder=tmp_path)
    again.learn(20_000, progress_bar=False)
    np.testing.assert_array_equal(once.theta, again.theta)
    assert 0.29 * 20_000 < once._state.learners.settling.clock[0] < 20_000  # it has waited
    if counted:  # older ones had no counts
        return

    saved = named(first._state.learners, "learners")
    older = {name: x for name, x in saved.items() if "settling" not in name}
    began = restored(first._state.learners, with_settling(older), "learners")
    np.testing.assert_array_equal(began.settling.theta, began.theta)
    assert began.settling.clock.tolist() == [8000.0]
    assert began.settling.bound_at.tolist() == [0]


def slack_learner(multiplier, bound_at):
    return SimpleNamespace(
        steps=jnp.asarray(100_000),
        settling=Settling(jnp.asarray(5e4), jnp.zeros(6), jnp.asarray(bound_at)),
        multipliers=(FixedMultiplier(multiplier).init(),),
    )


@pytest.mark.parametrize(
    ("multiplier", "bound_at", "opened"),
    [(0.0, 60_000, True), (0.0, 40_000, False), (0.0, 0, False), (0.1, 100_000, False)],
)
def test_after_a_bound_has_ceased_to_bind_every_action_is_tried(multiplier, bound_at, opened):
    # At the clock's 50,000 steps, those of kl_steps, the least probability is 0.04 / 3 / 2^2.
    policy = Gibbs(OneHot(2), 3)
    rule = FixedMultiplier(multiplier)
    agent = SimpleNamespace(policy=policy, multiplier=rule, kl_steps=5e4, counted=False)
    theta = np.log([[0.5, 0.9989], [0.5 - 1e-9, 1e-3], [1e-9, 1e-4]]).astype(np.float32)
    learner = slack_learner(multiplier, bound_at)
    after = np.asarray(kept_open(agent, learner, jnp.asarray(theta.ravel()))).reshape(3, 2)
    wanted = np.maximum(theta, np.log(0.01 / 3)) if opened else theta
    np.testing.assert_allclose(after, wanted, atol=1e-5)


@pytest.mark.slow
def test_a_bound_that_never_binds_costs_nothing():
    mdp = random_mdp(np.random.default_rng(5), horizon=None, discount=0.9, n_actions=30)
    agent = NRCPO(mdp, target=Centralised(), threshold=[1e6, np.inf])
    agent.learn(40_000, progress_bar=False)
    bounded, free = agent.theta
    np.testing.assert_array_equal(bounded, free)


@pytest.mark.slow
def test_before_the_policy_may_move_it_does_not():
    mdp = random_mdp(np.random.default_rng(5), horizon=None, discount=0.9)
    policy = Gibbs(OneHot(3), 2, start=1, start_probability=0.9999)
    start = {"policy": policy, "annealed": True, "pretraining": 10**9}
    agent = NRCPO(mdp, target=Centralised(), threshold=0.5, **start)
    before = agent.theta
    np.testing.assert_array_equal(agent.learn(20_000, progress_bar=False).theta, before)


@pytest.mark.parametrize("policy", [Gibbs(Polynomial(2), 3), Gibbs(OneHot(2), 3, hidden=(4,))])
def test_only_tables_are_kept_open(policy):
    theta = jnp.zeros(policy.n_params)
    agent = SimpleNamespace(policy=policy, counted=False)
    assert kept_open(agent, slack_learner(0.0, 60_000), theta) is theta


@pytest.mark.slow
def test_a_multiplier_that_is_found_late_finds_a_policy_that_can_still_follow():
    # An exact multiplier of 53: with entropy that fades on its own, the policy was deterministic
    # before, and every seed stayed 7% above the bound for a million steps. The optimum takes one
    # action of a state with probability 0.13, where an error of 0.02 changes the risk by 1%.
    rng = np.random.default_rng(2001)
    mdp = random_mdp(rng, horizon=None, discount=0.9, n_states=6, n_actions=3, end_share=0.15)
    bound = Constraint(Centralised(), 0.2719)
    best = exact.constrained_optimum(mdp, [bound])
    assert best.multipliers[0] == pytest.approx(53.15, rel=1e-3)
    agent = NRCPO(mdp, constraints=[bound], n_seeds=4).learn(600_000, progress_bar=False)
    states = np.arange(6, dtype=np.float32)
    for theta in agent.theta:
        logits = np.array([agent.policy.preferences(theta, s) for s in states], float)
        policy = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        signal = exact.risk_cumulants(mdp, policy, Centralised())
        assert exact.start_value(mdp, policy, signal) == pytest.approx(0.2719, rel=0.04)
