"""Pictures of evaluations, frontiers and training runs; each returns its figure."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from downside.agent import Agent
from downside.checks import check_choice
from downside.evaluation import Evaluation, Evaluations
from downside.evaluation.several import lead
from downside.frontiers import Frontier
from downside.report.style import BLUE, ORANGE, RED, STYLE

MOST_PANELS = 12
SHORT_LABEL = 20  # characters of which six fit beside each other
WIDEST = 84
"""Letters of a title in one line."""


def plot_evaluation(one: Evaluation, path: str | Path | None, kind: str) -> Figure:
    """A picture of one policy."""
    return plot_evaluations(Evaluations((one,)), path, kind)


def plot_evaluations(several: Evaluations, path: str | Path | None, kind: str) -> Figure:
    """A picture with the seeds of each threshold together: a panel each, or a curve each."""
    check_choice("kind", kind, (*_PANELS, "probability"))
    with matplotlib.rc_context(STYLE):
        if kind == "probability":
            figure = _probabilities(several)
        else:
            figure = _panels(several, _PANELS[kind])
        return _finish(figure, path)


def plot_frontier(frontier: Frontier, path: str | Path | None = None) -> Figure:
    """Mean against measured risk, and measured risk against its bound, with bands over seeds."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        _mean_and_risk(left, frontier)
        _risk_and_bound(right, frontier)
        name = frontier.evaluations[0].bounds[0].name
        held = sum(one.bounds[0].holds for one in frontier.evaluations)
        figure.suptitle(
            f"{name}: {held} of {len(frontier.evaluations)} policies hold their bound "
            f"({frontier.n_seeds} seeds for each of {len(frontier.thresholds)} thresholds)"
        )
        return _finish(figure, path)


def plot_training(agent: Agent, path: str | Path | None = None) -> Figure:
    """Mean, risk against its bound, and multiplier over training: medians, and all seeds between.

    The numbers are those of ``agent.records``, of the episodes the agent learnt from.
    """
    records, n_seeds = agent.records, agent.n_seeds
    if np.size(records.steps) == 0:
        raise ValueError("nothing was learnt yet: call agent.learn(total_timesteps) first")
    steps = np.asarray(records.steps)[:, 0]
    n_constraints = records.risks.shape[-1]
    blocks = [slice(i * n_seeds, (i + 1) * n_seeds) for i in range(len(agent.constraints))]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4 * (1 + min(n_constraints, 1) * 2), 3.6), layout="constrained")
        rows = figure.subplots(max(1, n_constraints), 1 + 2 * min(n_constraints, 1), squeeze=False)
        colours = _colours(len(blocks))
        for i, (mine, colour) in enumerate(zip(blocks, colours, strict=True)):
            bounds = [float(c.threshold) for c in agent.constraints[i]]
            bounded = f"threshold {bounds[0]:.3g}" if bounds else "no bound"
            label = lead(agent.labels[i]) + bounded
            _over_training(rows[0, 0], steps, records.discounted[:, mine], colour, label)
            for j, bound in enumerate(bounds):
                _over_training(rows[j, 1], steps, records.risks[:, mine, j], colour, label)
                _over_training(rows[j, 2], steps, records.multipliers[:, mine, j], colour, label)
                if np.isfinite(bound):
                    rows[j, 1].axhline(bound, color=colour, lw=0.9, ls="--")
        rows[0, 0].set(title=training_words(agent))
        for j in range(n_constraints):
            rows[j, 1].set(title="risk, and its bound (dashed)", ylim=(0, None))
            rows[j, 2].set(title="multiplier", ylim=(0, None))
            if np.nanmax(records.multipliers[..., j]) > 1e3:  # one without end hides the others
                rows[j, 2].set_yscale("symlog", linthresh=1.0)
        for axes in rows[-1]:
            axes.set_xlabel("steps for each policy")
        for axes in rows[1:, 0]:
            axes.set_axis_off()
        handles, labels = rows[0, 0].get_legend_handles_labels()
        columns = 6 if max(map(len, labels)) < SHORT_LABEL else 2
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        if n_seeds > 1:
            figure.suptitle(f"median of {n_seeds} seeds, and the range of all")
        return _finish(figure, path)


def training_words(agent: Any) -> str:
    """What the mean return of the training is called."""
    discounted = bool(np.any(np.asarray(agent.env.discount) != 1.0))
    return "mean return of training episodes" + (", discounted" if discounted else "")


def _panels(several: Evaluations, draw: Callable[[Axes, Evaluations], None]) -> Figure:
    blocks = several.blocks[:MOST_PANELS]
    columns = min(len(blocks), 3)
    rows = -(-len(blocks) // columns)
    size = (6.4, 4.0) if len(blocks) == 1 else (4.0 * columns, 3.2 * rows)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, block in zip(panels, blocks, strict=False):
        draw(axes, block)
        title = [*block.labels, *_verdict(block, short=len(blocks) > 1)]
        axes.set_title("\n".join(title), fontsize=8)
    for axes in panels[len(blocks) :]:
        axes.set_axis_off()
    return figure


def _histogram(axes: Axes, block: Evaluations) -> None:
    """Returns of all seeds, the shortfall shaded; target, VaR and CVaR as lines."""
    one, returns = block[0], _returns(block)
    edges = np.histogram_bin_edges(returns, bins=60)
    about = _about(block)
    heights, _ = np.histogram(returns, edges, density=True)
    axes.stairs(heights, edges, fill=True, color="0.8", lw=0)
    below = edges[1:] <= about
    inside = (edges[:-1] < about) & ~below
    axes.bar(
        edges[:-1][below | inside],
        heights[below | inside],
        np.minimum(edges[1:], about)[below | inside] - edges[:-1][below | inside],
        align="edge",
        color=ORANGE,
        alpha=0.75,
        lw=0,
        label="shortfall",
    )
    axes.axvline(about, color="black", lw=1.2, label=f"{_target_word(one)} {about:.3g}")
    for name, colour, dashes in (("var", BLUE, "--"), ("cvar", RED, ":")):
        value = float(np.mean([each.replicates[name][0] for each in block]))
        words = "VaR" if name == "var" else "CVaR"
        axes.axvline(value, color=colour, lw=1.4, ls=dashes, label=f"{words} at 5%: {value:.3g}")
    axes.set(xlabel=_return_words(one), ylabel="density", ylim=(0, 1.35 * heights.max()))
    # above what is drawn, and on a ground of its own where lines go through
    axes.legend(fontsize=8, loc="upper left", ncols=2, edgecolor="none", facecolor="white")


def _probabilities(several: Evaluations) -> Figure:
    """P(return < x), a curve for each threshold with all seeds between its thin lines."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    blocks = several.blocks
    for block, colour in zip(blocks, _colours(len(blocks)), strict=True):
        grid = np.unique(np.quantile(_returns(block), np.linspace(0.0, 1.0, 400)))
        curves = np.stack(
            [np.searchsorted(np.sort(one.episodes.returns), grid) / one.n_episodes for one in block]
        )
        if len(block) > 1:
            low, high = curves.min(axis=0), curves.max(axis=0)
            axes.fill_between(grid, low, high, color=colour, alpha=0.2, lw=0)
        label = (
            f"{block[0].bounds[0].name} <= {block[0].bounds[0].threshold:.3g}"
            if (len(blocks) > 1 and block[0].bounds)
            else "P(return < x)"
        )
        label = lead(block.label) + label
        axes.plot(grid, curves.mean(axis=0), color=colour, lw=1.4, label=label)
    about = _about(blocks[0])
    if len(blocks) == 1 or _target_word(several[0]) == "target":
        axes.axvline(about, color="black", lw=1.0, label=f"{_target_word(several[0])} {about:.3g}")
    axes.axhline(0.05, color="0.5", lw=0.8, ls="--", label="5%")
    axes.set(xlabel=_return_words(several[0]), ylabel="P(return < x)", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)
    if len(blocks) == 1:
        axes.set_title("\n".join(_verdict(blocks[0])), fontsize=8)
    return figure


def _fan(axes: Axes, block: Evaluations) -> None:
    """The reward summed so far: the middle 90% and 50% of the paths, and their median."""
    paths = _paths(block).cumsum(axis=1)
    paths = np.concatenate([np.zeros((len(paths), 1)), paths], axis=1)
    _bands(axes, paths, BLUE)
    wealth = block[0].episodes.drawdowns is not None
    axes.set(
        xlabel="step",
        ylabel="logarithm of wealth" if wealth else "rewards so far, not discounted",
    )
    axes.legend(frameon=False, fontsize=8, loc="best")


def _underwater(axes: Axes, block: Evaluations) -> None:
    """How far wealth is below its highest value so far, over the steps of an episode."""
    if block[0].episodes.drawdowns is None:
        raise ValueError(
            "drawdowns need rewards that are log-returns; if they are, say "
            "evaluate(log_returns=True)"
        )
    wealth = _paths(block).cumsum(axis=1)
    wealth = np.concatenate([np.zeros((len(wealth), 1)), wealth], axis=1)
    under = np.expm1(wealth - np.maximum.accumulate(wealth, axis=1))
    _bands(axes, 100.0 * under, RED)
    deepest = float(np.mean([one.replicates["drawdown"][0] for one in block]))
    axes.axhline(
        -100.0 * deepest,
        color="black",
        lw=0.9,
        ls="--",
        label=f"maximum drawdown, mean: {deepest:.1%}",
    )
    axes.set(xlabel="step", ylabel="below the highest wealth so far, %")
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=8, loc="lower right")


def _bands(axes: Axes, paths: np.ndarray, colour: str) -> None:
    steps = np.arange(paths.shape[1])
    low, lower, middle, upper, high = np.quantile(paths, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    axes.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0, label="5 to 95%")
    axes.fill_between(steps, lower, upper, color=colour, alpha=0.3, lw=0, label="25 to 75%")
    axes.plot(steps, middle, color=colour, lw=1.5, label="median")
    axes.set_xlim(0, steps[-1])


_PANELS: dict[str, Callable[[Axes, Evaluations], None]] = {
    "histogram": _histogram,
    "fan": _fan,
    "underwater": _underwater,
}


def _mean_and_risk(axes: Axes, frontier: Frontier) -> None:
    frame, summary = frontier.to_frame(), frontier.summary()
    risk, mean = (summary[name].to_numpy() for name in ("risk", "mean"))
    order = np.argsort(risk)
    shape = (-1, frontier.n_seeds)
    means = frame["mean"].to_numpy().reshape(shape)[order]
    axes.fill_between(
        risk[order], means.min(axis=1), means.max(axis=1), color=BLUE, alpha=0.18, lw=0
    )
    axes.scatter(frame["risk"], frame["mean"], s=12, color=BLUE, alpha=0.5, lw=0, label="seeds")
    axes.plot(risk[order], mean[order], color=BLUE, lw=1.3, marker="o", ms=3.5, label="their mean")
    worse = frontier.dominated
    if worse.any():
        at = risk[worse], mean[worse]
        axes.scatter(*at, s=55, marker="x", color=RED, zorder=4, label="dominated")
    if not frontier.feasible.all():
        lowest = float(frame["risk"].to_numpy().min())
        axes.axvspan(
            min(0.0, lowest), lowest, color="0.88", lw=0, zorder=0, label="no policy found"
        )
    axes.set(
        xlabel="measured risk (proxy)", ylabel=f"mean {_return_words(frontier.evaluations[0])}"
    )
    axes.set_title("what a bound costs")
    axes.legend(frameon=False, fontsize=8)


def _risk_and_bound(axes: Axes, frontier: Frontier) -> None:
    frame = frontier.to_frame()
    bounds = np.asarray(frontier.thresholds)
    risks = frame["risk"].to_numpy().reshape(-1, frontier.n_seeds)
    edge = max(float(bounds.max()), float(risks.max())) * 1.05
    axes.fill_between([0, edge], [0, edge], [edge, edge], color=ORANGE, alpha=0.15, lw=0)
    axes.plot([0, edge], [0, edge], color=ORANGE, lw=1.0, label="the bound; above it is broken")
    axes.fill_between(bounds, risks.min(axis=1), risks.max(axis=1), color=BLUE, alpha=0.18, lw=0)
    axes.scatter(np.repeat(bounds, frontier.n_seeds), risks, s=12, color=BLUE, alpha=0.5, lw=0)
    axes.plot(bounds, risks.mean(axis=1), color=BLUE, lw=1.3, marker="o", ms=3.5)
    lost = bounds[~frontier.feasible]
    if lost.size:
        found = bounds[frontier.feasible]
        until = (lost.max() + found.min()) / 2 if found.size and found.min() > lost.max() else None
        end = float(lost.max() if until is None else until)
        axes.axvspan(0, end, color="0.88", lw=0, zorder=0, label="no policy found that holds")
    axes.set(xlim=(0, float(bounds.max()) * 1.05 or None), ylim=(0, edge))
    axes.set(xlabel="threshold", ylabel="measured risk (proxy)", title="whether it holds")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _over_training(
    axes: Axes, steps: np.ndarray, values: np.ndarray, colour: Any, label: str
) -> None:
    """The median over seeds and the range of all, where an episode ended."""
    known = ~np.isnan(values).all(axis=1)
    low, middle, high = (np.nanquantile(values[known], q, axis=1) for q in (0.0, 0.5, 1.0))
    axes.fill_between(steps[known], low, high, color=colour, alpha=0.12, lw=0)
    axes.plot(steps[known], middle, color=colour, lw=1.3, label=label)
    axes.set_xlim(0, steps[-1])
    axes.ticklabel_format(axis="x", style="plain")


def _verdict(block: Evaluations, short: bool = False) -> list[str]:
    """In lines that fit above a picture."""
    if not short or not block[0].bounds:
        return [line for verdict in block.verdicts for line in wrap(verdict, WIDEST)]
    held = sum(one.bounds[0].holds for one in block)
    bound = block[0].bounds[0]
    risk = np.mean([one.bounds[0].value for one in block])
    return [f"bound {bound.threshold:.3g}, measured {risk:.3g}, {held} of {len(block)} seeds hold"]


def _finish(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        figure.savefig(path, dpi=200)
    return figure


def _returns(block: Sequence[Evaluation]) -> np.ndarray:
    return np.concatenate([one.episodes.returns for one in block])


def _paths(block: Sequence[Evaluation]) -> np.ndarray:
    """The paths of all seeds, filled up to the longest episode."""
    paths = [one.episodes.paths for one in block]
    if any(each.size == 0 for each in paths):
        raise ValueError("the rewards of single steps were not kept: give paths= to of_episodes")
    longest = max(each.shape[1] for each in paths)
    return np.concatenate([np.pad(each, ((0, 0), (0, longest - each.shape[1]))) for each in paths])


def _about(block: Sequence[Evaluation]) -> float:
    return float(np.mean([one.about for one in block]))


def _target_word(one: Evaluation) -> str:
    return "target" if one.target.guarantee.startswith("the proxy bounds the LPM") else "mean"


def _return_words(one: Evaluation) -> str:
    return "return" if one.discount == 1.0 else f"return, discounted by {one.discount:g}"


def _colours(n: int) -> list[Any]:
    if n == 1:
        return [BLUE]
    return list(matplotlib.colormaps["viridis"](np.linspace(0.3, 0.9, n)))  # seen in the dark too
