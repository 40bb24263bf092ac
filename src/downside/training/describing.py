"""What a run depends on, as plain values that can be written down and compared."""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

SHORT = 32
"""Longer arrays are represented by their SHA-256."""


def describe(value: Any) -> Any:
    """Settings as text, numbers, lists and mappings; equal settings are described equally.

    >>> from downside.signals import Reward
    >>> describe((Reward(0.9), np.array([1.0, 2.0])))
    [{'type': 'Reward', 'discount': 0.9}, [1.0, 2.0]]
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, Partial):
        return {"partial": describe(value.func), "of": describe([value.args, value.keywords])}
    if dataclasses.is_dataclass(value):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if inspect.isfunction(value):
        return _function(value)
    return {"type": type(value).__name__, **describe(getattr(value, "__dict__", {}))}


def _array(array: np.ndarray) -> Any:
    if array.size <= SHORT:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest}


def _function(function: Callable[..., Any]) -> dict[str, Any]:
    """Its name, what it says, and the values that it was given when it was made."""
    name = f"{function.__module__}.{function.__qualname__}"
    said = hashlib.sha256(_code(function.__code__)).hexdigest()[:16]
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    return {"function": name, "code": said, "values": describe([values, function.__defaults__])}


def _code(code: CodeType) -> bytes:
    """The instructions, without the line numbers."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b"|".join([code.co_code, repr(code.co_names).encode(), *constants])
