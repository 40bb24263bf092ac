"""Policies and bases as plain values, and back: no code is stored, none is run. Needs no JAX."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from downside import bases, policies
from downside.bases.layout import FromSpace, Layout
from downside.bases.scaling import Scaling
from downside.policies.actions import ActionMap

KNOWN: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        bases.Fourier,
        bases.OneHot,
        bases.Polynomial,
        bases.Radial,
        bases.TileCoding,
        bases.Concatenation,
        bases.Scaled,
        Scaling,
        FromSpace,
        Layout,
        policies.Beta,
        policies.Gaussian,
        policies.Gibbs,
        policies.Product,
        policies.SquashedGaussian,
        ActionMap,
    )
}


def to_plain(value: Any, known: Mapping[str, type[Any]] = KNOWN) -> Any:
    """Text, numbers, lists and mappings that `from_plain` makes the same thing of.

    >>> to_plain(bases.OneHot(3))
    {'type': 'OneHot', 'size': 3}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and known.get(type(value).__name__) is type(value):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        plain = {name: to_plain(getattr(value, name), known) for name in fields}
        return {"type": type(value).__name__, **plain}
    if isinstance(value, tuple | list):
        return [to_plain(item, known) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, known) for key, item in value.items()}
    if hasattr(value, "dtype") and np.asarray(value).dtype.kind in "biuf":
        return np.asarray(value).tolist()
    raise ValueError(f"{value!r} is code, or of a kind that cannot be written down")


def from_plain(plain: Any, known: Mapping[str, type[Any]] = KNOWN) -> Any:
    """What `to_plain` was given; only kinds that are ``known`` are made.

    >>> from_plain({"type": "OneHot", "size": 3})
    OneHot(size=3)
    """
    if isinstance(plain, list):
        return tuple(from_plain(item, known) for item in plain)
    if not isinstance(plain, dict):
        return plain
    fields = {str(key): from_plain(item, known) for key, item in plain.items()}
    if "type" not in fields:
        return fields
    name = fields.pop("type")
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{name!r} is no kind of thing that is read here")
    try:
        return known[name](**fields)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made of what stands there: {error}") from error
