"""True-online SARSA(lambda): exactly its online forward view at every step."""

from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.checks import check_probability
from downside.critics.base import Critic, Features, PerSignal, Weights, td_errors
from downside.records import record


@record
class TrueOnlineState:
    """Weights, the decayed trace, and the value of x as it was predicted one step ago."""

    weights: Float[Array, "k n"]
    trace: Float[Array, "k n"]
    old_values: Float[Array, " k"]


@final
@record
class TrueOnlineSarsa(Critic[TrueOnlineState]):
    """SARSA(lambda) with van Seijen and Sutton's trace and correction.

        trace_k <- trace_k + (1 - step_size trace_k . x) x
        w_k     <- w_k + step_size (error_k + v_k - old_k) trace_k - step_size (v_k - old_k) x
        old_k   <- w_k . next_x before the update;   v_k = w_k . x

    >>> critic = TrueOnlineSarsa(trace_decay=0.9)
    >>> state = critic.init(n_features=2, n_signals=1)
    >>> x = jnp.array([1.0, 2.0])
    >>> state, errors = critic.update(state, x, jnp.array([3.0]), jnp.array([0.0]), x, 0.25)
    >>> state.weights.tolist()   # at an end: w + 0.25 * 3 x
    [[0.75, 1.5]]
    """

    trace_decay: float | Array = 0.0

    def __post_init__(self) -> None:
        check_probability("trace_decay", self.trace_decay)

    def init(self, n_features: int, n_signals: int) -> TrueOnlineState:
        """All 0."""
        zeros = jnp.zeros((n_signals, n_features))
        return TrueOnlineState(zeros, zeros, jnp.zeros(n_signals))

    def update(
        self,
        state: TrueOnlineState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[TrueOnlineState, PerSignal]:
        """One step; the ratio is not used: this critic evaluates the policy that acts."""
        errors = td_errors(state.weights, x, cumulants, discounts, next_x)
        drift = state.weights @ x - state.old_values
        # the first step of an episode has no trace, so what old_values holds then does not matter
        trace = state.trace + (1.0 - step_size * (state.trace @ x))[:, None] * x
        weights = (
            state.weights
            + step_size * (errors + drift)[:, None] * trace
            - step_size * drift[:, None] * x
        )
        decayed = (self.trace_decay * discounts)[:, None] * trace
        return TrueOnlineState(weights, decayed, state.weights @ next_x), errors

    def cut(self, state: TrueOnlineState, next_x: Features, step_size: Any) -> TrueOnlineState:
        """Forget the trace."""
        return TrueOnlineState(state.weights, jnp.zeros_like(state.trace), state.old_values)

    def weights(self, state: TrueOnlineState) -> Weights:
        """The weights."""
        return state.weights
