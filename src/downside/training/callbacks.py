"""What is called at every policy update, and may stop the training."""

import inspect
from typing import Any

REPLACEMENT = (
    "here a callback is a function of the record of each policy update that returns False to stop, "
    "such as callback=lambda record: not record.returns.mean() > 400"
)


def check_callback(callback: Any) -> None:
    """Refuse what was written for Stable-Baselines3, with its replacement.

    >>> check_callback(lambda record: True)
    >>> check_callback(lambda local_names, global_names: True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the callback takes 2 arguments, as in Stable-Baselines3; ...
    """
    several = callback if isinstance(callback, list | tuple) else [callback]
    for each in several:
        if hasattr(each, "on_step") or hasattr(each, "init_callback"):
            name = each.__name__ if isinstance(each, type) else type(each).__name__
            raise ValueError(f"{name} is a callback for Stable-Baselines3; {REPLACEMENT}")
    if callback is None:
        return
    if not callable(callback):
        raise ValueError(
            f"callback is {callback!r}; give a function of the record of each policy update"
        )
    n_arguments = _needed(callback)
    if n_arguments > 1:
        raise ValueError(
            f"the callback takes {n_arguments} arguments, as in Stable-Baselines3; {REPLACEMENT}"
        )


def says_stop(answer: Any) -> bool:
    """False, of Python or of NumPy; None goes on."""
    return answer is not None and not answer


def _needed(function: Any) -> int:
    """How many arguments have to be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # what hides its signature
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)
