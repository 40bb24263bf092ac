"""Small systems of linear equations, inside compiled code that runs on several devices.

On a CPU, LAPACK's routines wait for the threads that JAX's devices already occupy: with as many
devices as cores, two solves at a time can stop for ever. Elimination written out in plain array
operations cannot, and gives the same bits whatever shares its batch.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def solve(matrix: Float[Array, "n n"], right: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """The X with matrix X = right, by Gauss-Jordan elimination with partial pivoting.

    >>> solve(jnp.array([[0.0, 2.0], [1.0, 1.0]]), jnp.array([[4.0], [5.0]])).tolist()
    [[3.0], [2.0]]
    """
    n = matrix.shape[0]
    rows = jnp.arange(n)

    def eliminate(k: Array, system: Array) -> Array:
        column = system[:, k]
        pivot = jnp.argmax(jnp.where(rows >= k, jnp.abs(column), -1.0))
        chosen, replaced = system[pivot], system[k]
        system = jnp.where((rows == pivot)[:, None], replaced, system)
        unit = chosen / chosen[k]
        factors = jnp.where(rows == k, 0.0, system[:, k])
        return jnp.where((rows == k)[:, None], unit, system - factors[:, None] * unit)

    system = jnp.concatenate([matrix, right], axis=1)
    return jax.lax.fori_loop(0, n, eliminate, system)[:, n:]
