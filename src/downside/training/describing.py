"""What a run depends on, as plain values that can be written down and compared."""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SHORT = 32
"""Longer arrays are represented by their SHA-256."""


def describe(value: Any) -> Any:
    """Settings as text, numbers, lists and mappings; equal settings are described equally.

    >>> from downside.signals import Reward
    >>> describe((Reward(0.9), np.array([1.0, 2.0])))
    [{'type': 'Reward', 'discount': 0.9}, [1.0, 2.0]]
    """
    return _describe(value, ())


def _describe(value: Any, around: tuple[int, ...]) -> Any:
    """``around`` are the things that ``value`` is part of; where one comes again, its name does."""
    inside = partial(_describe, around=(*around, id(value)))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type | ModuleType) or id(value) in around:
        return _name(value)
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(key): inside(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [inside(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((inside(item) for item in value), key=repr)
    if isinstance(value, partial):  # JAX's Partial is one too
        return {"partial": inside(value.func), "of": inside([value.args, value.keywords])}
    if inspect.ismethod(value):
        return {"method": inside(value.__func__), "of": inside(value.__self__)}
    if inspect.isfunction(value):
        return _function(value, inside)
    if dataclasses.is_dataclass(value):
        fields = [f for f in dataclasses.fields(value) if not _came_later(f, value)]
        named = {f.name: inside(getattr(value, f.name)) for f in fields}
        return {"type": type(value).__name__, **named}
    if hasattr(value, "__wrapped__"):  # a compiled function
        return {"wrapped": type(value).__name__, "function": inside(value.__wrapped__)}
    if hasattr(value, "__qualname__"):
        return {"function": _name(value)}
    if hasattr(value, "__dict__"):
        return {"type": _name(type(value)), "of": [[k, inside(v)] for k, v in vars(value).items()]}
    return {"type": _name(type(value)), "says": repr(value)}


def _came_later(field: Any, value: Any) -> bool:
    """Whether the field is one that older runs did not have, with the value that they stand for."""
    return bool(field.metadata.get("later")) and getattr(value, field.name) == field.default


def _name(value: Any) -> str:
    named = value if hasattr(value, "__name__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', named.__name__)}"


def _array(value: Any) -> Any:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.size <= SHORT:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest}


def _function(function: FunctionType, inside: Callable[[Any], Any]) -> dict[str, Any]:
    """Its name, what it says, and the values that it was given when it was made."""
    said = hashlib.sha256(_code(function.__code__)).hexdigest()[:16]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    given = inside([values, function.__defaults__, function.__kwdefaults__])
    return {"function": _name(function), "code": said, "values": given}


def _is_filled(cell: CellType) -> bool:
    """Whether the name that the cell stands for was given a value at all."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _code(code: CodeType) -> bytes:
    """The instructions, without the line numbers."""
    parts = [code.co_code, repr(code.co_names).encode()]
    return b"|".join([*parts, *(_constant(value) for value in code.co_consts)])


def _constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, frozenset):  # its order differs from process to process
        return repr(sorted(map(repr, value))).encode()
    return repr(value).encode()
