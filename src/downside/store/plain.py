"""Plain values as JSON: what a manifest may hold, and how two of them differ.

A float that is not finite has no JSON of its own; it is written ``{"$float": "inf"}`` ("-inf",
"nan"), and no other key may start with "$". Tuples come back as lists. Two values are equal if
their JSON is: NaN equals NaN, and 1, 1.0 and true are three values.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

DEEPEST = 50
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def encode(where: str, value: Any, depth: int = 0) -> Any:
    """The JSON of a plain value; ``where`` names it in errors.

    >>> encode("identity", {"threshold": float("inf"), "sizes": (3, 4)})
    {'threshold': {'$float': 'inf'}, 'sizes': [3, 4]}
    """
    if depth > DEEPEST:
        raise ValueError(f"{where[:80]}... lies more than {DEEPEST} levels deep; flatten it")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"$float": str(number)}
    if isinstance(value, Mapping):
        return {
            _checked_key(where, key): encode(f"{where}.{key}", item, depth + 1)
            for key, item in cast("Mapping[Any, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [encode(f"{where}.{i}", item, depth + 1) for i, item in enumerate(items)]
    raise ValueError(
        f"{where} is {value!r}, a {type(value).__name__}; "
        "give text, numbers, true or false, None, or lists and mappings of these"
    )


def decode(value: Any, depth: int = 0) -> Any:
    """The plain value that `encode` was given.

    >>> decode({"threshold": {"$float": "-inf"}})
    {'threshold': -inf}
    """
    if depth > DEEPEST + 1:  # one more for an infinity
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        if "$float" in items:
            name = items["$float"]
            if len(items) > 1 or not isinstance(name, str) or name not in _FLOATS:
                raise ValueError(f"{value!r} stands where a number should be")
            return _FLOATS[name]
        return {key: decode(item, depth + 1) for key, item in items.items()}
    if isinstance(value, list):
        return [decode(item, depth + 1) for item in cast("list[Any]", value)]
    return value


def canonical(document: Any) -> bytes:
    """The one spelling of a JSON document: equal documents, equal bytes; never NaN, Infinity."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def parse(data: bytes) -> Any:
    """Read JSON in which no key stands twice."""
    return json.loads(data.decode(), object_pairs_hook=_unique)


def differences(there: Any, here: Any, where: str = "") -> list[str]:
    """Where two JSON documents differ, as "key is A there and B here", nested keys dotted.

    >>> differences({"agent": {"threshold": 0.3}}, {"agent": {"threshold": 0.5}})
    ['agent.threshold is 0.3 there and 0.5 here']
    """
    if canonical(there) == canonical(here):
        return []
    a, b = _children(there), _children(here)
    if a is None or b is None:
        return [f"{where} is {_shown(there)} there and {_shown(here)} here"]
    missing = object()
    found: list[str] = []
    for key in dict.fromkeys((*a, *b)):
        name = f"{where}.{key}" if where else key
        old, new = a.get(key, missing), b.get(key, missing)
        if old is missing:
            found.append(f"{name} is missing there and {_shown(new)} here")
        elif new is missing:
            found.append(f"{name} is {_shown(old)} there and missing here")
        else:
            found.extend(differences(old, new, name))
    return found


def _children(value: Any) -> dict[str, Any] | None:
    if isinstance(value, list):
        return {str(i): item for i, item in enumerate(cast("list[Any]", value))}
    if isinstance(value, dict) and "$float" not in value:
        return cast("dict[str, Any]", value)
    return None


def _shown(value: Any) -> str:
    text = repr(decode(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _checked_key(where: str, key: Any) -> str:
    if not isinstance(key, str) or key.startswith("$"):
        raise ValueError(f'{where} has the key {key!r}; keys are text that does not start with "$"')
    return key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("it has a key twice")
    return unique
