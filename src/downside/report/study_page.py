"""One HTML file about a study: what every setting reached, the frontier, and what failed."""

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from downside.report.frontier_chart import Risk, frontier
from downside.report.page import document, panel_html
from downside.report.panels import Panel
from downside.studies.collecting import collect, in_words, summarise
from downside.studies.folder import Fate, fates, read_study, trial_folder
from downside.studies.study import Study

FIGURE = "frontier"
MOST_POINTS = 5000
LONGEST_TRACEBACK = 4000
Row = dict[str, Any]


def study_page(folder: Path) -> str:
    """The whole document."""
    study = read_study(folder)
    found, summary = fates(folder, study), summarise(folder).to_dicts()
    states = [fate.state for fate in found.values()]
    words = f"{states.count('done')} of {len(states)} trials done, {states.count('failed')} failed."
    body = [
        f"<h1>Study {escape(study.name)}</h1>",
        f'<p class="quiet wide">{words} Intervals are of 95%, over seeds.</p>',
        _lines(summary),
        "<h3>Settings</h3>",
        _table([in_words(row) for row in summary]),
        *map(panel_html, _frontier(folder)),
        *_failures(folder, study, found),
        _made(study),
    ]
    return document(f"Study {study.name}", "\n".join(body))


def _lines(summary: list[Row]) -> str:
    """How many settings meet their bound with all seeds, with some, with none."""
    judged = [row["meet"] for row in summary if row["meet"] is not None and row["n"]]
    kinds = {
        "holds": ("meet their bound with every seed", [m for m in judged if m == 1.0]),
        "correction": ("meet it with some seeds", [m for m in judged if 0.0 < m < 1.0]),
        "fails": ("meet it with none", [m for m in judged if m == 0.0]),
    }
    lines = [(look, f"{len(those)} settings {words}") for look, (words, those) in kinds.items()]
    failed = sum(row["failures"] for row in summary)
    lines = lines if judged else []
    lines += [("fails", f"{failed} trials failed")] if failed else []
    items = "".join(f'<li class="{look}"><b>{escape(words)}</b></li>' for look, words in lines)
    return f'<ul class="lines" aria-label="The verdicts">{items}</ul>' if lines else ""


def _table(rows: list[dict[str, str]]) -> str:
    """A table with the columns that say something."""
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    head = "".join(f"<th>{escape(name)}</th>" for name in used)
    lines = [
        "<tr>" + "".join(f"<td>{escape(row[name])}</td>" for name in used) + "</tr>" for row in rows
    ]
    return f'<div class="panel scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _frontier(folder: Path) -> list[Panel]:
    """A point for every policy, where thresholds vary."""
    known = ("trial", "threshold", "seed", "mean", "risk", "lpm", "path_shortfall", "multiplier")
    table = collect(folder).select(known).filter(pl.col("threshold").is_finite()).collect()
    table = table.filter(pl.col("mean").is_finite() & pl.col("risk").is_finite())
    if table["threshold"].n_unique() < 2:
        return []
    rows = [{**row, "setting": line_of(row["trial"])} for row in table.to_dicts()]
    thinned = rows[:: -(-len(rows) // MOST_POINTS)]
    risks = [Risk("risk", "the risk that is bounded, measured", "mean", "mean return")]
    if table["lpm"].is_finite().all():
        risks.append(Risk("lpm", "LPM of the return", "mean", "mean return"))
    chart, picker = frontier(
        [{key: value for key, value in row.items() if value is not None} for row in thinned],
        risks=risks,
        label="setting",
        order="threshold",
        tooltips={
            "trial": "trial",
            "threshold": "bound",
            "risk": "risk",
            "mean": "mean",
            "multiplier": "multiplier",
        },
        figure=FIGURE,
        alt_text="Mean return against risk: a point for each policy, a line through the medians.",
    )
    words = "A point for each policy, judged on fresh episodes; lines go through the medians."
    return [Panel("The frontier", words, FIGURE, [picker] if len(risks) > 1 else [], [chart])]


def line_of(trial: str) -> str:
    """What the trials of a line have in common.

    >>> line_of("portfolio/threshold=0.2/order=1/seed=3")
    'portfolio/order=1'
    """
    return re.sub(r"/(threshold|seed)=[^/]*", "", trial)


def _failures(folder: Path, study: Study, found: Mapping[str, Fate]) -> list[str]:
    """Each failed trial with its reason and the end of its traceback."""
    parts: list[str] = []
    for trial in study.trials:
        fate = found[trial.id]
        if fate.state not in ("failed", "damaged"):
            continue
        place = trial_folder(folder, trial)
        lines = f"<li class='fails'><b>{escape(trial.id)}</b>: {escape(fate.reason)}"
        try:
            text = (place / "traceback.txt").read_text(errors="replace")[-LONGEST_TRACEBACK:]
            lines += f"<details><summary>traceback</summary><pre>{escape(text)}</pre></details>"
        except OSError:
            pass
        parts.append(f"{lines}<br><code>{escape(str(place))}</code></li>")
    return ["<h3>Failures</h3>", f'<ul class="lines">{"".join(parts)}</ul>'] if parts else []


def _made(study: Study) -> str:
    """What the trials have in common, and their limits."""
    first = study.trials[0]
    told = {**first.specification, **{f"limit: {k}": v for k, v in vars(study.limits).items()}}
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>"
        for name, value in told.items()
        if value is not None
    )
    title = f"the specification of the first trial, {escape(first.id)}"
    return f"<details><summary>{title}</summary><table>{lines}</table></details>"
