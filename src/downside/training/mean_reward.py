"""A model of the mean reward r(s, a), learnt in the same pass as the critics."""

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.checks import check_positive
from downside.records import record, static


@final
@record
class MeanReward:
    """r(s, a) = w . m(s, a), by normalised least mean squares at a small constant rate.

        w <- w + rate (R - w . m) m / |m|^2

    A running sample mean would do worse: one heavy-tailed reward would move it too far.

    >>> model = MeanReward(lambda obs, action: jnp.ones(1), n_features=1, rate=0.5)
    >>> weights = model.init()
    >>> for reward in (4.0, 4.0):
    ...     weights = model.update(weights, None, None, jnp.asarray(reward))
    >>> float(model.predict(weights, None, None))   # 2, then halfway to 4 again
    3.0
    """

    features: Callable[[Any, Any], Float[Array, " n"]]
    n_features: int = static()
    rate: float | Array = 1e-3

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)

    def init(self) -> Float[Array, " n"]:
        """Nothing learnt: a mean of 0."""
        return jnp.zeros(self.n_features)

    def predict(self, weights: Any, obs: Any, action: Any) -> Float[Array, ""]:
        """The mean reward of an observation and an action."""
        return weights @ self.features(obs, action)

    def update(self, weights: Any, obs: Any, action: Any, reward: Any) -> Float[Array, " n"]:
        """Learn from one reward."""
        m = self.features(obs, action)
        size = jnp.maximum(m @ m, jnp.finfo(m.dtype).tiny)
        return weights + self.rate * (reward - weights @ m) * m / size
