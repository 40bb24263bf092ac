"""LSTD(lambda): the TD solution from sums over all steps, solved at once or kept up to date."""

from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.arrays import once
from downside.checks import check_positive, check_probability
from downside.critics.base import Critic, Features, PerSignal, Weights, td_errors
from downside.linear import solve
from downside.records import record


@record
class LSTDState:
    """The sums A = ridge I + sum trace (x - discount next_x)' and b = sum trace cumulant."""

    matrix: Float[Array, "k n n"]
    vector: Float[Array, "k n"]
    trace: Float[Array, "k n"]


@final
@record
class LSTD(Critic[LSTDState]):
    """Batch LSTD(lambda): w_k solves A_k w_k = b_k. No step size.

    ``ridge`` is added to the diagonal at the start; ``forgetting`` multiplies both sums at each
    step, so that 1 / (1 - forgetting) steps are remembered.

    >>> critic = LSTD(ridge=1e-6)
    >>> state = critic.init(n_features=1, n_signals=1)
    >>> one = jnp.ones(1)
    >>> for reward in (1.0, 3.0):
    ...     state, _ = critic.update(state, one, jnp.array([reward]), jnp.zeros(1), one, 0.0)
    >>> critic.weights(state).round(4).tolist()
    [[2.0]]
    """

    has_matrix: ClassVar[bool] = True

    trace_decay: float | Array = 0.0
    ridge: float | Array = 1e-3
    forgetting: float | Array = 1.0

    def __post_init__(self) -> None:
        _check_options(self)

    def init(self, n_features: int, n_signals: int) -> LSTDState:
        """The ridge alone."""
        matrix = jnp.tile(self.ridge * jnp.eye(n_features), (n_signals, 1, 1))
        zeros = jnp.zeros((n_signals, n_features))
        return LSTDState(matrix, zeros, zeros)

    def update(
        self,
        state: LSTDState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[LSTDState, PerSignal]:
        """Add one step to the sums; the errors are 0, since nothing is predicted meanwhile."""
        trace = state.trace + x
        change = x - discounts[:, None] * next_x
        matrix = self.forgetting * state.matrix + trace[:, :, None] * change[:, None, :]
        vector = self.forgetting * state.vector + cumulants[:, None] * trace
        decayed = (self.trace_decay * discounts)[:, None] * trace
        return LSTDState(matrix, vector, decayed), jnp.zeros_like(cumulants)

    def cut(self, state: LSTDState, next_x: Features, step_size: Any) -> LSTDState:
        """Forget the trace."""
        return LSTDState(state.matrix, state.vector, jnp.zeros_like(state.trace))

    def weights(self, state: LSTDState) -> Weights:
        """Solve the equations of each signal."""
        return jax.vmap(solve)(state.matrix, state.vector[..., None])[..., 0]


@record
class RecursiveLSTDState:
    """The inverse of A, the weights, and the trace."""

    inverse: Float[Array, "k n n"]
    weights: Float[Array, "k n"]
    trace: Float[Array, "k n"]


@final
@record
class RecursiveLSTD(Critic[RecursiveLSTDState]):
    """The same weights after every step, by the rank-one update of the inverse.

        gain = A^-1 trace / (forgetting + (x - discount next_x)' A^-1 trace)
        w <- w + gain error;    A^-1 <- (A^-1 - gain (x - discount next_x)' A^-1) / forgetting

    A step that would make A singular (its denominator is 0 up to rounding) has no such update: it
    is lost here, though not to `LSTD`, whose sums may become regular again.

    >>> RecursiveLSTD(ridge=0.5).init(n_features=1, n_signals=1).inverse.tolist()
    [[[2.0]]]
    """

    has_matrix: ClassVar[bool] = True

    trace_decay: float | Array = 0.0
    ridge: float | Array = 1e-3
    forgetting: float | Array = 1.0

    def __post_init__(self) -> None:
        _check_options(self)

    def init(self, n_features: int, n_signals: int) -> RecursiveLSTDState:
        """The inverse of the ridge."""
        inverse = jnp.tile(jnp.eye(n_features) / self.ridge, (n_signals, 1, 1))
        zeros = jnp.zeros((n_signals, n_features))
        return RecursiveLSTDState(inverse, zeros, zeros)

    def update(
        self,
        state: RecursiveLSTDState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[RecursiveLSTDState, PerSignal]:
        """One step; the step size and the ratio are not used."""
        errors = td_errors(state.weights, x, cumulants, discounts, next_x)
        trace = state.trace + x
        change = x - discounts[:, None] * next_x
        reach = jnp.einsum("kij,kj->ki", state.inverse, trace)
        gain = reach / _denominators(self.forgetting, change * reach)[:, None]
        row = jnp.einsum("ki,kij->kj", change, state.inverse)
        inverse = (state.inverse - gain[:, :, None] * row[:, None, :]) / self.forgetting
        weights = state.weights + errors[:, None] * gain
        decayed = (self.trace_decay * discounts)[:, None] * trace
        return RecursiveLSTDState(inverse, weights, decayed), errors

    def cut(
        self, state: RecursiveLSTDState, next_x: Features, step_size: Any
    ) -> RecursiveLSTDState:
        """Forget the trace."""
        return RecursiveLSTDState(state.inverse, state.weights, jnp.zeros_like(state.trace))

    def weights(self, state: RecursiveLSTDState) -> Weights:
        """The weights."""
        return state.weights


def _denominators(forgetting: float | Array, terms: Float[Array, "k n"]) -> PerSignal:
    """forgetting + sum of the terms, and infinite, so that nothing is gained, where that is 0."""
    terms = once(terms)  # XLA would round them before one of the two sums, or not, by the tile
    denominators = forgetting + jnp.sum(terms, axis=1)
    rounding = 10.0 * terms.shape[1] * jnp.finfo(terms.dtype).eps
    magnitudes = forgetting + jnp.sum(jnp.abs(terms), axis=1)
    return jnp.where(jnp.abs(denominators) <= rounding * magnitudes, jnp.inf, denominators)


def _check_options(critic: LSTD | RecursiveLSTD) -> None:
    check_probability("trace_decay", critic.trace_decay)
    check_positive("ridge", critic.ridge)
    check_positive("forgetting", critic.forgetting)
    check_probability("forgetting", critic.forgetting)
