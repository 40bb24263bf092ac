"""Studies of quick functions on the local engine, among kills, poison and full disks."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from benchmarks.killing import kill, workers_of

from downside.store import RunFolder, StoreError
from downside.studies import trial as trial_module
from downside.studies.collecting import collect, summarise
from downside.studies.driving import run_study
from downside.studies.folder import (
    Fate,
    StudyFolder,
    fates,
    read_fate,
    read_study,
    trial_folder,
)
from downside.studies.mending import set_aside
from downside.studies.study import Study
from downside.studies.supervising import _memory_gb
from study_kills import is_alive, start_driver, wait_until

SQUARE = {"function": "study_trials:square"}


def squares(n, **arguments):
    return {**SQUARE, "arguments": arguments}, {"x": list(range(n))}


def digests(folder):
    """The SHA-256 of every file of results, by trial."""
    return {name: fate.files for name, fate in fates(folder, read_study(folder)).items()}


def fate_of(folder, name):
    return fates(folder, read_study(folder))[name]


def notes(path):
    return Counter(path.read_text().split())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies") / "undisturbed"
    run_study(folder, Study(*squares(60)))
    return folder


def test_every_trial_is_done_and_the_results_are_one_table(undisturbed):
    table = collect(undisturbed).collect()
    assert table.filter(name="square").sort("x")["value"].to_list() == [i**2 for i in range(60)]
    assert set(table["state"]) == {"done"}
    assert fate_of(undisturbed, "square/x=7").attempts == 1


def test_the_start_of_a_process_is_not_the_trials_time(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(4.0)\n")
    monkeypatch.chdir(tmp_path)  # where workers look for modules too
    study = Study({**SQUARE, "arguments": {"x": 3}}, {"seconds": [0.0, 60.0]}, seconds=3.0)
    began = time.monotonic()
    short, long = run_study(tmp_path / "study", study, workers=2).fates.values()
    assert (short.state, long.state) == ("done", "failed")
    assert 3.0 <= long.seconds < time.monotonic() - began - 4.0
    environments = [
        json.loads((tmp_path / f"study/trials/square/seconds={n}/manifest.json").read_text())
        for n in ("0.0", "60.0")
    ]
    assert environments[0]["environment"] == environments[1]["environment"]  # the worker's


def test_a_second_drive_does_nothing(undisturbed):
    before = digests(undisturbed)
    assert run_study(undisturbed).left == []
    assert digests(undisturbed) == before
    assert fate_of(undisturbed, "square/x=7").attempts == 1


def test_kills_of_workers_and_of_the_driver_lose_nothing_and_double_nothing(tmp_path, undisturbed):
    folder, written = tmp_path / "study", tmp_path / "notes"
    base, grid = squares(60, seconds=0.05, notes=str(written))
    rng, n_kills = random.Random(3), 0
    for goal in (6, 12, 20):  # kills of workers; then the driver, but for the last time
        driver = start_driver(folder, base, grid, workers=2)
        while driver.poll() is None and n_kills < goal:
            before = written.stat().st_size if written.exists() else 0
            while driver.poll() is None and (
                not written.exists() or written.stat().st_size == before
            ):
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.1))
            if found := workers_of(driver.pid):
                kill(rng.choice(found))
                n_kills += 1
        if goal < 20:
            left = workers_of(driver.pid)
            driver.kill()
            wait_until(lambda left=left: not any(map(is_alive, left)))
        out, err = driver.communicate()
    assert json.loads(out) == [0, 0, ""], err
    found = digests(folder)
    assert len(found) == 60
    rows = collect(folder).collect()
    assert rows["trial"].n_unique() == rows.height == 60
    assert dict(zip(rows["x"], rows["value"], strict=True)) == {i: i**2 for i in range(60)}
    again = notes(written).total() - 60
    assert n_kills == 20
    assert 0 < again <= n_kills + 4  # a kill costs the running trial, no other; 2 drivers, 2 each
    attempts = [fate.attempts for fate in fates(folder, read_study(folder)).values()]
    assert sum(attempts) >= notes(written).total()


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


def test_a_second_driver_is_refused_and_the_first_one_named(tmp_path):
    base, grid = squares(2, seconds=60)
    driver = start_driver(tmp_path / "study", base, grid, workers=1)
    with driver:
        wait_until(lambda: list((tmp_path / "study").glob("trials/*/*/log.txt")))
        with pytest.raises(StoreError, match=rf"is in use by process {driver.pid} on"):
            run_study(tmp_path / "study")
        left = workers_of(driver.pid)
        driver.kill()
    wait_until(lambda: not any(map(is_alive, left)), seconds=20)  # in the middle of a long trial
    with StudyFolder.open(tmp_path / "study") as stale:  # the lock of a dead process is free
        assert len(stale.study.trials) == 2


def test_ctrl_c_stops_the_study_and_its_workers(tmp_path):
    base, grid = squares(4, seconds=60)
    driver = start_driver(tmp_path / "study", base, grid, workers=2)
    wait_until(lambda: len(list((tmp_path / "study").glob("trials/*/*/log.txt"))) == 2)
    found = workers_of(driver.pid)
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=30)
    assert json.loads(out) == [0, 4, "it was interrupted"], err
    assert not any(map(is_alive, found))


def test_a_full_disk_stops_the_study_and_no_trial_fails(tmp_path):
    study = Study({"function": "study_trials:poisoned"}, {"how": ["full disk", "good"]})
    drive = run_study(tmp_path / "study", study, workers=1)
    assert "No space left on device" in drive.stopped
    assert (len(drive.failed), len(drive.left)) == (0, 2)


@pytest.mark.parametrize("name", ["manifest.json", "results.parquet"])
def test_a_damaged_trial_is_made_again_with_the_same_bits(tmp_path, name):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(3)))
    before = digests(folder)
    damaged = folder / "trials/square/x=1" / name
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"nonsense\n")
    assert fates(folder, read_study(folder))["square/x=1"].state == "damaged"
    assert sorted(set(collect(folder).collect()["x"])) == [0, 2]  # left out
    assert run_study(folder).left == []
    assert digests(folder) == before


def test_what_stands_in_the_way_of_a_trial_is_set_aside(tmp_path):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(4)))
    before, places = digests(folder), [folder / f"trials/square/x={i}" for i in range(4)]
    shutil.rmtree(places[0])
    places[0].write_text("mine")
    for place, name in zip(
        places[1:], ("manifest.json", "log.txt", "results.parquet"), strict=True
    ):
        (place / name).unlink()
        (place / name).mkdir()
        (place / name / "mine").touch()
    (places[2] / "manifest.json").unlink()
    found = fates(folder, read_study(folder))
    assert [found[f"square/x={i}"].state for i in range(4)] == [
        *["damaged"] * 2,
        "stopped",
        "damaged",
    ]
    assert found["square/x=0"].reason == f"{places[0]} is not a folder"
    assert run_study(folder).left == []
    assert digests(folder) == before
    assert places[0].with_name("x=0.damaged-0").read_text() == "mine"
    assert (places[2] / "log.txt.damaged-0" / "mine").exists()


def test_a_file_in_place_of_a_folder_above_a_trial_is_set_aside(tmp_path):
    folder = tmp_path / "study"
    (folder / "trials").mkdir(parents=True)
    (folder / "trials/square").write_text("mine")
    assert set_aside(folder / "trials/square/x=1") == [folder / "trials/square.damaged-0"]
    assert run_study(folder, Study(*squares(2))).fates["square/x=1"].state == "done"


def test_a_run_without_a_sound_checkpoint_is_set_aside(tmp_path):
    arrays = {"weights": np.array([1.5, 2.5])}
    with RunFolder.open(tmp_path / "run", {"seed": 3}) as run:
        states = [run.save(step, arrays) / "state.npz" for step in (200, 400)]
    states[1].write_bytes(b"nonsense")
    assert set_aside(tmp_path) == []  # the older one will do
    states[0].write_bytes(b"nonsense")
    assert set_aside(tmp_path) == [tmp_path / "run.damaged-0"]
    assert set_aside(tmp_path) == []


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


def test_a_study_may_grow_and_may_not_change(tmp_path):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(2)))
    base, grid = squares(3)
    assert len(run_study(folder, Study(base, grid)).fates) == 3
    with pytest.raises(StoreError, match=r"arguments.seconds is missing there and 0.25 here"):
        run_study(folder, Study({**SQUARE, "arguments": {"seconds": 0.25}}, grid))
    with pytest.raises(StoreError, match=r"with a trial square/x=2; give another folder"):
        run_study(folder, Study(*squares(2)))


def test_some_trials_only_and_from_the_beginning(tmp_path):
    written = tmp_path / "notes"
    study = Study(*squares(3, notes=str(written)))
    drive = run_study(tmp_path / "study", study, only=["square/x=1"])
    assert [trial.id for trial in drive.left] == ["square/x=0", "square/x=2"]
    run_study(tmp_path / "study", study, only=["square/x=1", "square/x=2"], anew=True)
    assert notes(written) == {"1": 2, "2": 1}
    assert fate_of(tmp_path / "study", "square/x=1").attempts == 1


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(StoreError, match="holds no study; start one with: downside study run"):
        run_study(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        run_study(tmp_path / "file", Study(*squares(1)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match="not empty and holds no study"):
        run_study(tmp_path / "other", Study(*squares(1)))


def test_a_file_of_somebody_else_does_not_block_a_study(tmp_path):
    with StudyFolder.open(tmp_path, Study(*squares(1))):
        (tmp_path / "notes.txt").touch()
    with StudyFolder.open(tmp_path) as folder:
        assert len(folder.study.trials) == 1


def test_a_folder_that_refuses_to_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system", "study")

    monkeypatch.setattr("downside.store.files.make_folder", refuse)
    with pytest.raises(StoreError, match=r"could not be opened for writing: Read-only"):
        run_study(tmp_path / "study", Study(*squares(1)))


def test_a_trial_that_another_process_runs_is_not_run_twice(tmp_path):
    study = Study(*squares(1))
    (one,) = study.trials
    with StudyFolder.open(tmp_path / "study", study) as folder:
        place = trial_folder(folder.path, one)
        assert trial_module.run_trial(one, place).state == "done"
        assert trial_module.run_trial(one, place).attempts == 1


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


def test_brackets_in_names_are_no_patterns(tmp_path):
    study = Study({"function": "study_trials:anything"}, {"x": [1.0]}, name="s")
    folder = tmp_path / "[ab]" / "study"
    run_study(folder, study)
    assert collect(folder).collect()["value"].to_list() == [1.0]


def test_the_folder_of_another_trial_is_damaged(tmp_path):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(3)))
    shutil.rmtree(folder / "trials/square/x=1")
    shutil.copytree(folder / "trials/square/x=2", folder / "trials/square/x=1")
    assert fate_of(folder, "square/x=1").state == "damaged"
    assert "holds another trial, square/x=2" in fate_of(folder, "square/x=1").reason
    assert run_study(folder).fates["square/x=1"].state == "done"
    assert collect(folder).collect()["value"].to_list() == [0.0, 1.0, 4.0]


def test_options_are_checked(tmp_path):
    with pytest.raises(ValueError, match="workers is 0"):
        run_study(tmp_path, Study(*squares(1)), workers=0)
    with pytest.raises(ValueError, match="only the engine 'ray' has one"):
        run_study(tmp_path, Study(*squares(1)), address="auto")
