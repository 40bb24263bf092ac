"""The results of a study as one lazy scan over its folders, and their summary."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from downside.store import StoreError
from downside.studies.folder import is_intact, read_study, trial_folder
from downside.studies.study import Study, Trial

NUMBERS = [
    *("threshold", "order", "mean", "mean_low", "mean_high", "risk", "risk_low", "risk_high"),
    *("path_shortfall", "lpm", "about", "multiplier", "value", "low", "high"),
]
_AVERAGED = ("value", "risk", "meets", "multiplier")
SCHEMA: dict[str, Any] = {
    "trial": pl.String,
    "state": pl.String,
    "reason": pl.String,
    "learner": pl.Int64,
    "seed": pl.Int64,
    "seed_index": pl.Int64,
    "steps": pl.Int64,
    **dict.fromkeys(NUMBERS, pl.Float64),
    "meets": pl.Boolean,
    "name": pl.String,
    "verdict": pl.String,
}


def results_of(
    trial: Trial, state: str, reason: str, rows: Sequence[dict[str, Any]]
) -> pl.DataFrame:
    """The table of one trial; a trial without numbers is one row, with the reason."""
    common = {"trial": trial.id, "state": state, "reason": reason}
    filled = [{**common, **row} for row in rows or [{}]]
    return pl.DataFrame(
        {name: [row.get(name) for row in filled] for name in SCHEMA}, schema=SCHEMA, strict=False
    )


def collect(path: str | Path) -> pl.LazyFrame:
    """All results so far, lazily: a row per learner, claim or value, with the grid's values.

    Columns of the grid that the results have already are called ``grid_...``. Trials that are
    damaged are left out.
    """
    study = read_study(path)
    ended = [t for t in study.trials if is_intact(trial_folder(path, t), t)]
    present = [trial_folder(path, trial) / "results.parquet" for trial in ended]
    if not present:
        raise StoreError(f"{path} has no results yet; see: downside study status {path}")
    return pl.scan_parquet(present, glob=False).join(
        _grid(study).lazy(), on="trial", how="left", maintain_order="left"
    )


def _grid(study: Study) -> pl.DataFrame:
    names = list(dict.fromkeys(name for trial in study.trials for name in trial.values))
    columns: dict[str, Any] = {"trial": [trial.id for trial in study.trials]}
    for name in names:
        values = [trial.values.get(name) for trial in study.trials]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        shown = values if numbers else [v if isinstance(v, str) else json.dumps(v) for v in values]
        columns[f"grid_{name}" if name in SCHEMA else name] = shown
    return pl.DataFrame(columns, strict=False)


def summarise(path: str | Path) -> pl.DataFrame:
    """A row per setting: means over seeds with 95% intervals, share that meets the bound, failures.

    A setting is all that the trials vary but the seed. The interval is Student's over learners.
    Numbers of failed trials are in no mean: theirs may be of the training, or not finite.
    Trials that failed without a number have a row of their own only where their setting has none.
    """
    study = read_study(path)
    settings = [t.id.replace(f"/seed={json.dumps(t.values.get('seed'))}", "") for t in study.trials]
    named = pl.DataFrame({"trial": [t.id for t in study.trials], "setting": settings}).lazy()
    keys = ["setting", "threshold", "name"]
    rows = collect(path).join(named, on="trial", maintain_order="left")
    failed = pl.col("trial").filter(pl.col("state") == "failed").n_unique().over("setting")
    is_empty = pl.all_horizontal(pl.col("threshold", "name", "mean").is_null())
    table = (
        rows.with_columns(value=pl.coalesce("mean", "value"), failures=failed)
        .filter(~is_empty | is_empty.all().over("setting"))
        .with_columns(pl.when(pl.col("state") != "failed").then(pl.col(*_AVERAGED)).name.keep())
        .group_by(keys, maintain_order=True)
        .agg(
            n=pl.col("value").is_finite().sum(),
            mean=pl.col("value").filter(pl.col("value").is_finite()).mean(),
            spread=pl.col("value").filter(pl.col("value").is_finite()).std(),
            risk=pl.col("risk").filter(pl.col("risk").is_finite()).mean(),
            risk_spread=pl.col("risk").filter(pl.col("risk").is_finite()).std(),
            meet=pl.col("meets").cast(pl.Float64).mean(),
            multiplier=pl.col("multiplier").mean(),
            failures=pl.col("failures").first(),
        )
        .collect()
    )
    reach = pl.Series([_reach(n) for n in table["n"].to_list()], dtype=pl.Float64)
    table = table.with_columns(mean_reach=table["spread"] * reach)
    return table.with_columns(risk_reach=table["risk_spread"] * reach).drop("spread", "risk_spread")


def in_words(row: Mapping[str, Any]) -> dict[str, str]:
    """A row of the summary in words: mean and risk with intervals over seeds, and what meets it."""
    return {
        "setting": row["setting"],
        "value": row["name"] or "",
        "mean": _number(row, "mean"),
        "risk": _number(row, "risk"),
        "bound": _number(row, "threshold"),
        "meet it": "" if row["meet"] is None else f"{row['meet']:.0%}",
        "multiplier": _number(row, "multiplier"),
        "n": str(row["n"]),
        "failures": str(row["failures"] or ""),
    }


def _number(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return ""
    reach = row.get(f"{name}_reach")
    return f"{row[name]:.4g}" + (f" ± {reach:.2g}" if reach is not None else "")


def _reach(n: int) -> float | None:
    """Half of a 95% interval of a mean of n, in standard deviations of one."""
    if n < 2:
        return None
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975)) / math.sqrt(n)
