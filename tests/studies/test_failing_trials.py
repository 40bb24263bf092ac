"""Trials that fail: their reasons and tracebacks, what is tried again, and what is counted."""

import json
import os
import signal
import subprocess
import sys

import pytest
from benchmarks.killing import kill, workers_of

from downside.studies import trial as trial_module
from downside.studies.collecting import collect, summarise
from downside.studies.driving import run_study
from downside.studies.folder import Fate, StudyFolder, read_fate, trial_folder
from downside.studies.study import Study
from downside.studies.supervising import _memory_gb
from study_kills import is_alive, start_driver, wait_until
from study_squares import SQUARE, fate_of, squares


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poisoned") / "study"
    ways = ["good", "error", "nan", "crash", "exit", "loop", "hog", "hog below", "killed once"]
    os.environ["STUDY_MARK"] = str(folder.parent / "mark")
    study = Study({"function": "study_trials:poisoned"}, {"how": ways}, seconds=12.0, memory_gb=0.5)
    return run_study(folder, study, workers=2)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("error", "ArithmeticError: seven is not a square"),
        ("nan", "value: not finite (nan)"),
        ("crash", "its process was ended by SIGSEGV, 2 times without progress"),
        ("exit", "its process ended with exit code 7, 2 times without progress"),
        ("loop", "took longer than its limit of 12 s"),
        ("hog", "GB of memory, more than its limit of 0.5"),
        ("hog%20below", "GB of memory, more than its limit of 0.5"),
        ("good", ""),
        ("killed%20once", ""),
    ],
)
def test_a_poisoned_trial_is_a_row_with_its_reason(poisoned, way, reason):
    name = f"poisoned/how={way}".replace("%20", " ")
    fate = poisoned.fates[name]
    assert reason in fate.reason
    assert fate.state == ("failed" if reason else "done")
    row = collect(poisoned.path).filter(trial=name).collect().row(0, named=True)
    assert (row["state"], row["reason"]) == (fate.state, fate.reason)


def test_memory_that_processes_share_counts_once():
    code = (
        "import os, time; held = b'x' * 200_000_000; [os.fork() for _ in range(2)]; "
        "print('ready', flush=True); time.sleep(1000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as family:
        for _ in range(4):
            family.stdout.readline()
        quick, exact = _memory_gb(family.pid, 10.0), _memory_gb(family.pid, 0.1)
        os.killpg(family.pid, signal.SIGKILL)
    assert 0.8 < quick < 0.9
    assert 0.2 < exact < 0.25


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("error", "ArithmeticError: seven is not a square"),
        ("nan", "value: not finite (nan); no error was raised"),
        ("crash", "Fatal Python error: Segmentation fault"),
        ("exit", "its process ended with exit code 7, 2 times without progress; it left no"),
        ("loop", "study_trials.py"),
        ("hog", "study_trials.py"),
        ("hog below", "in _hog_below"),
    ],
)
def test_a_trial_that_fails_leaves_a_traceback(poisoned, way, words):
    place = poisoned.path / f"trials/poisoned/how={way}"
    assert words in (place / "traceback.txt").read_text()
    if way in ("loop", "hog"):
        assert f"in _{way}" in (place / "traceback.txt").read_text()


def test_a_trial_that_is_done_leaves_none(poisoned):
    for way in ("good", "killed once"):
        assert not (poisoned.path / f"trials/poisoned/how={way}/traceback.txt").exists()


def test_what_a_poisoned_study_leaves(poisoned):
    assert (len(poisoned.failed), poisoned.left, poisoned.stopped) == (7, [], "")
    folder = poisoned.path / "trials/poisoned/how=error"
    assert "seven is not a square" in (folder / "traceback.txt").read_text()
    assert "said before the end" in (folder / "log.txt").read_text()
    log = (poisoned.path / "trials/poisoned/how=loop/log.txt").read_text()
    child = int(log.partition("child ")[2].split()[0])
    wait_until(lambda: not is_alive(child))  # what a trial has started ends with it
    summary = summarise(poisoned.path).sort("setting")
    assert summary.filter(setting="poisoned/how=loop")["failures"].to_list() == [1]
    assert summary.filter(setting="poisoned/how=good")["mean"].to_list() == [3.5]


def test_failed_trials_are_left_alone_until_they_are_asked_for(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    study = Study({"function": "study_trials:poisoned"}, {"how": ["exit", "good"]})
    assert [t.id for t in run_study(folder, study).failed] == ["poisoned/how=exit"]
    attempts = fate_of(folder, "poisoned/how=exit").attempts
    run_study(folder)
    assert fate_of(folder, "poisoned/how=exit").attempts == attempts
    run_study(folder, retry_failed=True)
    assert fate_of(folder, "poisoned/how=exit").attempts == 2 * attempts
    assert fate_of(folder, "poisoned/how=good").attempts == 1


@pytest.mark.slow
def test_a_trial_that_is_killed_again_and_again_fails_in_the_end(tmp_path):
    base, grid = squares(1, seconds=60)
    driver = start_driver(tmp_path / "study", base, grid, workers=1)
    place = tmp_path / "study/trials/square/x=0"
    for n in range(1, 21):
        wait_until(lambda n=n: trial_module.count_attempts(place) == n)
        kill(*workers_of(driver.pid))
    assert json.loads(driver.communicate()[0]) == [1, 0, ""]
    reason = fate_of(tmp_path / "study", "square/x=0").reason
    assert reason == "its process was ended by SIGKILL, 20 times without progress"


def test_a_full_disk_stops_the_study_and_no_trial_fails(tmp_path):
    study = Study({"function": "study_trials:poisoned"}, {"how": ["full disk", "good"]})
    drive = run_study(tmp_path / "study", study, workers=1)
    assert "No space left on device" in drive.stopped
    assert (len(drive.failed), len(drive.left)) == (0, 2)


def test_failures_are_counted_in_the_row_of_their_setting(tmp_path):
    base = {**SQUARE, "arguments": {}}
    study = Study(base, {"x": [2.0, 3.0], "seed": [0, 1, 2]})
    with StudyFolder.open(tmp_path, study) as folder:
        for trial in folder.study.trials:
            place, row = trial_folder(tmp_path, trial), {"name": "square", "value": 4.0}
            place.mkdir(parents=True)
            if trial.values["x"] == 2.0 and trial.values["seed"] < 2:
                trial_module._keep(trial, place, Fate("done"), [row])
            else:
                trial_module.write_failure(trial, place, "why", 1.0, kept=False)
    table = summarise(tmp_path).select("setting", "n", "mean", "failures")
    assert table.rows() == [("square/x=2.0", 2, 4.0, 1), ("square/x=3.0", 0, None, 3)]


def test_numbers_of_failed_trials_are_in_no_mean(tmp_path):
    study = Study({**SQUARE, "arguments": {"x": 2.0}}, {"seed": [0, 1, 2]})
    sound = {"threshold": 0.5, "risk": 0.25, "meets": True, "multiplier": 1.5}
    failed = {"threshold": 0.5, "risk": 9.0, "meets": False, "multiplier": float("nan")}
    with StudyFolder.open(tmp_path, study) as folder:
        for trial, mean in zip(folder.study.trials, (4.0, 6.0, 70.0), strict=True):
            place = trial_folder(tmp_path, trial)
            place.mkdir(parents=True)
            fate, row = (Fate("failed", "why"), failed) if mean > 6.0 else (Fate("done"), sound)
            trial_module._keep(trial, place, fate, [{**row, "mean": mean}])
    (row,) = summarise(tmp_path).to_dicts()
    found = [row[name] for name in ("n", "mean", "risk", "meet", "multiplier", "failures")]
    assert found == [2, 5.0, 0.25, 1.0, 1.5, 1]
    assert (row["mean_reach"], row["risk_reach"]) == (pytest.approx(12.7062, rel=1e-5), 0.0)


@pytest.mark.parametrize(
    ("way", "reason", "last"),
    [
        ("lines", "ArithmeticError: first line", "second line"),
        ("interrupt", "KeyboardInterrupt: by the trial itself", "by the trial itself"),
        ("sys.exit", "SystemExit: 3", "SystemExit: 3"),
    ],
)
def test_whatever_a_trial_raises_is_a_reason_of_one_line(tmp_path, way, reason, last):
    (one,) = Study({"function": "study_trials:poisoned", "arguments": {"how": way}}).trials
    assert trial_module.run_trial(one, tmp_path).reason == reason
    assert (tmp_path / "traceback.txt").read_text().splitlines()[-1].endswith(last)


def test_a_signal_that_stops_a_trial_is_no_fault_of_it(tmp_path):
    (one,) = Study({"function": "study_trials:poisoned", "arguments": {"how": "ctrl-c"}}).trials
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            trial_module.run_trial(one, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert read_fate(tmp_path, one).state == "stopped"


def test_what_fails_in_a_used_worker_is_tried_again_in_a_new_one(tmp_path):
    study = Study({"function": "study_trials:alone"}, {"x": [1, 2, 3]})
    found = run_study(tmp_path / "study", study, workers=1).fates
    assert [fate.state for fate in found.values()] == ["done"] * 3
    assert [fate.attempts for fate in found.values()] == [1, 2, 2]
    assert "somebody was here" in (tmp_path / "study/trials/alone/x=2/log.txt").read_text()


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("infinite", "value: not finite (inf)"),
        ("number", "TypeError: study_trials:poisoned gave 3.0, not numbers by names"),
    ],
)
def test_what_is_no_result_is_a_reason(tmp_path, way, reason):
    (one,) = Study({"function": "study_trials:poisoned", "arguments": {"how": way}}).trials
    assert trial_module.run_trial(one, tmp_path).reason == reason
