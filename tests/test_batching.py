import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.batching import map_batch

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
