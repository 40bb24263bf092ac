"""The Fisher matrix of a batch of scores, which is never written down where it is large."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.linear import MANY, conjugate_gradients, products, solve
from downside.policies import Gibbs
from downside.policies.base import Policy

N_CONJUGATE = 20


class Fisher(NamedTuple):
    """F v; the mean of F's diagonal; and (F + damping)^-1 g."""

    apply: Callable[[Array], Array]
    size: Array
    invert: Callable[[Array, Array], Array]


def fisher_of(score: Float[Array, "t P"], n_states: int | None = None) -> Fisher:
    """F = mean[score score']; with more than `MANY` parameters its inverse is an approximation.

    Of a table, a preference for each action in each of ``n_states`` states, it is exact: a step has
    a score in its own state only, so F has a block for each.

    >>> fisher = fisher_of(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> fisher.apply(jnp.ones(2)).tolist(), float(fisher.size)
    ([2.0, 8.0], 5.0)
    """
    n_steps, n_params = score.shape
    if n_states is not None:
        return _in_blocks(score, n_states)
    if n_params > MANY:
        return _large(score)
    fisher = products(score, score) / n_steps

    def invert(damping: Array, gradient: Array) -> Array:
        return solve(fisher + damping * jnp.eye(n_params), gradient[:, None])[:, 0]

    return Fisher(lambda v: fisher @ v, jnp.trace(fisher) / n_params, invert)


def states_of(policy: Policy) -> int | None:
    """How many numbered states a policy has a preference for each action in; None of another one.

    >>> from downside.bases import OneHot, Polynomial
    >>> states_of(Gibbs(OneHot(5), 3)), states_of(Gibbs(Polynomial(2), 3))
    (5, None)
    """
    if not (isinstance(policy, Gibbs) and policy.is_table):
        return None
    return policy.n_params // policy.n_actions


def _in_blocks(score: Float[Array, "t P"], n_states: int) -> Fisher:
    """Parameters are in the order (action, state)."""
    n_steps, n_params = score.shape
    n_actions = n_params // n_states
    by_state = score.reshape(n_steps, n_actions, n_states)
    blocks = jax.vmap(products, in_axes=(2, 2))(by_state, by_state) / n_steps

    def apply(v: Array) -> Array:
        return jnp.einsum("sab,bs->as", blocks, v.reshape(n_actions, n_states)).reshape(-1)

    def invert(damping: Array, gradient: Array) -> Array:
        damped = blocks + damping * jnp.eye(n_actions)
        right = gradient.reshape(n_actions, n_states).T[..., None]
        return jax.vmap(solve)(damped, right)[..., 0].T.reshape(-1)

    return Fisher(apply, jnp.trace(blocks, axis1=1, axis2=2).sum() / n_params, invert)


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
