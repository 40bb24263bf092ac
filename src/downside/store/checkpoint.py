"""Reading checkpoints: only plain files, only through the hashes, only what was saved."""

import errno
import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from downside.store import files
from downside.store.errors import DamagedError, StoreError, explaining, in_words
from downside.store.manifest import MAX_MANIFEST, STATE, Manifest
from downside.store.npz import read_npz
from downside.store.plain import decode

MAX_BYTES = 8 * 10**9
CHECKPOINT = re.compile("[0-9]{12}")
REPLACED = re.compile(r"\.replaced-([0-9]{12})")
_LOOKS = 20  # at a folder that changes under our eyes
_CHUNK = 2**20
_DAMAGE = {errno.ENOENT, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EBADMSG}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read back: every byte is the one that was saved.

    ``skipped`` says which newer checkpoints were damaged, and how.
    """

    step: int
    arrays: dict[str, np.ndarray]
    identity: dict[str, Any]
    facts: dict[str, Any]
    path: Path
    skipped: tuple[str, ...] = ()


def checkpoints(path: str | Path) -> list[int]:
    """The steps of the checkpoints of a run, oldest first; by their names, nothing is read.

    >>> import tempfile
    >>> from downside.store import RunFolder
    >>> with tempfile.TemporaryDirectory() as folder, RunFolder.open(folder, {"seed": 3}) as run:
    ...     saved = run.save(200, {"weights": np.ones(2)}), run.save(400, {"weights": np.ones(2)})
    ...     checkpoints(folder)
    [200, 400]
    """
    return sorted(_names(Path(path)))


def read_newest(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Checkpoint:
    """The newest intact checkpoint of a run, which may go on writing meanwhile.

    >>> import tempfile
    >>> from downside.store import RunFolder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunFolder.open(folder, {"seed": 3}) as run:
    ...         saved = run.save(200, {"weights": np.array([1.5, 2.5])}, {"seconds": 8.1})
    ...     read_newest(folder).arrays
    {'weights': array([1.5, 2.5])}
    """
    found = find_newest(Path(path), max_bytes)
    if found is None:
        raise StoreError(f"{path} holds no checkpoint yet")
    return found


def find_newest(path: Path, max_bytes: int) -> Checkpoint | None:
    """Like `read_newest`; None if there is no checkpoint at all."""
    for _ in range(_LOOKS):
        names = _names(path)
        skipped: list[str] = []
        for step in sorted(names, reverse=True):
            try:
                found = _read_below(path, names[step], max_bytes)
                return replace(found, skipped=tuple(skipped))
            except DamagedError as error:
                if _names(path) != names:  # a running writer has just removed it
                    break
                skipped.append(str(error))
        else:
            if not names:
                return None
            raise DamagedError(
                f"every checkpoint in {path} is damaged; restore one from a copy, or give "
                "another folder:\n" + "\n".join(f"  {damage}" for damage in skipped)
            )
    raise StoreError(f"{path} changed each time it was read, {_LOOKS} times over; try again")


def newest_facts(path: str | Path) -> tuple[int, dict[str, Any]] | None:
    """Step and facts of the newest checkpoint, without its arrays: cheap, to be asked often.

    >>> import tempfile
    >>> from downside.store import RunFolder
    >>> with tempfile.TemporaryDirectory() as folder, RunFolder.open(folder, {"seed": 3}) as run:
    ...     saved = run.save(200, {"weights": np.ones(2)}, {"seconds": 8.1})
    ...     newest_facts(folder)
    (200, {'seconds': 8.1})
    """
    try:
        newest = max(_names(Path(path)).items())[1]
        with files.open_folder(Path(path) / "checkpoints" / newest) as folder:
            manifest = _read_manifest(folder)
    except (StoreError, OSError, ValueError):  # none yet, or just being replaced
        return None
    return manifest.step, decode(manifest.facts)


def read_checkpoint(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Checkpoint:
    """Exactly this checkpoint, such as ``runs/a/checkpoints/000000400000``.

    >>> import tempfile
    >>> from downside.store import RunFolder
    >>> with tempfile.TemporaryDirectory() as folder, RunFolder.open(folder, {"seed": 3}) as run:
    ...     read_checkpoint(run.save(200, {"weights": np.ones(2)})).step
    200
    """
    path = Path(path)
    with explaining(f"{path} could not be read"), files.open_folder(path.parent) as parent:
        return _read(path, parent, max_bytes)


def _read_below(path: Path, name: str, max_bytes: int) -> Checkpoint:
    with (
        explaining(f"{path} could not be read"),
        files.open_folder(path) as root,
        files.open_folder("checkpoints", root) as parent,
    ):
        return _read(path / "checkpoints" / name, parent, max_bytes)


def _read(path: Path, parent: int, max_bytes: int) -> Checkpoint:
    try:
        with files.open_folder(path.name, parent) as folder:
            manifest = _read_manifest(folder)
            arrays = _read_state(folder, manifest, max_bytes)
    except DamagedError as error:
        raise DamagedError(f"{path} is damaged: {error}") from error
    except StoreError as error:
        raise StoreError(f"{path} is not read: {error}") from error
    except OSError as error:
        if error.errno in _DAMAGE:
            raise DamagedError(f"{path} is damaged: {in_words(error)}") from error
        raise
    if step_named(path.name) not in (None, manifest.step):
        raise DamagedError(f"{path} is damaged: its manifest is that of step {manifest.step}")
    identity, facts = decode(manifest.identity), decode(manifest.facts)
    return Checkpoint(manifest.step, arrays, identity, facts, path)


def _read_manifest(folder: int) -> Manifest:
    with files.open_file("manifest.json", folder) as file:
        data = file.read(MAX_MANIFEST + 1)
    if len(data) > MAX_MANIFEST:
        raise DamagedError(f"manifest.json is longer than {MAX_MANIFEST} bytes")
    return Manifest.from_bytes(data)


def _read_state(folder: int, manifest: Manifest, max_bytes: int) -> dict[str, np.ndarray]:
    with files.open_file(STATE, folder) as file:
        size, wanted = os.fstat(file.fileno()).st_size, manifest.state_bytes
        if size != wanted:
            raise DamagedError(f"{STATE} is {size} bytes long, its manifest says {wanted}")
        if size > max_bytes:
            raise StoreError(f"{STATE} takes {size} bytes; allow it with max_bytes={size}")
        if _sha256(file, size) != manifest.state_sha256:
            raise DamagedError(f"{STATE} does not have the SHA-256 that its manifest names")
        try:
            file.seek(0)
            return read_npz(file, size)
        except DamagedError as error:
            raise DamagedError(f"{STATE} is refused: {error}") from error


def _sha256(file: BinaryIO, size: int) -> str:
    hashed = hashlib.sha256()
    for start in range(0, size, _CHUNK):
        hashed.update(file.read(min(_CHUNK, size - start)))
    return hashed.hexdigest()


def _names(path: Path) -> dict[int, str]:
    """The folder of each step: its own, or the one that was about to be replaced."""
    try:
        with files.open_folder(path) as root, files.open_folder("checkpoints", root) as folder:
            entries = os.listdir(folder)
    except DamagedError as error:
        raise StoreError(f"{path} is refused: {error}") from error
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{path} {_what_is_wrong(path)}") from None
    except OSError as error:
        raise StoreError(f"{path} could not be read: {in_words(error)}") from error
    replaced = {int(found[1]): found[0] for found in map(REPLACED.fullmatch, entries) if found}
    return replaced | {int(name): name for name in entries if CHECKPOINT.fullmatch(name)}


def _what_is_wrong(path: Path) -> str:
    if os.path.isdir(path):
        return "holds no run: it has no folder 'checkpoints'"
    return "is not a folder" if os.path.lexists(path) else "does not exist"


def step_named(name: str) -> int | None:
    """The step that the name of a checkpoint's folder says, if it says one."""
    found = REPLACED.fullmatch(name)
    digits = found[1] if found else name
    return int(digits) if CHECKPOINT.fullmatch(digits) else None
