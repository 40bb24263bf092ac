"""The units in which a learner in batches measures its signals, whatever those of the reward."""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

RiskUnit = Literal["size", "spread"]
GainUnit = Literal["first", "batch"]


def units_after(agent: Any, learner: Any, returns: Float[Array, "t k"]) -> Float[Array, " k"]:
    """The spread of the returns to go in the first batch for the reward.

    For what is bounded their size there or, if ``agent.risk_unit`` says so, their spread. Spreads
    are those of the first batch in which there is any.
    """
    if agent.risk_unit == "spread":
        return jnp.where(learner.units > 0, learner.units, spread_of(returns))
    spread = jnp.std(returns[:, :1], axis=0)
    size = jnp.sqrt(jnp.mean(returns[:, 1:] ** 2, axis=0))
    units = positive(jnp.concatenate([spread, size]))
    return jnp.where(learner.steps == agent.period, units, learner.units)


def units_before(agent: Any, n_signals: int) -> Float[Array, " k"]:
    """Before the first batch: unknown, which is 0, or 1."""
    return jnp.zeros(n_signals) if agent.risk_unit == "spread" else jnp.ones(n_signals)


def spread_of(rows: Float[Array, "t ..."]) -> Float[Array, "..."]:
    """The standard deviation over the steps; 0 where it is a matter of rounding.

    >>> spread_of(jnp.array([[3.0, 0.1], [5.0, 0.1]])).tolist()
    [1.0, 0.0]
    """
    spread, size = jnp.std(rows, axis=0), jnp.sqrt(jnp.mean(rows**2, axis=0))
    return jnp.where(spread > 100.0 * jnp.finfo(size.dtype).eps * size, spread, 0.0)


def in_own_spread(gain: Float[Array, " t"]) -> Float[Array, " t"]:
    """A batch's gains in units of their own spread, whatever that of the first batch was.

    >>> in_own_spread(jnp.array([10.0, 50.0])).tolist()
    [0.5, 2.5]
    """
    return gain / positive(spread_of(gain))


def positive(sizes: Array) -> Array:
    """1 where a size is 0.

    >>> positive(jnp.array([2.0, 0.0])).tolist()
    [2.0, 1.0]
    """
    return jnp.where(sizes > 0, sizes, 1.0)
