"""A policy's `sample` for one observation at a time, prepared for fixed parameters: few calls.

Numbers agree with those of the policy up to rounding. What is not known here is sampled by the
policy itself.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import exp, inf
from typing import Any

import numpy as np

from downside.bases import Basis, Fourier, OneHot, Polynomial, Scaled
from downside.bases.layout import FromSpace
from downside.policies import Gaussian, Gibbs, SquashedGaussian
from downside.policies.base import Policy
from downside.policies.network import Outputs

Sampler = Callable[[Any, Any], Any]
"""(observation, noise) -> what the policy says."""


def sampler(policy: Policy, theta: np.ndarray) -> Sampler:
    """``policy.sample`` with these parameters.

    >>> policy = Gibbs(Polynomial(1), 3)
    >>> sampler(policy, np.zeros(6))(np.array([0.4]), 0.5)
    1
    """
    if isinstance(policy, Gibbs):
        return _gibbs(_outputs(policy.outputs, theta))
    if isinstance(policy, Gaussian | SquashedGaussian):
        return _normal(policy, _outputs(policy.outputs, theta))
    return lambda obs, noise: policy.sample(theta, obs, noise)


def _gibbs(outputs: Callable[[Any], Any]) -> Sampler:
    def sample(obs: Any, noise: Any) -> int:
        preferences = outputs(obs).tolist()
        most = max(preferences)
        weights = [exp(p - most) for p in preferences]
        level = noise * sum(weights)
        last = 0
        for i, weight in enumerate(weights):
            if weight > 0.0:
                last = i
                if level < weight:
                    return i
                level -= weight
        return last

    return sample


def _normal(policy: Gaussian | SquashedGaussian, outputs: Callable[[Any], Any]) -> Sampler:
    floor = float(policy.floor)
    squashed = isinstance(policy, SquashedGaussian)
    size = policy.action_shape[0]
    low, high = (np.asarray(policy.low), np.asarray(policy.high)) if squashed else (0.0, 1.0)
    width = high - low
    tiny = float(np.finfo(np.float32).tiny)

    def sample(obs: Any, noise: Any) -> Any:
        numbers = outputs(obs)
        z = numbers[:size] + (np.logaddexp(numbers[size:], 0.0) + (floor + tiny)) * noise
        if not squashed:
            return z
        return low + width / (1.0 + np.exp(-np.maximum(z, -80.0)))

    return sample


def _outputs(outputs: Outputs, theta: np.ndarray) -> Callable[[Any], Any]:
    if outputs.hidden:
        return lambda obs: outputs(theta, obs)
    weights = theta.reshape(outputs.n_outputs, outputs.basis.n_features).astype(float)
    basis = outputs.basis
    if isinstance(basis, FromSpace) and isinstance(basis.basis, OneHot):
        rows, start = np.ascontiguousarray(weights.T), basis.layout.starts[0]
        return lambda obs: rows[obs - start]
    inner, shift, factor = _without_scaling(basis)
    if isinstance(inner, Polynomial) and inner.order <= 2:
        return _quadratic(inner, weights, shift, factor)
    if isinstance(inner, Fourier):
        return _cosines(inner, weights, shift, factor)
    return lambda obs: weights.dot(basis(obs))


def _without_scaling(basis: Basis) -> tuple[Basis | None, Any, Any]:
    """The basis of (obs - shift) * factor, or None where an observation is no plain vector."""
    inner = basis
    if isinstance(inner, FromSpace):
        if inner.layout.kind != "numbers" or len(inner.layout.sizes) != 1:
            return None, 0.0, 1.0
        inner = inner.basis
    if isinstance(inner, Scaled) and inner.inputs is not None and inner.features is None:
        scaling = inner.inputs
        return inner.basis, np.asarray(scaling.shift, float), 1.0 / np.asarray(scaling.divisor)
    return inner, 0.0, 1.0


def _quadratic(
    basis: Polynomial, weights: np.ndarray, shift: Any, factor: Any
) -> Callable[[Any], Any]:
    """x' Q x for each output, with x = (1, obs - shift) clipped and the factor inside Q."""
    n, n_outputs = basis.n_inputs, len(weights)
    pairs = [(0, 0), *((0, i + 1) for i in range(n))]
    if basis.order == 2:
        pairs += [(i + 1, j + 1) for i, j in combinations_with_replacement(range(n), 2)]
    first, second = np.array(pairs).T
    sizes = np.append(1.0, np.broadcast_to(factor, n))
    forms = np.zeros((n_outputs, n + 1, n + 1))
    forms[:, first, second] = weights * sizes[first] * sizes[second]
    low, high = (np.broadcast_to(np.asarray(end), n) / sizes[1:] for end in (basis.low, basis.high))
    bounded = bool(np.any(low > -inf) or np.any(high < inf))
    stacked = forms.reshape(-1, n + 1)
    applied = np.zeros(n_outputs * (n + 1))
    rows = applied.reshape(n_outputs, n + 1)
    inputs = np.ones(n + 1)
    x = inputs[1:]
    subtract, maximum, minimum = np.subtract, np.maximum, np.minimum

    def outputs(obs: Any) -> Any:
        subtract(obs, shift, out=x)
        if bounded:
            maximum(x, low, out=x)
            minimum(x, high, out=x)
        stacked.dot(inputs, applied)
        return rows.dot(inputs)

    return outputs


def _cosines(basis: Fourier, weights: np.ndarray, shift: Any, factor: Any) -> Callable[[Any], Any]:
    low, high = np.asarray(basis.low), np.asarray(basis.high)
    frequencies = np.pi * basis.frequencies / (high - low)

    def outputs(obs: Any) -> Any:
        x = np.minimum(np.maximum((obs - shift) * factor, low), high)
        return weights.dot(np.cos(frequencies.dot(x - low)))

    return outputs
