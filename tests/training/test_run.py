"""One learner's bits do not depend on who shares its batch, on tiles, devices or chunks."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from downside.agents import ActorCritic
from downside.bases import Polynomial
from downside.environments import Bandit, Portfolio
from downside.policies import Gibbs
from downside.signals import Centralised, Proxy, Reward
from downside.training import run
from downside.training.batches import Batches

PORTFOLIO = Portfolio(discount=0.99)
SIGNALS = (Reward(0.99), Proxy(Centralised(), 0.99, 50))
POLICY = Gibbs(Polynomial(6), 11)
WAYS = {
    "online": lambda nu: ActorCritic(PORTFOLIO, POLICY, SIGNALS, (nu,), pretraining=10),
    "batches": lambda nu: Batches(PORTFOLIO, POLICY, SIGNALS, (nu,), period=500),
}
each_way = pytest.mark.parametrize("way", WAYS)


def train(way, thresholds, seeds, n_blocks=2):
    settings = run.stack([WAYS[way](nu) for nu in thresholds])
    keys = jax.vmap(jax.random.key)(np.array(list(seeds)))
    learners = run.start_all(settings, keys)
    for block in range(n_blocks):
        learners, _ = run.advance(settings, learners, keys, block, 1)
    return learners


@pytest.mark.slow
@each_way
def test_neighbours_and_chunks_change_no_bit(way):
    together = train(way, [0.1, 0.3, 0.5, float("inf"), 0.2], [3, 4, 5, 6, 7])
    settings, keys = run.stack([WAYS[way](0.5)]), jax.vmap(jax.random.key)(np.array([5]))
    alone, _ = run.advance(settings, run.start_all(settings, keys), keys, 0, 2)
    carried = lambda learners: (learners.theta, learners.multipliers, learners.env_state)  # noqa: E731
    pairs = zip(*(jax.tree.leaves(carried(both)) for both in (together, alone)), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found[2], expected[0])


PROGRAM = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
sys.path.insert(0, "tests/training")
from downside.training import run
run.TILE = int(sys.argv[2])
import json
import numpy as np
import test_run
twelve = np.linspace(0.1, 0.5, 12).tolist()
found = [np.asarray(test_run.train(way, twelve, range(12), 1).theta) for way in test_run.WAYS]
print(json.dumps([theta.tobytes().hex() for theta in found]))
"""


@pytest.mark.slow
def test_devices_and_tiles_change_no_bit():
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, devices, tile],
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            ).stdout
        )
        for devices, tile in (("1", "64"), ("2", "8"))
    ]
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_learner_that_goes_wrong_stops_alone():
    make = lambda step: ActorCritic(  # noqa: E731
        PORTFOLIO, POLICY, SIGNALS, (0.3,), critic_step_size=step, pretraining=0
    )
    settings = run.stack([make(3e-4), make(10.0), make(3e-4)])
    keys = jax.vmap(jax.random.key)(np.array([1, 1, 1]))
    learners, report = run.advance(settings, run.start_all(settings, keys), keys, 0, 2)
    assert report.failed[1] > 0
    assert report.failed[0] == report.failed[2] == 0
    assert np.all(np.isfinite(np.asarray(learners.theta)))
    np.testing.assert_array_equal(learners.theta[0], learners.theta[2])
    assert int(learners.steps[0]) == 4000 > int(learners.steps[1])


def test_learners_of_another_shape_are_refused():
    bandit = ActorCritic(Bandit(), Gibbs(Polynomial(1), 3), (Reward(1.0),))
    with pytest.raises(ValueError, match="differ in numbers, not in sizes"):
        run.stack([bandit, WAYS["online"](0.1)])
