import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Tabular, rollout
from downside.exact import action_values, risk_cumulants
from downside.experiments.base import load_results
from downside.experiments.prediction import (
    best_setting,
    judge,
    samples_needed,
    seed_keys,
)
from downside.experiments.prediction_problems import PROBLEMS, Member, Problem, make_problem
from downside.experiments.prediction_runs import (
    BATCH_LSTD,
    GRIDS,
    HALVINGS,
    LEAST_SQUARES,
    METHODS,
    MONTE_CARLO_METHODS,
    PLAIN,
    RECURSIVE_LSTD,
    SARSA,
    STEP_SIZES,
    TD_METHODS,
    Settings,
    experience,
    learning_curves,
    sample_counts,
    target_moments,
)
from downside.signals import Centralised, Fixed, Predictions
from experiment_runs import reproduce
from simulation_checks import agrees


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("results")
    reproduce("prediction", path)
    return path


def test_every_claim_is_judged_with_finite_numbers(folder):
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    assert [claim["id"][0] for claim in claims] == ["2", "3", "4", "8", "9"]
    for claim in claims:
        assert np.isfinite(claim["measured"])
        assert all(x is None or np.isfinite(x) for x in claim["evidence"].values())
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
        n, steps = (16_000, horizon) if (horizon := member.env.horizon) else (4_000, 1_000)
        sums = rollout(
            member.env, member.act, jax.random.key(11), n, measure=measure, max_steps=steps
        )
        for samples, exact, error in zip(
            sums.discounted, member.proxies, member.errors, strict=True
        ):
            agrees(samples, exact, error)


def test_the_mean_start_is_that_of_drawn_starts():
    for name in PROBLEMS:
        problem = make_problem(name, seed=7, n_episodes=100)
        for member in problem.members:

            def first(key, member=member, problem=problem):
                noise_key, act_key = jax.random.split(key)
                _, obs = member.env.reset(member.env.draw(noise_key))
                return problem.features(obs, member.act(obs, act_key), jnp.asarray(0))

            drawn = np.asarray(jax.vmap(first)(jax.random.split(jax.random.key(4), 4096)), float)
            # 4 standard errors of 120 numbers: wrong once in 130 seeds
            error = drawn.std(axis=0) / 64.0
            assert np.all(np.abs(drawn.mean(axis=0) - member.start) <= 4.0 * error + 1e-6)


def constant_features(obs, action, time):
    return jnp.where(time == 0, 2.0, 3.0)[None]  # nothing that the plain average could use


def two_steps():
    """Two steps of reward 3 at discount 0.5: q = 3 + 1.5. A target of 7.5 is 5 per step, missed by
    2 twice: 2 + 1 for order 1, 4 + 2 for order 2."""
    env = Tabular([[[1.0]]], [[[3.0]]], discount=0.5, horizon=2)
    act = Partial(lambda obs, key: jnp.asarray(0))
    proxies, start = np.array([3.0, 6.0]), np.array([2.0])
    member = Member(env, act, Fixed(7.5), proxies, np.zeros(2), start)
    features = Partial(constant_features)
    return Problem("two steps", (member,), features, n_features=1, n_steps=256, short_steps=256)


def test_every_method_on_two_steps_solved_by_hand():
    problem = two_steps()
    keys = jax.random.split(jax.random.key(1), 3)
    settings = {m: GRIDS[m].take(np.array([0])) for m in METHODS}
    settings[SARSA] = Settings.grid(step_size=[0.02], halving=[50.0])
    estimates, last = learning_curves(problem, problem.members[0], keys, 256, settings)
    shape = 3, len(sample_counts(256)), 1, 3

    # the returns are 4.5, 3 and 6 from the start, and 3, 2 and 4 one step later
    expected = np.broadcast_to([4.5, 3.0, 6.0], shape)
    np.testing.assert_allclose(estimates[PLAIN], expected, rtol=1e-6)
    # least squares of both on the features 2 and 3, over n visits each; then times 2
    for n, count in ((64, 0), (128, 1)):
        weights = np.array([2 * 4.5 + 3 * 3, 2 * 3 + 3 * 2, 2 * 6 + 3 * 4.0]) * n
        weights = weights / (13 * n + 0.01)
        np.testing.assert_allclose(
            estimates[LEAST_SQUARES][:, count, 0], [2 * weights] * 3, rtol=1e-5
        )
    # TD without a trace: A = 2 (2 - 0.5 * 3) + 3 * 3, b = 5 times the cumulant
    weights = 128 * 5.0 * np.array([3.0, 2.0, 4.0]) / (128 * 10.0 + 0.01)
    for method in (BATCH_LSTD, RECURSIVE_LSTD):
        np.testing.assert_allclose(last[method][:, 0, :, 0], [weights] * 3, rtol=1e-4)
        np.testing.assert_allclose(estimates[method][:, -1, 0], [2 * weights] * 3, rtol=1e-4)
    # SARSA, step by step, the step size halved after 50
    w = 0.0
    for t in range(256):
        x, following = (2.0, 0.5 * 3.0 * w) if t % 2 == 0 else (3.0, 0.0)
        w += 0.02 / (1.0 + t / 50.0) * (3.0 + following - w * x) * x
    np.testing.assert_allclose(last[SARSA][:, 0, 0, 0], w, rtol=1e-4)


def test_a_seed_gives_the_same_whatever_shares_its_call():
    problem = make_problem("random MDPs", seed=7, n_episodes=1)
    keys = jax.random.split(jax.random.key(1), 6)
    settings = {BATCH_LSTD: GRIDS[BATCH_LSTD]}
    together, _ = learning_curves(problem, problem.members[0], keys, 256, settings)
    apart, _ = learning_curves(problem, problem.members[0], keys[4:5], 256, settings)
    np.testing.assert_allclose(together[BATCH_LSTD][4], apart[BATCH_LSTD][0], rtol=1e-6)
    assert np.ptp(together[BATCH_LSTD][:, -1, 0, 1]) > 0.0  # and seeds differ


def test_the_next_features_are_those_of_the_next_step_until_the_episode_ends():
    problem = make_problem("random MDPs", seed=7, n_episodes=1)
    keys = jax.random.split(jax.random.key(1), 4)
    pieces = [steps for _, steps in experience(problem, problem.members[1], keys, 384)]
    assert len(pieces) == 3
    steps = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *pieces)
    ended = steps.discounts[:, :-1, 0] == 0.0
    np.testing.assert_array_equal(steps.next_x[:, :-1][~ended], steps.x[:, 1:][~ended])
    np.testing.assert_array_equal(steps.first[:, 1:, 0], ended)
    np.testing.assert_array_equal(steps.first[:, 0], 1.0)
    assert 0.02 < ended.mean() < 0.3
    assert np.all(steps.x.sum(axis=-1) == 1.0)


def test_the_published_step_sizes_are_inside_the_grid():
    published = Path(__file__).parents[2] / "docs" / "results" / "prediction" / "claims.json"
    evidence = json.loads(published.read_text())["claims"][3]["evidence"]
    for name in PROBLEMS:
        step_size = evidence[f"{name}: SARSA(lambda), step size"]
        halving = evidence[f"{name}: SARSA(lambda), step size halved after"]
        assert 1.01 * min(STEP_SIZES) < step_size < 0.99 * max(STEP_SIZES)
        assert 1.01 * min(HALVINGS) < halving < 0.99 * max(HALVINGS)


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


@pytest.mark.parametrize(
    ("name", "n_features", "goal", "start"),
    [  # three rows of twelve, and the start, as nobody stands on a cliff: 37, filled up to 40
        ("slippery CliffWalking", 40, 47, 36),
        ("slippery FrozenLake", 16, 15, 0),  # the goal would be the sixteenth
    ],
)
def test_features_of_the_goal_are_zero(name, n_features, goal, start):
    problem = make_problem(name, seed=7, n_episodes=1)
    assert problem.n_features == n_features
    at_goal = problem.features(jnp.asarray(goal), jnp.asarray(0), jnp.asarray(3))
    at_start = problem.features(jnp.asarray(start), jnp.asarray(0), jnp.asarray(0))
    assert at_goal.sum() == 0.0
    assert at_start.argmax() == start
    assert at_start.sum() == 1.0
