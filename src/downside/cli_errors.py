"""What went wrong under a command, in words: bad input, or code of the user that failed."""

import sys
import sysconfig
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from downside import cli_options as options

OURS = Path(__file__).parent
LIBRARIES = OURS, Path(sysconfig.get_path("stdlib"))


@contextmanager
def told_plainly(out: Path | None = None) -> Generator[None]:
    """What is wrong with a folder or a setting is bad input: one sentence, exit code 2.

    Where code of the user fails, such as the environment's, its place is told, with exit code 1.
    """
    from downside.store import StoreError

    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError | StoreError) and not _is_of_user(error):
            raise ValueError(options.as_typed(str(error))) from error
        if isinstance(error, OSError) and out is not None and _is_about(error, out):
            words = f"--out is {out}, which cannot be written ({error.strerror}); give another"
            raise ValueError(words) from error
        place = _place_here(error)
        if place is None:
            raise
        words = f"{type(error).__name__}: {error} ({place}); downside check ENV tries it by itself"
        Console(stderr=True).print(f"error: {words}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _is_about(error: OSError, folder: Path) -> bool:
    name = error.filename
    return isinstance(name, str | Path) and Path(name).is_relative_to(folder.absolute())


def _is_of_user(error: Exception) -> bool:
    """Whether the user's code raised it, or what that had called, and not ours."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if OURS in Path(frame.filename).parents:
            return False
        if _is_here(Path(frame.filename)):
            return True
    return False


def _place_here(error: Exception) -> str | None:
    """The last line of the user's own code on the way to an error, if there is any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_here(Path(frame.filename)):
            place = Path(frame.filename).relative_to(Path.cwd())
            return f"{place}, line {frame.lineno}, in {frame.name}"
    return None


def _is_here(file: Path) -> bool:
    """Whether it is the user's: below the working folder, and no library."""
    is_library = "site-packages" in file.parts or any(root in file.parents for root in LIBRARIES)
    return not is_library and Path.cwd() in file.parents
