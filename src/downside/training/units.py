"""The units in which a learner in batches measures its signals, whatever those of the reward."""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

RiskUnit = Literal["size", "spread"]


def units_after(agent: Any, learner: Any, returns: Float[Array, "t k"]) -> Float[Array, " k"]:
    """The spread of the returns to go in the first batch for the reward.

    For what is bounded their size there or, if ``agent.risk_unit`` says so, their spread. Spreads
    are those of the first batch in which there is any.
    """
    if agent.risk_unit == "spread":
        spread, size = jnp.std(returns, axis=0), jnp.sqrt(jnp.mean(returns**2, axis=0))
        rounding = 100.0 * jnp.finfo(size.dtype).eps * size
        found = jnp.where(spread > rounding, spread, 0.0)
        return jnp.where(learner.units > 0, learner.units, found)
    spread = jnp.std(returns[:, :1], axis=0)
    size = jnp.sqrt(jnp.mean(returns[:, 1:] ** 2, axis=0))
    units = positive(jnp.concatenate([spread, size]))
    return jnp.where(learner.steps == agent.period, units, learner.units)


def units_before(agent: Any, n_signals: int) -> Float[Array, " k"]:
    """Before the first batch: unknown, which is 0, or 1."""
    return jnp.zeros(n_signals) if agent.risk_unit == "spread" else jnp.ones(n_signals)


def positive(sizes: Array) -> Array:
    """1 where a size is 0.

    >>> positive(jnp.array([2.0, 0.0])).tolist()
    [2.0, 1.0]
    """
    return jnp.where(sizes > 0, sizes, 1.0)
