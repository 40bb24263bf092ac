"""Linear algebra inside compiled code that runs on several devices, with the same bits on any.

On a CPU, LAPACK's routines wait for the threads that JAX's devices already occupy: with as many
devices as cores, two solves at a time can stop for ever. Elimination written out in plain array
operations cannot, and gives the same bits whatever shares its batch.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ROWS = 50
"""So few rows at a time that no library splits a sum over them between its threads."""


def products(left: Float[Array, "t n"], right: Float[Array, "t m"]) -> Float[Array, "n m"]:
    """left' right, summed over many rows in a fixed order, however many threads there are.

    >>> products(jnp.array([[1.0], [2.0]]), jnp.array([[3.0, 0.0], [1.0, 1.0]])).tolist()
    [[5.0, 2.0]]
    """
    n_rows = -len(left) % ROWS
    pieces = [
        jnp.pad(x, ((0, n_rows), (0, 0))).reshape(-1, ROWS, x.shape[1]) for x in (left, right)
    ]
    return jnp.sum(jnp.einsum("crn,crm->cnm", *pieces), axis=0)


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
