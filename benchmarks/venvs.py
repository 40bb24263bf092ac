"""Other libraries, each in a virtual environment of its own below benchmarks/.venvs.

`requirements-NAME.txt` holds the pins; what `requirements-NAME-alone.txt` names is installed
without its own dependencies, some of which do not build on Python 3.11 and are not needed here.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import say

HERE = Path(__file__).parent
SCRIPTS = HERE / "peers"
VENVS = HERE / ".venvs"
MINUTES = 20


@dataclass(frozen=True)
class Venv:
    """The interpreter of a peer's environment, or why there is none."""

    python: Path | None
    error: str | None = None

    def command(self, script, *arguments):
        """Run one of the scripts below peers/."""
        return [str(self.python), "-W", "ignore", script, *arguments]


def venv(name):
    """The environment of a peer, made where it is missing; one that failed is tried again."""
    folder = VENVS / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return Venv(python)
    say(f"installing {name} into {folder.relative_to(HERE.parent)}")
    try:
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([*pip, "-r", str(HERE / f"requirements-{name}.txt")])
        alone = HERE / f"requirements-{name}-alone.txt"
        if alone.exists():
            _run([*pip, "--no-deps", "-r", str(alone)])
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
        words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        say(f"{name} could not be installed: {words[-1]}")
        return Venv(None, words[-1])
    ready.touch()
    return Venv(python)


def _run(command):
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60 * MINUTES)
