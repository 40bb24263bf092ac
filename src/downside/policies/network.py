"""What the head of a policy is computed from: linear in the features, or a small network."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases import Basis, Custom
from downside.checks import check_count
from downside.policies.base import Policy, as_params, cast, draw_normal
from downside.records import record, static


@final
@record
class Outputs:
    """``n_outputs`` numbers of an observation: W phi(s), or an MLP with tanh units if ``hidden``.

    Linear weights are stored output by output; a network's layer by layer, weights then biases.

    >>> from downside.bases import Polynomial
    >>> Outputs(Polynomial(2), n_outputs=4).n_params, Outputs(Polynomial(2), 4, (8,)).n_params
    (12, 68)
    """

    basis: Basis
    n_outputs: int = static()
    hidden: tuple[int, ...] = static(default=())

    def __post_init__(self) -> None:
        check_count("n_outputs", self.n_outputs, least=1)
        for width in self.hidden:
            check_count("hidden", width, least=1)

    @cached_property
    def n_params(self) -> int:
        """The number of weights."""
        if not self.hidden:
            return self.n_outputs * self.basis.n_features
        return sum(n_out * (n_in + 1) for n_in, n_out in self._layers)

    def init(self, key: Any, start: np.ndarray | None) -> Any:
        """Weights whose outputs are ``start`` for every observation: 0 if None.

        A network starts there approximately: its last layer is small and random.
        """
        if not self.hidden:
            weights = np.zeros(self.n_params) if start is None else self.constant_weights(start)
            return array_module(key).asarray(weights)
        sizes = [
            np.repeat([n_in**-0.5, 0.0], [n_out * n_in, n_out]) for n_in, n_out in self._layers
        ]
        sizes[-1] *= 0.01
        biases = np.zeros(self.n_params)
        biases[-self.n_outputs :] = 0.0 if start is None else start
        noise = draw_normal(key, (self.n_params,))
        xp = array_module(noise)
        scale, shift = (xp.asarray(x, noise.dtype) for x in (np.concatenate(sizes), biases))
        return shift + scale * noise

    def constant_weights(self, outputs: np.ndarray) -> np.ndarray:
        """The linear weights that give these outputs for every observation."""
        one = self.basis.constant
        if one is None:
            raise ValueError(
                "a start near an action needs a constant feature, and this basis has none; "
                "add one, such as Concatenation([Polynomial(n), basis]), or a feature named '1'"
            )
        return np.outer(outputs, one).ravel()

    def __call__(self, params: Any, obs: Any) -> Any:
        """The outputs (..., n_outputs)."""
        params = as_params(params, self.n_params)
        x = cast(self.basis(obs), params)
        if isinstance(self.basis, Custom) and self.basis.function is _itself:  # the only feature: 1
            return array_module(params).broadcast_to(params, (*x.shape[:-1], self.n_outputs))
        if not self.hidden:
            return x @ params.reshape(self.n_outputs, -1).T
        return _forward(self._parts(params), x)

    def gradient(self, params: Any, obs: Any, by_output: Any) -> Any:
        """Of a function of a network's outputs, in the parameters, from that in the outputs.

        In the flat vector JAX would add up a padded copy for each layer, and reading these can cost
        more than all the rest.
        """
        import jax
        import jax.numpy as jnp

        params = jnp.asarray(params)
        x = jnp.asarray(self.basis(obs), params.dtype)
        _, pull_back = jax.vjp(lambda parts: _forward(parts, x), self._parts(params))
        (found,) = pull_back(by_output)
        return jnp.concatenate([part.reshape(-1) for layer in found for part in layer])

    def _parts(self, params: Any) -> list[tuple[Any, Any]]:
        """The weights and the biases of each layer."""
        parts, at = [], 0
        for n_in, n_out in self._layers:
            middle, end = at + n_out * n_in, at + n_out * (n_in + 1)
            parts.append((params[at:middle].reshape(n_out, n_in), params[middle:end]))
            at = end
        return parts

    @property
    def _layers(self) -> list[tuple[int, int]]:
        return list(pairwise((self.basis.n_features, *self.hidden, self.n_outputs)))


def _forward(parts: Sequence[tuple[Any, Any]], x: Any) -> Any:
    """The outputs of a network for these features."""
    *hidden, (weights, biases) = parts
    for inner_weights, inner_biases in hidden:
        x = array_module(x).tanh(x @ inner_weights.T + inner_biases)
    return x @ weights.T + biases


class OutputPolicy(Policy):
    """A policy whose distribution is read off a few `Outputs` of the observation, and these alone.

    What else it depends on is an option of `log_prob`.
    """

    basis: Basis
    hidden: Sequence[int]

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """How many outputs the distribution needs."""

    @property
    @abstractmethod
    def start_outputs(self) -> np.ndarray | None:
        """The outputs that a start in words stands for; None if none was given."""

    @cached_property
    def outputs(self) -> Outputs:
        """The outputs as a function of parameters and observation."""
        return Outputs(self.basis, self.n_outputs, tuple(self.hidden))

    @property
    def n_params(self) -> int:
        """That of the outputs."""
        return self.outputs.n_params

    def init(self, key: Any) -> Any:
        """As the start in words says; a network, nearly so."""
        return self.outputs.init(key, self.start_outputs)

    def baseline(self, obs: Any) -> Any:
        """The features of the basis."""
        return self.basis(obs)

    def factors(self, params: Any, obs: Any, action: Any, **options: Any) -> tuple[Any, Any]:
        """Of linear outputs W phi: [derivative in the outputs | 1] and phi; of a network, all."""
        import jax.numpy as jnp

        outputs = self.outputs(params, obs)
        one = jnp.ones(1, outputs.dtype)
        by_output = self._of_outputs.score(outputs, one, action, **options)
        phi = jnp.asarray(self.basis(obs), outputs.dtype)
        if self.hidden:
            return jnp.concatenate([self.outputs.gradient(params, obs, by_output), phi]), one
        return jnp.concatenate([by_output, one]), phi

    @cached_property
    def _of_outputs(self) -> "OutputPolicy":
        """The same distribution whose parameters are the outputs: its only feature is 1."""
        return replace(self, basis=_ONE, hidden=())  # pyright: ignore[reportArgumentType]


def _itself(obs: Any) -> Any:
    return obs


_ONE = Custom(_itself, ["1"])


def settle_outputs(policy: OutputPolicy) -> None:
    """Keep ``hidden`` as a tuple; refuse a network, or a start, that cannot be made."""
    if np.ndim(policy.hidden) != 1:
        raise ValueError(f"hidden is {policy.hidden}; give one number per layer, such as (32, 32)")
    object.__setattr__(policy, "hidden", tuple(policy.hidden))
    outputs, start = policy.outputs, policy.start_outputs
    if start is not None and not outputs.hidden:
        outputs.constant_weights(start)
