"""Discrete actions: probabilities proportional to exp of a preference."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from downside.arrays import array_module, below_maximum, is_traced, log_softmax, sample_index
from downside.bases import Basis, OneHot
from downside.bases.layout import FromSpace
from downside.checks import check_count, check_range
from downside.policies.base import draw_uniform
from downside.policies.network import OutputPolicy, settle_outputs
from downside.records import record, static

_FORBIDDEN = -1e30  # finite, so that its derivative is 0 and not NaN, and far below any logit


@final
@record
class Gibbs(OutputPolicy):
    """pi(a | s) = exp(theta_a . phi(s)) / sum_b exp(theta_b . phi(s)), its own weights per action.

    ``start`` and ``start_probability``: begin with this action, chosen so often. ``hidden``: the
    preferences come from a small network instead. Methods take ``mask``: which actions are allowed.

    >>> from downside.bases import Polynomial
    >>> policy = Gibbs(Polynomial(2), n_actions=3, start=2, start_probability=0.8)
    >>> params = policy.init(np.random.default_rng(0))
    >>> policy.probabilities(params, np.array([0.5, 0.1])).round(6).tolist()
    [0.1, 0.1, 0.8]
    """

    basis: Basis
    n_actions: int = static()
    hidden: Sequence[int] = static(default=())
    start: int | None = static(default=None)
    start_probability: float = static(default=0.9)

    def __post_init__(self) -> None:
        check_count("n_actions", self.n_actions, least=2)
        if self.start is not None:
            check_count("start", self.start, least=0)
            self._check_action("start", self.start)
            needed = "it must lie strictly between 0 and 1"
            check_range("start_probability", self.start_probability, 1e-12, 1 - 1e-12, needed)
        settle_outputs(self)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """An index."""
        return ()

    @property
    def n_outputs(self) -> int:
        """A preference for each action."""
        return self.n_actions

    @property
    def start_outputs(self) -> np.ndarray | None:
        """One preference that is above the others."""
        if self.start is None:
            return None
        odds = self.start_probability / (1.0 - self.start_probability)
        return np.log(odds * (self.n_actions - 1)) * np.eye(self.n_actions)[self.start]

    @property
    def is_table(self) -> bool:
        """Whether each parameter is the preference for one action in one numbered state."""
        basis = self.basis.basis if isinstance(self.basis, FromSpace) else self.basis
        return isinstance(basis, OneHot) and not self.hidden

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One uniform number."""
        return draw_uniform(key, shape)

    def preferences(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """The logits (..., n_actions); far below all others where the mask forbids."""
        preferences = self.outputs(params, obs)
        if mask is None:
            return preferences
        xp = array_module(preferences, mask)
        mask = xp.asarray(mask, bool)
        self._check_mask(mask)
        return xp.where(mask, preferences, _FORBIDDEN)

    def log_probabilities(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """The logarithms of all probabilities (..., n_actions)."""
        return _without_forbidden(log_softmax(self.preferences(params, obs, mask)), mask)

    def probabilities(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """All probabilities (..., n_actions); 0 for what the mask forbids."""
        logs = self.log_probabilities(params, obs, mask)
        return array_module(logs).exp(logs)

    def sample(self, params: Any, obs: Any, noise: Any, mask: Any = None) -> Any:
        """Invert the distribution function."""
        preferences = below_maximum(self.preferences(params, obs, mask))
        return sample_index(array_module(preferences).exp(preferences), noise)

    def log_prob(self, params: Any, obs: Any, action: Any, mask: Any = None) -> Any:
        """theta_a . phi - log sum_b exp(theta_b . phi).

        The first term is a sum over actions and not an index, and the second stands on its own:
        so the score costs no more than the outer product (one_hot(a) - pi) phi.
        """
        preferences = below_maximum(self.preferences(params, obs, mask))
        xp = array_module(preferences, action)
        action = xp.asarray(action)
        self._check_action("action", action)
        chosen = action[..., None] == xp.arange(self.n_actions).astype(action.dtype)
        preference = xp.sum(xp.where(chosen, preferences, 0.0), axis=-1)
        log_sum = xp.log(xp.sum(xp.exp(preferences), axis=-1))
        return _without_forbidden(preference - log_sum, mask)

    def mode(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """The action of the largest probability, the first of several."""
        logs = self.log_probabilities(params, obs, mask)
        return array_module(logs).argmax(logs, axis=-1)

    def entropy(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """-sum p log p; what has probability 0 contributes nothing."""
        logs = self.log_probabilities(params, obs, mask)
        xp = array_module(logs)
        return -xp.sum(xp.exp(logs) * xp.where(logs > -np.inf, logs, 0.0), axis=-1)

    def _check_action(self, name: str, action: Any) -> None:
        needed = f"the actions are 0 to {self.n_actions - 1}"
        check_range(name, action, 0, self.n_actions - 1, needed)

    def _check_mask(self, mask: Any) -> None:
        if mask.shape[-1:] != (self.n_actions,):
            raise ValueError(
                f"the mask has the shape {mask.shape}; "
                f"its last axis must hold {self.n_actions} entries, one per action"
            )
        if not is_traced(mask) and not np.all(np.any(np.asarray(mask), axis=-1)):
            raise ValueError("the mask forbids every action; allow at least one")


def _without_forbidden(logs: Any, mask: Any) -> Any:
    """-inf, with a derivative of 0, for what the mask forbids."""
    if mask is None:
        return logs
    return array_module(logs).where(logs < _FORBIDDEN / 2.0, -np.inf, logs)
