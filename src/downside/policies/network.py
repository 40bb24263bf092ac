"""What the head of a policy is computed from: linear in the features, or a small network."""

from itertools import pairwise
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases import Basis
from downside.checks import check_count
from downside.policies.base import constant_weights
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

    @property
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
            if start is None:
                return _like(key, np.zeros(self.n_params))
            return _like(key, np.outer(start, constant_weights(self.basis)).reshape(-1))
        parts: list[np.ndarray] = []
        rng = _generator(key)
        for layer, (n_in, n_out) in enumerate(self._layers):
            last = layer == len(self.hidden)
            size = (0.01 if last else 1.0) / np.sqrt(n_in)
            bias = start if last and start is not None else np.zeros(n_out)
            parts += [size * rng.standard_normal(n_out * n_in), bias]
        return _like(key, np.concatenate(parts))

    def __call__(self, params: Any, obs: Any) -> Any:
        """The outputs (..., n_outputs)."""
        x = self.basis(obs)
        xp = array_module(params, x)
        x = xp.asarray(x, params.dtype)
        if not self.hidden:
            return x @ params.reshape(self.n_outputs, self.basis.n_features).T
        at = 0
        for layer, (n_in, n_out) in enumerate(self._layers):
            weights = params[at : at + n_out * n_in].reshape(n_out, n_in)
            at += n_out * n_in
            x = x @ weights.T + params[at : at + n_out]
            at += n_out
            x = x if layer == len(self.hidden) else xp.tanh(x)
        return x

    @property
    def _layers(self) -> list[tuple[int, int]]:
        return list(pairwise((self.basis.n_features, *self.hidden, self.n_outputs)))


def _generator(key: Any) -> np.random.Generator:
    """A NumPy generator for the initial weights, also from a JAX key."""
    if isinstance(key, np.random.Generator):
        return key
    import jax

    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def _like(key: Any, values: np.ndarray) -> Any:
    """JAX numbers of the default width for a JAX key, else NumPy's."""
    if isinstance(key, np.random.Generator):
        return values
    import jax.numpy as jnp

    return jnp.asarray(values, jnp.zeros(()).dtype)
