"""A run folder that is open for writing."""

import io
import os
from collections.abc import Mapping
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from downside.store import files
from downside.store.checkpoint import MAX_BYTES, Checkpoint, find_newest, step_named
from downside.store.errors import StoreError, explaining
from downside.store.lock import Lock
from downside.store.npz import check_arrays, npz_bytes
from downside.store.plain import differences, encode
from downside.store.writing import replace_file, sweep, sweep_file, thin, write_checkpoint

RECORDS = "records.parquet"
_LAST_STEP = 10**12 - 1
_NO_FACTS: Mapping[str, Any] = {}


@runtime_checkable
class Frame(Protocol):
    """A table that can write itself as Parquet, such as a polars frame."""

    def write_parquet(self, file: io.BytesIO, /) -> Any:
        """Write the table."""
        ...


@final
class RunFolder:
    """A folder with the checkpoints of one run, open for writing by this process alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunFolder.open(folder, {"seed": 3, "threshold": 0.3}) as run:
    ...         saved = run.save(200, {"weights": np.array([1.5, 2.5])}, {"seconds": 8.1})
    ...     with RunFolder.open(folder, {"seed": 3, "threshold": 0.3}) as run:
    ...         run.newest().step
    200
    """

    def __init__(
        self, path: Path, identity: Mapping[str, Any], keep: int, max_bytes: int, lock: Lock
    ) -> None:
        self.path, self.keep, self.max_bytes = path, keep, max_bytes
        self.damage: list[str] = []
        self._identity, self._lock = identity, lock
        self._checkpoints = path / "checkpoints"
        self._last: int | None = None
        self._damaged: set[int] = set()

    @classmethod
    def open(
        cls,
        path: str | Path,
        identity: Mapping[str, Any],
        *,
        keep: int = 3,
        max_bytes: int = MAX_BYTES,
    ) -> "RunFolder":
        """Make a run folder, or go on with one whose newest checkpoint has this identity.

        ``identity`` is all that the numbers depend on, as plain values: text, numbers, lists,
        mappings. The last ``keep`` checkpoints stay, and none may take more than ``max_bytes``.
        """
        path = Path(path).absolute()  # a later change of the working folder changes nothing
        if keep < 1:
            raise ValueError(f"keep is {keep}; at least 1 checkpoint must stay")
        encoded = encode("identity", identity)
        with explaining(f"{path} could not be opened for writing"):
            _make(path)
            folder = cls(path, encoded, keep, max_bytes, Lock(path / "lock"))
            try:
                sweep(path / "checkpoints")
                sweep_file(path / RECORDS)
                folder._compare(folder.newest())
            except BaseException:
                folder.close()
                raise
        return folder

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint, if there is one; ``damage`` says what was skipped."""
        self._lock.check()
        found = find_newest(self.path, self.max_bytes)
        if found is not None:
            self._last = found.step
            self.damage = list(found.skipped)
            self._damaged |= self._newer_than(found.step)
        return found

    def save(
        self, step: int, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any] = _NO_FACTS
    ) -> Path:
        """Save a checkpoint; when this returns, neither a kill nor a power cut can lose it.

        Steps only grow; saving the last step once more replaces it. Afterwards older checkpoints
        are removed. If the disk fails, older ones stay and a later save may succeed.
        """
        step = self._checked_step(step)
        check_arrays(arrays)
        if (size := npz_bytes(arrays)) > self.max_bytes:
            raise ValueError(f"the arrays take {size} bytes; allow it with max_bytes={size}")
        encoded = encode("facts", facts)
        self._lock.check()
        with explaining(f"step {step} could not be saved in {self.path}", self._safe):
            try:
                sweep(self._checkpoints)
                path = write_checkpoint(self._checkpoints, step, self._identity, encoded, arrays)
            except BaseException:
                with suppress(OSError):
                    sweep(self._checkpoints)
                raise
        self._last = step
        self._damaged.discard(step)
        thin(self._checkpoints, self.keep, self._damaged)
        return path

    def write_records(self, frame: Frame) -> Path:
        """Replace records.parquet, in one step, by this table."""
        self._lock.check()
        content = io.BytesIO()
        frame.write_parquet(content)
        path = self.path / RECORDS
        with explaining(f"{path} could not be written", self._safe):
            replace_file(path, content.getvalue())
        return path

    def close(self) -> None:
        """Let other processes write; a second call does nothing."""
        self._lock.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _compare(self, found: Checkpoint | None) -> None:
        if found is None:
            return
        differing = differences(encode("identity", found.identity), self._identity)
        if differing:
            raise StoreError(
                f"{self.path} holds another run: {'; '.join(differing)}; give another folder"
            )

    def _checked_step(self, step: int) -> int:
        if isinstance(step, bool) or not 0 <= step <= _LAST_STEP:
            raise ValueError(f"step is {step!r}; it must be a whole number, 0 to {_LAST_STEP}")
        if self._last is not None and step < self._last:
            raise ValueError(
                f"step is {step}, and step {self._last} is saved already; steps only grow"
            )
        return index(step)

    def _newer_than(self, step: int) -> set[int]:
        with explaining(f"{self.path} could not be read"):
            steps = map(step_named, os.listdir(self._checkpoints))
        return {other for other in steps if other is not None and other > step}

    def _safe(self) -> str:
        if self._last is None:
            return "; there is no earlier checkpoint"
        if os.path.exists(self._checkpoints / f"{self._last:012d}" / "manifest.json"):
            return f"; the last checkpoint, step {self._last}, is intact"
        return f"; the last checkpoint, step {self._last}, is gone too"


def _make(path: Path) -> None:
    """Make the run folder unless it is there; refuse one that is somebody else's."""
    files.make_folders(path)
    if not path.is_dir():
        raise StoreError(f"{path} is not a folder; give another name")
    if not os.listdir(path):
        with suppress(FileExistsError):  # two processes may start at once; one gets the lock
            files.make_folder(path / "checkpoints")
        files.sync_folder(path)
    elif not _is_ours(path):
        raise StoreError(
            f"{path} is not empty and holds no run; give a new folder, or empty this one"
        )


def _is_ours(path: Path) -> bool:
    """Whether checkpoints are there, or nothing but what a run makes before its first."""
    inner = path / "checkpoints"
    if inner.is_symlink() or not inner.is_dir():
        return False
    inside = os.listdir(inner)
    if any(step_named(name) is not None for name in inside):
        return True
    strange = {*inside, *os.listdir(path)} - {"checkpoints", "lock", RECORDS}
    return all(name.startswith(".") for name in strange)
