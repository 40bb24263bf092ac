"""``downside train``, ``evaluate``, ``frontier``, ``check``, ``report``; like ``cli``, it prints.

Nothing heavy is imported before a command needs it.
"""

import json
import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from downside import cli_options as options
from downside.cli_errors import told_plainly
from downside.runs import (
    RUN,
    SPECIFICATION,
    check_free,
    checkable,
    holds_a_run,
    made_environment,
    new_agent,
    read_run,
    settled,
    with_thresholds,
)

if TYPE_CHECKING:
    from downside.agent import Agent
    from downside.evaluation import Evaluations

runs_app = typer.Typer(pretty_exceptions_enable=False)

Env = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        help="A Gymnasium id, one of ours such as downside/Portfolio-v0, or module:factory.",
    ),
]
NeededEnv = Annotated[
    str, typer.Argument(metavar="ENV", help="A Gymnasium id, one of ours, or module:factory.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run, as train made it.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for all that comes out.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run in the folder, or start it.")
]
Algo = Annotated[
    Literal["nrcpo", "rcpo", "nac"] | None,
    typer.Option(help="nrcpo (default), rcpo, or nac without a bound."),
]
BoundAlgo = Annotated[
    Literal["nrcpo", "rcpo"] | None, typer.Option(help="nrcpo (default) or rcpo.")
]
Target = Annotated[
    str | None,
    typer.Option(help="A number (less is a shortfall), centralised, td-error, module:function."),
]
Threshold = Annotated[
    list[str] | None,
    typer.Option(help="The most risk, in units of the return; several: again, or with commas."),
]
Thresholds = Annotated[
    str | None,
    typer.Option(help="start:stop:count or a,b,c; 11 up to the risk without a bound if none."),
]
Steps = Annotated[
    int | None, typer.Option(min=1, help="Steps of each policy in all; 300,000 by default.")
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Independent policies; 1 by default.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of everything random; 0 by default.")]
Order = Annotated[float | None, typer.Option(help="Order of the partial moment; 1 by default.")]
Way = Annotated[
    Literal["batches", "online"] | None, typer.Option(help="batches (default), or as the paper.")
]
PolicyName = Annotated[Literal["linear", "mlp"] | None, typer.Option(help="linear (default).")]
Discount = Annotated[
    float | None, typer.Option(help="For Gymnasium environments; none by default.")
]
Horizon = Annotated[int | None, typer.Option(help="For Gymnasium environments.")]
NumEnvs = Annotated[int | None, typer.Option(min=1, help="Copies that make a batch together.")]
PrecisionName = Annotated[
    Literal["float32", "float64"] | None, typer.Option(help="float32 (default).")
]
Option = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Any other setting of the algorithm."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An argument of the environment."),
]
EvalEpisodes = Annotated[
    int | None,
    typer.Option(min=2, help="Fresh episodes to judge by; 10,000, or 100 in Python environments."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show nothing while it runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead.")]


@runs_app.command("train")
def train_command(
    out: Out,
    env: Env = None,
    algo: Algo = None,
    target: Target = None,
    threshold: Threshold = None,
    total_timesteps: Steps = None,
    n_seeds: Seeds = None,
    seed: Seed = None,
    order: Order = None,
    way: Way = None,
    policy: PolicyName = None,
    discount: Discount = None,
    horizon: Horizon = None,
    num_envs: NumEnvs = None,
    precision: PrecisionName = None,
    option: Option = None,
    set_: Set = None,
    n_eval_episodes: EvalEpisodes = None,
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train policies under a bound on risk, and judge them by fresh episodes."""
    given = options.typed(locals())
    with told_plainly(out):
        specification = settled(out, given, "--threshold", resume=resume)
        agent = _train(out, specification, "train", quiet=quiet)
        found = agent.evaluate(specification["n_eval_episodes"])
    if as_json:
        _print_json(_document(out, specification, agent, found, "train"))
    else:
        _say("while it learnt, at the end:")
        _say("\n".join(f"  {line}" for line in agent.summary().splitlines()))
        from downside.evaluation.several import lead

        _say(f"on {found[0].n_episodes:,} fresh episodes of each policy:")
        for block in found.blocks:
            _say(f"  {lead(block.label)}" + "; ".join([block.mean_words, *block.verdicts]))
        _say_next(out, specification, "train")
    _fail_if_broken(agent)


@runs_app.command("evaluate")
def evaluate_command(
    folder: Folder,
    n_eval_episodes: EvalEpisodes = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Judge the most likely actions.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 1,
    target: Annotated[
        float | None, typer.Option(help="Judge about this return instead of the run's target.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture of the returns: png, svg, pdf.")
    ] = None,
    kind: Annotated[
        Literal["histogram", "probability", "fan", "underwater"],
        typer.Option(help="What the picture shows."),
    ] = "histogram",
    as_json: AsJson = False,
) -> None:
    """Judge the policies of a run by fresh episodes: every measure with its interval."""
    if plot is not None:
        _check_picture("--plot", plot)
    with told_plainly():
        agent, specification = read_run(folder)
        found = agent.evaluate(
            n_eval_episodes or specification.get("n_eval_episodes"),
            deterministic,
            seed=seed,
            target=target,
        )
        if plot is not None:
            found.plot(plot, kind=kind)
    if as_json:
        _print_json({"folder": str(folder), "steps": agent.steps, **found.to_dict()})
        return
    _say(str(found))
    if plot is not None:
        _say(str(plot))


@runs_app.command("frontier")
def frontier_command(
    out: Out,
    env: Env = None,
    target: Target = None,
    thresholds: Thresholds = None,
    algo: BoundAlgo = None,
    total_timesteps: Steps = None,
    n_seeds: Seeds = None,
    seed: Seed = None,
    order: Order = None,
    way: Way = None,
    policy: PolicyName = None,
    discount: Discount = None,
    horizon: Horizon = None,
    num_envs: NumEnvs = None,
    precision: PrecisionName = None,
    option: Option = None,
    set_: Set = None,
    n_eval_episodes: EvalEpisodes = None,
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The best mean return for every bound on risk: table, CSV, Parquet and a picture."""
    given = options.typed(locals())
    settings = given.get("settings", {})
    if not resume:
        given = {"n_seeds": 5, **given}
    with told_plainly():
        from downside.checks import check_single

        check_single("a frontier", settings, "make one for each")
        if not (resume and holds_a_run(out)) and thresholds is None and "settings" in given:
            check_free(out, resume=resume)
            given = with_thresholds(given, quiet=quiet)
        specification = settled(out, given, "--thresholds", resume=resume)
        agent = _train(out, specification, "frontier", quiet=quiet)
        from downside.frontiers import Frontier

        found = agent.evaluate(specification["n_eval_episodes"])
        bounds = tuple(float(each[0].threshold) for each in agent.constraints)
        frontier = Frontier(bounds, found, agent, f"{agent.steps:,} steps for each policy")
        files = [out / f"frontier.{kind}" for kind in ("csv", "parquet", "png")]
        frontier.to_frame().write_csv(files[0])
        frontier.to_frame().write_parquet(files[1])
        frontier.plot(files[2])
    if as_json:
        document = _document(out, specification, agent, found, "frontier")
        document |= {"frontier": frontier.summary().to_dicts(), "files": [str(f) for f in files]}
        _print_json(document)
    else:
        _say("\n".join([str(frontier), "", *map(str, files)]))
        _say_next(out, specification, "frontier")
    _fail_if_broken(agent)


@runs_app.command("check")
def check_command(
    env: NeededEnv,
    set_: Set = None,
    n_steps: Annotated[int, typer.Option(min=2, help="Random steps to try, at least.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random actions.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Try an environment with random actions and say what is wrong with it; 1 if something is."""
    arguments = options.pairs("--set", set_ or ())
    made = made_environment({"env": env, "env_arguments": arguments})
    from downside.environments.checking import check_env

    found = check_env(checkable(env, made, arguments), n_steps=n_steps, seed=seed)
    if as_json:
        findings = [vars(each) for each in found.findings]
        seen = {"steps": found.n_steps, "episodes": found.n_episodes}
        _print_json({"env": env, "ok": found.ok, "findings": findings, **seen})
    else:
        _say(str(found))
    if not found.ok:
        sys.exit(1)


@runs_app.command("report")
def report_command(
    folder: Folder, n_eval_episodes: EvalEpisodes = None, as_json: AsJson = False
) -> None:
    """Write DIR/report.html: verdicts, learning curves, and the returns of fresh episodes."""
    with told_plainly():
        agent, specification = read_run(folder)
        if agent.steps == 0:
            raise ValueError(f"{folder} holds a run without a step; train it first")
        from downside.report.run_page import write_run_page

        found = agent.evaluate(n_eval_episodes or specification.get("n_eval_episodes"))
        facts = specification or {"algorithm": "agent", "env": str(folder)}
        command = options.command(specification, folder) if specification else ""
        page = write_run_page(folder / "report.html", agent, found, facts, command)
    if as_json:
        _print_json({"report": str(page), "verdicts": found.verdicts})
        return
    _say("\n".join([*found.verdicts, str(page)]))


def _train(out: Path, specification: dict[str, Any], command: str, *, quiet: bool) -> "Agent":
    from downside.studies.documents import write_document

    agent = new_agent(specification, out / RUN)
    out.mkdir(parents=True, exist_ok=True)
    write_document(out / SPECIFICATION, specification)
    try:
        return agent.learn(specification["total_timesteps"], progress_bar=not quiet)
    except KeyboardInterrupt:
        words = f"go on with: {_going_on(command, out)}"
        Console(stderr=True).print(words, markup=False, highlight=False, soft_wrap=True)
        sys.exit(130)


def _document(
    out: Path, specification: Mapping[str, Any], agent: "Agent", found: "Evaluations", command: str
) -> dict[str, Any]:
    return {
        "folder": str(out),
        "specification": dict(specification),
        "steps": agent.steps,
        "thresholds": _rows(found),
        "failures": agent.failures(),
        "next": _following(out, specification, command),
    }


def _say_next(out: Path, specification: Mapping[str, Any], command: str) -> None:
    _say("\n".join(["", "next:", *(f"  {e}" for e in _following(out, specification, command))]))


def _following(out: Path, specification: Mapping[str, Any], command: str) -> list[str]:
    """Commands to paste."""
    where, more = shlex.quote(str(out)), 2 * specification["total_timesteps"]
    longer = f"{_going_on(command, out)} --total-timesteps {more}"
    return [f"downside evaluate {where}", f"downside report {where}", longer]


def _fail_if_broken(agent: "Agent") -> None:
    failures = agent.failures()
    if failures:
        Console(stderr=True).print("\n".join(failures), markup=False, highlight=False)
        sys.exit(1)


def _rows(found: "Evaluations") -> list[dict[str, Any]]:
    """For each threshold: mean and risk over the seeds, and how many hold."""
    rows: list[dict[str, Any]] = []
    for block in found.blocks:
        row: dict[str, Any] = {"variant": block.label} if block.label else {}
        row["mean"] = block.over_seeds("mean").to_dict()
        if bounds := block[0].bounds:
            row |= {"bound": bounds[0].name, "threshold": bounds[0].threshold}
            row["risk"] = [one.bounds[0].value for one in block]
            measured = all(bound.sums is not None for one in block for bound in one.bounds)
            held = sum(all(bound.holds for bound in one.bounds) for one in block)
            row["hold"] = held if measured else None
            row["verdicts"] = block.verdicts
        rows.append({**row, "n_seeds": found.n_seeds})
    return rows


def _going_on(command: str, out: Path) -> str:
    return f"downside {command} --resume --out {shlex.quote(str(out))}"


def _check_picture(option: str, file: Path) -> None:
    if file.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{option} is {file}; give a file that ends with .png, .svg or .pdf")
    if not file.parent.is_dir():
        raise ValueError(f"{option} is {file}, and there is no folder {file.parent}; make it first")


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def _print_json(document: Mapping[str, Any]) -> None:
    print(json.dumps(_plain(document), allow_nan=False))


def _plain(value: Any) -> Any:
    """As JSON holds it: None for what is not finite but inf, which is text."""
    inner: Any = value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in inner.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in inner]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if hasattr(value, "item"):
        return _plain(value.item())
    number = float(value)
    return number if math.isfinite(number) else "inf" if number > 0 else None
