import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Tabular, rollout
from downside.exact import action_values, risk_cumulants
from downside.experiments.base import load_results, reproduce
from downside.experiments.prediction import (
    best_setting,
    judge,
    samples_needed,
    seed_keys,
)
from downside.experiments.prediction_problems import PROBLEMS, Member, Problem, make_problem
from downside.experiments.prediction_runs import (
    METHODS,
    MONTE_CARLO_METHODS,
    TD_METHODS,
    learning_curves,
    sample_counts,
    target_moments,
)
from downside.signals import Centralised, Fixed, Predictions
from simulation_checks import agrees


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("results")
    reproduce("prediction", path, scale="smoke", seed=3, command="downside reproduce prediction")
    return path


def test_every_claim_is_judged_with_finite_numbers(folder):
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    assert [claim["id"][0] for claim in claims] == ["2", "3", "4", "8", "9"]
    for claim in claims:
        assert np.isfinite(claim["measured"])
        assert all(np.isfinite(value) for value in claim["evidence"].values())
    for claim in claims[3:]:
        assert claim["low"] <= claim["measured"] <= claim["high"]


def test_verdicts_follow_from_the_saved_results_alone(folder):
    saved = json.loads((folder / "claims.json").read_text())["claims"]
    again = judge(load_results(folder))
    assert [claim.verdict for claim in again] == [claim["verdict"] for claim in saved]
    assert [claim.measured for claim in again] == pytest.approx([c["measured"] for c in saved])


@pytest.mark.parametrize(
    ("worse", "factor", "verdict"),
    [
        (MONTE_CARLO_METHODS, 9.0, "holds"),
        (TD_METHODS, 9.0, "fails"),
        (METHODS, 1e6, "not reached at this scale"),
    ],
)
def test_the_verdict_on_efficiency_follows_the_errors(folder, worse, factor, verdict):
    results = load_results(folder)
    name = "squared errors: random MDPs"
    scales = np.where(np.isin(METHODS, worse), factor, 1.0)
    results[name] = results[name][:, :1] * scales[:, None, None]  # all methods alike but for it
    assert judge(results)[3].verdict == verdict


def test_the_verdict_on_orders_follows_the_targets(folder):
    results = load_results(folder)
    variances = results["target variances: random MDPs"]
    results["target variances: random MDPs"] = variances * np.array([1.0, 50.0, 1.0])
    assert judge(results)[4].verdict == "fails"


def test_samples_needed_on_curves_drawn_by_hand():
    counts = np.array([100, 200, 400, 800])
    # the error is 10 / sqrt(n): it is 0.6 at (10 / 0.6)^2 = 277.8 samples
    assert samples_needed(counts, 10 / np.sqrt(counts), 0.6) == pytest.approx((10 / 0.6) ** 2)
    # it dips below 0.5 at 200 but does not stay there; from 0.8 at 400 to 0.2 at 800 half the
    # way on the log scale is 0.4
    rmse = np.array([0.9, 0.3, 0.8, 0.2])
    assert samples_needed(counts, rmse, 0.4) == pytest.approx(400 * np.sqrt(2))
    assert samples_needed(counts, rmse, 0.1) == np.inf
    assert samples_needed(counts, rmse, 0.95) == 100


def test_samples_needed_of_many_curves_at_once():
    counts, rng = np.array([100, 200, 400]), np.random.default_rng(2)
    curves = rng.uniform(0.05, 0.5, (3, 4, 5))
    together = samples_needed(counts, curves, 0.2)
    apart = [[samples_needed(counts, curves[:, i, j], 0.2) for j in range(5)] for i in range(4)]
    np.testing.assert_allclose(together, apart)


def test_the_best_setting_is_best_over_all_counts_and_never_one_that_diverged():
    # settings: good early and bad late, good everywhere, perfect until it diverges
    errors = np.array([[0.1, 0.2, 0.01], [0.4, 0.1, np.inf]])
    assert best_setting(np.broadcast_to(errors, (2, 3, 2, 3))) == 1


def test_no_seed_is_both_tuned_on_and_reported():
    tuning, reported = (jax.random.key_data(k) for k in seed_keys(5, n_tuning=7, n_seeds=11))
    assert len(tuning) == 7
    assert len(reported) == 11
    assert len(np.unique(np.concatenate([tuning, reported]), axis=0)) == 18


def cumulants(signals, transition):
    return [signal.cumulant(transition, Predictions()) for signal in signals]


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_answers_agree_with_simulation(name):
    # 4 standard errors, at most eight comparisons per problem: wrong once in 2,000 runs
    problem = make_problem(name, seed=7, n_episodes=20_000)
    for member in problem.members:
        measure = Partial(cumulants, member.signals[1:])
        steps = member.env.horizon or 1_000
        sums = rollout(
            member.env, member.act, jax.random.key(11), 4_000, measure=measure, max_steps=steps
        )
        for samples, exact, error in zip(
            sums.discounted, member.proxies, member.errors, strict=True
        ):
            agrees(samples, exact, error)


def constant_features(obs, action, time):
    return jnp.where(time == 0, 2.0, 3.0)[None]  # nothing that the plain average could use


def test_the_plain_average_is_that_of_the_returns_from_the_start():
    # Two steps of reward 3 at discount 0.5: q = 3 + 1.5. A target of 7.5 is 5 per step, missed by
    # 2 twice: 2 + 1 for order 1, 4 + 2 for order 2.
    env = Tabular([[[1.0]]], [[[3.0]]], discount=0.5, horizon=2)
    act = Partial(lambda obs, key: jnp.asarray(0))
    member = Member(env, act, Fixed(7.5), np.array([3.0, 6.0]), np.zeros(2))
    problem = Problem("two steps", (member,), Partial(constant_features), n_features=1, n_steps=256)
    keys = jax.random.split(jax.random.key(1), 2)
    estimates, _ = learning_curves(problem, member, keys, problem.n_steps)

    assert estimates[METHODS[4]].shape == (2, len(sample_counts(256)), 1, 3)
    expected = np.broadcast_to([4.5, 3.0, 6.0], estimates[METHODS[4]].shape)
    np.testing.assert_allclose(estimates[METHODS[4]], expected, rtol=1e-6)
    np.testing.assert_allclose(estimates[METHODS[1]], estimates[METHODS[2]], rtol=1e-4)


def test_target_variances_are_the_exact_ones_at_exact_predictions():
    problem = make_problem("random MDPs", seed=7, n_episodes=1)
    member = problem.members[2]
    mdp, policy = jax.tree.map(np.asarray, member.env), np.asarray(member.act.args[0], float)
    policy = policy / policy.sum(-1, keepdims=True)
    signal = risk_cumulants(mdp, policy, Centralised())
    values = action_values(mdp, policy, signal)
    weights = np.stack([action_values(mdp, policy), values, values]).reshape(3, -1)
    keys = jax.random.split(jax.random.key(2), 32)
    _, squares = target_moments(problem, member, weights, keys, 2048)

    # the variance of the target given state and action, weighted by the visits of a long run
    following = np.where(mdp.ends[..., None], 0.0, mdp.discount * values[mdp.next_states])
    chances = mdp.transitions[..., None] * policy[mdp.next_states]
    errors = signal[..., None] + following - values[..., None, None]
    spread = np.sum(chances * errors**2, axis=(-1, -2))
    chain = np.einsum("sa,sak,sakt->st", policy, mdp.transitions, restarts(mdp))
    visits = np.linalg.matrix_power(chain, 4096)[0]
    agrees(squares[:, 1], np.sum(visits[:, None] * policy * spread))


def restarts(mdp):
    """Where outcome k leads: to its state, or to the start if it ends the episode."""
    states = np.eye(mdp.n_states)
    return np.where(mdp.ends[..., None], mdp.start, states[mdp.next_states])


def test_features_of_a_state_that_ends_the_episode_are_zero():
    problem = make_problem("slippery CliffWalking", seed=7, n_episodes=1)
    assert problem.n_features == 37  # three rows of twelve, and the start; nobody stands on a cliff
    goal = problem.features(jnp.asarray(47), jnp.asarray(0), jnp.asarray(3))
    start = problem.features(jnp.asarray(36), jnp.asarray(0), jnp.asarray(0))
    assert goal.sum() == 0.0
    assert start.argmax() == 36
