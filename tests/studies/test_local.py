"""Studies of quick functions on the local engine, among kills and interruptions."""

import json
import random
import signal
import time
from collections import Counter

import pytest
from benchmarks.killing import kill, workers_of

from downside.store import StoreError
from downside.studies import trial as trial_module
from downside.studies.collecting import collect
from downside.studies.driving import run_study
from downside.studies.folder import StudyFolder, fates, read_study, trial_folder
from downside.studies.study import Study
from downside.studies.supervising import STOP_SECONDS
from study_kills import is_alive, start_driver, wait_until
from study_squares import SQUARE, digests, fate_of, squares


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
    with start_driver(tmp_path / "study", base, grid, workers=2) as driver:
        wait_until(lambda: len(list((tmp_path / "study").glob("trials/*/*/log.txt"))) == 2)
        found = workers_of(driver.pid)
        driver.send_signal(signal.SIGINT)
        # A worker that does not answer is killed after STOP_SECONDS; all trials would take 120 s.
        out, err = driver.communicate(timeout=STOP_SECONDS + 30)
    assert json.loads(out) == [0, 4, "it was interrupted"], err
    assert not any(map(is_alive, found))


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


def test_a_trial_that_another_process_runs_is_not_run_twice(tmp_path):
    study = Study(*squares(1))
    (one,) = study.trials
    with StudyFolder.open(tmp_path / "study", study) as folder:
        place = trial_folder(folder.path, one)
        assert trial_module.run_trial(one, place).state == "done"
        assert trial_module.run_trial(one, place).attempts == 1


def test_brackets_in_names_are_no_patterns(tmp_path):
    study = Study({"function": "study_trials:anything"}, {"x": [1.0]}, name="s")
    folder = tmp_path / "[ab]" / "study"
    run_study(folder, study)
    assert collect(folder).collect()["value"].to_list() == [1.0]


def test_options_are_checked(tmp_path):
    with pytest.raises(ValueError, match="workers is 0"):
        run_study(tmp_path, Study(*squares(1)), workers=0)
    with pytest.raises(ValueError, match="only the engine 'ray' has one"):
        run_study(tmp_path, Study(*squares(1)), address="auto")
