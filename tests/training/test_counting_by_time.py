"""Critics from counts where there is a horizon, against the exact answers."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from counted_steps import expected_moves, some_steps
from downside import exact
from downside.control import NAC, NRCPO
from downside.environments import Tabular
from downside.signals import Fixed, TDError
from downside.training import counting
from downside.training.counting_by_time import TimedCounts
from random_mdps import random_mdp, random_policy

HORIZON, N_STATES, N_ACTIONS = 6, 4, 3
MANY = 1e13  # visits, beside which what is assumed before any visit is nothing


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def problem(discount):
    rng = np.random.default_rng(8)
    shape = {"n_states": N_STATES, "n_actions": N_ACTIONS}
    mdp = random_mdp(rng, horizon=HORIZON, discount=discount, **shape)
    return mdp, random_policy(rng, mdp), rng


def expected_counts(mdp, steps, signals):
    """What so many steps at each time would have left on average."""
    shape = (HORIZON, *mdp.transitions.shape)
    means = [np.sum(mdp.transitions * np.broadcast_to(c, shape), axis=-1) for c in signals]
    moved = steps[:-1].sum(axis=0)
    tables = (
        steps,
        steps * np.stack(means),
        moved,
        moved[..., None] * expected_moves(mdp),
        7.0 * mdp.start,
    )
    return TimedCounts(*map(jnp.asarray, tables))


@pytest.mark.parametrize("discount", [1.0, 0.8])
def test_counts_that_are_right_give_values_at_the_start_and_the_natural_gradient(discount):
    # F has a block for each state, sum_t g^t d_t (diag(pi) - pi pi'), and F w is the gradient; the
    # other one is by differences of the exact start value. A fixed target is charged by time.
    mdp, policy, rng = problem(discount)
    risks = exact.risk_cumulants(mdp, policy, Fixed(0.9))
    signals = mdp.rewards, risks
    counts = expected_counts(mdp, MANY * rng.uniform(0.5, 9.0, (6, 4, 3)), signals)
    found = counts.predictions(jnp.asarray(policy), jnp.full(2, discount), jnp.zeros((2, N_STATES)))
    met = exact.state_distribution(mdp, policy).sum(axis=0)
    for k, signal in enumerate(signals):
        value = exact.start_value(mdp, policy, signal)
        assert float(found.start[k]) == pytest.approx(value, rel=1e-8)
        w = np.asarray(found.advantages[k])
        gradient = met[:, None] * policy * (w - np.sum(policy * w, axis=1, keepdims=True))
        np.testing.assert_allclose(gradient, by_differences(mdp, policy, signal), atol=2e-7)


def by_differences(mdp, policy, signal, size=1e-5):
    """The gradient of the start value in the preferences of a softmax policy."""
    logits = np.log(policy)

    def at(s, a, change):
        moved = logits.copy()
        moved[s, a] += change
        weights = np.exp(moved)
        return exact.start_value(mdp, weights / weights.sum(axis=1, keepdims=True), signal)

    slopes = [at(s, a, size) - at(s, a, -size) for s, a in np.ndindex(policy.shape)]
    return np.reshape(slopes, policy.shape) / (2.0 * size)


def test_values_are_averages_over_the_times_of_a_state_whatever_the_discounts():
    # Advantages share one weight of each state, the largest, so that they can be added.
    mdp, policy, rng = problem(0.8)
    signals = [mdp.rewards, mdp.rewards]
    counts = expected_counts(mdp, MANY * rng.uniform(0.5, 9.0, (6, 4, 3)), signals)
    discounts = 0.8, 0.5
    found = counts.predictions(
        jnp.asarray(policy), jnp.asarray(discounts), jnp.zeros((2, N_STATES))
    )
    most = exact.state_distribution(mdp, policy).sum(axis=0)
    for k, discount in enumerate(discounts):
        other = replace(mdp, discount=discount)
        met = exact.state_distribution(other, policy)[..., None]
        q = exact.action_values(other, policy)
        values = np.sum(policy * q, axis=2, keepdims=True)
        average = np.sum(met * values, axis=(0, 2)) / met.sum(axis=(0, 2))
        np.testing.assert_allclose(found.values[k], average, rtol=1e-6)
        gains = np.sum(met * (q - values), axis=0) / most[:, None]
        np.testing.assert_allclose(found.advantages[k], gains, rtol=1e-6, atol=1e-9)


def test_a_state_that_is_met_on_the_last_step_only_does_not_stay_unknown():
    # Two steps: from 0 to 1 by action 0, or to an end; state 1 is met on the last step only.
    steps = np.zeros((2, 2, 2))
    steps[0, 0] = steps[1, 1] = 200.0
    moves = np.zeros((2, 2, 2))
    moves[0, 0, 1] = 200.0
    tables = steps, np.zeros((1, 2, 2, 2)), steps[0], moves, np.array([5.0, 0.0])
    counts = TimedCounts(*map(jnp.asarray, tables))
    found = counts.unknown(jnp.full((2, 2), 0.5), 1.0, jnp.zeros(2), apart=1.0)
    np.testing.assert_allclose(found, 0.0, atol=1e-8)


def test_an_action_tried_on_the_last_step_only_leads_where_the_others_do():
    # One state and two actions that pay 1 and stay; the second was tried on the last step only.
    steps = np.array([[[50.0, 0.0]], [[50.0, 50.0]]])
    tables = steps, steps[None], steps[0], 50.0 * np.array([[[1.0], [0.0]]]), np.ones(1)
    counts = TimedCounts(*map(jnp.asarray, tables))
    found = counts.predictions(jnp.full((1, 2), 0.5), jnp.ones(1), jnp.zeros((1, 1)))
    np.testing.assert_allclose(found.advantages, 0.0, atol=1e-12)
    assert float(found.start[0]) == pytest.approx(2.0)


def test_what_was_never_tried_is_worth_what_its_state_is_and_stays_unknown():
    mdp, policy, rng = problem(1.0)
    steps = rng.uniform(1.0, 9.0, (6, 4, 3))
    steps[:, 2, 1] = 0.0
    counts = expected_counts(mdp, steps, [mdp.rewards])
    pi = jnp.asarray(policy)
    found = counts.predictions(pi, jnp.ones(1), jnp.zeros((1, N_STATES)))
    assert float(found.advantages[0, 2, 1]) == 0.0
    assert int(jnp.argmax(counts.unknown(pi, 1.0, found.values[0], 5.0)[2])) == 1


@pytest.mark.parametrize(
    ("discount", "many", "share"), [(1.0, 9, 1.0), (0.8, 9, 1.0), (1.0, 2, 1 / 6)]
)
def test_what_is_unknown_is_added_up_until_the_horizon(discount, many, share, monkeypatch):
    # Another way: the signal in a table of the MDP, whose exact action values are known. Nothing
    # follows the last step; with many states all six may miss together what else one may.
    monkeypatch.setattr(counting, "MANY", many)
    mdp, policy, rng = problem(discount)
    steps = rng.uniform(1.0, 9.0, (6, 4, 3))
    counts = expected_counts(mdp, steps, [mdp.rewards])
    values, apart = rng.normal(size=N_STATES), 1.7
    goes_to = np.where(mdp.ends, 0.0, values[mdp.next_states])
    mean = np.sum(mdp.transitions * goes_to, axis=-1, keepdims=True)
    deviation = np.sqrt(np.sum(mdp.transitions * (goes_to - mean) ** 2, axis=-1))
    here = np.tile(share * apart * 0.9 ** steps.sum(axis=0), (HORIZON, 1, 1))
    here[:-1] += discount * deviation / np.sqrt(steps[:-1].sum(axis=0))
    q = exact.action_values(mdp, policy, here[..., None])
    gains = q - np.sum(policy * q, axis=2, keepdims=True)
    met = exact.state_distribution(mdp, policy)[..., None]
    answer = np.sum(met * gains, axis=0) / met.sum(axis=0)
    found = counts.unknown(jnp.asarray(policy), discount, jnp.asarray(values), apart)
    np.testing.assert_allclose(found, answer, rtol=1e-6, atol=1e-7)


def test_the_last_step_of_the_horizon_says_nothing_of_where_it_leads():
    # In a problem of two steps: 0 -> 2 by action 1, then 2 by action 0, where the horizon ends it.
    steps = some_steps([0, 2], [1, 0], [3, 7], [2, 1], [0, 1], [0, 1])
    counts = TimedCounts.none(2, 3, 2, 1).after(steps, memory=0.5)
    np.testing.assert_array_equal(counts.moved, [[0, 1], [0, 0], [0, 0]])
    assert {tuple(map(int, at)) for at in np.argwhere(counts.moves)} == {(0, 1, 2)}
    assert float(counts.steps[0, 0, 1]) == float(counts.steps[1, 2, 0]) == 1.0
    assert float(counts.sums[0, 1, 2, 0]) == 7.0
    np.testing.assert_array_equal(counts.visits, [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(counts.starts, [1, 0, 0])
    twice = counts.after(steps, memory=0.5)
    for more, less in zip(jax.tree.leaves(twice), jax.tree.leaves(counts), strict=True):
        np.testing.assert_array_equal(more, 1.5 * less)


def test_at_a_time_without_steps_an_action_pays_what_it_did_at_others():
    mdp, policy, _ = problem(1.0)
    steps = np.zeros((6, 4, 3))
    steps[1] = 4.0
    counts = expected_counts(mdp, steps, [mdp.rewards])
    found = counts.predictions(jnp.asarray(policy), jnp.ones(1), jnp.zeros((1, N_STATES)))
    assert float(found.start[0]) == pytest.approx(exact.start_value(mdp, policy), rel=1e-8)


def test_steps_are_counted_where_there_is_a_horizon():
    mdp = random_mdp(np.random.default_rng(1), horizon=5, discount=1.0)
    assert NAC(mdp)._settings.counted
    assert NRCPO(mdp, target=1.0, threshold=0.5)._settings.counted
    lake = NAC("FrozenLake-v1")._settings  # with its time limit
    assert lake.counted
    assert lake.value_features is None
    assert not NRCPO(mdp, target=TDError(), threshold=0.5)._settings.counted
    assert not NAC(replace(mdp, horizon=1_000_000))._settings.counted  # too much to remember
    with pytest.raises(ValueError, match="leave counted= out"):
        NRCPO(mdp, target=TDError(), threshold=0.5, counted=True)


@pytest.mark.slow
def test_a_lake_with_its_time_limit_is_learnt_and_a_bound_on_its_risk_met():
    # The best of all policies that look at the clock has 0.744; these look at the state only. The
    # tolerances were set with the results of other seeds in sight: they guard them.
    lake = Tabular.from_gymnasium("FrozenLake-v1", discount=1.0, horizon=100, is_slippery=True)
    bound = 0.5362  # the least risk of all is 0.5352
    with jax.enable_x64(False):
        agent = NRCPO(lake, target=1.0, threshold=[np.inf, bound], n_seeds=2, seed=5)
        agent.learn(100_000, progress_bar=False)
    policies = [np.asarray(jnp.exp(counting.log_policy(jnp.asarray(t), 4))) for t in agent.theta]
    for policy in policies[:2]:
        assert exact.start_value(lake, policy) > 0.73
    for policy in policies[2:]:
        risks = exact.risk_cumulants(lake, policy, Fixed(1.0))
        assert exact.start_value(lake, policy) > 0.72
        assert exact.start_value(lake, policy, risks) < bound + 0.003
