"""Critics from counts, against the exact answers."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from counted_steps import expected_moves, some_steps
from downside import exact
from downside.agents import FixedMultiplier
from downside.bases import OneHot
from downside.control import NAC, NRCPO
from downside.environments import Tabular
from downside.policies import Gibbs
from downside.signals import Centralised, Constraint, Penalty, Proxy, Reward, TDError
from downside.training import counting, counting_update
from downside.training.batch_learner import start
from downside.training.batches import Batches, Found
from downside.training.counting import Counts, Predicted, visits_of
from downside.training.counting_update import expected, improve_counted
from downside.training.settling import FARTHEST, SLOW, Settling, policy_of
from random_mdps import random_mdp, random_policy

N_STATES, N_ACTIONS, DISCOUNT = 5, 3, 0.9
MULTIPLIER, UNITS = 0.7, [2.0, 0.5]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def problem(seed=4):
    rng = np.random.default_rng(seed)
    shape = {"n_states": N_STATES, "n_actions": N_ACTIONS, "discount": DISCOUNT}
    mdp = random_mdp(rng, horizon=None, **shape)
    return mdp, random_policy(rng, mdp), rng


def expected_counts(mdp, visits):
    """What so many visits would have left on average."""
    moves = expected_moves(mdp)
    uniform = np.full((N_STATES, N_ACTIONS), 1 / N_ACTIONS)
    risks = exact.risk_cumulants(mdp, uniform, Centralised())
    means = [np.sum(mdp.transitions * table, axis=-1) for table in (mdp.rewards, risks)]
    tables = visits, visits * np.stack(means), visits[..., None] * moves, 7.0 * mdp.start
    return Counts(*map(jnp.asarray, tables)), risks


@pytest.mark.parametrize("many", [100, 2])  # solved, and by sweeps
def test_counts_that_are_right_give_the_exact_values(many, monkeypatch):
    monkeypatch.setattr(counting, "MANY", many)
    mdp, policy, rng = problem()
    counts, risks = expected_counts(mdp, rng.uniform(0.5, 9.0, (N_STATES, N_ACTIONS)))
    discounts = jnp.array([DISCOUNT, 0.6])
    found = counts.predictions(jnp.asarray(policy), discounts, jnp.zeros((2, N_STATES)))
    q, values = found.advantages + found.values[..., None], found.values
    for row, signal in enumerate((mdp.rewards, risks)):
        shorter = replace(mdp, discount=float(discounts[row]))
        expected = exact.action_values(shorter, policy, signal)
        np.testing.assert_allclose(q[row], expected, atol=1e-9)
        np.testing.assert_allclose(values[row], np.sum(policy * expected, axis=1), atol=1e-9)


def test_the_risk_of_an_episode_is_that_of_its_starts():
    mdp, policy, rng = problem()
    counts, risks = expected_counts(mdp, rng.uniform(0.5, 9.0, (N_STATES, N_ACTIONS)))
    found = counts.predictions(jnp.asarray(policy), jnp.full(2, DISCOUNT), jnp.zeros((2, N_STATES)))
    answers = [exact.start_value(mdp, policy, signal) for signal in (mdp.rewards, risks)]
    np.testing.assert_allclose(found.start, answers, atol=1e-9)


def test_the_multiplier_hears_what_the_counts_predict_but_sampled_shortfalls():
    agent = learner_of("natural")[0]
    sampled = Found(jnp.asarray(3.0), jnp.array([6.0]))
    predicted = Predicted(jnp.zeros((2, 5, 3)), jnp.zeros((2, 5)), jnp.array([5.0, 0.25]))
    told = expected(agent, sampled, predicted)
    assert float(told.measured[0] / told.episodes) == 0.25
    assert expected(replace(agent, measure="lpm"), sampled, predicted) is sampled


@pytest.mark.parametrize("many", [100, 2])  # solved, and by sweeps
def test_what_is_unknown_is_added_up_along_the_way(many, monkeypatch):
    # Another way: the signal in a table of the MDP, whose exact action values are known. What was
    # never tried stays where it is.
    monkeypatch.setattr(counting, "MANY", many)
    mdp, policy, rng = problem()
    visits = rng.uniform(1.0, 9.0, (N_STATES, N_ACTIONS))
    visits[2, 1] = 0.0
    counts, _ = expected_counts(mdp, visits)
    values, apart = rng.normal(size=N_STATES), 1.7

    ends, next_states, weights = (np.array(t) for t in (mdp.ends, mdp.next_states, mdp.transitions))
    ends[2, 1], next_states[2, 1] = False, 2
    goes_to = np.where(ends, 0.0, values[next_states])
    mean = np.sum(weights * goes_to, axis=-1, keepdims=True)
    deviation = np.sqrt(np.sum(weights * (goes_to - mean) ** 2, axis=-1))
    n = np.where(visits > 0, visits, 1.0)
    share = 1.0 if many > N_STATES else 1.0 - DISCOUNT
    here = DISCOUNT * deviation / np.sqrt(n) + share * apart * 0.9**n
    table = np.broadcast_to(here[..., None], weights.shape)
    explored = replace(mdp, ends=ends, next_states=next_states)
    q = exact.action_values(explored, policy, table)
    expected_gains = q - np.sum(policy * q, axis=1, keepdims=True)

    found = counts.unknown(jnp.asarray(policy), DISCOUNT, jnp.asarray(values), apart)
    # The root of a variance that is 0 but for rounding is 1e-8.
    np.testing.assert_allclose(found, expected_gains, atol=1e-7)


def test_what_has_faded_is_not_more_unknown_than_what_one_step_would_leave():
    # After many batches without a visit, with memory below 1.
    moves, values = jnp.full((2, 1, 2), 0.5), jnp.array([1.0, 3.0])
    once, faded = (counting.by_chance(jnp.full((2, 1), n), moves, values) for n in (1.0, 1e-9))
    np.testing.assert_array_equal(once, faded)
    assert float(once[0, 0]) == 1.0


def test_what_was_never_tried_is_worth_what_its_state_is():
    mdp, policy, rng = problem()
    visits = rng.uniform(1.0, 9.0, (N_STATES, N_ACTIONS))
    visits[2, 1] = 0.0
    visits[4] = 0.0
    counts, _ = expected_counts(mdp, visits)
    found = counts.predictions(jnp.asarray(policy), jnp.full(2, DISCOUNT), jnp.zeros((2, N_STATES)))
    q, values = found.advantages + found.values[..., None], found.values
    np.testing.assert_array_equal(q[:, 2, 1], values[:, 2])
    np.testing.assert_array_equal(values[:, 4], 0.0)
    others = policy[2, [0, 2]] / policy[2, [0, 2]].sum()
    np.testing.assert_allclose(values[:, 2], q[:, 2, [0, 2]] @ others, rtol=1e-12)


def test_steps_are_counted_and_fade():
    # Two steps from state 0 by action 1, to 2 and to an end, with 3 and 5; one from 2 by 0, with 7.
    steps = some_steps([0, 2, 0], [1, 0, 1], [3, 7, 5], [2, 1, 2], [0, 0, 1], [0, 1, 0])
    once = Counts.none(3, 2, 1).after(steps, memory=0.25)
    np.testing.assert_array_equal(once.visits, [[0, 2], [0, 0], [1, 0]])
    np.testing.assert_array_equal(once.sums[0], [[0, 8], [0, 0], [7, 0]])
    assert {tuple(map(int, at)) for at in np.argwhere(once.moves)} == {(0, 1, 2), (2, 0, 1)}
    np.testing.assert_array_equal(once.starts, [2, 0, 0])
    twice = once.after(steps, memory=0.25)
    for more, less in zip(jax.tree.leaves(twice), jax.tree.leaves(once), strict=True):
        np.testing.assert_array_equal(more, 1.25 * less)


def test_visits_are_those_of_an_episode_as_the_policy_would_act():
    # Two episodes, 0 -> 2 and 0, discounted by 0.5: state 0 once in each, state 2 half in one.
    steps = some_steps([0, 2, 0], [1, 0, 1], [3, 7, 5], [2, 1, 2], [0, 0, 1], [0, 1, 0])
    agent = Batches(two_roads(), Gibbs(OneHot(3), 2), (Reward(0.5),), counted=True)
    pi = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    found = visits_of(agent, jnp.log(pi).T.reshape(-1), steps)
    np.testing.assert_allclose(found, np.array([[1.0], [0.0], [0.25]]) * pi, rtol=1e-12)


def two_roads():
    return Tabular(
        np.full((3, 2, 3), 1 / 3), np.ones((3, 2, 1)), discount=0.5, ends=np.ones((3, 2, 3))
    )


def test_the_policy_of_averaged_visits_has_the_average_of_mean_and_risk():
    mdp, one, rng = problem()
    other = random_policy(rng, mdp)
    risks = exact.risk_cumulants(mdp, one, Centralised())
    shares = [exact.state_distribution(mdp, p)[:, None] * p for p in (one, other)]
    theta = policy_of(jnp.asarray(0.3 * shares[0] + 0.7 * shares[1]), jnp.zeros(15))
    mixed = np.asarray(jnp.exp(counting.log_policy(theta, N_ACTIONS)))
    for signal in (mdp.rewards, risks):
        values = [exact.start_value(mdp, p, signal) for p in (one, other, mixed)]
        assert values[2] == pytest.approx(0.3 * values[0] + 0.7 * values[1], rel=1e-9)


def learner_of(direction, temperature=0.0):
    """A learner with exact counts, before its policy step; its advantages; and the exact ones."""
    mdp, policy, rng = problem()
    signals = Reward(DISCOUNT), Proxy(Centralised(), DISCOUNT, None)
    agent = Batches(
        mdp,
        Gibbs(OneHot(N_STATES), N_ACTIONS),
        signals,
        thresholds=(1.0,),
        multiplier=FixedMultiplier(MULTIPLIER),
        direction=direction,
        temperature=temperature,
        counted=True,
        kl=1e-6,
    )
    counts, risks = expected_counts(mdp, rng.uniform(5.0, 9.0, (N_STATES, N_ACTIONS)))
    theta = jnp.log(policy).T.reshape(-1)
    tables = [exact.action_values(mdp, policy, signal) for signal in (mdp.rewards, risks)]
    values = [np.sum(policy * table, axis=1) for table in tables]
    advantages = np.stack([q - v[:, None] for q, v in zip(tables, values, strict=True)])
    learner = start(agent, jax.random.key(1))
    learner = replace(learner, theta=theta, counts=counts, weights=jnp.asarray(np.stack(values)))
    learner = replace(learner, units=jnp.array(UNITS))
    return agent, learner, jnp.asarray(advantages), policy


def move(agent, learner, advantages):
    after = improve_counted(agent, learner, jnp.asarray(MET), advantages)
    step = np.asarray(after.theta - learner.theta).reshape(N_ACTIONS, N_STATES).T
    return step / np.linalg.norm(step)


MET = np.array([0.1, 0.3, 0.2, 0.15, 0.25])


@pytest.mark.parametrize("direction", ["natural", "plain"])
def test_the_step_is_along_the_natural_gradient_of_theorem_1_or_along_the_plain_one(
    direction, monkeypatch
):
    # w_q - multiplier w_rho is A_q - multiplier A_rho itself, each in its unit. F has a block for
    # each state, d (diag(pi) - pi pi'), and the plain gradient is F w.
    monkeypatch.setattr(counting_update, "CURIOSITY", 0.0)
    agent, learner, advantages, policy = learner_of(direction)
    w = np.asarray(advantages[0] / UNITS[0] - MULTIPLIER * advantages[1] / UNITS[1])
    if direction == "plain":
        blocks = [m * (np.diag(p) - np.outer(p, p)) for m, p in zip(MET, policy, strict=True)]
        w = np.stack([block @ row for block, row in zip(blocks, w, strict=True)])
    found = move(agent, learner, advantages)
    np.testing.assert_allclose(found, w / np.linalg.norm(w), atol=1e-8)


def test_many_small_numbers_are_not_rounded_off_a_large_sum():
    # In float32, one by one, each 0.3 would be rounded alike, and the sum end percents off.
    with jax.enable_x64(False):
        n = 2000
        one = jnp.zeros(n, int)
        steps = some_steps(one, one, np.full(n, 0.3), one, one, one)
        counts = Counts.none(3, 2, 1)
        for _ in range(200):
            counts = counts.after(steps, memory=1.0)
        assert float(counts.sums[0, 0, 0]) == pytest.approx(0.3 * 200 * n, rel=1e-4)


def test_no_preference_falls_so_far_that_it_cannot_come_back():
    agent, learner, advantages, _ = learner_of("natural")
    agent = replace(agent, kl=1e6, step_limit=1e6)
    after = improve_counted(agent, learner, jnp.asarray(MET), advantages)
    table = np.asarray(after.theta).reshape(N_ACTIONS, N_STATES)
    np.testing.assert_allclose(table.max(axis=0) - table.min(axis=0), FARTHEST)


def test_what_is_a_matter_of_rounding_moves_nothing(monkeypatch):
    monkeypatch.setattr(counting_update, "CURIOSITY", 0.0)
    agent, learner, advantages, policy = learner_of("natural", temperature=0.5)
    values = jnp.full_like(learner.weights, -33.0) * (1.0 + 1e-16)
    level = replace(learner, weights=values)
    found = move(agent, level, 1e-15 * advantages)
    w = -np.log(policy) + np.sum(policy * np.log(policy), axis=1, keepdims=True)
    np.testing.assert_allclose(found, w / np.linalg.norm(w), atol=1e-8)


def test_levels_begin_with_the_first_risk_and_then_follow_slowly():
    levels = jnp.array([0.0, 4.0])
    settling = Settling(jnp.zeros(()), jnp.zeros(1), jnp.asarray(0), levels=levels)
    found = settling.levelled(jnp.array([3.0, 8.0])).levels
    np.testing.assert_allclose(found, [3.0, 4.0 + 4.0 * SLOW])


def test_entropy_and_curiosity_lead_where_advantages_do_not(monkeypatch):
    agent, learner, advantages, policy = learner_of("natural", temperature=0.5)
    nothing = replace(learner, weights=jnp.zeros_like(learner.weights))
    with monkeypatch.context() as without:
        without.setattr(counting_update, "CURIOSITY", 0.0)
        found = move(agent, nothing, jnp.zeros_like(advantages))
    w = -np.log(policy) + np.sum(policy * np.log(policy), axis=1, keepdims=True)
    np.testing.assert_allclose(found, w / np.linalg.norm(w), atol=1e-8)

    # Along what is unknown, itself tested above; while all states are alike, they are 1 apart.
    agent = replace(agent, temperature=0.0)
    values = np.asarray(learner.weights[0] / UNITS[0] - MULTIPLIER * learner.weights[1] / UNITS[1])
    values = values / (1.0 + MULTIPLIER)
    for worth, apart in ((values, np.ptp(values)), (np.zeros(N_STATES), 1.0)):
        known = learner if worth.any() else replace(learner, weights=0.0 * learner.weights)
        w = learner.counts.unknown(jnp.asarray(policy), DISCOUNT, jnp.asarray(worth), apart)
        found = move(agent, known, jnp.zeros_like(advantages))
        np.testing.assert_allclose(found, w / np.linalg.norm(w), atol=1e-8)


def test_steps_are_counted_where_a_numbered_problem_goes_on_for_ever_and_is_discounted():
    mdp = random_mdp(np.random.default_rng(1), horizon=None, discount=0.9)
    bound = {"target": Centralised(), "threshold": 0.5}
    assert NAC(mdp)._settings.counted
    assert NRCPO(mdp, **bound)._settings.counted
    cliff = {"discount": 0.99, "num_envs": 16}
    assert NAC("CliffWalking-v1", **cliff)._settings.period % 16 == 0
    assert NAC("CliffWalking-v1", **cliff)._settings.counted
    assert NAC("Taxi-v4", discount=0.99)._settings.counted  # its time limit is not part of it
    for agent in (
        NAC(mdp, damping=0.3),
        NAC(mdp, counted=False),
        NAC(mdp, policy=Gibbs(OneHot(3), 2)),
    ):
        assert not agent._settings.counted
        assert agent._settings.period == 2000
    endless = Constraint(Penalty(lambda t: t.reward, discount=1.0), 0.5)
    assert not NRCPO(mdp, constraints=[endless])._settings.counted
    soon = NRCPO(mdp, target=TDError(), threshold=0.5)._settings
    assert soon.counted
    assert float(soon.memory[0]) == pytest.approx(0.98)
    asked = NAC(mdp, policy=Gibbs(OneHot(3), 2), counted=True)._settings
    assert asked.period == 1000
    with pytest.raises(ValueError, match="damping= has no part in counted=True"):
        NAC(mdp, counted=True, damping=0.3)
    with pytest.raises(ValueError, match="needs a horizon or discounts below 1"):
        NRCPO(mdp, constraints=[endless], counted=True)
    with pytest.raises(ValueError, match="leave counted= out"):
        NAC(mdp, policy=Gibbs(OneHot(3), 2, hidden=(4,)), counted=True)
    with pytest.raises(ValueError, match="value_features= has no part"):
        NAC(mdp, counted=True, value_features=lambda obs, time: jnp.ones(1))


def corridor(length):
    """One action leads on, the other back to the beginning; only the far end pays."""
    chances = np.zeros((length, 2, length))
    chances[range(length), 0, np.minimum(np.arange(length) + 1, length - 1)] = 1.0
    chances[:, 1, 0] = 1.0
    rewards = np.zeros((length, 2, 1))
    rewards[-1, 0] = 1.0
    return Tabular(chances, rewards, discount=0.95)


@pytest.mark.slow
def test_what_random_steps_would_never_find_is_looked_for():
    # Random actions come to the end of the corridor once in 2^29 episodes of 60 steps.
    walk = corridor(30)
    with jax.enable_x64(False):
        agent = NAC(walk, n_seeds=4).learn(60_000, progress_bar=False)
    best = exact.constrained_optimum(walk, []).mean
    for theta in agent.theta:
        policy = np.asarray(jnp.exp(counting.log_policy(jnp.asarray(theta), 2)))
        assert exact.start_value(walk, policy) > 0.98 * best


@pytest.mark.slow
def test_a_goal_that_random_walks_hardly_find_is_found_along_a_cliff():
    # Random steps along the cliff cost more than a thousand, walking about for ever 100.
    # The tolerance was set with the results of other seeds in sight: it guards them.
    cliff = Tabular.from_gymnasium("CliffWalking-v1", discount=0.99, is_slippery=True)
    with jax.enable_x64(False):
        agent = NAC(cliff, n_seeds=4).learn(100_000, progress_bar=False)
    best = exact.constrained_optimum(cliff, []).mean
    assert best == pytest.approx(-46.353, abs=0.001)
    for theta in agent.theta:
        policy = np.asarray(jnp.exp(counting.log_policy(jnp.asarray(theta), 4)))
        assert exact.start_value(cliff, policy) > best - 5.0
