import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.batching import compiled, map_batch
from elementwise_functions import FUNCTIONS, ROUGH

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


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize(
    "function",
    [jnp.arctan, jax.checkpoint(jnp.arctan), lambda x: jax.jit(jnp.arctan2)(x, jnp.ones(64))],
)
def test_arctangents_are_right(function, is_double):
    """XLA's for vectors of 512 bits returns other numbers."""
    x = np.linspace(-3.0, 3.0, 64)
    with jax.enable_x64(is_double):
        found = compiled(function)(jnp.asarray(x, float))
    np.testing.assert_allclose(found, np.arctan(x), rtol=1e-12 if is_double else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", {**FUNCTIONS, **ROUGH})
def test_what_is_compiled_computes_what_jit_does(name):
    """But for roundings, of which a tenfold sum or a steep function makes more of float32."""
    function = {**FUNCTIONS, **ROUGH}[name]
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        x = jnp.asarray(np.exp(rng.normal(size=64)) + 1.0)
        np.testing.assert_allclose(compiled(function)(x), jax.jit(function)(x), rtol=1e-10)
    x = x.astype(np.float32)
    np.testing.assert_allclose(compiled(function)(x), jax.jit(function)(x), rtol=2e-4)
