"""One HTML file about a training run: verdicts first, then how it learnt and what it reached."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from downside.agent import Agent
from downside.evaluation import Evaluations
from downside.evaluation.several import lead
from downside.frontiers import Frontier
from downside.report.charts import ALL, Axis, Json, Picker, learning_curves
from downside.report.page import document, panel_html
from downside.report.panels import Panel, inline
from downside.report.risk_pictures import training_words
from downside.report.style import N_POINTS

FIGURE = "learning"
Row = dict[str, Any]


def write_run_page(
    path: Path, agent: Agent, found: Evaluations, facts: Mapping[str, Any], command: str
) -> Path:
    """Write the page of a run; ``facts`` are how it was made, ``command`` makes it again."""
    path.write_text(run_page(agent, found, facts, command), encoding="utf-8")
    return path


def run_page(agent: Agent, found: Evaluations, facts: Mapping[str, Any], command: str) -> str:
    """The whole document."""
    title = f"{str(facts['algorithm']).upper()} on {facts['env']}"
    told = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(words)}</td></tr>"
        for name, words in _told(facts).items()
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet wide">{agent.steps:,} steps for each of {len(agent.theta)} policies; '
        f"judged on {found[0].n_episodes:,} fresh episodes each, "
        f"{'the most likely actions' if found[0].deterministic else 'actions sampled'}.</p>",
        _lines(agent, found),
        *map(panel_html, [_learning(agent), *_frontier(agent, found), *_pictures(found)]),
        "<h3>The numbers</h3>",
        f'<div class="panel scroll"><pre>{escape(str(found))}</pre></div>',
        f"<details><summary>how it was made</summary><table>{told}</table></details>",
        f'<p class="ran"><code>{escape(command)}</code></p>',
    ]
    return document(title, "\n".join(body))


def _told(facts: Mapping[str, Any]) -> dict[str, str]:
    """Names and values, the inner ones as outer.name."""
    flat: dict[str, str] = {}
    for name, value in facts.items():
        inner: Any = value
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": str(each) for key, each in inner.items()}
        elif value is not None:
            flat[name] = str(value)
    return flat


def _lines(agent: Agent, found: Evaluations) -> str:
    """A line for each bound, coloured by whether all seeds hold; for the mean where none is."""
    lines: list[tuple[str, str]] = []
    for block in found.blocks:
        words = lead(block.label)
        if not block[0].bounds:
            lines.append(("idle", f"{words}no bound; {block.mean_words}"))
        for j, verdict in enumerate(block.verdicts):
            held = [one.bounds[j].holds for one in block]
            unknown = any(one.bounds[j].sums is None for one in block)
            look = "holds" if all(held) else "correction" if any(held) else "fails"
            look = "undecided" if unknown else look
            lines.append((look, f"{words}{verdict}; {block.mean_words}"))
    lines += [("fails", words) for words in agent.failures()]
    items = "".join(f'<li class="{look}"><b>{escape(words)}</b></li>' for look, words in lines)
    return f'<ul class="lines" aria-label="The verdicts">{items}</ul>'


def _learning(agent: Agent) -> Panel:
    """Mean, risk against its bound and multiplier over training, and a picker of the threshold."""
    labels = labels_of(agent)
    picker = Picker("bound", "bound", {ALL: "all", **{name: name for name in labels}})
    pickers = [picker] if len(labels) > 1 else []
    records = agent.records
    steps = Axis("steps", "steps for each policy", form="~s")
    titles = {"mean": (training_words(agent), records.discounted, [])}
    for j in range(records.risks.shape[-1]):
        which = "" if j == 0 else f" {j + 1}"
        titles[f"risk{which}"] = (
            f"risk{which} of training episodes, and its bound",
            records.risks[..., j],
            _bounds(agent, labels, j),
        )
        titles[f"multiplier{which}"] = (f"multiplier{which}", records.multipliers[..., j], [])
    charts: list[Json] = []
    for name, (words, values, rules) in titles.items():
        rows = curves(np.asarray(records.steps)[:, 0], values, labels, agent.n_seeds)
        if rows:
            charts.append(
                learning_curves(
                    rows,
                    x=steps,
                    y=Axis("median", words, zero=name != "mean"),
                    line="bound",
                    figure=FIGURE,
                    alt_text=f"The {words}, over the steps, a line for each bound.",
                    pickers=pickers,
                    rules=rules,
                )
            )
    seeds = "" if agent.n_seeds == 1 else f" Lines are medians of {agent.n_seeds} seeds, bands all."
    return Panel("How it learnt", "From the records of the run." + seeds, FIGURE, pickers, charts)


def labels_of(agent: Agent) -> list[str]:
    """What each threshold's learners are called."""
    bounds = [
        "no bound" if not each else " and ".join(f"{float(c.threshold):.4g}" for c in each)
        for each in agent.constraints
    ]
    return [lead(label) + bound for label, bound in zip(agent.labels, bounds, strict=True)]


def curves(steps: np.ndarray, values: np.ndarray, labels: Sequence[str], n_seeds: int) -> list[Row]:
    """The median over seeds and the range of all, where an episode ended; a curve for each label.

    >>> curves(np.array([10, 20]), np.array([[1.0, 3.0, 4.0], [np.nan] * 3]), ["0.3"], n_seeds=3)
    [{'bound': '0.3', 'steps': 10, 'median': 3.0, 'low': 1.0, 'high': 4.0}]
    """
    rows: list[Row] = []
    for i, label in enumerate(labels):
        mine = values[:, i * n_seeds : (i + 1) * n_seeds]
        known = np.flatnonzero(~np.isnan(mine).all(axis=1))
        picked = known[np.unique(np.linspace(0, len(known) - 1, N_POINTS).astype(int))]
        low, median, high = (np.nanquantile(mine[picked], q, axis=1) for q in (0.0, 0.5, 1.0))
        for at, a, b, c in zip(steps[picked], low, median, high, strict=True):
            row: Row = {"bound": label, "steps": int(at), "median": float(b)}
            rows.append({**row, "low": float(a), "high": float(c)})
    return rows


def _bounds(agent: Agent, labels: Sequence[str], j: int) -> list[Row]:
    thresholds = [float(each[j].threshold) for each in agent.constraints]
    return [
        {"bound": label, "value": value, "label": f"bound {value:.4g}"}
        for label, value in zip(labels, thresholds, strict=True)
        if np.isfinite(value)
    ]


def _frontier(agent: Agent, found: Evaluations) -> list[Panel]:
    """Mean against risk, where several bounds on one risk were trained."""
    bounds = [float(e[0].threshold) if len(e) == 1 else np.nan for e in agent.constraints]
    known = all("proxy" in one.measures for one in found)
    if any(agent.variants) or len(bounds) < 2 or not np.all(np.isfinite(bounds)) or not known:
        return []
    upward = np.argsort(bounds, kind="stable").tolist()
    results = tuple(one for i in upward for one in found.blocks[i])
    thresholds = tuple(bounds[i] for i in upward)
    whole = Frontier(thresholds, Evaluations(results, found.n_seeds), agent, "")
    caption = "What each bound costs, and whether it holds; bands are all seeds."
    drawn = inline("frontier", whole.plot, caption, 40)
    drawn = drawn.replace("fill: #ffffff", "fill: var(--panel)")
    return [Panel("The frontier", caption, "frontier", picture=drawn)]


def _pictures(found: Evaluations) -> list[Panel]:
    """The distribution of returns; paths and drawdowns where rewards are log-returns."""
    panels = [
        _picture(
            found,
            "histogram",
            "Returns",
            "Returns of fresh episodes, all seeds of a bound together; the shortfall is shaded.",
        ),
        _picture(
            found,
            "probability",
            "How likely is less?",
            "The share of fresh episodes whose return is below x; bands are all seeds.",
        ),
    ]
    if found[0].episodes.drawdowns is not None and found[0].episodes.paths.size:
        panels += [
            _picture(found, "fan", "Paths", "The logarithm of wealth over an episode."),
            _picture(found, "underwater", "Drawdowns", "Wealth below its highest value so far."),
        ]
    return panels


def _picture(found: Evaluations, kind: Any, title: str, caption: str) -> Panel:
    least = 24 if len(found.blocks) == 1 else 40
    drawn = inline(kind, lambda: found.plot(kind=kind), caption, least)
    drawn = drawn.replace("fill: #ffffff", "fill: var(--panel)")  # behind legends, in the dark
    return Panel(title, caption, kind, picture=drawn)
