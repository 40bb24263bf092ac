"""Runs of the command line: what a folder holds, and how its agent is made again.

DIR/
  specification.json    the run as plain values, all that is needed to make its agent
  run/                  checkpoints and records
"""

import math
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from downside import cli_options as options

if TYPE_CHECKING:
    from downside.agent import Agent

SPECIFICATION, RUN = "specification.json", "run"
N_THRESHOLDS = 11


def run_in(folder: Path) -> Path:
    """Where the checkpoints are: in ``run`` if the command line trained it."""
    return folder / RUN if (folder / SPECIFICATION).exists() else folder


def read_run(folder: Path) -> "tuple[Agent, dict[str, Any]]":
    """The agent in a folder as it was last saved, and its specification; nothing is locked.

    A folder that was made in Python has no specification.
    """
    from downside.store import read_newest
    from downside.studies.documents import read_document

    specification = read_document(folder / SPECIFICATION)
    if specification is None:
        if not (folder / "checkpoints").is_dir():
            raise ValueError(
                f"there is no run in {folder}; make one with: downside train ENV --out {folder}"
            )
        from downside.saving import load

        return load(folder), {}
    from downside.specification import make_agent
    from downside.training.keeping import saved_in

    found = read_newest(folder / RUN)
    made_environment(specification)
    return make_agent(specification).restore(partial(saved_in, found)), specification


def settled(out: Path, given: Mapping[str, Any], option: str, *, resume: bool) -> dict[str, Any]:
    """The whole specification of the run in ``out``, new or resumed, checked."""
    if resume and holds_a_run(out):
        from downside.studies.documents import read_document

        saved = read_document(out / SPECIFICATION)
        if saved is None:
            raise ValueError(
                f"{out} holds a run that was made in Python, and its settings are there; go on "
                "with it in Python, or choose another --out"
            )
        whole = options.resumed(saved, given, out)
    else:
        check_free(out, resume=resume)
        if resume and "env" not in given:
            raise ValueError(
                f"--resume finds no run in {out}; give the ENV and the options of a new one, or "
                "another --out"
            )
        whole = options.started(given, option)
    use_cores(whole, out)
    made_environment(whole)
    from downside.checks import check_names
    from downside.specification import completed, known_settings

    settings = whole.get("settings", {})
    check_names("--option", settings, known_settings({**whole, "settings": settings}))
    return completed(whole)


def holds_a_run(out: Path) -> bool:
    """Whether something was trained in the folder."""
    return (out / SPECIFICATION).exists() or (out / "checkpoints").exists()


def check_free(out: Path, *, resume: bool) -> None:
    """Refuse a folder that a new run would destroy."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out is {out}, which is a file; give a folder")
    if holds_a_run(out) and not resume:
        raise ValueError(
            f"--out is {out}, which holds a run; add --resume to go on with it, or choose another "
            "folder"
        )


def with_thresholds(given: Mapping[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Thresholds from 0 to the risk of a run without a bound, which is made first."""
    settings = {**given["settings"], "threshold": [math.inf]}
    whole = options.started({**given, "settings": settings}, "--thresholds")
    use_cores(whole)
    made_environment(whole)
    from downside.specification import make_agent

    agent = make_agent(whole).learn(whole["total_timesteps"], progress_bar=not quiet)
    risk = agent.evaluate(whole.get("n_eval_episodes")).over_seeds("proxy").value
    if not risk > 0.0:
        raise ValueError(
            f"the risk of a run without a bound is {risk:.4g}: there is nothing to trade for the "
            "mean; give a higher --target, or --thresholds"
        )
    bounds = options.grid("--thresholds", f"0:{risk}:{N_THRESHOLDS}")
    return {**given, "settings": {**settings, "threshold": bounds}}


def new_agent(specification: Mapping[str, Any], folder: Path) -> "Agent":
    """The agent of a run, going on from its folder; a value of the wrong kind is bad input."""
    from downside.specification import make_agent

    try:
        return make_agent(specification, folder=folder)
    except (TypeError, AttributeError) as error:
        named = [name for name in specification["settings"] if name not in options.NAMED]
        if not named:
            raise
        raise ValueError(
            f"one of --option {', '.join(named)} has a value of the wrong kind ({error}); give "
            "values as in Python, such as --option period=1000"
        ) from error


def made_environment(specification: Mapping[str, Any]) -> Any:
    """The environment of a specification, made once; what is wrong with it in one sentence."""
    options.look_here()
    name, arguments = specification["env"], dict(specification.get("env_arguments", {}))
    from downside.specification import make_environment

    try:
        made = make_environment(specification)
        if isinstance(made, str):
            import gymnasium

            gymnasium.make(made, **arguments).close()
        return made
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        given = " with " + ", ".join(f"--set {key}={value}" for key, value in arguments.items())
        raise ValueError(
            f"ENV is {name!r}, and it cannot be made{given if arguments else ''} ({words}); see "
            "which arguments it takes, and give them by --set key=value"
        ) from error


def checkable(name: str, made: Any, arguments: dict[str, Any]) -> Any:
    """What `check_env` takes, called as it was typed."""
    if not arguments or not (isinstance(made, str) or callable(made)):
        return made

    def make() -> Any:
        import gymnasium

        if isinstance(made, str):
            return gymnasium.make(made, disable_env_checker=True, **arguments)
        return made(**arguments)

    make.__name__ = name
    return make


def use_cores(specification: Mapping[str, Any], out: Path | None = None) -> None:
    """A JAX device for each core where episodes are compiled; must be said before JAX starts.

    A run that goes on needs as many as it had.
    """
    if out is not None and (out / RUN / "checkpoints").is_dir():
        from downside.store import checkpoints, read_newest

        if checkpoints(out / RUN):
            os.environ["JAX_NUM_CPU_DEVICES"] = str(read_newest(out / RUN).identity["devices"])
    elif str(specification["env"]).startswith("downside/"):
        os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(os.cpu_count() or 1))
