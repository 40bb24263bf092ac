"""Several independent policies side by side, one action vector."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases import Basis
from downside.policies.base import Policy
from downside.records import record


@final
@record
class Product(Policy):
    """pi(a | s) = pi_1(a_1 | s) pi_2(a_2 | s) ...; the action is one vector of all their numbers.

    Discrete parts stand in it as floats. ``state_basis`` gives the baseline's features, the first
    policy's if not given.

    >>> from downside.bases import Polynomial
    >>> from downside.policies import Beta, Gaussian
    >>> policy = Product([Gaussian(Polynomial(2)), Beta(Polynomial(2))])
    >>> policy.n_params, policy.action_size
    (12, 2)
    """

    policies: Sequence[Policy]
    state_basis: Basis | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", tuple(self.policies))
        if not self.policies:
            raise ValueError("a product of no policies has no action; give at least one")

    @property
    def n_params(self) -> int:
        """All of them."""
        return sum(policy.n_params for policy in self.policies)

    @property
    def action_size(self) -> int:
        """All of them."""
        return sum(policy.action_size for policy in self.policies)

    def init(self, key: Any) -> Any:
        """The parameters of each, one after the other."""
        parts = [p.init(k) for p, k in zip(self.policies, self._split(key), strict=True)]
        return array_module(*parts).concatenate(parts)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """The noise of each."""
        pairs = zip(self.policies, self._split(key), strict=True)
        return tuple(policy.draw(k, shape) for policy, k in pairs)

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """The action of each, one after the other."""
        triples = zip(self.policies, self._params(params), noise, strict=True)
        return self._joined([(policy, policy.sample(p, obs, n)) for policy, p, n in triples])

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The sum."""
        return sum(
            policy.log_prob(p, obs, policy.from_vector(a))
            for policy, p, a in zip(
                self.policies, self._params(params), self._actions(action), strict=True
            )
        )

    def mode(self, params: Any, obs: Any) -> Any:
        """The mode of each."""
        pairs = zip(self.policies, self._params(params), strict=True)
        return self._joined([(policy, policy.mode(p, obs)) for policy, p in pairs])

    def entropy(self, params: Any, obs: Any) -> Any:
        """The sum."""
        pairs = zip(self.policies, self._params(params), strict=True)
        return sum(policy.entropy(p, obs) for policy, p in pairs)

    def baseline(self, obs: Any) -> Any:
        """The features of ``state_basis``, or of the first policy."""
        return self.policies[0].baseline(obs) if self.state_basis is None else self.state_basis(obs)

    def to_vector(self, action: Any) -> Any:
        """It is one."""
        return action

    def from_vector(self, vector: Any) -> Any:
        """It is one."""
        return vector

    def _joined(self, actions: list[tuple[Policy, Any]]) -> Any:
        parts = [policy.to_vector(action) for policy, action in actions]
        return array_module(*parts).concatenate(parts, axis=-1)

    def _params(self, params: Any) -> list[Any]:
        ends = list(accumulate(policy.n_params for policy in self.policies))
        return [params[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _actions(self, action: Any) -> list[Any]:
        ends = list(accumulate(policy.action_size for policy in self.policies))
        return [action[..., start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _split(self, key: Any) -> list[Any]:
        if isinstance(key, np.random.Generator):
            return [key] * len(self.policies)
        import jax

        return list(jax.random.split(key, len(self.policies)))
