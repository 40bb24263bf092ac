"""One writer per run folder: a lock that the system frees when its process dies."""

import fcntl
import json
import os
import shlex
import socket
import stat
import sys
import time
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from downside.store.errors import StoreError, explaining

_LONGEST_TEXT = 4096
_TRIES, _PAUSE = 10, 0.02  # `holder` takes the lock for an instant to see whether it is free


@dataclass(frozen=True)
class Holder:
    """The process that holds a run folder, as it described itself; ``started`` is in UTC."""

    pid: int
    host: str
    command: str
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.started}: {self.command}"


def holder(path: str | Path) -> Holder | None:
    """Who writes to a run folder now; None if nobody does.

    >>> import os, tempfile
    >>> from downside.store import RunFolder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunFolder.open(folder, {"seed": 3}):
    ...         held = holder(folder).pid == os.getpid()
    ...     held, holder(folder)
    (True, None)
    """
    lock = Path(path) / "lock"
    with explaining(f"{lock} could not be read"):
        try:
            descriptor = _open(lock, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return _holder_named(os.pread(descriptor, _LONGEST_TEXT, 0))
        finally:
            os.close(descriptor)


@final
class Lock:
    """The lock of a run folder, held until `release` or the end of this process."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or say who has it."""
        self._path, self._descriptor = path, -1
        with explaining(f"{path} could not be locked"):
            descriptor = _open(path, os.O_RDWR | os.O_CREAT)
            try:
                _take(descriptor, path)
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor = descriptor
        _held.add(self)
        self._write_text(json.dumps(asdict(_myself())))

    def check(self) -> None:
        """Refuse to go on if the folder is no longer the one that was locked."""
        if self._descriptor < 0:
            raise StoreError(f"{self._path.parent} is closed; open it again to write")
        with explaining(f"{self._path} could not be read"), suppress(FileNotFoundError):
            mine, there = os.fstat(self._descriptor), os.lstat(self._path)
            if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
                return
        raise StoreError(
            f"{self._path.parent} was removed or replaced while it was in use; "
            "nothing more is written there, give another folder"
        )

    def release(self) -> None:
        """Let others have it; a second call does nothing."""
        if self._descriptor >= 0:
            self._write_text("")
            self.forget()

    def forget(self) -> None:
        """Close the descriptor; in a forked child this leaves the parent's lock alone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write_text(self, text: str) -> None:
        with suppress(OSError):  # the text is for people; the lock holds without it
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)


_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


# A forked child shares its parent's lock, and would hold it beyond the parent's death.
os.register_at_fork(after_in_child=_forget_all)


def _open(path: Path, flags: int) -> int:
    quiet = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | quiet, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StoreError(f"{path} is not a plain file; give another folder")
    return descriptor


def _take(descriptor: int, path: Path) -> None:
    for _ in range(_TRIES):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
    other = _holder_named(os.pread(descriptor, _LONGEST_TEXT, 0))
    raise StoreError(
        f"{path.parent} is in use by {other}; wait until it ends, stop it, or give another folder"
    )


def _myself() -> Holder:
    command = shlex.join(sys.orig_argv)[:500]
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(os.getpid(), socket.gethostname(), command, started)


def _holder_named(text: bytes) -> Holder:
    try:
        entry: dict[str, Any] = json.loads(text)
        words = (_printable(str(entry[key])) for key in ("host", "command", "started"))
        return Holder(int(entry["pid"]), *words)
    except (ValueError, TypeError, KeyError, RecursionError):
        return Holder(0, "an unknown host", "unknown", "an unknown time")


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
