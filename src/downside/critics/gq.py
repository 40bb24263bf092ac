"""GQ(lambda): gradient-corrected off-policy prediction of action values."""

from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.checks import check_positive, check_probability
from downside.critics.base import Critic, Features, PerSignal, Weights, td_errors
from downside.records import record


@record
class GQState:
    """Weights, the decayed trace, and the second weights, which predict the TD error."""

    weights: Float[Array, "k n"]
    trace: Float[Array, "k n"]
    corrections: Float[Array, "k n"]


@final
@record
class GQ(Critic[GQState]):
    """GQ(lambda) of Maei and Sutton: stable off-policy where plain TD diverges.

        trace_k <- x + ratio trace_k
        pull_k   = discount_k (1 - trace_decay) h_k . trace_k
        w_k     <- w_k + step_size (error_k trace_k - pull_k next_x)
        h_k     <- h_k + correction step_size (error_k trace_k - (h_k . x) x)

    ``next_x`` is the average of the next features under the policy to be evaluated; the step size
    of the second weights is ``correction`` times that of the first.

    >>> GQ(trace_decay=0.4).init(n_features=3, n_signals=2).corrections.shape
    (2, 3)
    """

    trace_decay: float | Array = 0.0
    correction: float | Array = 1.0

    def __post_init__(self) -> None:
        check_probability("trace_decay", self.trace_decay)
        check_positive("correction", self.correction)

    def init(self, n_features: int, n_signals: int) -> GQState:
        """All 0."""
        zeros = jnp.zeros((n_signals, n_features))
        return GQState(zeros, zeros, zeros)

    def update(
        self,
        state: GQState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[GQState, PerSignal]:
        """One step, weighted by the importance ratio of its action."""
        errors = td_errors(state.weights, x, cumulants, discounts, next_x)
        trace = x + ratio * state.trace
        pull = discounts * (1.0 - self.trace_decay) * jnp.sum(state.corrections * trace, axis=1)
        weights = state.weights + step_size * (errors[:, None] * trace - pull[:, None] * next_x)
        gap = errors[:, None] * trace - (state.corrections @ x)[:, None] * x
        corrections = state.corrections + self.correction * step_size * gap
        decayed = (self.trace_decay * discounts)[:, None] * trace
        return GQState(weights, decayed, corrections), errors

    def cut(self, state: GQState, next_x: Features, step_size: Any) -> GQState:
        """Forget the trace."""
        return GQState(state.weights, jnp.zeros_like(state.trace), state.corrections)

    def weights(self, state: GQState) -> Weights:
        """The first weights."""
        return state.weights
