import os
import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from downside.agents import ActorCritic
from downside.bases import Custom, Polynomial
from downside.batching import compiled, is_own, map_batch
from downside.environments import Consumption, Portfolio
from downside.experiments import consumption_runs
from downside.policies import Gibbs
from downside.records import record
from downside.signals import Centralised, Proxy, Reward, as_target

SCRIPT = """
import jax, sys
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
from downside.environments import Portfolio
from downside.environments.episodes import rollout
assert len(jax.devices()) == int(sys.argv[1])
act = lambda obs, key: jax.random.randint(key, (), 0, 11)
sums = rollout(Portfolio(), act, jax.random.key(5), 37, tile=int(sys.argv[2]))
print(np.asarray(sums.total).tobytes().hex())
"""


@pytest.mark.parametrize("tile", [1, 3, 7, 100])
def test_every_entry_is_mapped_once_whatever_the_tile(tile):
    batch = {"a": jnp.arange(7), "b": jnp.arange(14.0).reshape(7, 2)}
    result = map_batch(lambda x: x["a"].astype(float) * x["b"], batch, tile=tile)
    assert np.array_equal(result, np.arange(7)[:, None] * np.arange(14.0).reshape(7, 2))


def test_keys_can_be_mapped():
    keys = jax.random.split(jax.random.key(3), 5)
    mapped = map_batch(lambda key: jax.random.uniform(key), keys, tile=2)
    assert np.array_equal(mapped, jax.vmap(jax.random.uniform)(keys))


@pytest.mark.slow
def test_results_are_the_same_bits_for_any_tile_and_number_of_devices():
    def bits(devices, tile):
        command = [sys.executable, "-c", SCRIPT, str(devices), str(tile)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
        return done.stdout

    assert len({bits(1, 64), bits(2, 64), bits(2, 5)}) == 1


class Reading(NamedTuple):
    scale: float

    def __call__(self, obs, time):
        return obs * self.scale


@record
class Market:
    """Somebody's own environment."""


def settings(env=Portfolio(), basis=Polynomial(6), target=Centralised(), **options):  # noqa: B008
    signals = Reward(0.99), Proxy(as_target(target), 0.99, 50)
    return ActorCritic(env, Gibbs(basis, 11), signals, (0.3,), **options)


@pytest.mark.parametrize(
    ("expected", "made"),
    {
        "the paper's": (True, settings()),
        "a number": (True, settings(target=0.5)),
        "a method of ours": (True, settings(target=Consumption().step_target)),
        "a preset": (True, consumption_runs.FIGURE),
        "features": (False, settings(basis=Custom(lambda obs: obs, list("abcdef")))),
        "a target": (False, settings(target=lambda transition: 0.5)),
        "a schedule": (False, settings(step_size=optax.linear_schedule(0.1, 0.0, 10))),
        "values": (False, settings(value_features=Reading(2.0))),
        "an environment": (False, settings(env=Market())),
    }.values(),
)
def test_code_from_elsewhere_is_recognised(expected, made):
    assert is_own(made) is expected


def test_an_inner_loop_sees_what_the_outer_one_carries():
    """An option of XLA, which saved copies, took it for the next turn's."""

    def one(x, n):
        def turn(k, carry):
            inner = jax.lax.scan(lambda s, _: (s * 0.9 + carry[1], None), carry[0], None, length=4)
            return inner[0], carry[1] + 1.0

        return jax.lax.fori_loop(0, n, turn, (x, 1.0))[0]

    expected = 1.0
    for turn in range(3):
        for _ in range(4):
            expected = expected * 0.9 + turn + 1.0
    np.testing.assert_allclose(compiled(one)(jnp.ones(4), 3), expected, rtol=1e-5)
