"""One learner's bits do not depend on who shares its batch, on chunks, or on devices."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from downside.agents import ActorCritic
from downside.bases import Fourier, OneHot, Polynomial
from downside.batching import fitting_tile
from downside.environments import Bandit, Consumption, Portfolio
from downside.experiments import consumption_runs
from downside.policies import Gibbs
from downside.signals import Centralised, Proxy, Reward
from downside.training import run
from downside.training.batches import Batches
from random_mdps import random_mdp

PORTFOLIO = Portfolio(discount=0.99)
SIGNALS = (Reward(0.99), Proxy(Centralised(), 0.99, 50))
POLICY = Gibbs(Polynomial(6), 11)
MDP = random_mdp(np.random.default_rng(3), horizon=None, discount=0.9, n_states=6)


def counted(mdp, nu):
    return Batches(
        mdp,
        Gibbs(OneHot(6), 2),
        (Reward(0.9), Proxy(Centralised(), 0.9, mdp.horizon)),
        (nu,),
        period=500,
        risk_unit="spread",
        annealed=True,
        counted=True,
    )


WAYS = {
    "online": lambda nu: ActorCritic(PORTFOLIO, POLICY, SIGNALS, (nu,), pretraining=10),
    "batches": lambda nu: Batches(PORTFOLIO, POLICY, SIGNALS, (nu,), period=500),
    "counted": lambda nu: counted(MDP, nu),
    "by-time": lambda nu: counted(replace(MDP, horizon=12), nu),
}
each_way = pytest.mark.parametrize("way", WAYS)


def train(way, thresholds, seeds):
    settings = run.stack([WAYS[way](nu) for nu in thresholds])
    keys = jax.vmap(jax.random.key)(np.array(list(seeds)))
    learners = run.start_all(settings, keys)
    for begin, end in ((0, 3), (3, 4), (4, 8)):
        learners, _ = run.advance(settings, learners, keys, begin, end)
    return learners


@pytest.mark.slow
@each_way
def test_neighbours_and_chunks_change_no_bit(way):
    together = train(way, [0.1, 0.3, 0.5, float("inf"), 0.2], [3, 4, 5, 6, 7])
    settings, keys = run.stack([WAYS[way](0.5)]), jax.vmap(jax.random.key)(np.array([5]))
    alone, _ = run.advance(settings, run.start_all(settings, keys), keys, 0, 8)
    carried = lambda learners: (learners.theta, learners.multipliers, learners.env_state)  # noqa: E731
    pairs = zip(*(jax.tree.leaves(carried(both)) for both in (together, alone)), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found[2], expected[0])


TILED = {
    "normalised": WAYS["online"],
    "plain": lambda nu: ActorCritic(PORTFOLIO, POLICY, SIGNALS, (nu,), direction="plain"),
    "Fourier": lambda nu: ActorCritic(
        PORTFOLIO, Gibbs(Fourier(np.zeros(6), np.full(6, 2.0), order=1), 11), SIGNALS, (nu,)
    ),
    "network": lambda nu: ActorCritic(
        PORTFOLIO, Gibbs(Polynomial(6), 11, hidden=(5,)), SIGNALS, (nu,), step_rule="kl"
    ),
    "Beta": lambda nu: consumption_runs.settings_of(
        consumption_runs.PRESETS["figure"], Consumption(), nu
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TILED)
def test_a_learner_has_the_same_bits_in_every_tile(name):
    def bits(n_learners):
        settings = run.stack([TILED[name](0.3)] * n_learners)
        keys = jax.vmap(jax.random.key)(np.arange(n_learners))
        learners, _ = run.advance(settings, run.start_all(settings, keys), keys, 0, 3)
        first = jax.tree.map(lambda x: x[0], (learners.theta, learners.critic, learners.episode))
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(first)]

    alone = bits(1)
    assert fitting_tile(1, n_devices=1) == 4
    for n_learners in (8, 16, 32, 64, 128) if name == "normalised" else (8, 128):
        assert bits(n_learners) == alone


PROGRAM = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
sys.path.insert(0, sys.argv[3])
import numpy as np
from training.test_run import WAYS, train

n = int(sys.argv[2])
for way in WAYS:
    for is_double in (False, True):
        with jax.enable_x64(is_double):
            learners = train(way, [0.3 + 0.01 * i for i in range(n)], range(n))
            print(np.asarray(learners.theta[0]).tobytes().hex())
"""


@pytest.mark.slow
def test_devices_and_many_neighbours_change_no_bit():
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, sizes), str(Path(__file__).parents[1])],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for sizes in ((1, 1), (2, 70))  # devices, learners
    ]
    assert found[0] == found[1]
    assert [len(bits) for bits in found[0]] == [
        2 * n_bytes * n for n in (77, 77, 12, 12) for n_bytes in (4, 8)
    ]  # hexadecimal


@pytest.mark.slow
def test_a_learner_that_goes_wrong_stops_alone():
    make = lambda step: ActorCritic(  # noqa: E731
        PORTFOLIO, POLICY, SIGNALS, (0.3,), critic_step_size=step, pretraining=0
    )
    settings = run.stack([make(3e-4), make(10.0), make(3e-4)])
    keys = jax.vmap(jax.random.key)(np.array([1, 1, 1]))
    learners, report = run.advance(settings, run.start_all(settings, keys), keys, 0, 20)
    assert report.failed[1] > 0
    assert report.failed[0] == report.failed[2] == 0
    assert np.all(np.isfinite(np.asarray(learners.theta)))
    np.testing.assert_array_equal(learners.theta[0], learners.theta[2])
    assert int(learners.steps[0]) == 4000 > int(learners.steps[1])


def test_learners_of_another_shape_are_refused():
    bandit = ActorCritic(Bandit(), Gibbs(Polynomial(1), 3), (Reward(1.0),))
    with pytest.raises(ValueError, match="differ in numbers, not in sizes"):
        run.stack([bandit, WAYS["online"](0.1)])
