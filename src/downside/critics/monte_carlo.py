"""Monte-Carlo prediction: from the returns of whole episodes, every visit counts."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.arrays import once
from downside.checks import check_positive
from downside.critics.base import Critic, Features, PerSignal, Weights
from downside.linear import solve
from downside.records import record


@final
@record
class Episode:
    """Of the current episode: sum x x', sum x G, and the trace that makes it.

    With trace_j = sum_{t<=j} discount^(j-t) x_t the sum over visits of x_t G_t is the sum over
    steps of trace_j cumulant_j, so no step has to be remembered.
    """

    visits: Float[Array, "n n"]
    returns: Float[Array, "k n"]
    trace: Float[Array, "k n"]

    @staticmethod
    def empty(n_features: int, n_signals: int) -> "Episode":
        """No step yet."""
        zeros = jnp.zeros((n_signals, n_features))
        return Episode(jnp.zeros((n_features, n_features)), zeros, zeros)

    def extended(self, x: Features, cumulants: PerSignal, discounts: PerSignal) -> "Episode":
        """With one more step."""
        x = once(x)  # for the matrix, not anew for each of its entries
        trace = self.trace + x
        return Episode(
            visits=self.visits + jnp.outer(x, x),
            returns=self.returns + cumulants[:, None] * trace,
            trace=discounts[:, None] * trace,
        )

    def completed(self, values: PerSignal) -> "Episode":
        """With what is expected to follow."""
        return Episode(self.visits, self.returns + values[:, None] * self.trace, self.trace)

    def cleared(self) -> "Episode":
        """No step yet."""
        return jax.tree.map(jnp.zeros_like, self)


@record
class MonteCarloState:
    """Weights, and the sums of the current episode."""

    weights: Float[Array, "k n"]
    episode: Episode


@final
@record
class MonteCarlo(Critic[MonteCarloState]):
    """Gradient Monte-Carlo: w_k <- w_k + step_size sum_t (G_t - w_k . x_t) x_t at each end.

    An episode that is cut short is completed with the prediction at its last state.

    >>> critic = MonteCarlo()
    >>> state = critic.init(n_features=1, n_signals=1)
    >>> one = jnp.ones(1)
    >>> for g, reward in ((0.5, 3.0), (0.0, 2.0)):   # returns 3 + 0.5 * 2 and 2, in one state
    ...     state, _ = critic.update(state, one, jnp.array([reward]), jnp.array([g]), one, 0.25)
    >>> critic.weights(state).tolist()   # 0.25 * (4 + 2)
    [[1.5]]
    """

    has_matrix: ClassVar[bool] = True

    def init(self, n_features: int, n_signals: int) -> MonteCarloState:
        """All 0."""
        episode = Episode.empty(n_features, n_signals)
        return MonteCarloState(jnp.zeros((n_signals, n_features)), episode)

    def update(
        self,
        state: MonteCarloState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[MonteCarloState, PerSignal]:
        """Collect one step; learn if it ended the episode. Nothing is corrected step by step."""
        episode = state.episode.extended(x, cumulants, discounts)
        collected = MonteCarloState(state.weights, episode)
        ended = jnp.all(discounts == 0.0)
        return _closed_if(ended, collected, self._learn, step_size), jnp.zeros_like(cumulants)

    def cut(self, state: MonteCarloState, next_x: Features, step_size: Any) -> MonteCarloState:
        """Complete the episode with the prediction, and learn."""
        episode = state.episode.completed(state.weights @ next_x)
        return self._learn(MonteCarloState(state.weights, episode), step_size)

    def weights(self, state: MonteCarloState) -> Weights:
        """What the complete episodes taught."""
        return state.weights

    def _learn(self, state: MonteCarloState, step_size: Any) -> MonteCarloState:
        gap = state.episode.returns - state.weights @ state.episode.visits
        return MonteCarloState(state.weights + step_size * gap, state.episode.cleared())


@record
class LeastSquaresState:
    """The sums over complete episodes, sum x x' and sum x G, and those of the current one."""

    matrix: Float[Array, "n n"]
    vector: Float[Array, "k n"]
    episode: Episode


@final
@record
class MonteCarloLeastSquares(Critic[LeastSquaresState]):
    """w_k minimises sum_t (G_t - w_k . x_t)^2 + ridge |w_k|^2 over all visits. No step size.

    >>> critic = MonteCarloLeastSquares(ridge=1e-6)
    >>> state = critic.init(n_features=1, n_signals=1)
    >>> one = jnp.ones(1)
    >>> for g, reward in ((0.5, 3.0), (0.0, 2.0)):   # returns 3 + 0.5 * 2 and 2
    ...     state, _ = critic.update(state, one, jnp.array([reward]), jnp.array([g]), one, 0.0)
    >>> critic.weights(state).round(4).tolist()
    [[3.0]]
    """

    has_matrix: ClassVar[bool] = True

    ridge: float | Array = 1e-3

    def __post_init__(self) -> None:
        check_positive("ridge", self.ridge)

    def init(self, n_features: int, n_signals: int) -> LeastSquaresState:
        """The ridge alone."""
        return LeastSquaresState(
            self.ridge * jnp.eye(n_features),
            jnp.zeros((n_signals, n_features)),
            Episode.empty(n_features, n_signals),
        )

    def update(
        self,
        state: LeastSquaresState,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[LeastSquaresState, PerSignal]:
        """Collect one step; count the episode if the step ended it."""
        episode = state.episode.extended(x, cumulants, discounts)
        collected = LeastSquaresState(state.matrix, state.vector, episode)
        ended = jnp.all(discounts == 0.0)
        return _closed_if(ended, collected, self._learn, step_size), jnp.zeros_like(cumulants)

    def cut(self, state: LeastSquaresState, next_x: Features, step_size: Any) -> LeastSquaresState:
        """Complete the episode with the prediction, and count it."""
        episode = state.episode.completed(self.predict(state, next_x))
        return self._learn(LeastSquaresState(state.matrix, state.vector, episode), step_size)

    def weights(self, state: LeastSquaresState) -> Weights:
        """Solve the normal equations."""
        return solve(state.matrix, state.vector.T).T

    def _learn(self, state: LeastSquaresState, step_size: Any) -> LeastSquaresState:
        return LeastSquaresState(
            state.matrix + state.episode.visits,
            state.vector + state.episode.returns,
            state.episode.cleared(),
        )


def _closed_if(ended: Array, state: Any, learn: Callable[[Any, Any], Any], step_size: Any) -> Any:
    """The state after learning where the episode ended, else as it is."""
    return jax.tree.map(partial(jnp.where, ended), learn(state, step_size), state)
