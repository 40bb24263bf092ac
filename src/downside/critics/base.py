"""What a critic promises: predictions of K signals, linear in the same features.

K signals are K rows of one weight matrix. A critic never knows what it predicts; the end of an
episode reaches it through the discounts alone, which are 0 after a termination.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Array, Float

from downside.arrays import sum_of_row

State = TypeVar("State")

Features = Float[Array, " n"]
PerSignal = Float[Array, " k"]
Weights = Float[Array, "k n"]


class Critic(ABC, Generic[State]):
    """Learns w_k . x, the expected discounted sum of cumulant k from features x on."""

    has_matrix: ClassVar[bool] = False
    """Whether the state has a number for each pair of features."""

    @abstractmethod
    def init(self, n_features: int, n_signals: int) -> State:
        """Nothing learnt yet."""

    @abstractmethod
    def update(
        self,
        state: State,
        x: Features,
        cumulants: PerSignal,
        discounts: PerSignal,
        next_x: Features,
        step_size: Any,
        ratio: Any = 1.0,
    ) -> tuple[State, PerSignal]:
        """Learn from one step; returns the TD errors as well.

        ``discounts`` are those of the step, 0 after a termination. ``ratio`` is the probability of
        the action under the policy to be evaluated over that under which it was taken.
        """

    @abstractmethod
    def cut(self, state: State, next_x: Features, step_size: Any) -> State:
        """The episode is cut short before ``next_x`` (a truncation); another one begins."""

    @abstractmethod
    def weights(self, state: State) -> Weights:
        """What was learnt."""

    def predict(self, state: State, x: Features) -> PerSignal:
        """The K predictions at features x."""
        return self.weights(state) @ x


def td_errors(
    weights: Weights, x: Features, cumulants: PerSignal, discounts: PerSignal, next_x: Features
) -> PerSignal:
    """error_k = cumulant_k + w_k . (discount_k next_x - x) [td-error]."""
    return cumulants + sum_of_row(weights * (discounts[:, None] * next_x - x))
