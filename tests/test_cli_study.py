"""What the user types and sees, in a process of its own."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from benchmarks.killing import children, is_worker

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


def test_run_status_collect_and_report(tmp_path, file):
    folder = tmp_path / "out"
    done = study("run", file, "--out", folder, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "done square/x=3" in done.stderr
    assert "3 of 3 done" in done.stdout
    assert f"next: downside study report {folder}" in done.stdout
    status = json.loads(study("status", folder, "--json").stdout)
    assert [row["state"] for row in status["trials"].values()] == ["done"] * 3
    assert status["process"] is None
    assert study("collect", folder).returncode == 0
    assert pl.read_parquet(folder / "results.parquet")["value"].to_list() == [1.0, 4.0, 9.0]
    told = study("report", folder)
    assert "square/x=2" in told.stdout
    assert str(folder / "report.html") in told.stdout
    assert pl.read_csv(folder / "summary.csv")["mean"].to_list() == [1.0, 4.0, 9.0]
    again = study("run", file, "--out", folder)
    assert (again.returncode, again.stderr) == (0, "")


def test_a_failed_trial_is_named_with_its_reason_and_exit_code_1(tmp_path):
    (tmp_path / "poison.toml").write_text(POISON)
    done = study("run", tmp_path / "poison.toml", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "failed poisoned/how=error: ArithmeticError: seven is not a square" in done.stdout
    assert f"next: downside study retry-failed {tmp_path / 'out'}" in done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    words = "failed poisoned/how=error: ArithmeticError: seven is not a square"
    assert words in study("status", tmp_path / "out").stdout
    again = study("retry-failed", tmp_path / "out")
    assert again.returncode == 1
    assert "failed poisoned/how=error" in again.stderr


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["run", "{slip}"], "there is no key 'gird'; did you mean grid?"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run", "{file}", "--out", "/proc/studies"], "could not be opened for writing"),
        (["run", "{file}", "--address", "auto"], "only the engine 'ray' has one"),
        (["resume", "nowhere"], "holds no study; start one with: downside study run FILE"),
        (["status", "nowhere"], "holds no study"),
        (["collect", "nowhere", "--out", "a.xls"], "ends with .parquet or .csv"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, file, words, advice):
    slip = tmp_path / "slip.toml"
    slip.write_text(TOML.format(seconds=0.0).replace("[grid]", "[gird]"))
    done = study(*(word.format(slip=slip, file=file) for word in words))
    assert done.returncode == 2, done.stderr
    assert advice in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_second_driver_is_refused_and_the_first_goes_on_after_ctrl_c(tmp_path):
    file, folder = tmp_path / "slow.toml", tmp_path / "out"
    file.write_text(TOML.format(seconds=8.0))
    call, environment = command("run", file, "--out", folder, "--workers", 1)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(call, env=environment, **pipes) as first:
        wait_until(lambda: list(folder.glob("trials/*/*/log.txt")))
        second = study("resume", folder)
        first.terminate()
        out, _ = first.communicate(timeout=60)
    assert second.returncode == 2
    assert f"process {first.pid}" in " ".join(second.stderr.split())
    assert first.returncode == 1
    assert f"next: downside study resume {folder}" in out
    assert study("resume", folder).returncode == 0


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
