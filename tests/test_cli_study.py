"""What the user types and sees; in a process of its own where that matters."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from benchmarks.killing import children, is_worker

from commands import Ended
from study_kills import wait_until

TESTS = Path(__file__).parent
TOML = """
name = "squares"
[base]
function = "study_trials:square"
[base.arguments]
seconds = {seconds}
[grid]
x = [1, 2, 3]
"""
POISON = """
[base]
function = "study_trials:poisoned"
[grid]
how = ["good", "error"]
"""


def command(*words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return [sys.executable, "-m", "downside", "study", *map(str, words)], environment


def study(*words, **options):
    call, environment = command(*words)
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(call, check=False, env=environment, **pipes, **options)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "squares.toml"
    path.write_text(TOML.format(seconds=0.0))
    return path


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """What a command says to JAX stays in its test."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")


def test_run_status_collect_and_report(tmp_path, file):
    folder = tmp_path / "out"
    done = study("run", file, "--out", folder, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "done square/x=3" in done.stderr
    assert "3 of 3 done" in done.stdout
    assert f"next: downside study report {folder}" in done.stdout
    status = Ended("study", "status", folder, "--json").json
    assert [row["state"] for row in status["trials"].values()] == ["done"] * 3
    assert status["process"] is None
    assert Ended("study", "collect", folder).code == 0
    assert pl.read_parquet(folder / "results.parquet")["value"].to_list() == [1.0, 4.0, 9.0]
    told = Ended("study", "report", folder)
    assert "square/x=2" in told.out
    assert str(folder / "report.html") in told.out
    assert "square/x=2" in (folder / "report.html").read_text()
    assert pl.read_csv(folder / "summary.csv")["mean"].to_list() == [1.0, 4.0, 9.0]
    again = Ended("study", "run", file, "--out", folder)
    assert (again.code, again.errors) == (0, "")
    on_ray = Ended("study", "resume", folder, "--engine", "ray")
    assert on_ray.errors == f"if Ray dies, go on with: downside study resume {folder}"


def test_a_failed_trial_is_named_with_its_reason_and_exit_code_1(tmp_path):
    (tmp_path / "poison.toml").write_text(POISON)
    done = Ended("study", "run", tmp_path / "poison.toml", "--out", tmp_path / "out")
    assert done.code == 1
    words = "failed poisoned/how=error: ArithmeticError: seven is not a square"
    assert words in done.out
    assert str(tmp_path / "out/trials/poisoned/how=error") in done.out
    assert f"next: downside study retry-failed {tmp_path / 'out'}" in done.out
    assert "Traceback" not in done.errors + done.out
    assert words in Ended("study", "status", tmp_path / "out").out
    again = Ended("study", "retry-failed", tmp_path / "out")
    assert again.code == 1
    assert "failed poisoned/how=error" in again.errors


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["run", "{slip}"], "there is no key 'gird'; did you mean grid?"),
        (["run", "{shape}"], "shape.toml: grid is 'x'; give a table of names and values"),
        (["run", "{broken}"], "broken_environment', which raised RuntimeError: no data today"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run", "{file}", "--out", "/proc/studies"], "could not be opened for writing"),
        (["run", "{file}", "--address", "auto"], "only the engine 'ray' has one"),
        (["resume", "nowhere"], "holds no study; start one with: downside study run FILE"),
        (["status", "nowhere"], "holds no study"),
        (["collect", "nowhere", "--out", "a.xls"], "ends with .parquet or .csv"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, file, words, advice, monkeypatch):
    slip = tmp_path / "slip.toml"
    slip.write_text(TOML.format(seconds=0.0).replace("[grid]", "[gird]"))
    (shape := tmp_path / "shape.toml").write_text("base = {}\ngrid = 'x'")
    broken = tmp_path / "broken.toml"
    broken.write_text("base = { env = 'study_trials:broken_environment', total_timesteps = 9 }")
    monkeypatch.chdir(tmp_path)
    files = {"slip": slip, "file": file, "shape": shape, "broken": broken}
    done = Ended("study", *(word.format(**files) for word in words))
    assert done.code == 2, done.errors
    assert advice in done.errors
    assert done.errors.count("error:") == 1


def test_a_report_that_cannot_be_written_says_so(tmp_path, file):
    folder = tmp_path / "out"
    assert Ended("study", "run", file, "--out", folder).code == 0
    (folder / "report.html").mkdir()
    (folder / "report.html" / "mine").touch()
    done = Ended("study", "report", folder)
    assert done.code == 2
    assert f"{folder / 'report.html'} could not be written: " in done.errors


def test_a_second_driver_is_refused_and_the_first_goes_on_after_it_was_stopped(tmp_path):
    file, folder = tmp_path / "slow.toml", tmp_path / "out"
    file.write_text(TOML.format(seconds=2.5))
    call, environment = command("run", file, "--out", folder, "--workers", 1)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(call, env=environment, **pipes) as first:
        wait_until(lambda: list(folder.glob("trials/*/*/log.txt")))
        second = Ended("study", "resume", folder)
        first.terminate()
        out, _ = first.communicate(timeout=60)
    assert second.code == 2
    assert f"process {first.pid}" in second.errors
    assert first.returncode == 1
    assert f"next: downside study resume {folder}" in out
    assert f"next: downside study resume {folder}" in Ended("study", "status", folder).out
    assert Ended("study", "resume", folder).code == 0


def test_the_live_table(tmp_path):
    file, folder = tmp_path / "slow.toml", tmp_path / "out"
    file.write_text(TOML.format(seconds=1.5))
    ours, theirs = pty.openpty()
    call, environment = command("run", file, "--out", folder, "--workers", 2)
    environment |= {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(call, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        wait_until(lambda: any(map(is_worker, children(process.pid))))
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how the end of a terminal is told on Linux
                break
            seen += part
    os.close(ours)
    assert process.returncode == 0
    for words in (b"running", b"square/x=2", b"0 of 3 done, 2 running, 1 waiting", b"3 of 3 done"):
        assert words in seen
