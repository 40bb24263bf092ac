"""The benchmark's own arithmetic, and that every part runs."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.__main__ import PARTS
from benchmarks.judging import network_action
from benchmarks.table import fill, tables
from benchmarks.throughput import summary

from benchmarks import measuring, reproduce

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", [measuring, reproduce])
def test_the_examples(module):
    found = doctest.testmod(module)
    assert found.attempted > found.failed == 0


def test_ratios_are_taken_within_a_turn():
    # both twice as slow in the second turn: the ratio is 0.5 throughout
    times = {"ours, 512, float32": [10.0, 20.0], "C": [20.0, 40.0]}
    found = summary(times, {}, {})["ours over theirs"]["ours, 512, float32 / C"]
    assert found == {"median": 0.5, "low": 0.5, "high": 0.5, "n": 2}


PARENT = """
import subprocess, sys
much = b"x" * 600_000_000
child = "from benchmarks.measuring import peak_memory; print(peak_memory())"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def test_the_peak_memory_is_not_that_of_the_process_before():
    done = subprocess.run(
        [sys.executable, "-c", PARENT],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 5.0 < float(done.stdout) < 300.0


def test_the_tables_of_throughput_are_by_problem(tmp_path):
    """One for each problem that was run, with whatever contestants there are."""
    ours, half = "ours, 8, float32", {"median": 0.5, "low": 0.25, "high": 0.75, "n": 2}
    bandit = {"ns": {ours: half, "C": half}, "ours over theirs": {}, "missing": {"other": "why"}}
    portfolio = {"ns": {ours: half}, "ours over theirs": {}, "missing": {}}
    document = {"problems": {"portfolio": portfolio, "bandit": bandit}}
    (tmp_path / "throughput.json").write_text(json.dumps(document))
    found = tables(tmp_path)
    assert list(found) == ["throughput, portfolio", "throughput, bandit"]
    assert len(found["throughput, portfolio"].splitlines()) == 3
    assert len(found["throughput, bandit"].splitlines()) == 5
    page = "<!-- begin throughput, {0} -->\n\n<!-- end throughput, {0} -->\n"
    page = "".join(page.format(problem) for problem in ("portfolio", "consumption", "bandit"))
    assert fill(page, tmp_path).count("| ours, 8, float32 | 0 (0 to 1) |") == 2


def test_a_network_of_a_peer_by_hand():
    arrays = {
        "weights_0": jnp.array([[1.0, -2.0]]),
        "biases_0": jnp.array([0.5]),
        "weights_1": jnp.array([[2.0], [-1.0]]),
        "biases_1": jnp.array([0.1, 0.2]),
        "log_std": jnp.array([-1.0, -1.0]),
        "centre": jnp.array([0.1, 0.2]),
        "scale": jnp.array([0.5, 2.0]),
        "clip": jnp.array(5.0),
    }
    obs, key = jnp.array([40.0, 1.5]), jax.random.key(0)
    # inputs 0.2 and 0.6, normalised 0.2 and 0.2; hidden tanh(0.3); outputs 2h + 0.1, -h + 0.2
    h = np.tanh(0.2 - 0.4 + 0.5)
    found = network_action(("consumption", "tanh", True), True, arrays, obs, key)
    np.testing.assert_allclose(found, [0.5 * (2 * h + 1.1), 0.5 * (1.2 - h)], rtol=1e-5)


def benchmark(folder, *parts):
    command = [sys.executable, "-m", "benchmarks", *parts, "--quick", "--no-peers"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ran = subprocess.run(
        [*command, "--out", str(folder)], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@pytest.mark.slow
def test_a_part_is_measured_once_and_kept(tmp_path):
    benchmark(tmp_path, "host")
    assert "host: kept" in benchmark(tmp_path, "host")
    document = json.loads((tmp_path / "quick" / "host.json").read_text())
    assert document["quick"]
    assert document["machine"]["cores"] == os.cpu_count()


@pytest.mark.peers  # five minutes
def test_every_part_runs(tmp_path):
    benchmark(tmp_path)
    for part in PARTS:
        assert json.loads((tmp_path / "quick" / f"{part}.json").read_text())["quick"]
    assert (tmp_path / "quick" / "benchmarks.png").stat().st_size > 10_000
