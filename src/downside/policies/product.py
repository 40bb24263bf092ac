"""Several independent policies side by side, one action vector."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any, final

import numpy as np

from downside.arrays import array_module, once, outer_product
from downside.bases import Basis
from downside.policies.base import (
    Policy,
    as_action,
    as_params,
    cast,
    score_factors,
)
from downside.policies.network import OutputPolicy
from downside.records import record


@final
@record
class Product(Policy):
    """pi(a | s) = pi_1(a_1 | s) pi_2(a_2 | s) ...; the action is one vector of all their numbers.

    An index stands in it as a float. ``state_basis`` gives the baseline's features, the first
    policy's if not given.

    >>> from downside.bases import Polynomial
    >>> from downside.policies import Beta, Gaussian
    >>> policy = Product([Gaussian(Polynomial(2)), Beta(Polynomial(2))])
    >>> policy.n_params, policy.action_shape
    (12, (2,))
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
    def action_shape(self) -> tuple[int, ...]:
        """All of their numbers."""
        return (sum(prod(policy.action_shape) for policy in self.policies),)

    def init(self, key: Any) -> Any:
        """The parameters of each, one after the other."""
        parts = [p.init(k) for p, k in zip(self.policies, self._keys(key), strict=True)]
        return array_module(*parts).concatenate(parts)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """The noise of each."""
        pairs = zip(self.policies, self._keys(key), strict=True)
        return tuple(policy.draw(k, shape) for policy, k in pairs)

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """The action of each, one after the other."""
        triples = zip(self.policies, self._params(params), noise, strict=True)
        return self._joined(params, [policy.sample(p, obs, n) for policy, p, n in triples])

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The sum."""
        triples = zip(
            self.policies, self._params(params), self._actions(params, action), strict=True
        )
        return sum(policy.log_prob(p, obs, a) for policy, p, a in triples)

    def mode(self, params: Any, obs: Any) -> Any:
        """The mode of each."""
        pairs = zip(self.policies, self._params(params), strict=True)
        return self._joined(params, [policy.mode(p, obs) for policy, p in pairs])

    def entropy(self, params: Any, obs: Any) -> Any:
        """The sum."""
        pairs = zip(self.policies, self._params(params), strict=True)
        return sum(policy.entropy(p, obs) for policy, p in pairs)

    def factors(self, params: Any, obs: Any, action: Any, **options: Any) -> tuple[Any, Any]:
        """Rows side by side where all share their features, else all features and 1."""
        import jax.numpy as jnp

        triples = zip(
            self.policies, self._params(params), self._actions(params, action), strict=True
        )
        found = [score_factors(policy, p, obs, a, **options) for policy, p, a in triples]
        one = jnp.ones(1, found[0][0].dtype)
        if self._share_features:
            rows = [once(rows) for rows, _ in found]  # XLA is slow where it computes what it joins
            return jnp.concatenate([*rows, one]), found[0][1]
        scores = [outer_product(*factors) for factors in found]
        return jnp.concatenate([*scores, jnp.asarray(self.baseline(obs), one.dtype)]), one

    @property
    def _share_features(self) -> bool:
        """Whether all are linear in the features of the baseline, whose basis holds no arrays."""
        if not all(isinstance(p, OutputPolicy) and not p.hidden for p in self.policies):
            return False
        import jax

        bases = [*(p.basis for p in self.policies), *filter(None, [self.state_basis])]  # type: ignore
        return not jax.tree.leaves(bases) and len(set(map(jax.tree.structure, bases))) == 1

    def baseline(self, obs: Any) -> Any:
        """The features of ``state_basis``, or of the first policy."""
        return self.policies[0].baseline(obs) if self.state_basis is None else self.state_basis(obs)

    def _keys(self, key: Any) -> Sequence[Any]:
        if isinstance(key, np.random.Generator):
            return [key] * len(self.policies)
        import jax

        return list(jax.random.split(key, len(self.policies)))

    def _params(self, params: Any) -> Sequence[Any]:
        params = as_params(params, self.n_params)
        return _split(params, [policy.n_params for policy in self.policies])

    def _actions(self, params: Any, action: Any) -> Sequence[Any]:
        action = as_action(action, self.action_shape[0], params)
        parts = _split(action, [prod(policy.action_shape) for policy in self.policies])
        pairs = zip(self.policies, parts, strict=True)
        return [part if policy.action_shape else part[..., 0] for policy, part in pairs]

    def _joined(self, params: Any, actions: Sequence[Any]) -> Any:
        pairs = zip(self.policies, actions, strict=True)
        vectors = [action if policy.action_shape else action[..., None] for policy, action in pairs]
        parts = [cast(vector, params) for vector in vectors]
        return array_module(*parts).concatenate(parts, axis=-1)


def _split(array: Any, sizes: Sequence[int]) -> Sequence[Any]:
    return array_module(array).split(array, list(accumulate(sizes))[:-1], axis=-1)
