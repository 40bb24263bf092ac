"""The few calls through which the store touches the disk.

All that changes the disk stands here, so that a test can record it and cut the power anywhere.
"""

import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from downside.store.errors import DamagedError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def create(path: Path) -> int:
    """Make a new file and open it for writing; what is there already is never touched."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def write(descriptor: int, data: bytes) -> None:
    """Write all of ``data``; the system may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync(descriptor: int) -> None:
    """Wait until the content of a file is on the disk."""
    os.fsync(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot do this for folders
            raise
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make one folder."""
    os.mkdir(path)


def rename(old: Path, new: Path) -> None:
    """Give a file or folder another name, in one step."""
    os.rename(old, new)


def remove_tree(path: Path) -> None:
    """Remove a folder with what is in it, following no links; or a file."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def write_file(path: Path, data: bytes) -> None:
    """Make a new file with this content, and wait until the content is on the disk."""
    descriptor = create(path)
    try:
        write(descriptor, data)
        sync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, all of them on the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process may be making it too
            make_folder(folder)
        sync_folder(folder.parent)


@contextmanager
def open_folder(name: str | Path, inside: int | None = None) -> Generator[int]:
    """A descriptor of a folder; ``inside`` another one, a symbolic link is refused."""
    if inside is not None:
        _refuse_others(name, inside, stat.S_IFDIR, "folder")
    follow = 0 if inside is None else os.O_NOFOLLOW
    descriptor = os.open(name, _FOLDER | follow, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(name: str, inside: int) -> Generator[BinaryIO]:
    """A plain file in a folder, for reading: no link, no pipe, no device."""
    _refuse_others(name, inside, stat.S_IFREG, "file")
    # O_NONBLOCK: a pipe that has just taken the file's place must not make us wait
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=inside), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DamagedError(f"{name} is not a plain file")
        yield file


def _refuse_others(name: str | Path, inside: int, wanted: int, word: str) -> None:
    kind = stat.S_IFMT(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode)
    if kind != wanted:
        came = "a symbolic link" if kind == stat.S_IFLNK else f"not a {word}"
        raise DamagedError(f"{name} is {came}; the store reads plain files and folders only")
