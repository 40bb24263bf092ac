"""SARSA(lambda): temporal differences with an eligibility trace."""

from typing import Any, Literal, final, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from downside.arrays import is_traced
from downside.checks import check_choice, check_probability
from downside.critics.base import Critic, Features, PerSignal, Weights, td_errors
from downside.records import record, static

Trace = Literal["accumulating", "replacing"]


def check_binary(x: Any) -> None:
    """Refuse features other than 0 and 1, where they are known (not inside compiled code)."""
    if not is_traced(x) and not np.all((np.asarray(x) == 0) | (np.asarray(x) == 1)):
        raise ValueError(
            "a replacing trace needs features of 0 and 1, such as OneHot or TileCoding; "
            'use trace="accumulating" with these features'
        )


def check_equal(discounts: Any) -> None:
    """Refuse discounts that differ, where they are known (not inside compiled code)."""
    if not is_traced(discounts) and np.any(np.asarray(discounts) != np.asarray(discounts)[0]):
        raise ValueError(
            f"the discounts are {np.asarray(discounts).tolist()}, and one trace serves signals of "
            "one discount only; leave one_discount out"
        )


@record
class TraceState:
    """Weights, and the trace that is carried to the next step (already decayed)."""

    weights: Float[Array, "k n"]
    trace: Float[Array, "traces n"]


@final
@record
class Sarsa(Critic[TraceState]):
    """SARSA(lambda) for K signals over the same features.

        error_k  = cumulant_k + w_k . (discount_k next_x - x)                        [td-error]
        trace_k <- trace_k + x;    w_k <- w_k + step_size error_k trace_k
        trace_k <- discount_k trace_decay trace_k          (0 at an end: the next starts clean)

    A replacing trace is set to 1 where x is 1 instead of growing; it needs features of 0 and 1.
    With ``one_discount`` the signals all have the same discount, and one trace serves them all:
    the same numbers, and less to carry. `ActorCritic` sets it where that is known.
    With ``next_x`` averaged over the next action it is expected SARSA (`expected_features`).

    >>> critic = Sarsa(trace_decay=0.5)
    >>> state = critic.init(n_features=2, n_signals=1)
    >>> x, next_x = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    >>> state, errors = critic.update(state, x, jnp.array([2.0]), jnp.array([0.5]), next_x, 0.25)
    >>> errors.tolist(), state.weights.tolist(), state.trace.tolist()
    ([2.0], [[0.5, 0.0]], [[0.25, 0.0]])
    """

    trace_decay: float | Array = 0.0
    trace: Trace = static(default="accumulating")
    one_discount: bool = static(default=False)

    def __post_init__(self) -> None:
        check_probability("trace_decay", self.trace_decay)
        check_choice("trace", self.trace, get_args(Trace))

    def init(self, n_features: int, n_signals: int) -> TraceState:
        """Weights and traces of 0."""
        n_traces = 1 if self.one_discount else n_signals
        return TraceState(jnp.zeros((n_signals, n_features)), jnp.zeros((n_traces, n_features)))

    def update(
        self,
        state: TraceState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[TraceState, PerSignal]:
        """One step; the ratio is not used: this critic evaluates the policy that acts."""
        if self.trace == "replacing":
            check_binary(x)
        errors = td_errors(state.weights, x, cumulants, discounts, next_x)
        trace = state.trace + x if self.trace == "accumulating" else jnp.maximum(state.trace, x)
        weights = state.weights + step_size * errors[:, None] * trace
        if self.one_discount:
            check_equal(discounts)
        decay = self.trace_decay * (discounts[:1] if self.one_discount else discounts)
        return TraceState(weights, decay[:, None] * trace), errors

    def cut(self, state: TraceState, next_x: Features, step_size: Any) -> TraceState:
        """Forget the trace."""
        return TraceState(state.weights, jnp.zeros_like(state.trace))

    def weights(self, state: TraceState) -> Weights:
        """The weights."""
        return state.weights
