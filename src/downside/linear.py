"""Linear algebra inside compiled code that runs on several devices, with the same bits on any.

On a CPU, LAPACK's routines wait for the threads that JAX's devices already occupy: with as many
devices as cores, two solves at a time can stop for ever. Elimination written out in plain array
operations cannot, and gives the same bits whatever shares its batch.
"""

from collections.abc import Callable

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


MANY = 256
"""Unknowns above which systems are solved by conjugate gradients: elimination takes n^3 steps."""


def solve_positive(matrix: Float[Array, "n n"], right: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """As `solve`, for a positive definite matrix; nearly, where it is large.

    >>> solve_positive(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([[1.0], [1.0]])).tolist()
    [[0.5], [0.25]]
    """
    if matrix.shape[0] <= MANY:
        return solve(matrix, right)
    unit = 1.0 / jnp.sqrt(jnp.diag(matrix))
    scaled = matrix * unit[:, None] * unit

    def one(column: Array) -> Array:
        apply = lambda x: products(scaled, x[:, None])[:, 0]  # noqa: E731 (symmetric)
        return conjugate_gradients(apply, column * unit, 50) * unit

    return jax.vmap(one, in_axes=1, out_axes=1)(right)


def conjugate_gradients(
    apply: Callable[[Array], Array], right: Float[Array, " n"], n_steps: int
) -> Float[Array, " n"]:
    """Nearly the x with apply(x) = right, for a positive definite ``apply`` too large to invert.

    >>> x = conjugate_gradients(lambda x: jnp.array([2.0, 4.0]) * x, jnp.array([1.0, 1.0]), 2)
    >>> x.round(4).tolist()
    [0.5, 0.25]
    """

    def step(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, rest, along, size = state
        image = apply(along)
        length = _ratio(size, jnp.sum(along * image))
        x, rest = x + length * along, rest - length * image
        smaller = jnp.sum(rest**2)
        return x, rest, rest + _ratio(smaller, size) * along, smaller

    begin = jnp.zeros_like(right), right, right, jnp.sum(right**2)
    return jax.lax.fori_loop(0, n_steps, step, begin)[0]


def _ratio(above: Array, below: Array) -> Array:
    """0 where nothing is left to divide."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1.0), 0.0)
