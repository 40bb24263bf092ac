import json

import jax
import numpy as np
import pytest

import made_up_results as made_up
from downside.environments import Consumption
from downside.exact.consumption import evaluate_fixed
from downside.experiments import consumption_runs as runs
from downside.experiments.base import Workshop, load_results
from downside.experiments.consumption import SCOPES
from downside.experiments.consumption_claims import judge, largest_drops
from downside.report.consumption_figure import learning
from experiment_runs import reproduce

ENV = Consumption()
NUS = np.array([0.05, 0.1, np.inf])  # with as many learners as in the smoke run, so one program
PLAN = runs.Plan(n_seeds=2, n_steps=60_000, n_evaluations=3, n_episodes=20)


@pytest.fixture
def results():
    return made_up.consumption()


def verdicts(results):
    return {claim.id: claim.verdict for claim in judge(results)}


@pytest.mark.slow
def test_a_smoke_run_leaves_finite_numbers_and_judges_nothing(tmp_path):
    reproduce("consumption", tmp_path)
    results = load_results(tmp_path)
    for name in results["presets"]:
        for what in ("mean", "risk", "multiplier"):
            assert results[f"{what}: {name}"].shape[:2] == (3, 2)
            assert np.isfinite(results[f"{what}: {name}"]).all()
    claims = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert {claim["verdict"] for claim in claims} == {"not reached at this scale"}
    # the exact optimum, from its dynamic programme
    np.testing.assert_allclose(results["optimum"], [1.465180, 1.485584, 2.001299], atol=1e-6)


@pytest.mark.slow
def test_an_interrupted_training_goes_on_and_ends_with_the_same_numbers(tmp_path, monkeypatch):
    whole, thetas = runs.train("recommended", ENV, NUS, PLAN, 5, Workshop())

    class StoppedError(Exception):
        pass

    def stop(path, line):
        write(path, line)
        if line["steps"] == 40_000:
            path.write_text(path.read_text() + '{"steps": 600')  # a line that was cut off
            raise StoppedError

    write = runs._write_line
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_write_line", stop)
        with pytest.raises(StoppedError):
            runs.train("recommended", ENV, NUS, PLAN, 5, Workshop(tmp_path))
    again, again_thetas = runs.train("recommended", ENV, NUS, PLAN, 5, Workshop(tmp_path))
    np.testing.assert_array_equal(thetas, again_thetas)
    for what, values in whole.items():
        np.testing.assert_array_equal(values, again[what])


def test_an_even_consumer_has_its_closed_form():
    # mean of the logit -log(n): 1 / (n + 1); noise all but gone, everything at risk
    theta = np.zeros(16)
    theta[0], theta[4], theta[9], theta[12] = 1.0, -20.0, -1.0, -20.0
    found = runs.evaluate(runs.RECOMMENDED, ENV, theta[None], jax.random.key(2), 20_000)
    left = ENV.horizon - np.arange(ENV.horizon)
    exact = evaluate_fixed(ENV, 1.0 / (left + 1.0), 1.0)
    assert abs(found["mean"][0] - exact.mean) < 4 * exact.std / np.sqrt(20_000)
    assert found["share"][0] == pytest.approx(1.0)
    # J_C is a small sum of shares of the wealth, whose deviation is below that of the return
    assert found["risk"][0] == pytest.approx(exact.risk, abs=4 * exact.std / np.sqrt(20_000))


def test_the_presets_are_those_of_the_paper():
    printed = runs.PRESETS["printed"]
    assert (printed.critic_step_size, printed.step_size) == (1e-5, 1e-5)
    assert (printed.trace_decay, printed.multiplier_rate) == (0.97, 0.0025)
    assert (printed.period, printed.pretraining) == (1000, 1000)
    share, fraction = printed.policy.policies
    theta = printed.policy.init(np.random.default_rng(0))
    obs = np.array([30.0, 0.8])
    np.testing.assert_allclose(share.mean_and_std(theta[: share.n_params], obs), [[0], [np.log(2)]])
    shapes = fraction.shapes(theta[share.n_params :], obs)
    np.testing.assert_allclose(shapes, 1.0 + np.log(2.0))
    bold = runs.PRESETS["figure"].policy
    start = bold.init(np.random.default_rng(0))[bold.policies[0].n_params :]
    np.testing.assert_allclose(
        np.ravel(bold.policies[1].shapes(start, obs)),
        [1.0 + np.log1p(np.exp(2.0)), 1.0 + np.log1p(np.exp(30.0))],
        rtol=1e-6,
    )
    assert runs.PAPER.n_features == 16
    for scale in ("default", "full"):
        assert all(plan.n_seeds >= 5 for plan in SCOPES[scale].plans.values())


def test_short_runs_are_not_judged(results):
    results["steps: figure"] = results["steps: recommended"] = np.array([1000])
    assert set(verdicts(results).values()) == {"not reached at this scale"}


def test_made_up_results_are_judged_as_they_were_made(results):
    results["steps: figure"] = results["steps: recommended"] = np.array([9_000_000])
    for what in ("mean", "risk", "lpm"):
        results[f"final {what}: figure"] = np.array([[0.1] * 3, [0.2] * 3, [0.3] * 3])
        results[f"final {what}: printed"] = np.full((3, 3), 0.1)
    results["final mean: recommended"] = 0.96 * results["optimum"][:, None] * np.ones(3)
    results["risk: figure"] = np.full((3, 3, 40), 0.04)
    results["mean: figure"] = np.linspace(1.0, 1.2, 40) * np.ones((3, 3, 1))
    assert verdicts(results) == {
        "11 ordering": "holds with a correction",  # the printed constants tell nothing apart
        "11 feasibility": "holds",
        "11 stability": "holds",
        "11 losses": "fails",
        "11 optimum": "holds",
        "11 capital": "not reached at this scale",  # not run
    }
    far = {**results, "final risk: recommended": results["final risk: recommended"] + 0.02}
    assert verdicts(far)["11 optimum"] == "fails"  # near the optimum, but not at nu
    results["final mean: figure"][1] = 0.05
    results["risk: figure"][:] = 0.2
    results["final risk: figure"][:2] = 0.2
    results["mean: figure"][0, 0, -20:] = 0.3
    results["final mean: recommended"] = 0.9 * results["optimum"][:, None] * np.ones(3)
    found = verdicts(results)
    assert [found[f"11 {x}"] for x in ("ordering", "feasibility", "stability", "optimum")] == [
        "fails"
    ] * 4


def with_capital(results):
    """Losses and the share at risk grow with nu; the LPM is 0.02 below J_C, which is at nu."""
    bounds = np.array([0.05, 0.1, 0.15])
    levels = bounds[:, None] * np.ones(3)
    found = {"capital thresholds": bounds, "final risk: capital": levels}
    found |= {"final lpm: capital": levels - 0.02, "final share: capital": 6.0 * levels}
    found["multiplier: capital"] = np.stack([0.0 * levels, 10.0 * levels], axis=-1)
    return results | found | {"final mean: capital": 1.0 + levels}


def test_a_bound_on_losses_is_judged_as_it_was_made(results):
    results["steps: figure"] = results["steps: recommended"] = np.array([9_000_000])
    made = with_capital(results)
    claim = next(claim for claim in judge(made) if claim.id == "11 capital")
    assert (claim.measured, claim.verdict) == (1.0, "holds")
    assert claim.evidence["share at nu = 0.1: capital"] == pytest.approx(0.6)
    assert claim.evidence["share of policies with LPM <= J_C: capital"] == 1.0
    assert claim.evidence["capital: multiplier at nu = 0.1, seed 2"] == pytest.approx(1.0)
    losing = {**made, "final lpm: capital": made["final lpm: capital"] + 0.03}
    still = {**made, "final share: capital": made["final share: capital"][::-1]}
    for other in (losing, still):
        assert verdicts(other)["11 capital"] == "fails"


@pytest.mark.parametrize("name", ["figure", "recommended"])
def test_the_plain_gradient_is_compared_at_equal_steps(results, name):
    steps, plain = results[f"steps: {name}"], f"{name}, plain"
    half = len(steps) // 2
    for what in ("mean", "risk", "multiplier"):
        kept = results[f"{what}: {name}"][..., :half]
        results[f"{what}: {plain}"] = kept - (0.03 if what == "mean" else 0.0)
    for what in ("mean", "risk", "lpm", "share"):
        results[f"final {what}: {plain}"] = results[f"final {what}: figure"]
    results[f"steps: {plain}"] = steps[:half]
    results[f"failed: {plain}"] = np.array(0)
    results["presets"] = np.append(results["presets"], plain)
    evidence = next(claim for claim in judge(results) if claim.id == "11 optimum").evidence
    title = f"{name} less {plain}"
    assert evidence[f"steps compared: {title}"] == steps[half - 1]
    assert evidence[f"mean at nu = 0.1: {title}"] == pytest.approx(0.03)
    assert evidence[f"risk at nu = inf: {title}"] == pytest.approx(0.0)


def test_a_part_of_the_work_is_made_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"mean": np.array([2.0, 3.0])}

    for _ in range(2):
        found = Workshop(tmp_path).part("recommended, plain", make)
        np.testing.assert_array_equal(found["mean"], [2.0, 3.0])
    assert len(made) == 1


def test_the_largest_drop_is_of_the_moving_average():
    # windows of 2 of 8: the averages fall from 4 to 1
    curve = np.array([[4.0, 4.0, 4.0, 2.0, 0.0, 2.0, 4.0, 4.0]])
    assert largest_drops(curve).tolist() == [0.75]


def test_the_figure_has_a_column_for_each_preset(results):
    figure = learning(results)
    assert [axes.get_title() for axes in figure.axes[:3]] == ["printed", "figure", "recommended"]
    levels = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(levels, results["optimum"])
