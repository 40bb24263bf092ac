"""Folders of trials in which something cannot be used: it gets another name, and nothing is lost.

A trial is a function of its specification, so whatever is damaged is simply computed again.
"""

from pathlib import Path

from downside.store import files, read_newest
from downside.store.errors import DamagedError, StoreError, explaining

_FILES = (
    "lock",
    "log.txt",
    "manifest.json",
    "policy.npz",
    "records.parquet",
    "results.npz",
    "results.parquet",
    "traceback.txt",
)


def set_aside(folder: Path) -> list[Path]:
    """Give new names to what stands in the way of a trial, so that it can go on or begin again.

    A folder in place of a file, a file in place of a folder, a run of which no checkpoint can be
    read. The new names end with ``.damaged-0``, or a higher number.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     (Path(path) / "run").write_text("not a folder")
    ...     [moved.name for moved in set_aside(Path(path))]
    12
    ['run.damaged-0']
    """
    with explaining(f"what is damaged in {folder} could not be set aside"):
        nearest = next(path for path in (folder, *folder.parents) if _exists(path))
        if not nearest.is_dir():
            return [_move(nearest)]
        wrong = [p for name in _FILES if _exists(p := folder / name) and not p.is_file()]
        if _exists(run := folder / "run") and not _is_usable(run):
            wrong.append(run)
        return [_move(path) for path in wrong]


def _is_usable(run: Path) -> bool:
    if not run.is_dir():
        return False
    try:
        read_newest(run)
    except DamagedError:
        return False
    except StoreError:  # no checkpoint yet, or another kind of run, or what a save would say too
        return True
    return True


def _move(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.damaged-{i}") for i in range(10**6))
    new = next(name for name in names if not _exists(name))
    files.rename(path, new)
    files.sync_folder(path.parent)
    return new


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()
