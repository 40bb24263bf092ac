"""The scores of a batch and their Fisher matrix; neither is written down where it is large."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.arrays import outer_product
from downside.linear import MANY, conjugate_gradients, products, solve
from downside.policies import Gibbs
from downside.policies.base import Policy, score_factors
from downside.records import record

N_CONJUGATE = 20


@record
class Scores:
    """The score of each step, as the outer product of ``rows`` and ``columns``.

    >>> scores = Scores(jnp.array([[2.0, 3.0]]), jnp.array([[1.0, 10.0]]))
    >>> scores.whole.tolist()
    [[2.0, 20.0, 3.0, 30.0]]
    >>> scores.along(jnp.array([0.0, 1.0, 0.0, 2.0])).tolist()
    [80.0]
    >>> scores.sum(jnp.array([0.5])).tolist()
    [1.0, 10.0, 1.5, 15.0]
    """

    rows: Float[Array, "*t a"]
    columns: Float[Array, "*t f"]

    @staticmethod
    def of(policy: Policy, theta: Array, obs: Any, action: Any) -> "Scores":
        """Of one step."""
        return Scores(*score_factors(policy, theta, obs, action))

    @property
    def whole(self) -> Float[Array, "t P"]:
        """Written down."""
        return jax.vmap(outer_product)(self.rows, self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Steps and parameters."""
        return len(self.rows), self.rows.shape[1] * self.columns.shape[1]

    def along(self, v: Float[Array, " P"]) -> Float[Array, " t"]:
        """score_t . v for each step; the longer factor is summed up first."""
        by_row = v.reshape(self.rows.shape[1], -1)
        if self.rows.shape[1] > self.columns.shape[1]:
            return jnp.sum(products(self.rows.T, by_row) * self.columns, axis=-1)
        return jnp.sum(self.rows * products(self.columns.T, by_row.T), axis=-1)

    def sum(self, gains: Float[Array, " t"]) -> Float[Array, " P"]:
        """sum_t gain_t score_t; the gains go with the shorter factor."""
        if self.rows.shape[1] > self.columns.shape[1]:
            return products(gains[:, None] * self.columns, self.rows).T.reshape(-1)
        return products(gains[:, None] * self.rows, self.columns).reshape(-1)


class Fisher(NamedTuple):
    """F v; the mean of F's diagonal; and (F + damping)^-1 g."""

    apply: Callable[[Array], Array]
    size: Array
    invert: Callable[[Array, Array], Array]


def fisher_of(scores: Scores, n_states: int | None = None) -> Fisher:
    """F = mean[score score']; with more than `MANY` parameters its inverse is an approximation.

    Of a table, a preference for each action in each of ``n_states`` states, it is exact: a step has
    a score in its own state only, so F has a block for each.

    >>> fisher = fisher_of(Scores(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.ones((2, 1))))
    >>> fisher.apply(jnp.ones(2)).tolist(), float(fisher.size)
    ([2.0, 8.0], 5.0)
    """
    n_steps, n_params = scores.shape
    if n_states is not None:
        return _in_blocks(scores.whole, n_states)
    if n_params > MANY:
        return _large(scores)
    fisher = products(scores.whole, scores.whole) / n_steps

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


def _large(scores: Scores) -> Fisher:
    """By conjugate gradients."""
    n_steps, n_params = scores.shape

    def apply(v: Array) -> Array:
        return scores.sum(scores.along(v)) / n_steps

    def invert(damping: Array, gradient: Array) -> Array:
        return conjugate_gradients(lambda v: apply(v) + damping * v, gradient, N_CONJUGATE)

    squares = jnp.sum(scores.rows**2, axis=1) * jnp.sum(scores.columns**2, axis=1)
    return Fisher(apply, jnp.sum(squares) / (n_steps * n_params), invert)
