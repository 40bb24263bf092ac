"""A trial that trains an agent: learn in the trial's folder, then judge by fresh episodes."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from downside.agent import Agent
from downside.evaluation import Evaluation
from downside.signals import Constraint, TDError
from downside.specification import make_agent
from downside.store.npz import write_npz
from downside.training.keeping import table


def run_training(
    specification: dict[str, Any], folder: Path
) -> tuple[list[dict[str, Any]], dict[str, bytes], str]:
    """Rows of numbers by learner, the files to keep, and what went wrong.

    The training is kept in ``folder/run``, so that one that was stopped goes on with the same bits.
    """
    inner = {k: v for k, v in specification.items() if k not in ("devices", "gpus")}
    agent = make_agent(inner, folder=folder / "run")
    agent.learn(specification["total_timesteps"], progress_bar=True)
    failures = agent.failures()
    policy, records = io.BytesIO(), io.BytesIO()
    write_npz(policy, {"theta": agent.theta})
    table(agent.records).write_parquet(records)
    kept = {"policy.npz": policy.getvalue(), "records.parquet": records.getvalue()}
    rows = learner_rows(agent, specification, sound=not failures)
    return rows, kept, "; ".join(failures)


def learner_rows(
    agent: Agent, specification: dict[str, Any], *, sound: bool = True
) -> list[dict[str, Any]]:
    """Mean and risk of every learner's policy over fresh episodes, against its bounds.

    The columns are those of the first constraint; ``meets`` says whether all of them are met. About
    the TD error nothing can be measured without the values, and where a learner is not ``sound``
    its returns may not be finite; there the numbers are those of the last tenth of the training,
    without intervals.
    """
    rows: list[dict[str, Any]] = []
    firsts = [each[0] if each else None for each in agent.constraints]
    about_errors = any(c is not None and isinstance(c.target, TDError) for c in firsts)
    measured = sound and not about_errors
    n_episodes = specification["n_eval_episodes"]
    numbers = agent.evaluate(n_episodes) if measured else [None] * len(agent.theta)
    follows_lpm = specification["settings"].get("measure") == "lpm"
    others = agent.constraints[0][1:] if measured and follows_lpm else ()
    lpms = [agent.evaluate(n_episodes, target=c.target, order=c.order) for c in others]
    for i, found in enumerate(numbers):
        constraints = agent.constraints[i // agent.n_seeds]
        row = _common(agent, i, constraints)
        if found is None:
            row["mean"] = _trained(agent, agent.records.discounted[:, i])
        else:
            row |= {"mean": found.mean.value, "mean_low": found.mean.low}
            row |= {"mean_high": found.mean.high, "lpm": found.lpm.value, "about": found.about}
            row |= {"path_shortfall": found.path_shortfall.value}
        if constraints:
            risks = [_risk(agent, found, i, k) for k in range(len(constraints))]
            risks[1:] = [each[i].lpm.value for each in lpms] or risks[1:]
            row["risk"] = risks[0]
            if found is not None:
                risk = found.lpm if follows_lpm else found.proxy
                row |= {"risk": risk.value, "risk_low": risk.low, "risk_high": risk.high}
            met = zip([row["risk"], *risks[1:]], constraints, strict=True)
            row["meets"] = all(risk <= float(each.threshold) for risk, each in met)
        rows.append(row)
    return rows


def _common(agent: Agent, i: int, constraints: tuple[Constraint, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {"learner": i, "seed": agent.seed, "seed_index": i % agent.n_seeds}
    row["steps"] = agent.steps
    if constraints:
        first = constraints[0]
        row |= {"threshold": float(first.threshold), "order": float(first.order)}
        row["multiplier"] = float(agent.records.multipliers[-1, i, 0])
    return row


def _risk(agent: Agent, found: Evaluation | None, i: int, k: int) -> float:
    """The risk of learner i's constraint k: of fresh episodes where they can tell it."""
    if found is not None and not math.isnan(value := found.bounds[k].value):
        return value
    return _trained(agent, agent.records.risks[:, i, k])


def _trained(agent: Agent, numbers: np.ndarray) -> float:
    """The mean over the last tenth of the training."""
    return float(np.nanmean(numbers[-max(1, len(agent.records.steps) // 10) :]))
