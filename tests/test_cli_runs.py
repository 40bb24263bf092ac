"""The commands about the user's own runs, on small trainings."""

import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from commands import Ended
from downside import NRCPO, Bandit, Centralised
from downside.runs import read_run

STEPS = 4000
BANDIT = ["downside/Bandit-v0", "--target", "centralised", "--threshold", "0.5,2"]
LAKE = ["FrozenLake-v1", "--set", "is_slippery=false", "--target", "0.5", "--threshold", "0.2"]


def trained(folder, *arguments):
    ended = Ended(
        "train", *arguments, "--out", folder, "--n-eval-episodes", 200, "--quiet", "--json"
    )
    assert ended.code == 0, ended.errors
    return ended.json


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """What a command says to JAX stays in its test."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")


@pytest.fixture(scope="module")
def bandit(tmp_path_factory):
    """Two thresholds and two seeds; the folder, and what train said."""
    folder = tmp_path_factory.mktemp("bandit") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_NUM_CPU_DEVICES", "1")
        said = trained(folder, *BANDIT, "--n-seeds", 2, "--seed", 3, "--total-timesteps", STEPS)
    return folder, said


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake") / "run"
    return folder, trained(folder, *LAKE, "--total-timesteps", STEPS)


@pytest.fixture
def copied(bandit, tmp_path):
    """The bandit's folder, free to be changed."""
    return shutil.copytree(bandit[0], tmp_path / "copy")


def test_train_says_mean_risk_and_verdict_of_each_threshold(bandit):
    folder, said = bandit
    assert said["steps"] == STEPS
    assert [row["threshold"] for row in said["thresholds"]] == [0.5, 2.0]
    for row in said["thresholds"]:
        assert row["mean"]["low"] <= row["mean"]["value"] <= row["mean"]["high"]
        assert row["hold"] == sum(risk <= row["threshold"] for risk in row["risk"])
        assert f"{row['hold']} of 2 seeds hold" in row["verdicts"][0]
    specification = said["specification"]
    assert specification["settings"] == {"target": "centralised", "threshold": [0.5, 2.0]}
    assert (specification["seed"], specification["n_seeds"]) == (3, 2)
    assert f"downside evaluate {folder}" in said["next"]


def test_train_is_the_training_of_python_and_evaluate_takes_both(bandit, tmp_path):
    agent = NRCPO(
        Bandit(), target=Centralised(), threshold=[0.5, 2.0], n_seeds=2, seed=3, folder=tmp_path
    )
    agent.learn(STEPS, progress_bar=False)
    np.testing.assert_array_equal(read_run(bandit[0])[0].theta, agent.theta)
    ended = Ended("evaluate", tmp_path, "--n-eval-episodes", 200, "--target", 2.5)
    assert ended.code == 0, ended.errors
    assert "LPM of order 1 about 2.5" in ended.out
    refused = Ended("train", "--resume", "--out", tmp_path)
    assert refused.code == 2
    assert "go on with it in Python" in refused.errors


def test_arguments_of_a_gymnasium_environment_arrive(lake):
    folder, said = lake
    agent, specification = read_run(folder)
    assert specification["env_arguments"] == {"is_slippery": False}
    assert said["thresholds"][0]["bound"] == "proxy about 0.5"
    assert agent._recipe["env"]["options"] == {"is_slippery": False}


def test_lists_of_settings_are_told_apart(tmp_path):
    rules = '[{"pid": {"rate": 0.1}}, {"pid": {"rate": 0.3}}]'
    options = ["--option", f"multiplier={rules}", "--total-timesteps", 2000]
    ended = Ended("train", *BANDIT, *options, "--out", tmp_path / "run", "--json", "--quiet")
    assert ended.code == 0, ended.errors
    found = [row["variant"] for row in ended.json["thresholds"]]
    assert found == ["multiplier.rate=0.1"] * 2 + ["multiplier.rate=0.3"] * 2
    refused = Ended("frontier", *BANDIT[:3], *options, "--out", tmp_path / "frontier", "--quiet")
    assert refused.code == 2
    assert "and a frontier has one value of it; make one for each" in refused.errors


def test_a_folder_with_a_run_is_refused_and_advice_given(bandit):
    ended = Ended("train", *BANDIT, "--out", bandit[0])
    assert ended.code == 2
    assert "add --resume to go on with it, or choose another" in ended.errors


def test_resume_needs_nothing_but_the_folder_and_goes_on_exactly(copied, tmp_path):
    longer = Ended(
        "train", "--resume", "--out", copied, "--total-timesteps", 2 * STEPS, "--json", "--quiet"
    )
    assert longer.code == 0, longer.errors
    assert longer.json["steps"] == 2 * STEPS
    at_once = tmp_path / "at_once"
    trained(at_once, *BANDIT, "--n-seeds", 2, "--seed", 3, "--total-timesteps", 2 * STEPS)
    np.testing.assert_array_equal(read_run(copied)[0].theta, read_run(at_once)[0].theta)
    again = Ended("train", "--resume", "--out", copied)
    assert "on 200 fresh episodes of each policy" in again.out
    assert "bound: proxy about the mean rewards <= 0.5; measured" in again.out
    assert f"downside report {copied}" in again.out
    assert f"--total-timesteps {4 * STEPS}" in again.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--threshold", "0.7"], "--threshold is [0.7], and the run in"),
        (["--seed", "4"], "--seed is 4, and the run in"),
        (["CartPole-v1"], "ENV is CartPole-v1, and the run in"),
        (["--num-envs", "2"], "--num-envs is 2"),
    ],
)
def test_resume_refuses_another_run(bandit, arguments, words):
    ended = Ended("train", *arguments, "--resume", "--out", bandit[0])
    assert ended.code == 2
    assert words in ended.errors
    assert "leave it out to go on" in ended.errors


def test_status_finds_the_run(bandit):
    ended = Ended("status", bandit[0])
    assert ended.code == 0, ended.errors
    assert "4,000 of 4,000" in ended.out


def test_evaluate_prints_a_table_or_one_document_and_draws(bandit, tmp_path):
    picture = tmp_path / "returns.png"
    ended = Ended("evaluate", bandit[0], "--n-eval-episodes", 300, "--plot", picture)
    assert ended.code == 0, ended.errors
    assert "CVaR at 5%" in ended.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = Ended("evaluate", bandit[0], "--deterministic", "--json").json
    assert {each["policy"] for each in document["policies"]} == {"deterministic"}
    assert {each["episodes"] for each in document["policies"]} == {200}  # as it was trained
    assert Ended("evaluate", bandit[0], "--plot", "returns.txt").code == 2


def test_evaluate_agrees_with_train(bandit):
    folder, said = bandit
    document = Ended("evaluate", folder, "--json").json
    risks = [each["bounds"][0]["value"] for each in document["policies"]]
    assert risks == [risk for row in said["thresholds"] for risk in row["risk"]]


def test_the_report_has_verdicts_first_then_curves_and_pictures(copied):
    ended = Ended("report", copied)
    assert ended.code == 0, ended.errors
    page = (copied / "report.html").read_text()
    assert str(copied / "report.html") in ended.out
    places = [
        page.index(words)
        for words in (
            "NRCPO on downside/Bandit-v0",
            "of 2 seeds hold",
            '<select id="learning-bound">',
            'data-chart="learning-0"',
            'data-chart="learning-1"',
            'data-chart="learning-2"',
            'id="frontier"',
            'id="histogram"',
            'id="probability"',
            "<h3>The numbers</h3>",
            "--threshold 0.5,2.0 --seed 3 --n-seeds 2 --total-timesteps 4000",
        )
    ]
    assert places == sorted(places)


def test_a_frontier_leaves_table_and_picture_and_is_a_run(tmp_path):
    out = tmp_path / "frontier"
    words = ["--target", "centralised", "--thresholds", "0.5:2:2", "--n-seeds", 2, "--seed", 3]
    arguments = [*words, "--total-timesteps", STEPS, "--n-eval-episodes", 200, "--out", out]
    ended = Ended("frontier", "downside/Bandit-v0", *arguments, "--json", "--quiet")
    assert ended.code == 0, ended.errors
    assert [row["threshold"] for row in ended.json["frontier"]] == [0.5, 2.0]
    table = pl.read_csv(out / "frontier.csv")
    assert table["threshold"].to_list() == [0.5, 0.5, 2.0, 2.0]
    assert pl.read_parquet(out / "frontier.parquet").shape == table.shape
    assert (out / "frontier.png").read_bytes().startswith(b"\x89PNG")
    assert Ended("frontier", "downside/Bandit-v0", *arguments).code == 2
    again = Ended("frontier", "--resume", "--out", out)
    assert again.code == 0, again.errors
    assert "frontier.png" in again.out
    assert f"downside frontier --resume --out {out}" in again.out


def test_check_tells_what_is_wrong_by_its_exit_code():
    fine = Ended("check", "FrozenLake-v1", "--set", "map_name=8x8", "--n-steps", 200, "--json")
    assert fine.code == 0, fine.errors
    assert fine.json["ok"] is True
    wrong = Ended("check", "test_cli_runs:rewards_of_nan", "--n-steps", 200)
    assert wrong.code == 1
    assert "error:" in wrong.out


def rewards_of_nan():
    import gymnasium

    lake = gymnasium.make("FrozenLake-v1")
    return gymnasium.wrappers.TransformReward(lake, lambda reward: float("nan"))


NEW = ["train", "--out", "not/made"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*NEW], "ENV is missing; give a Gymnasium id"),
        ([*NEW, "FrozenLak-v1", *LAKE[3:]], "Did you mean: `FrozenLake`?"),
        ([*NEW, "downside/Bandits-v0", *LAKE[3:]], "did you mean downside/Bandit-v0?"),
        ([*NEW, "nowhere:make", *LAKE[3:]], "No module named 'nowhere'"),
        ([*NEW, *LAKE, "--set", "size=3"], "cannot be made with --set is_slippery=False, --set"),
        ([*NEW, *LAKE, "--set", "size"], "--set is 'size'; give name=value"),
        ([*NEW, "FrozenLake-v1", "--threshold", "0.2"], "without --target; add --target 100"),
        ([*NEW, "FrozenLake-v1", "--target", "1"], "without --threshold; add --threshold"),
        ([*NEW, "FrozenLake-v1"], "or --algo nac for no bound"),
        ([*NEW, *LAKE, "--algo", "nac"], "leave --target out, or give --algo nrcpo"),
        ([*NEW, *LAKE, "--threshold", "-1"], "--threshold is -1.0; it must be a number, at least"),
        ([*NEW, *LAKE, "--discount", "2"], "--discount is 2.0; a probability lies in [0, 1]"),
        ([*NEW, *LAKE, "--num-envs", "7"], "over --num-envs 7; give --option period=2002"),
        ([*NEW, "--resume"], "--resume finds no run in not/made; give the ENV"),
        (["train", *LAKE, "--out", "/proc/x"], "--out is /proc/x, which cannot be written"),
        ([*NEW, *LAKE, "--threshold", "low"], "--threshold is 'low'; give a number"),
        ([*NEW, *LAKE, "--target", "mean"], "--target is 'mean'; give a number, centralised"),
        ([*NEW, *LAKE, "--option", "perod=5"], "no --option 'perod'; did you mean period?"),
        ([*NEW, *LAKE, "--option", "period=abc"], "--option period has a value of the wrong kind"),
        ([*NEW, *LAKE, "--option", "order=2"], "give it as --order instead"),
        ([*NEW, *BANDIT, "--discount", "0.9"], "give --set discount=0.9"),
        ([*NEW, *LAKE, "--total-timesteps", "0"], "Invalid value for '--total-timesteps'"),
        (["train", *LAKE], "Missing option '--out'"),
        (["evaluate", "nowhere"], "there is no run in nowhere; make one with: downside train"),
        (["evaluate", "nowhere", "--plot", "a/b.png"], "there is no folder a; make it first"),
        (["report", "nowhere"], "there is no run in nowhere"),
        (["status", "nowhere"], "nowhere"),
        (["check", "CartPol-v1"], "Did you mean: `CartPole`?"),
        (["frontier", "--out", "x", *LAKE[:1]], "what is bounded? add --target 100"),
        (
            ["frontier", "--out", "x", *LAKE[:5], "--thresholds", "0:1"],
            "--thresholds is '0:1'; give start:stop:count",
        ),
    ],
)
def test_bad_input_names_the_option_and_the_fix(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = Ended(*arguments)
    assert ended.code == 2
    assert words in ended.errors.replace(" │ │ ", " ")
    assert ended.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise RuntimeError('the licence has ended')", "RuntimeError: the licence has ended"),
        ("return float('tired')", "ValueError: could not convert string to float: 'tired'"),
    ],
)
def test_where_code_of_the_user_fails_is_told(line, words, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tired", raising=False)
    (tmp_path / "tired.py").write_text(
        "import gymnasium\n"
        "def tire(reward):\n"
        f"    {line}\n"
        "def make():\n"
        "    return gymnasium.wrappers.TransformReward(gymnasium.make('FrozenLake-v1'), tire)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = Ended("train", "tired:make", *LAKE[3:], "--out", "run")
    assert ended.code == 1
    assert f"{words} (tired.py, line 3, in tire)" in ended.errors
    assert "Traceback" not in ended.errors


def test_a_damaged_specification_is_named(copied):
    path = copied / "specification.json"
    path.write_text(path.read_text().replace("0.5", "0.6"))
    for arguments in (["evaluate", copied], ["train", "--resume", "--out", copied]):
        ended = Ended(*arguments)
        assert ended.code == 2
        assert "specification.json is damaged" in ended.errors


def test_help_of_every_command_does_not_import_jax():
    script = (
        "import sys; from downside.cli import app\n"
        "for name in ('train', 'evaluate', 'frontier', 'check', 'report'):\n"
        "    try: app([name, '--help'])\n"
        "    except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--total-timesteps" in done.stdout
