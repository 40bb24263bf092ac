import numpy as np
import pytest
from scipy import optimize

from downside.environments import Tabular
from downside.exact import InfeasibleError, constrained_optimum, start_value
from downside.exact.tabular import risk_cumulants
from downside.signals import Centralised, Constraint, Fixed, TDError
from random_mdps import random_mdp


def deterministic_policies(mdp):
    for choice in np.ndindex(*[mdp.n_actions] * mdp.n_states):
        yield np.eye(mdp.n_actions)[list(choice)]


def best_mixture(points, threshold):
    """The best mean of a mixture of policies with risk <= threshold: the hull's value."""
    means, risks = np.array(points).T
    best = optimize.linprog(
        -means, A_ub=[risks], b_ub=[threshold], A_eq=[np.ones(len(means))], b_eq=[1.0]
    )
    return -best.fun


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", [Centralised(), Fixed(2.0)])
def test_optimum_is_the_hull_of_all_deterministic_policies(seed, target):
    # The attainable (mean, risk) pairs of an infinite discounted MDP are the hull of those of its
    # deterministic stationary policies, so enumerating these is an independent reference.
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=0.9, n_outcomes=3)
    policies = list(deterministic_policies(mdp))
    table = risk_cumulants(mdp, policies[0], target)
    points = [(start_value(mdp, p), start_value(mdp, p, table)) for p in policies]
    risks = [risk for _, risk in points]
    threshold = 0.6 * min(risks) + 0.4 * max(risks)

    best = constrained_optimum(mdp, [Constraint(target, threshold)])

    assert best.mean == pytest.approx(best_mixture(points, threshold), abs=1e-8)
    assert best.risks[0] <= threshold + 1e-10
    step = 1e-4
    slope = (best_mixture(points, threshold + step) - best_mixture(points, threshold)) / step
    assert slope - 1e-6 <= best.multipliers[0]


def test_multiplier_is_the_slope_of_the_frontier():
    # Safe: mean 1, no shortfall below 1. Gamble: mean 2, shortfall 0.5. At threshold nu the gamble
    # is taken with probability 2 nu, so the mean is 1 + 2 nu and its slope 2.
    mdp = Tabular([[[1.0, 0.0], [0.5, 0.5]]], [[[1.0, 1.0], [4.0, 0.0]]], next_states=0, horizon=1)
    best = constrained_optimum(mdp, [Constraint(Fixed(1.0), 0.13)])
    assert best.mean == pytest.approx(1.26, abs=1e-12)
    assert best.multipliers == pytest.approx([2.0])
    assert best.policy[0, 0] == pytest.approx([0.74, 0.26])


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_slippery_frozen_lake_is_held_exactly_at_its_threshold(discount):
    # Only the last step is random in its reward: it pays 1 with probability 1/3, so its mean is
    # 1/3 and its shortfall 2/3 * 1/3. Each visit thus buys 1.5 of mean for 1 of risk.
    lake = Tabular.from_gymnasium("FrozenLake-v1", discount=discount, is_slippery=True)
    free = constrained_optimum(lake, [Constraint(Centralised(), np.inf)])
    threshold = 0.8 * free.risks[0]

    best = constrained_optimum(lake, [Constraint(Centralised(), threshold)])

    assert free.mean == pytest.approx(1.5 * free.risks[0], abs=1e-12)
    assert best.risks[0] == pytest.approx(threshold, abs=1e-12)
    assert best.mean == pytest.approx(0.8 * free.mean, abs=1e-12)
    assert best.multipliers == pytest.approx([1.5], abs=1e-9)
    assert free.multipliers[0] == 0.0


def test_time_dependent_optimum_beats_every_stationary_policy():
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, horizon=3, discount=0.9)
    best = constrained_optimum(mdp, [])
    assert best.policy.shape == (3, 3, 2)
    assert best.mean >= max(start_value(mdp, p) for p in deterministic_policies(mdp)) - 1e-12


def test_two_constraints_that_pull_against_each_other():
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, horizon=None, discount=0.9, n_actions=3)
    loose = constrained_optimum(mdp, [])
    both = [Centralised(), Fixed(1.0)]
    risks = [start_value(mdp, loose.policy, risk_cumulants(mdp, loose.policy, t)) for t in both]
    bounds = [Constraint(t, 0.97 * r) for t, r in zip(both, risks, strict=True)]
    best = constrained_optimum(mdp, bounds)
    assert np.all(best.risks <= [0.97 * r + 1e-10 for r in risks])
    assert best.mean <= loose.mean


def test_an_infeasible_threshold_names_the_lowest_risk():
    mdp = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=0, horizon=1)
    with pytest.raises(InfeasibleError, match=r"threshold 0.1, lowest risk 0.5"):
        constrained_optimum(mdp, [Constraint(Fixed(0.0), 0.1)])


def test_a_target_that_depends_on_the_policy_is_refused():
    mdp = Tabular([[[1.0]]], [[[1.0]]], horizon=1)
    with pytest.raises(ValueError, match="depends on the policy"):
        constrained_optimum(mdp, [Constraint(TDError(), 0.1)])
