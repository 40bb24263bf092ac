"""A trial that trains an agent: learn in the trial's folder, then judge by fresh episodes."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from downside.agent import Agent
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
    """Mean and risk of every learner's policy over fresh episodes, against its bound.

    About the TD error nothing can be measured without the values, and where a learner is not
    ``sound`` its returns may not be finite; there the numbers are those of the last tenth of the
    training, without intervals.
    """
    rows: list[dict[str, Any]] = []
    constraints = [each[0] if each else None for each in agent.constraints]
    about_errors = any(c is not None and isinstance(c.target, TDError) for c in constraints)
    measured = sound and not about_errors
    numbers = agent.evaluate(specification["n_eval_episodes"]) if measured else []
    follows_lpm = specification["settings"].get("measure") == "lpm"
    for i in range(len(agent.theta)):
        constraint = constraints[i // agent.n_seeds]
        row = _common(agent, i, constraint)
        if measured:
            found = numbers[i]
            risk = found.lpm if follows_lpm else found.proxy
            row |= {"mean": found.mean.value, "mean_low": found.mean.low}
            row |= {"mean_high": found.mean.high, "lpm": found.lpm.value, "about": found.about}
            row |= {"path_shortfall": found.path_shortfall.value}
            if constraint is not None:
                row |= {"risk": risk.value, "risk_low": risk.low, "risk_high": risk.high}
        else:
            row |= _trained(agent, i)
        if constraint is not None:
            row["meets"] = bool(row["risk"] <= float(constraint.threshold))
        rows.append(row)
    return rows


def _common(agent: Agent, i: int, constraint: Constraint | None) -> dict[str, Any]:
    row: dict[str, Any] = {"learner": i, "seed": agent.seed, "seed_index": i % agent.n_seeds}
    row["steps"] = agent.steps
    if constraint is not None:
        row |= {"threshold": float(constraint.threshold), "order": float(constraint.order)}
        row["multiplier"] = float(agent.records.multipliers[-1, i, 0])
    return row


def _trained(agent: Agent, i: int) -> dict[str, Any]:
    records = agent.records
    last = slice(-max(1, len(records.steps) // 10), None)
    mean, risk = records.discounted[last, i], records.risks[last, i, 0]
    return {"mean": float(np.nanmean(mean)), "risk": float(np.nanmean(risk))}
