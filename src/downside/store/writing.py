"""Writing checkpoints: complete under a hidden name first, then renamed; nothing in place."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from downside.store import files
from downside.store.checkpoint import CHECKPOINT, REPLACED
from downside.store.manifest import MAX_MANIFEST, STATE, Manifest
from downside.store.npz import write_npz

_UNFINISHED = re.compile(r"\.(saving|removing|replaced)-[0-9]{12}")
_BUFFER = 2**20


def write_checkpoint(
    folder: Path,
    step: int,
    identity: Mapping[str, Any],
    facts: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> Path:
    """Write one checkpoint below ``folder``; when this returns, it is on the disk.

    A checkpoint of the same step is replaced: it keeps a name under which it is found
    (``.replaced-STEP``) until the new one has taken its place.
    """
    final = folder / f"{step:012d}"
    saving, replaced = folder / f".saving-{final.name}", folder / f".replaced-{final.name}"
    files.make_folder(saving)
    state_sha256, state_bytes = _write_state(saving / STATE, arrays)
    manifest = Manifest(step, dict(identity), dict(facts), state_sha256, state_bytes).to_bytes()
    if len(manifest) > MAX_MANIFEST:
        raise ValueError(
            f"identity and facts take {len(manifest)} bytes; at most {MAX_MANIFEST}: "
            "put long lists of numbers into arrays"
        )
    files.write_file(saving / "manifest.json", manifest)
    files.sync_folder(saving)
    if os.path.lexists(final):
        files.rename(final, replaced)
    files.rename(saving, final)
    files.sync_folder(folder)
    return final


def sweep(folder: Path) -> None:
    """Clear away what writers that died or failed have left below ``folder``."""
    left = [name for name in os.listdir(folder) if _UNFINISHED.fullmatch(name)]
    if not left:
        return
    for name in left:
        found = REPLACED.fullmatch(name)
        if found and not os.path.lexists(folder / found[1]):
            files.rename(folder / name, folder / found[1])
    files.sync_folder(folder)  # a replaced one may go only when its replacement is there to stay
    for name in left:
        if os.path.lexists(folder / name):
            files.remove_tree(folder / name)


def thin(folder: Path, keep: int, damaged: set[int]) -> None:
    """Remove all but the last ``keep`` checkpoints; damaged ones do not count.

    One that cannot be removed now is tried again at the next save.
    """
    with suppress(OSError):
        steps = sorted(int(name) for name in os.listdir(folder) if CHECKPOINT.fullmatch(name))
        kept = [step for step in steps if step not in damaged][-keep:]
        for step in steps:
            if kept and step < kept[0]:
                name = f"{step:012d}"
                files.rename(folder / name, folder / f".removing-{name}")
        sweep(folder)


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another in one step."""
    sweep_file(path)
    try:
        files.write_file(_saving(path), data)
        files.rename(_saving(path), path)
    except BaseException:
        with suppress(OSError):
            sweep_file(path)
        raise
    files.sync_folder(path.parent)


def sweep_file(path: Path) -> None:
    """Clear away what a writer that died has left of a file that it was replacing."""
    with suppress(FileNotFoundError):
        files.remove_tree(_saving(path))


def _saving(path: Path) -> Path:
    return path.with_name(f".saving-{path.name}")


def _write_state(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[str, int]:
    descriptor = files.create(path)
    try:
        stream = _Hashed(descriptor)
        write_npz(stream, arrays)
        stream.write_out()
        files.sync(descriptor)
    finally:
        os.close(descriptor)
    return stream.sha256.hexdigest(), stream.n_bytes


class _Hashed:
    """A file that is written from the front to the end, and hashed on the way."""

    def __init__(self, descriptor: int) -> None:
        self.sha256, self.n_bytes = hashlib.sha256(), 0
        self._descriptor, self._waiting = descriptor, bytearray()

    def write(self, data: Any) -> int:
        size = len(data)
        self._waiting += data
        if len(self._waiting) >= _BUFFER:
            self.write_out()
        return size

    def flush(self) -> None:
        """Nothing: what waits is written with the rest."""

    def write_out(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        self.sha256.update(data)
        self.n_bytes += len(data)
        files.write(self._descriptor, data)
