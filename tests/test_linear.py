import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.linear import MANY, conjugate_gradients, products, solve, solve_positive


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_it_solves_as_lapack_does(n):
    rng = np.random.default_rng(n)
    with jax.enable_x64(True):
        matrix, right = rng.normal(size=(n, n)), rng.normal(size=(n, 3))
        found = solve(jnp.asarray(matrix), jnp.asarray(right))
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)


def test_it_exchanges_rows_where_the_pivot_is_zero():
    matrix = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    found = solve(jnp.asarray(matrix, jnp.float32), jnp.eye(3))
    np.testing.assert_allclose(found, np.linalg.inv(matrix), atol=1e-6)


@pytest.mark.parametrize("n", [7, MANY + 1])
def test_a_positive_system_is_solved_however_large(n):
    # Visits of n numbered states and a clock, as values are fitted: nearly diagonal.
    rng = np.random.default_rng(n)
    x = np.concatenate([np.eye(n - 1)[rng.integers(n - 1, size=900)], rng.random((900, 1))], axis=1)
    matrix, right = x.T @ x + 1e-3 * np.eye(n), rng.normal(size=(n, 2))
    with jax.enable_x64(True):
        found = solve_positive(jnp.asarray(matrix), jnp.asarray(right))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-6, atol=1e-9)


def test_conjugate_gradients_end_after_as_many_steps_as_unknowns_and_stay_there():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(40, 9)) * np.linspace(0.1, 3.0, 9)
    matrix, right = scores.T @ scores / 40 + 0.3 * np.eye(9), rng.normal(size=9)
    with jax.enable_x64(True):
        for n_steps in (9, 30):
            found = conjugate_gradients(lambda v: matrix @ v, jnp.asarray(right), n_steps)
            np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-8)
        nothing = conjugate_gradients(lambda v: matrix @ v, jnp.zeros(9), 5)
    np.testing.assert_array_equal(nothing, 0.0)


PROGRAM = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
import jax.numpy as jnp
from downside.batching import map_batch
from downside.linear import MANY, conjugate_gradients, products, solve, solve_positive

def one(key):
    return solve(jax.random.normal(key, (110, 110)), jnp.ones((110, 1)))

for i in range(5):
    x = jax.jit(lambda keys: map_batch(one, keys, tile=4))(jax.random.split(jax.random.key(i), 8))
print(bool(jnp.all(jnp.isfinite(x))))
"""


@pytest.mark.slow
def test_it_does_not_stop_two_devices():
    # With jnp.linalg.solve in its place this program never ends on a machine with two cores.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "True"


def test_products_of_many_rows_are_those_of_numpy():
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(173, 4)), rng.normal(size=(173, 3))
    with jax.enable_x64(True):
        found = products(jnp.asarray(left), jnp.asarray(right))
    np.testing.assert_allclose(found, left.T @ right, rtol=1e-12)
