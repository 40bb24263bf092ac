"""One bar on standard error while something long runs."""

from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def follow(items: Iterable[T], total: int, what: str, *, shown: bool) -> Iterable[T]:
    """Go through ``items`` with a progress bar, if it is wanted and somebody can see it.

    >>> list(follow("ab", total=2, what="letters", shown=False))
    ['a', 'b']
    """
    console = Console(stderr=True)
    hidden = not (shown and console.is_terminal)
    return track(items, what, total, console=console, disable=hidden, transient=True)
