"""Training N steps, being stopped, and N more in a new process gives the bits of 2N at once."""

import hashlib
import itertools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest

from downside.control import NAC, NRCPO
from downside.environments import Bandit, Portfolio
from downside.signals import Centralised
from downside.store import RunFolder, StoreError, newest_facts
from downside.store.status import read_status
from downside.training import keeping, pacing
from downside.training import run as run_module

QUIET = {"progress_bar": False}
STEPS = 8_000
MANY = 120_000


def make(folder=None, way="batches", **options):
    if way == "online":
        options |= {"way": way, "pretraining": 5}
    env = Portfolio(discount=0.99)
    return NRCPO(env, target=Centralised(), threshold=[0.1, 0.3], folder=folder, **options)


def digest(agent):
    """Of all that is carried and recorded."""
    leaves = jax.tree.leaves((agent._state.learners, agent.records))
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves)).hexdigest()


PROGRAM = """
import sys
import jax
folder, way, devices, precision, steps, tests = sys.argv[1:7]
jax.config.update("jax_num_cpu_devices", int(devices))
sys.path.insert(0, tests)
from training.test_keeping import digest, make, pacing
pacing.SAVE_SHARE = float("inf")
agent = make(None if folder == "-" else folder, way, precision=precision)
print("ready", flush=True)
agent.learn(int(steps), progress_bar=True)
print(digest(agent), agent.steps, agent.theta.dtype)
"""


def program(folder, way="batches", devices=1, precision="float32", steps=STEPS):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    settings = map(str, (folder, way, devices, precision, steps, tests))
    return [sys.executable, "-c", PROGRAM, *settings]


def run(*args, **options):
    done = subprocess.run(program(*args, **options), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("way", "devices", "precision"),
    [("batches", 1, "float64"), ("batches", 2, "float32"), ("online", 2, "float32")],
)
def test_a_run_that_goes_on_in_another_process_ends_with_the_same_bits(
    way, devices, precision, tmp_path
):
    folder = tmp_path / "run"
    at_once = run("-", way, devices, precision)
    run(folder, way, devices, precision, steps=STEPS // 2)
    assert run(folder, way, devices, precision) == at_once
    assert at_once.split()[1:] == [str(STEPS), precision]
    if devices != len(jax.devices()):
        with pytest.raises(StoreError, match=r"devices is 2 there and 1 here"):
            make(folder, way, precision=precision)


@pytest.fixture(scope="module")
def at_once():
    """What a run of `MANY` steps prints that nobody stops, without a folder."""
    agent = make().learn(MANY, **QUIET)
    return f"{digest(agent)} {agent.steps} {agent.theta.dtype}"


def newest(folder):
    return max((int(path.name) for path in folder.glob("checkpoints/0*")), default=0)


def test_a_run_that_is_killed_at_random_and_started_again_ends_with_the_same_bits(
    tmp_path, at_once
):
    rng, folder = random.Random(5), tmp_path / "run"
    for _ in range(3):
        before = newest(folder)
        with subprocess.Popen(program(folder, steps=MANY), stdout=subprocess.PIPE) as process:
            while newest(folder) <= before:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.5))
            process.kill()
        assert before < newest(folder) < MANY
    assert run(folder, steps=MANY) == at_once


def test_ctrl_c_finishes_the_chunk_says_how_to_go_on_and_loses_nothing(tmp_path, at_once):
    folder = tmp_path / "run"
    with subprocess.Popen(
        program(folder, steps=MANY), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not newest(folder):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert f"saved in {folder}; run it again to go on" in said
    assert read_status(folder)["process"] == "none; run it again to go on"
    assert 0 < newest(folder) < MANY
    assert run(folder, steps=MANY) == at_once


@pytest.fixture(scope="module")
def bandit_folder(tmp_path_factory):
    """A run of 8,000 steps, with a checkpoint at every 2,000."""
    folder = tmp_path_factory.mktemp("runs") / "bandit"
    agent = bandit(folder)
    for _ in range(4):
        agent.learn(2_000, **QUIET)
    return folder


def bandit(folder, **options):
    return NAC(Bandit(), n_seeds=2, folder=folder, **options)


def test_a_program_that_is_run_again_does_nothing_twice(bandit_folder):
    agent = bandit(bandit_folder)
    assert agent.steps == 8_000
    before = agent.theta
    status = read_status(bandit_folder)
    assert agent.learn(8_000, **QUIET).steps == 8_000
    assert read_status(bandit_folder)["mean return"] == status["mean return"]
    np.testing.assert_array_equal(agent.theta, before)


def test_more_steps_than_first_asked_for(tmp_path):
    folder = tmp_path / "run"
    bandit(folder).learn(4_000, **QUIET)
    found = bandit(folder).learn(10_000, **QUIET)
    np.testing.assert_array_equal(found.theta, bandit(None).learn(10_000, **QUIET).theta)
    assert found.steps == 10_000


def test_another_run_is_refused_with_the_reason(bandit_folder):
    with pytest.raises(StoreError, match=r"holds another run: .*seed is 0 there and 1 here"):
        bandit(bandit_folder, seed=1)
    with pytest.raises(StoreError, match=r"kl is 0\.02 there and 0\.1 here"):
        bandit(bandit_folder, kl=0.1)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(bandit_folder, tmp_path):
    folder = tmp_path / "run"
    bandit(folder).learn(4_000, **QUIET)
    agent = bandit(folder).learn(8_000, **QUIET)  # saved after its first chunk, at 6,000
    state = folder / "checkpoints" / f"{8_000:012d}" / "state.npz"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    with pytest.warns(UserWarning, match=r"going on from step 6000, because .*000000008000"):
        again = bandit(folder)
    assert again.steps == 6_000
    np.testing.assert_array_equal(again.learn(8_000, **QUIET).theta, agent.theta)


def test_an_agent_that_was_overtaken_is_refused(tmp_path):
    slow, quick = bandit(tmp_path / "run"), bandit(tmp_path / "run")
    quick.learn(4_000, **QUIET)
    with pytest.raises(StoreError, match=r"has gone on to step 4000 .* make the agent anew"):
        slow.learn(2_000, **QUIET)


def test_records_are_a_table(bandit_folder):
    table = pl.read_parquet(bandit_folder / "records.parquet")
    assert table["steps"].to_list() == [2_000, 2_000, 4_000, 4_000, 6_000, 6_000, 8_000, 8_000]
    assert table.filter(pl.col("learner") == 1)["mean_return"].is_finite().all()


def test_a_callback_sees_every_policy_update_and_can_stop(tmp_path):
    seen = []

    def callback(report):
        seen.append(int(report.steps[0]))
        return np.bool_(len(seen) < 3)

    agent = NAC(Bandit(), way="online", period=100, folder=tmp_path / "run")
    agent.learn(10_000, callback=callback, **QUIET)
    assert seen == [100, 200, 300]
    assert agent.steps == 300
    assert agent.learn(500, **QUIET).steps == 800


def test_the_status_is_in_words(tmp_path):
    make(tmp_path / "run").learn(4_000, **QUIET)
    status = read_status(tmp_path / "run")
    assert status["steps"] == "4,000 of 4,000 (100%)"
    assert status["bound"] == "0.1, 0.3"
    assert status["process"] == "none; it is done"
    assert "learner-steps/s" in status["speed"]


@pytest.mark.parametrize("call", ["write_records", "save"])
def test_a_run_that_dies_in_its_last_save_leaves_the_same_table(tmp_path, monkeypatch, call):
    whole, folder = bandit(tmp_path / "whole").learn(4_000, **QUIET), tmp_path / "run"
    kept = getattr(RunFolder, call)

    def die(self, *arguments):
        if (arguments[0].height == 4) if call == "write_records" else (arguments[0] == 4_000):
            raise ConnectionError
        return kept(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, call, die)
        with pytest.raises(ConnectionError):
            bandit(folder).learn(4_000, **QUIET)
    np.testing.assert_array_equal(bandit(folder).learn(4_000, **QUIET).theta, whole.theta)
    tables = [(tmp_path / name / "records.parquet").read_bytes() for name in ("whole", "run")]
    assert tables[0] == tables[1]


def test_the_speed_is_that_of_compiled_steps(tmp_path, monkeypatch):
    """The first chunk of 2000 steps takes 10 s, since it compiles; the other three 0.5 s each."""
    ticks = itertools.chain.from_iterable((0.0, 10.0 if i == 0 else 0.5) for i in range(4))
    monkeypatch.setattr(run_module, "time", SimpleNamespace(perf_counter=ticks.__next__))
    bandit(tmp_path / "run").learn(8_000, **QUIET)
    step, facts = newest_facts(tmp_path / "run")
    assert (step, facts["seconds"]) == (8_000, 11.5)
    assert facts["speed"] == 6_000 * facts["learners"] / 1.5
    assert read_status(tmp_path / "run")["speed"] == f"{facts['speed']:,.0f} learner-steps/s"


def test_other_versions_are_said(bandit_folder, monkeypatch):
    monkeypatch.setattr(keeping, "versions", lambda: {"jax": "9.9"})
    with pytest.warns(UserWarning, match=r"other versions \(jax .* then, 9\.9 now\)"):
        bandit(bandit_folder)


def test_a_folder_that_is_removed_while_running_is_said_and_the_agent_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(pacing, "SAVE_SHARE", math.inf)
    folder = tmp_path / "run"
    agent = bandit(folder)

    def callback(report):
        if report.steps[0] == 4_000 and folder.exists():
            shutil.rmtree(folder)

    with pytest.raises(StoreError, match=r"was removed or replaced while it was in use"):
        agent.learn(10_000, callback=callback, **QUIET)
    assert agent.steps == 4_000
    assert agent.learn(10_000, **QUIET).steps == 10_000  # the rest of what was asked for
    np.testing.assert_array_equal(agent.theta, bandit(None).learn(10_000, **QUIET).theta)


def test_a_second_process_is_refused_and_the_first_one_named(tmp_path):
    folder = tmp_path / "run"
    with subprocess.Popen(program(folder, steps=10_000_000), stdout=subprocess.PIPE) as process:
        while not newest(folder):
            time.sleep(0.01)
        with pytest.raises(StoreError, match=rf"in use by process {process.pid} "):
            make(folder)
        process.kill()
    assert make(folder).steps >= 2_000


def test_nothing_is_lost_where_the_folder_goes_away(tmp_path):
    agent = bandit(tmp_path / "run").learn(2_000, **QUIET)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert agent.learn(2_000, **QUIET).steps == 4_000  # a new folder is made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bandit(tmp_path / "elsewhere").steps == 2_000
