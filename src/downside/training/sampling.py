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
    weights = theta.reshape(outputs.n_outputs, outputs.basis.n_features)
    basis = outputs.basis
    if isinstance(basis, FromSpace) and isinstance(basis.basis, OneHot):
        rows, start = np.ascontiguousarray(weights.T), basis.layout.starts[0]
        return lambda obs: rows[obs - start]
    features = fast_features(basis)
    return lambda obs: weights.dot(features(obs))


def fast_features(basis: Basis) -> Callable[[Any], Any]:
    """The features of one observation; in few calls where the basis is one of the usual ones."""
    inner = basis
    if isinstance(inner, FromSpace) and inner.layout.kind == "numbers":
        if len(inner.layout.sizes) != 1:
            return basis
        inner = inner.basis
    shift, factor = 0.0, 1.0
    if isinstance(inner, Scaled) and inner.inputs is not None and inner.features is None:
        shift, factor = np.asarray(inner.inputs.shift), 1.0 / np.asarray(inner.inputs.divisor)
        inner = inner.basis
    if isinstance(inner, Polynomial) and inner.order <= 2:
        return _quadratic(inner, shift, factor)
    if isinstance(inner, Fourier):
        return _cosines(inner, shift, factor)
    return basis


def _quadratic(basis: Polynomial, shift: Any, factor: Any) -> Callable[[Any], Any]:
    n = basis.n_inputs
    pairs = [(0, 0), *((0, i + 1) for i in range(n))]
    if basis.order == 2:
        pairs += [(i + 1, j + 1) for i, j in combinations_with_replacement(range(n), 2)]
    first, second = np.array(pairs).T
    low, high = np.asarray(basis.low), np.asarray(basis.high)
    bounded = bool(np.any(low > -inf) or np.any(high < inf))
    inputs = np.ones(n + 1)
    x = inputs[1:]

    def features(obs: Any) -> Any:
        np.subtract(obs, shift, out=x)
        np.multiply(x, factor, out=x)
        if bounded:
            np.maximum(x, low, out=x)
            np.minimum(x, high, out=x)
        return inputs.take(first) * inputs.take(second)

    return features


def _cosines(basis: Fourier, shift: Any, factor: Any) -> Callable[[Any], Any]:
    low, high = np.asarray(basis.low), np.asarray(basis.high)
    frequencies = np.pi * basis.frequencies / (high - low)

    def features(obs: Any) -> Any:
        x = np.minimum(np.maximum((obs - shift) * factor, low), high)
        return np.cos(frequencies.dot(x - low))

    return features
