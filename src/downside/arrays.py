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
