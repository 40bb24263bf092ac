"""The same studies on a real Ray, started here: same results, among kills."""

import json
import os
import random
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.killing import children, is_called, kill, victims, workers_of

from downside.store.lock import Lock
from downside.studies import ray as engine
from downside.studies.collecting import collect
from downside.studies.driving import run_study
from downside.studies.folder import Fate, fates, read_study, trial_folder
from downside.studies.study import Limits, Study
from study_kills import is_alive, start_driver, wait_until

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

BASE = {"function": "study_trials:square"}
GRID = {"x": list(range(30))}


def digests(folder):
    return {name: fate.files for name, fate in fates(folder, read_study(folder)).items()}


def listeners(pids):
    """Where processes listen, as the system says."""
    table = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in table.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    return {line.split()[3].rpartition(":")[0] for line in lines}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies") / "local"
    run_study(folder, Study({**BASE, "arguments": {"seconds": 0.3}}, GRID))
    return digests(folder)


def test_kills_of_workers_and_of_the_driver_lose_nothing(tmp_path, expected):
    folder, rng, n_kills = tmp_path / "study", random.Random(5), 0
    base, driver = {**BASE, "arguments": {"seconds": 0.3}}, None
    for goal in (3, 6):
        driver = start_driver(folder, base, GRID, engine="ray", workers=2)
        while driver.poll() is None and n_kills < goal:
            time.sleep(rng.uniform(0.2, 0.6))
            below, found = children(driver.pid), victims(driver.pid, "square")
            if found and list(folder.glob("trials/*/*/log.txt")):
                if n_kills == 0:
                    check_privacy(folder, below)
                kill(rng.choice(found))
                n_kills += 1
        if goal == 3:  # then the driver
            left = workers_of(driver.pid)
            driver.kill()
            wait_until(lambda left=left: not any(map(is_alive, left)))
        out, err = driver.communicate()
    assert json.loads(out.splitlines()[-1]) == [0, 0, ""], err
    assert digests(folder) == expected
    rows = collect(folder).collect()
    assert rows["trial"].n_unique() == rows.height == len(expected)


def test_only_trials_whose_lock_is_held_have_begun(tmp_path, monkeypatch):
    """Ray has room for one trial; the others wait in its queue."""
    monkeypatch.setattr(engine, "_LOOK_SECONDS", -1.0)
    first, second, third = trials = Study(BASE, {"x": [1, 2, 3]}).trials
    ended = []

    def wait(tasks, **_):
        ended.append(tasks[0])
        lock.release()
        return [tasks[0]], tasks[1:]

    task = SimpleNamespace(remote=lambda trial, *_: trial["id"])
    task.options = lambda **_: task
    ray = SimpleNamespace(
        remote=lambda **_: lambda function: task,
        cluster_resources=lambda: {"CPU": 1},
        wait=wait,
        get=lambda _: vars(Fate("done")),
        exceptions=SimpleNamespace(RayTaskError=KeyError, RayError=KeyError),
    )
    place = trial_folder(tmp_path, first)
    place.mkdir(parents=True)
    lock = Lock(place / "lock")
    events = engine._run(ray, tmp_path, trials, Limits(), None, threading.Event())
    assert list(events) == [
        (first, None),
        *((trial, Fate("done")) for trial in (first, second, third)),
    ]
    assert len(ended) == 3


def check_privacy(folder, pids):
    assert stat.S_IMODE(os.stat(folder / "ray").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(folder / "ray/token").st_mode) == 0o600
    assert listeners(pids) <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
    assert list((folder / "ray/files").glob("session_*"))


def test_a_head_that_is_killed_ends_the_drive_and_resume_does_the_rest(
    tmp_path, expected, monkeypatch
):
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    folder, base = tmp_path / "study", {**BASE, "arguments": {"seconds": 0.3}}
    driver = start_driver(folder, base, GRID, engine="ray", workers=2)
    wait_until(lambda: list(folder.glob("trials/*/*/manifest.json")))
    below, left = children(driver.pid), workers_of(driver.pid)
    for head in (p for p in below if is_called(p, b"gcs_server") or is_called(p, b"raylet/raylet")):
        kill(head)
    driver.communicate(timeout=120)
    wait_until(lambda: not any(map(is_alive, left)))
    drive = run_study(folder)
    assert (drive.failed, drive.left) == ([], [])
    assert digests(folder) == expected


@pytest.fixture(scope="module")
def cluster():
    """The address of a Ray that somebody else has started, and what its users must know."""
    told = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # at 127.0.0.1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--num-cpus=2"]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as files:
        for name, value in told.items():
            patch.setenv(name, value)
        ray += [f"--port={port}", f"--temp-dir={files}", "--include-dashboard=false"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with subprocess.Popen(
            ray, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=files
        ) as head:
            wait_until(lambda: any(is_called(p, b"ray::RuntimeEnv") for p in children(head.pid)))
            yield f"127.0.0.1:{port}"
            head.terminate()


def test_a_cluster_that_is_there_already_gets_the_package(tmp_path, expected, cluster):
    base = {**BASE, "arguments": {"seconds": 0.3}}
    driver = start_driver(tmp_path / "study", base, GRID, engine="ray", address=cluster)
    out, err = driver.communicate()
    assert json.loads(out.splitlines()[-1]) == [0, 0, ""], err
    assert digests(tmp_path / "study") == expected


def test_a_poisoned_trial_on_ray(tmp_path):
    driver = start_driver(
        tmp_path / "study",
        {"function": "study_trials:poisoned"},
        {"how": ["exit", "good", "loop"]},
        engine="ray",
        limits={"seconds": 8.0},  # the start of a worker is part of it
    )
    out, err = driver.communicate()
    assert json.loads(out.splitlines()[-1]) == [2, 0, ""], err
    rows = dict(collect(tmp_path / "study").select("trial", "reason").collect().iter_rows())
    assert rows["poisoned/how=loop"] == "took longer than its limit of 8 s"
    assert "exit code 7" in rows["poisoned/how=exit"]


def test_a_trial_that_no_machine_can_hold_is_refused():
    study = Study({"function": "study_trials:square", "arguments": {"x": 1}, "devices": 4})
    nodes = [
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": False, "Resources": {"CPU": 8.0}},
    ]
    with pytest.raises(ValueError, match="square asks for 4 CPUs and 0 GPUs, and no machine"):
        engine._check_room(nodes, *study.trials)
    engine._check_room([*nodes, {"Alive": True, "Resources": {"CPU": 4.0}}], *study.trials)
