"""The Fisher matrix of a batch of scores, which is never written down where it is large."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.linear import MANY, conjugate_gradients, products, solve

N_CONJUGATE = 20


class Fisher(NamedTuple):
    """F v; the mean of F's diagonal; and (F + damping)^-1 g."""

    apply: Callable[[Array], Array]
    size: Array
    invert: Callable[[Array, Array], Array]


def fisher_of(score: Float[Array, "t P"]) -> Fisher:
    """F = mean[score score']; with more than `MANY` parameters its inverse is an approximation.

    >>> fisher = fisher_of(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> fisher.apply(jnp.ones(2)).tolist(), float(fisher.size)
    ([2.0, 8.0], 5.0)
    """
    n_steps, n_params = score.shape
    if n_params > MANY:
        return _large(score)
    fisher = products(score, score) / n_steps

    def invert(damping: Array, gradient: Array) -> Array:
        return solve(fisher + damping * jnp.eye(n_params), gradient[:, None])[:, 0]

    return Fisher(lambda v: fisher @ v, jnp.trace(fisher) / n_params, invert)


def _large(score: Float[Array, "t P"]) -> Fisher:
    """By conjugate gradients."""
    n_steps, n_params = score.shape
    across = score.T

    def apply(v: Array) -> Array:
        along = products(across, v[:, None])
        return products(along, score)[0] / n_steps

    def invert(damping: Array, gradient: Array) -> Array:
        return conjugate_gradients(lambda v: apply(v) + damping * v, gradient, N_CONJUGATE)

    return Fisher(apply, jnp.sum(score**2) / (n_steps * n_params), invert)
