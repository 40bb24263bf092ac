"""Studies of real trainings: the same bits on every engine, and after kills."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.killing import kill, workers_of

from downside.agent import Agent
from downside.environments import Bandit
from downside.signals import Constraint, TDError
from downside.specification import completed, make_agent
from downside.studies.collecting import collect, summarise
from downside.studies.driving import run_study
from downside.studies.folder import fates, read_study
from downside.studies.study import Study
from downside.studies.training import learner_rows
from study_kills import start_driver, wait_until

BASE = {
    "env": "downside/Bandit-v0",
    "settings": {"target": 1.0},
    "n_seeds": 2,
    "total_timesteps": 400_000,
    "n_eval_episodes": 200,
}
GRID = {"threshold": [0.2, 0.4], "seed": [3]}
pytestmark = pytest.mark.slow


def digests(folder):
    return {name: fate.files for name, fate in fates(folder, read_study(folder)).items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies") / "undisturbed"
    drive = run_study(folder, Study(BASE, GRID), workers=1)
    assert [fate.state for fate in drive.fates.values()] == ["done", "done"]
    return folder


@pytest.fixture
def warm(tmp_path, undisturbed):
    """A new folder, when the other study has compiled what it needs; that changes no bit."""
    return tmp_path / "study"


def test_what_a_training_leaves(undisturbed):
    table = collect(undisturbed).collect()
    assert table.height == 4
    assert table["threshold"].to_list() == [0.2, 0.2, 0.4, 0.4]
    assert table["seed_index"].to_list() == [0, 1, 0, 1]
    assert (table["mean_low"] < table["mean"]).all()
    assert (table["meets"] == (table["risk"] <= table["threshold"])).all()
    folder = undisturbed / "trials/bandit/threshold=0.4/seed=3"
    with np.load(folder / "policy.npz") as policy:
        assert policy["theta"].shape == (2, 3)
    summary = summarise(undisturbed)
    assert summary["setting"].to_list() == ["bandit/threshold=0.2", "bandit/threshold=0.4"]
    mean = table.filter(threshold=0.2)["mean"]
    assert summary["mean"][0] == pytest.approx(mean.mean())
    reach = 12.7062 * float(mean.std()) / np.sqrt(2)  # Student's, 1 degree of freedom
    assert summary["mean_reach"][0] == pytest.approx(reach, rel=1e-4)


def test_a_training_that_is_killed_goes_on_and_ends_with_the_same_bits(undisturbed, warm):
    driver = start_driver(warm, BASE, GRID, workers=1)
    for name in ("0.2", "0.4"):
        run = warm / f"trials/bandit/threshold={name}/seed=3/run/checkpoints"
        wait_until(lambda run=run: any(int(p.name) > 0 for p in run.glob("0*")), seconds=120)
        time.sleep(0.3)
        if name == "0.2":
            kill(*workers_of(driver.pid))
        else:
            driver.kill()
    driver.communicate()
    drive = run_study(warm)
    assert (drive.failed, drive.left) == ([], [])
    assert sum(fate.attempts for fate in drive.fates.values()) >= 3
    assert digests(warm) == digests(undisturbed)


def test_the_same_bits_on_ray(undisturbed, warm):
    pytest.importorskip("ray")
    out, err = start_driver(warm, BASE, GRID, engine="ray", workers=1).communicate()
    assert json.loads(out.splitlines()[-1]) == [0, 0, ""], err
    assert digests(warm) == digests(undisturbed)


def test_a_learner_that_is_not_finite_fails_and_the_next_in_a_new_worker_has_the_bits_of_a_used_one(
    undisturbed, warm
):
    base = {**BASE, "settings": {"target": 1.0, "threshold": 0.4}, "seed": 3}
    study = Study(base, {"env_arguments.std_b": [3e38, Bandit().std_b]})
    drive = run_study(warm, study, workers=1)
    first, second = drive.fates.values()
    assert (first.state, first.kept) == ("failed", False)
    assert "learner 0: " in first.reason
    used = digests(undisturbed)["bandit/threshold=0.4/seed=3"]  # the second trial of its worker
    for name in ("policy.npz", "records.parquet"):
        assert second.files[name] == used[name]


def test_the_agent_of_a_trial_is_that_of_its_specification(undisturbed):
    trial = read_study(undisturbed).trials[1]
    inner = {k: v for k, v in trial.specification.items() if k not in ("devices", "gpus")}
    agent = make_agent(inner, folder=undisturbed / "trials" / trial.id / "run")
    assert agent.steps == 400_000


@pytest.fixture
def untrained(monkeypatch):
    """An agent with records of two periods, the last of which counts."""

    def make(algorithm, thresholds, **settings):
        bounds = [{"target": 1.0, "threshold": each, "order": 2} for each in thresholds]
        settings |= {"constraints": bounds} if bounds else {}
        inner = {**BASE, "algorithm": algorithm, "settings": settings}
        risks = np.tile(np.array([[[0.6]], [[0.4]]]), (1, 2, len(bounds)))
        records = {"steps": np.arange(2), "risks": risks, "multipliers": risks}
        records["discounted"] = np.array([[1.0, 2.0], [3.0, np.inf]])
        monkeypatch.setattr(Agent, "records", property(lambda _: SimpleNamespace(**records)))
        return make_agent(inner), completed(inner)

    return make


@pytest.mark.parametrize("measure", ["sampled", "lpm"])
def test_a_learner_meets_the_bound_when_it_meets_all_of_them(untrained, measure):
    agent, specification = untrained("nrcpo", [5.0, 1e-4], measure=measure)
    for second, sound, meets in ((1e-4, True, False), (4.0, True, True), (0.3, False, False)):
        agent.constraints = [(agent.constraints[0][0], Constraint(1.0, second, 2))]
        rows = learner_rows(agent, specification, sound=sound)
        assert [(row["threshold"], row["meets"]) for row in rows] == [(5.0, meets)] * 2
        assert all(1e-4 < row["risk"] < 4.0 for row in rows)
    if measure == "sampled":  # about the TD error, the training alone can tell
        agent.constraints = [(agent.constraints[0][0], Constraint(TDError(), 0.3))]
        assert [row["meets"] for row in learner_rows(agent, specification)] == [False, False]


def test_a_learner_without_a_bound_that_is_not_finite_has_a_row(untrained):
    rows = learner_rows(*untrained("nac", []), sound=False)
    assert [row["mean"] for row in rows] == [3.0, np.inf]
    assert not any({"risk", "meets", "threshold"} & set(row) for row in rows)
