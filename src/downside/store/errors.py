"""What the store raises: one exception, in sentences."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager


class StoreError(RuntimeError):
    """A run folder cannot be used: its files, its disk or its lock; the text says what to do.

    >>> from downside.store import read_newest
    >>> read_newest("no/such/folder")
    Traceback (most recent call last):
    downside.store.errors.StoreError: no/such/folder does not exist
    """


class DamagedError(StoreError):
    """This checkpoint cannot be read, and an older one may do; or none can."""


def _nothing() -> str:
    return ""


@contextmanager
def explaining(doing: str, safe: Callable[[], str] = _nothing) -> Generator[None]:
    """Turn the system's errors into a `StoreError`: what failed, why, and what is ``safe``.

    >>> with explaining("step 7 could not be saved"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    downside.store.errors.StoreError: step 7 could not be saved: No space left on device
    """
    try:
        yield
    except OSError as error:
        raise StoreError(f"{doing}: {in_words(error)}{safe()}") from error


def in_words(error: OSError) -> str:
    """The system's words for an error, with the file where it is known."""
    words = error.strerror or str(error)
    return f"{words} ({os.fsdecode(error.filename)})" if error.filename else words
