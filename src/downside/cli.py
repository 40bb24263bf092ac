"""The command line: the only place that prints.

Nothing heavy is imported before a command needs it, so that ``--help`` answers at once.
"""

import json
import os
import shutil
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from downside.cli_reproduce import reproduce_command
from downside.cli_runs import runs_app
from downside.cli_study import study_app
from downside.experiments.catalogue import EXPERIMENTS
from downside.runs import run_in

app = typer.Typer(
    name="downside",
    help="Reinforcement learning under a bound on downside risk.",
    invoke_without_command=True,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("reproduce")(reproduce_command)
app.add_typer(runs_app)
app.add_typer(study_app, name="study")
console = Console()


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    _tell_jax()
    try:
        app()
    except (ValueError, OSError) as error:
        _fail(str(error), code=2)
    except ModuleNotFoundError as error:
        _fail(f"{error}; figures need: pip install 'downside[report]'", code=1)


def _tell_jax() -> None:
    """Set what JAX reads when it is imported; what the user has set stays.

    One device per core, each with one thread, and compiled programs kept on disk.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    programs = home / "downside" / "jax"
    settings = {"PJRT_NPROC": "1", "JAX_NUM_CPU_DEVICES": str(os.cpu_count() or 1)}
    own = "JAX_COMPILATION_CACHE_DIR" in os.environ  # what has no limit must not be given one
    with suppress(OSError):  # where nothing can be kept, JAX would warn of every program
        programs.mkdir(parents=True, exist_ok=True)
        settings["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        if not own:
            settings["JAX_COMPILATION_CACHE_DIR"] = str(programs)
            settings["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(2**30)
    os.environ.update({name: os.environ.get(name, value) for name, value in settings.items()})


def _fail(message: str, code: int) -> None:
    console = Console(stderr=True)
    console.print("error:", style="red", end=" ")
    console.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


@app.callback()
def options(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Reinforcement learning under a bound on downside risk."""
    if show_version:
        console.print(version("downside"), highlight=False)
        raise typer.Exit


@app.command("list")
def list_command() -> None:
    """List the experiments of the paper that can be reproduced."""
    table = Table("experiment", "what it shows", box=None, header_style="bold")
    for name, what in EXPERIMENTS.items():
        table.add_row(name, what)
    console.print(table)
    console.print("\nrun one with: downside reproduce NAME")


@app.command("status")
def status_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a training run.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead.")] = False,
) -> None:
    """How far a training run is, how fast, its risk against the bound, and whether it is alive."""
    from downside.store import StoreError
    from downside.store.status import read_status

    try:
        status = read_status(run_in(folder))
    except StoreError as error:
        raise ValueError(str(error)) from error
    if as_json:
        print(json.dumps(status))
        return
    table = Table(box=None, show_header=False)
    for name, value in status.items():
        table.add_row(name, str(value))
    console.print(table)


@app.command("doctor")
def doctor_command() -> None:
    """Show what a report of a problem should contain: versions, devices, float width, disk."""
    import jax
    import jax.numpy as jnp

    table = Table(box=None, show_header=False)
    table.add_row("python", sys.version.split()[0])
    for package in ("downside", "jax", "jaxlib", "numpy", "scipy", "gymnasium"):
        table.add_row(package, version(package))
    devices = jax.devices()
    table.add_row("devices", f"{len(devices)} x {devices[0].platform} ({os.cpu_count()} cores)")
    table.add_row("float width", f"{jnp.finfo(jnp.zeros(()).dtype).bits} bits")
    table.add_row("free disk", f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB here")
    table.add_row(
        "a sum on the devices", "works" if float(jnp.arange(4.0).sum()) == 6.0 else "wrong"
    )
    console.print(table)
