"""What is wrong with a study's description, in a sentence, before anything runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from downside.checks import check_names

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_table(name: str, value: Any) -> None:
    """Refuse what does not give values to names.

    >>> check_table("limits", 3)
    Traceback (most recent call last):
    ValueError: limits is 3; give a table of names and values
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}; give a table of names and values")


def check_name(name: Any) -> None:
    """Refuse what cannot be the name of a folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or any(c in name for c in "/\0"):
        raise ValueError(f"name is {name!r}; give a text, as for a folder")


def check_values(key: str, values: Any, nested: tuple[str, ...]) -> None:
    """Refuse values of a key of the grid that are no list; ``nested`` are keys that hold tables."""
    if isinstance(values, list | tuple) and values:
        return
    advice = "give a list of values"
    if key in nested and isinstance(values, Mapping):
        name = next(iter(cast("Mapping[str, Any]", values)), "NAME")
        advice += f' for a name in it, in quotes: "{key}.{name}" = [...]'
    raise ValueError(f"the grid's {key} is {values!r}; {advice}")


def check_arguments(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a function does not take, and calls that lack one.

    >>> def hypotenuse(a, b): ...
    >>> check_arguments("my:hypotenuse", hypotenuse, {"aa": 3.0})
    Traceback (most recent call last):
    ValueError: there is no argument of my:hypotenuse 'aa'; did you mean a?
    >>> check_arguments("my:hypotenuse", hypotenuse, {"a": 3.0})
    Traceback (most recent call last):
    ValueError: my:hypotenuse needs b; give it in arguments or in the grid
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError):  # such as some that are written in C
        return
    parameters = signature.parameters.values()
    known = {each.name: each.default for each in parameters if each.kind in _BY_NAME}
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        if arguments and not known:
            raise ValueError(f"{name} takes no arguments by name; it got {', '.join(arguments)}")
        check_names(f"argument of {name}", arguments, known)
    for each, default in known.items():
        if default is inspect.Parameter.empty and each not in arguments:
            raise ValueError(f"{name} needs {each}; give it in arguments or in the grid")
