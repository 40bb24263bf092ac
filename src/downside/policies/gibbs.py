"""Discrete actions: probabilities proportional to exp of a preference."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, is_traced, log_softmax, sample_index
from downside.bases import Basis
from downside.checks import check_count, check_range
from downside.policies.base import Policy, draw_uniform
from downside.policies.network import Outputs
from downside.records import record, static

_FORBIDDEN = -1e30  # finite, so that 0 * it is 0, and far below any logit


@final
@record
class Gibbs(Policy):
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
    hidden: tuple[int, ...] = static(default=())
    start: int | None = static(default=None)
    start_probability: float = static(default=0.9)

    def __post_init__(self) -> None:
        check_count("n_actions", self.n_actions, least=2)
        if self.start is not None:
            check_range("start", self.start, 0, self.n_actions - 1, "an action has this index")
            needed = "a probability strictly between 0 and 1"
            check_range("start_probability", self.start_probability, 1e-12, 1 - 1e-12, needed)

    @property
    def n_params(self) -> int:
        """Features times actions, if linear."""
        return self._outputs.n_params

    @property
    def action_size(self) -> int:
        """A single number."""
        return 1

    def init(self, key: Any) -> Any:
        """Uniform over the actions, or near ``start``."""
        if self.start is None:
            return self._outputs.init(key, None)
        p = self.start_probability
        preference = np.log(p * (self.n_actions - 1) / (1.0 - p))
        return self._outputs.init(key, preference * np.eye(self.n_actions)[self.start])

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """One uniform number."""
        return draw_uniform(key, shape)

    def log_probabilities(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """The logarithms of all probabilities (..., n_actions)."""
        preferences = self._outputs(params, obs)
        if mask is None:
            return log_softmax(preferences)
        xp = array_module(preferences, mask)
        mask = xp.asarray(mask)
        if not is_traced(mask) and not bool(np.all(np.any(np.asarray(mask), axis=-1))):
            raise ValueError("the mask forbids every action; allow at least one")
        return log_softmax(xp.where(mask, preferences, _FORBIDDEN))

    def probabilities(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """All probabilities (..., n_actions); 0 for what the mask forbids."""
        logs = self.log_probabilities(params, obs, mask)
        return array_module(logs).exp(logs)

    def sample(self, params: Any, obs: Any, noise: Any, mask: Any = None) -> Any:
        """Invert the distribution function."""
        return sample_index(self.probabilities(params, obs, mask), noise)

    def log_prob(self, params: Any, obs: Any, action: Any, mask: Any = None) -> Any:
        """Written as a sum over actions: its derivative is cheaper than that of an index."""
        logs = self.log_probabilities(params, obs, mask)
        xp = array_module(logs)
        action = xp.asarray(action)
        chosen = action[..., None] == xp.arange(self.n_actions).astype(action.dtype)
        if mask is not None:
            allowed = xp.any(chosen & xp.asarray(mask), axis=-1)
            log_prob = xp.sum(xp.where(chosen & xp.asarray(mask), logs, 0.0), axis=-1)
            return xp.where(allowed, log_prob, -xp.inf)
        return xp.sum(chosen.astype(logs.dtype) * logs, axis=-1)

    def mode(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """The action of the largest probability, the first of several."""
        logs = self.log_probabilities(params, obs, mask)
        return array_module(logs).argmax(logs, axis=-1)

    def entropy(self, params: Any, obs: Any, mask: Any = None) -> Any:
        """-sum p log p; what is forbidden contributes nothing."""
        logs = self.log_probabilities(params, obs, mask)
        xp = array_module(logs)
        probabilities = xp.exp(logs)
        return -xp.sum(xp.where(probabilities > 0, probabilities * logs, 0.0), axis=-1)

    def baseline(self, obs: Any) -> Any:
        """The features of the basis."""
        return self.basis(obs)

    def to_vector(self, action: Any) -> Any:
        """The index as a float."""
        return array_module(action).asarray(action)[..., None].astype(float)

    def from_vector(self, vector: Any) -> Any:
        """The index."""
        return array_module(vector).round(vector[..., 0]).astype(int)

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.basis, self.n_actions, self.hidden)
