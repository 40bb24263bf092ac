"""Writing a formula once for NumPy and for JAX."""

import sys
from typing import Any

import numpy as np


def array_module(*values: Any) -> Any:
    """The module to compute with: ``jax.numpy`` if any value is a JAX array, else ``numpy``.

    >>> array_module([1.0, 2.0]).__name__
    'numpy'
    """
    jax = sys.modules.get("jax")  # no JAX array can exist before JAX is imported
    if jax is not None and any(isinstance(value, jax.Array) for value in values):
        return jax.numpy
    return np


def is_traced(value: Any) -> bool:
    """Whether ``value`` stands for a number that is not known yet (inside ``jit`` or ``vmap``).

    >>> is_traced(0.5)
    False
    """
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def as_floats(values: Any, xp: Any) -> Any:
    """An array of floats: as it is if it has some, else in the default width.

    >>> as_floats([1, 2], np).tolist()
    [1.0, 2.0]
    """
    array = xp.asarray(values)
    return array if xp.issubdtype(array.dtype, xp.floating) else array.astype(float)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), which is positive: a smooth max(x, 0)."""
    xp = array_module(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def inverse_softplus(y: Any) -> Any:
    """The x with softplus(x) = y, for y above 0.

    >>> round(float(softplus(inverse_softplus(np.float64(0.3)))), 12)
    0.3
    """
    xp = array_module(y)
    return y + xp.log(-xp.expm1(-y))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    if array_module(x) is np:
        return np.exp(-softplus(-x))
    import jax

    return jax.nn.sigmoid(x)


def below_maximum(x: Any) -> Any:
    """x minus its largest number over the last axis, which derivatives take for a constant.

    >>> below_maximum(np.array([1.0, 3.0])).tolist()
    [-2.0, 0.0]
    """
    largest = array_module(x).max(x, axis=-1, keepdims=True)
    if array_module(x) is np:
        return x - largest
    import jax

    return x - jax.lax.stop_gradient(largest)


def log_softmax(x: Any) -> Any:
    """Logarithms of the probabilities that go with logits, over the last axis."""
    xp = array_module(x)
    shifted = below_maximum(x)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def sample_index(probabilities: Any, uniform: Any) -> Any:
    """Invert a distribution function over the last axis; what has probability 0 is never drawn.

    Only entries that can be drawn are looked at: JAX adds up long rows in pieces, so their sums
    may change by a rounding where nothing was added.

    >>> int(sample_index(np.array([0.2, 0.0, 0.8]), np.float64(0.2)))
    2
    """
    xp = array_module(probabilities, uniform)
    n, possible = probabilities.shape[-1], probabilities > 0
    cumulative = xp.where(possible, xp.cumsum(probabilities, axis=-1), 0.0)
    total = xp.max(cumulative, axis=-1)
    below_total = xp.nextafter(total, xp.zeros_like(total))
    level = xp.minimum(xp.asarray(uniform, total.dtype) * total, below_total)
    return xp.min(xp.where(cumulative > level[..., None], xp.arange(n), n - 1), axis=-1)
