import numpy as np
import pytest

from downside.closed_forms import normal_lower_partial_moment
from downside.environments import Tabular
from downside.exact import (
    action_values,
    path_shortfall,
    proxy,
    return_distribution,
    start_value,
    state_distribution,
)
from downside.exact.tabular import risk_cumulants, step_targets
from downside.signals import Centralised, Custom, Fixed, TDError
from random_mdps import all_paths, random_mdp, random_policy

SEEDS = range(5)


def mean_over_paths(mdp, policy, number):
    """E[number(path)] from the start distribution, by enumeration."""
    return sum(
        mdp.start[s] * path.probability * number(path)
        for s in range(mdp.n_states)
        for path in all_paths(mdp, policy, s)
    )


def reward_sum(mdp, path):
    return path.discounted(mdp, [mdp.rewards[step] for step in path.steps])


def fixed_targets(mdp, path, tau):
    """The split of a fixed target from its definition: an end is charged for what is left."""
    shares = [float(mdp.discount) ** t for t in range(mdp.horizon)]
    per_step = tau / sum(shares)
    targets = [per_step] * len(path.steps)
    rest = mdp.horizon - len(path.steps)
    targets[-1] += per_step * sum(float(mdp.discount) ** (j + 1) for j in range(rest))
    return targets


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("discount", [1.0, 0.8])
def test_values_of_a_finite_horizon_are_those_of_all_paths(seed, discount):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=4, discount=discount)
    policy = random_policy(rng, mdp)

    expected = mean_over_paths(mdp, policy, lambda path: reward_sum(mdp, path))

    assert start_value(mdp, policy) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_without_horizon_are_a_fixed_point_of_the_bellman_equation(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=0.93, n_states=6, n_actions=3, n_outcomes=4)
    policy = random_policy(rng, mdp)

    q = action_values(mdp, policy)

    for s, a in np.ndindex(mdp.n_states, mdp.n_actions):
        backup = sum(
            p * (mdp.rewards[s, a, k] + (0.0 if mdp.ends[s, a, k] else 0.93 * policy[n] @ q[n]))
            for k, (p, n) in enumerate(
                zip(mdp.transitions[s, a], mdp.next_states[s, a], strict=True)
            )
        )
        assert q[s, a] == pytest.approx(backup, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("horizon", [None, 5])
def test_visits_times_cumulants_are_the_value(seed, horizon):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=horizon, discount=0.9)
    policy = random_policy(rng, mdp)

    visits = state_distribution(mdp, policy).reshape(-1, mdp.n_states).sum(0)

    rewards = np.sum(mdp.transitions * mdp.rewards, -1)
    value = visits @ np.sum(policy * rewards, -1)
    assert value == pytest.approx(start_value(mdp, policy), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", [1, 2, 1.5])
def test_proxy_of_each_target_is_that_of_all_paths(seed, order):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=3, discount=0.85)
    policy = random_policy(rng, mdp)
    q = action_values(mdp, policy)
    means = np.sum(mdp.transitions * mdp.rewards, -1)

    def signals(path, targets):
        gaps = [t - mdp.rewards[step] for t, step in zip(targets, path.steps, strict=True)]
        return path.discounted(mdp, [max(gap, 0.0) ** order for gap in gaps])

    def at_start(target):
        return start_value(mdp, policy, risk_cumulants(mdp, policy, target, order))

    assert at_start(Fixed(1.7)) == pytest.approx(
        mean_over_paths(mdp, policy, lambda p: signals(p, fixed_targets(mdp, p, 1.7))), abs=1e-12
    )
    assert at_start(Centralised()) == pytest.approx(
        mean_over_paths(mdp, policy, lambda p: signals(p, [means[s, a] for s, a, _ in p.steps])),
        abs=1e-12,
    )
    half_state = Custom(lambda step: 0.5 * step.obs.astype(step.reward.dtype))
    assert at_start(half_state) == pytest.approx(
        mean_over_paths(mdp, policy, lambda p: signals(p, [0.5 * s for s, _, _ in p.steps])),
        abs=1e-12,
    )

    def td_targets(path):
        following = [*path.steps[1:], None]
        return [
            q[t][s, a] - (0.0 if after is None else 0.85 * q[t + 1][after[0], after[1]])
            for t, ((s, a, _), after) in enumerate(zip(path.steps, following, strict=True))
        ]

    assert at_start(TDError()) == pytest.approx(
        mean_over_paths(mdp, policy, lambda p: signals(p, td_targets(p))), abs=1e-12
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_proxy_is_the_action_value_of_its_cumulants(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=0.9, reward_std=0.7)
    policy = random_policy(rng, mdp)

    risk = proxy(mdp, policy, Centralised(), order=2)

    means = np.sum(mdp.transitions * mdp.rewards, -1, keepdims=True)
    by_quadrature = normal_lower_partial_moment(mdp.rewards, mdp.reward_std, means, 2)
    assert risk == pytest.approx(action_values(mdp, policy, by_quadrature), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("discount", [1.0, 0.8])
def test_return_distribution_is_that_of_all_paths(seed, discount):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=4, discount=discount)
    policy = random_policy(rng, mdp)

    dist = return_distribution(mdp, policy)

    assert dist.error < 1e-10
    for tau, order in ((0.4, 1), (1.3, 2), (0.9, 0)):
        expected = mean_over_paths(
            mdp,
            policy,
            lambda p, tau=tau, order=order: (
                max(tau - reward_sum(mdp, p), 0.0) ** order
                if order
                else float(reward_sum(mdp, p) < tau)
            ),
        )
        assert dist.lower_partial_moment(tau, order) == pytest.approx(expected, abs=1e-10)
    assert dist.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_infinite_horizon_distribution_is_within_its_stated_error(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=None, discount=0.7, end_share=0.4, n_states=2)
    policy = random_policy(rng, mdp)

    coarse = return_distribution(mdp, policy, tolerance=1e-2)
    fine = return_distribution(mdp, policy, tolerance=1e-4)

    gap = abs(coarse.lower_partial_moment(0.8) - fine.lower_partial_moment(0.8))
    assert gap <= coarse.error + fine.error
    assert abs(fine.mean() - start_value(mdp, policy)) <= fine.error


def test_merging_states_its_error():
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, horizon=6, discount=0.9, end_share=0.0)
    policy = random_policy(rng, mdp)

    exact = return_distribution(mdp, policy)
    with pytest.warns(UserWarning, match="raise max_atoms, or give the MDP a horizon"):
        coarse = return_distribution(mdp, policy, max_atoms=100)
    fine = return_distribution(mdp, policy, max_atoms=1000)

    def gap(dist):
        return abs(exact.lower_partial_moment(1.1) - dist.lower_partial_moment(1.1))

    assert coarse.values.size < fine.values.size < exact.values.size
    assert gap(coarse) <= coarse.error
    assert gap(fine) <= fine.error < 0.2 * coarse.error


@pytest.mark.parametrize("outcomes", [2, 3])
def test_the_probability_of_falling_short_does_not_count_the_target_itself(outcomes):
    # Twelve steps of -1, -2 (or -3), whole numbers throughout: P(G < x) at attainable x by
    # convolution.
    probabilities = np.array([0.3, 0.7] if outcomes == 2 else [0.3, 0.3, 0.4])
    mdp = Tabular([[probabilities]], [[-1.0 - np.arange(outcomes)]], next_states=0, horizon=12)
    sums = np.array([1.0])
    for _ in range(12):
        sums = np.convolve(sums, probabilities)

    returns = return_distribution(mdp, [[1.0]])

    assert returns.values.tolist() == (-12.0 - np.arange(sums.size))[::-1].tolist()
    for lost in (13, 16, 20):
        assert returns.lower_partial_moment(-float(lost), 0) == pytest.approx(
            sums[lost - 11 :].sum(), abs=1e-12
        )


def test_a_cut_distribution_keeps_the_mean_exactly():
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, horizon=None, discount=0.7, end_share=0.2, n_states=2)
    policy = random_policy(rng, mdp)
    returns = return_distribution(mdp, policy, tolerance=1e-2)
    assert returns.mean() == pytest.approx(start_value(mdp, policy), abs=1e-12)


def test_a_target_that_reads_a_noisy_reward_is_refused():
    mdp = Tabular([[[1.0]]], [[[1.0]]], reward_std=2.0, horizon=1)
    with pytest.raises(ValueError, match="depends on the reward"):
        proxy(mdp, [[1.0]], lambda step: 0.5 * step.reward)
    quiet = Tabular([[[1.0]]], [[[-1.0]]], horizon=1)
    assert proxy(quiet, [[1.0]], lambda step: 0.5 * step.reward).item() == pytest.approx(0.5)


def test_noisy_rewards_add_their_variances():
    # Two steps of one state: G = R0 + 0.5 R1, both normal with std 0.6: V = 0.36 (1 + 0.25).
    mdp = Tabular([[[1.0]]], [[[0.2]]], reward_std=0.6, horizon=2, discount=0.5)
    dist = return_distribution(mdp, [[1.0]])
    assert dist.mean() == pytest.approx(0.3)
    assert dist.variance() == pytest.approx(0.45)
    closed = normal_lower_partial_moment(0.3, np.sqrt(0.45), 0.7, 1)
    assert dist.lower_partial_moment(0.7) == pytest.approx(closed, abs=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_path_shortfall_is_that_of_all_paths(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, horizon=3, discount=0.85)
    policy = random_policy(rng, mdp)
    means = np.sum(mdp.transitions * mdp.rewards, -1)
    q = action_values(mdp, policy)[0]

    def short(path, total):
        return max(total - reward_sum(mdp, path), 0.0)

    assert path_shortfall(mdp, policy, Centralised()) == pytest.approx(
        mean_over_paths(
            mdp, policy, lambda p: short(p, p.discounted(mdp, [means[s, a] for s, a, _ in p.steps]))
        ),
        abs=1e-10,
    )
    assert path_shortfall(mdp, policy, Fixed(1.1)) == pytest.approx(
        return_distribution(mdp, policy).lower_partial_moment(1.1), abs=1e-10
    )  # the split targets sum to the constant on every path
    assert path_shortfall(mdp, policy, TDError()) == pytest.approx(
        mean_over_paths(mdp, policy, lambda p: short(p, q[p.steps[0][:2]])), abs=1e-10
    )


def test_step_targets_of_a_fixed_target_without_horizon():
    # tau_R = (1 - g) tau = 0.5, and tau itself where the episode ends.
    mdp = Tabular([[[0.3, 0.7]]], [[[1.0, 2.0]]], next_states=0, ends=[[[0, 1]]], discount=0.8)
    assert step_targets(mdp, [[1.0]], Fixed(2.5))[0, 0, :, 0] == pytest.approx([0.5, 2.5])


def test_bad_policies_are_refused():
    mdp = random_mdp(np.random.default_rng(1), horizon=None, discount=0.9)
    with pytest.raises(ValueError, match=r"shape \(2, 2\); it must be \(3, 2\)"):
        action_values(mdp, np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="sum of 1"):
        action_values(mdp, np.full((3, 2), 0.4))


def test_a_policy_that_never_ends_is_named():
    mdp = Tabular([[[1.0]]], [[[0.3]]])
    with pytest.raises(ValueError, match="give the MDP a horizon or a discount below 1"):
        action_values(mdp, [[1.0]])
