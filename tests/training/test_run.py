"""One learner's bits do not depend on who shares its batch, on chunks, or on devices."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.agents import PID, ActorCritic
from downside.bases import (
    Concatenation,
    Custom,
    Fourier,
    OneHot,
    Polynomial,
    Radial,
    TileCoding,
)
from downside.critics import (
    GQ,
    LSTD,
    MonteCarlo,
    MonteCarloLeastSquares,
    RecursiveLSTD,
    TrueOnlineSarsa,
)
from downside.environments import Bandit, Consumption, Portfolio
from downside.experiments import consumption_runs
from downside.lanes import Layout, layout_of
from downside.policies import Beta, Gibbs, Product, SquashedGaussian
from downside.signals import Centralised, Fixed, Proxy, Reward, TDError
from downside.training import run
from downside.training.batches import Batches
from random_mdps import random_mdp

PORTFOLIO = Portfolio(discount=0.99)
SIGNALS = (Reward(0.99), Proxy(Centralised(), 0.99, 50))
POLICY, FEW_ACTIONS = Gibbs(Polynomial(6), 11), Gibbs(Polynomial(6), 2)
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


def bits(learners, i):
    """Of what learner ``i`` carries into its next step."""
    carried = learners.theta, learners.multipliers, learners.env_state
    return [np.asarray(leaf)[i].tobytes().hex() for leaf in jax.tree.leaves(carried)]


def start(way, thresholds, seeds):
    settings = run.stack([WAYS[way](nu) for nu in thresholds])
    keys = jax.vmap(jax.random.key)(np.array(seeds))
    return settings, run.start_all(settings, keys), keys


THRESHOLDS = [0.1, 0.3, float("inf"), *(0.3 + 0.01 * i for i in range(67))]
PLACES = 1, 2, 69  # one of them on the second device
BATCHES = *((way, False) for way in WAYS), ("online", True), ("batches", True)

PROGRAM = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
sys.path.insert(0, sys.argv[1])
from training.test_run import PLACES, THRESHOLDS, bits, run, start

assert len(jax.devices()) == 2
way, is_double = sys.argv[2], sys.argv[3] == "True"
with jax.enable_x64(is_double):
    settings, learners, keys = start(way, THRESHOLDS, range(70))
    for begin, end in ((0, 3), (3, 4), (4, 8)):
        learners, _ = run.advance(settings, learners, keys, begin, end)
    for i in PLACES:
        print(*bits(learners, i))
"""


def in_company(*batch):
    """70 learners on two devices, in three chunks: the bits of those in the places."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1]), *map(str, batch)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "is_double"), BATCHES)
def test_neighbours_chunks_and_devices_change_no_bit(way, is_double):
    assert len(jax.devices()) == 1
    for i, expected in zip(PLACES, in_company(way, is_double), strict=True):
        with jax.enable_x64(is_double):
            settings, learners, keys = start(way, [THRESHOLDS[i]], [i])
            alone, _ = run.advance(settings, learners, keys, 0, 8)
        found = bits(alone, 0)
        assert found == expected
        n_params = 12 if way in ("counted", "by-time") else 77
        assert len(found[0]) == 2 * (8 if is_double else 4) * n_params  # hexadecimal


GRIDS = TileCoding(np.zeros(2), np.array([1.0, 2.0]), n_tiles=3, n_tilings=2)
WAVES = np.random.default_rng(2).normal(size=(6, 9)).astype(np.float32)


def online(policy=POLICY, **options):
    return lambda nu: ActorCritic(PORTFOLIO, policy, SIGNALS, (nu,), period=100, **options)


TILED = {
    "normalised": online(),
    "plain": online(direction="plain", multiplier=PID(rate=0.1)),
    "Fourier": online(Gibbs(Fourier(np.zeros(6), np.full(6, 2.0), order=1), 11)),
    "network": online(Gibbs(Polynomial(6), 11, hidden=(18,)), step_rule="kl"),
    "Beta": lambda nu: replace(
        consumption_runs.settings_of(consumption_runs.PRESETS["figure"], Consumption(), nu),
        period=200,
        pretraining=0,
    ),
    "three bounds": lambda nu: ActorCritic(
        PORTFOLIO,
        POLICY,
        (*SIGNALS, Proxy(Fixed(0.1), 0.99, 50), Proxy(TDError(), 0.99)),
        (nu, nu, nu),
    ),
    "true online": online(critic=TrueOnlineSarsa(0.9)),
    "GQ": online(Gibbs(Polynomial(6, 2), 11), critic=GQ(0.9)),
    "penalised": online(penalised=True),
    "recursive LSTD": online(FEW_ACTIONS, critic=RecursiveLSTD(0.9)),
    "LSTD": online(FEW_ACTIONS, critic=LSTD(0.9)),
    "least squares": online(FEW_ACTIONS, critic=MonteCarloLeastSquares()),
    "Monte-Carlo": online(critic=MonteCarlo()),
    "centres": online(
        Gibbs(Concatenation((Polynomial(6, 2), Radial(np.zeros(6), np.full(6, 2.0), 2))), 11)
    ),
    "states": lambda nu: ActorCritic(
        MDP, Gibbs(OneHot(6), 2), (Reward(0.9), Proxy(TDError(), 0.9)), (nu,), measure="lpm"
    ),
    "squashed": lambda nu: ActorCritic(
        Consumption(),
        Product([SquashedGaussian(GRIDS), Beta(Polynomial(2), hidden=(9,))]),
        (Reward(1.0), Proxy(Fixed(0.02), 1.0)),
        (nu,),
        multiplier=PID(rate=0.1),
    ),
}
BOTH_WIDTHS = ("normalised", "plain", "true online", "GQ", "penalised", "recursive LSTD")


@pytest.mark.slow
@pytest.mark.parametrize("name", TILED)
def test_a_learner_has_the_same_bits_in_every_tile(name):
    def bits_in(tile):
        """Of the second learner, whose neighbours have other keys and thresholds."""
        n = max(2, tile)
        settings = run.stack([replace(TILED[name](0.3 + 0.1 * i), tile=tile) for i in range(n)])
        keys = jax.vmap(jax.random.key)(np.arange(n))
        begun = run.start_all(settings, keys)
        learners, report = run.advance(settings, begun, keys, 0, 5)
        assert not np.any(report.failed)
        assert np.any(np.asarray(learners.theta) != begun.theta)
        second = jax.tree.map(lambda x: x[1], (learners.theta, learners.critic, learners.episode))
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(second)]

    for is_double in (False, True) if name in BOTH_WIDTHS else (False,):
        with jax.enable_x64(is_double):
            alone = bits_in(1)
            for tile in (5, 16, 48, 64) if name == "normalised" else (64,):
                assert bits_in(tile) == alone, (tile, is_double)


@pytest.mark.slow
@pytest.mark.parametrize("name", TILED)
def test_one_learner_is_one_kernel(name):
    """But for critics that carry matrices."""
    settings = run.stack([TILED[name](0.3)])
    keys = jax.vmap(jax.random.key)(np.arange(1))
    batch = settings, run.start_all(settings, keys), keys
    has_matrix = settings.critic.has_matrix
    if not has_matrix:
        assert layout_of(run.advance_one, batch, 0, 1, True) == Layout(alike=True, kernel=True)
    assert (run.tile_of(run.advance_one, batch, 0, 1, True) == 1) is not has_matrix


def waves_of(obs):
    """Where the compiler may round products or not, and did by the tile."""
    bent = obs + np.cos(1.0) * jnp.sin(obs * WAVES[:, 0]) * obs[-1]
    return jnp.log1p((bent @ WAVES) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features",
    [
        waves_of,
        lambda obs: jnp.sort(waves_of(obs)),  # no kernel
        lambda obs: jnp.arctan(waves_of(obs)),  # rounds by the tile, which is then of one size
    ],
    ids=["arithmetic", "sorted", "rough"],
)
def test_features_of_ones_own_have_the_same_bits_in_any_number(features):
    make = online(Gibbs(Custom(features, list("abcdefghi")), 11))

    def bits_among(n, tile=None):
        settings = run.stack([replace(make(0.3 + 0.1 * i), tile=tile) for i in range(n)])
        keys = jax.vmap(jax.random.key)(np.arange(n))
        learners, _ = run.advance(settings, run.start_all(settings, keys), keys, 0, 5)
        return bits(learners, 0)

    alone = bits_among(1)
    assert bits_among(7) == alone
    assert bits_among(70) == alone
    assert bits_among(1, tile=2) == alone


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
