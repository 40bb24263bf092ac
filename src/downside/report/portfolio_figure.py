"""Fig. 4: the learnt frontier of the portfolio, beside all two-number policies."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from downside.experiments.base import Results
from downside.experiments.portfolio_comparisons import best_known, two_number_hull
from downside.report.style import BLUE, GREEN, INK, PURPLE, RED, SKY, STYLE, Look

LOOKS = {
    "printed": Look(PURPLE, "x"),
    "figure": Look(BLUE, "o"),
    "recommended": Look(RED, "^"),
    "RCPO": Look(GREEN, "s"),
}
PANELS = (  # title, what is to the right, its label, what is upward
    ("(a)  mean and LPM", "lpm", "LPM of order 1 of the return (log wealth)", "mean"),
    ("(b)  mean and minimum", "minimum", "minimum return in {n:,} episodes (log wealth)", "mean"),
    ("(c)  what is constrained", "proxy", "proxy, discounted", "discounted"),
)
METHODS = (  # rows of the figure of methods: the preset, and what is beside it
    (
        "recommended",
        ("RCPO", "Monte-Carlo", "fixed multipliers", "learnt mean reward", "rewards x 10"),
    ),
    ("recommended", ("LPM measured", "LPM itself")),
    (
        "figure, shorter",
        ("figure, rewards x 10", "figure, no pre-training", "figure, not normalised"),
    ),
)
LINES = (  # of the preset, then of what is beside it
    Look(RED, "^"),
    Look(GREEN, "s"),
    Look(BLUE, "o"),
    Look(INK, "D"),
    Look(PURPLE, "x"),
    Look(SKY, "v"),
)
UPWARD = {"mean": "mean return (log wealth)", "discounted": "mean return, discounted"}


def frontier(results: Results) -> Figure:
    """Mean against LPM, minimum and proxy: a point for each seed, a line through the medians."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 4.0), layout="constrained")
        for axes, (title, x, label, y) in zip(figure.subplots(1, 3), PANELS, strict=True):
            _references(axes, results, x, y)
            for name in results["presets"].tolist():
                _preset(axes, results, name, x, y)
            axes.set(title=title, ylabel=UPWARD[y])
            axes.set_xlabel(label.format(n=int(results["episodes"])))
        handles, labels = figure.axes[2].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        return figure


def methods(results: Results) -> Figure:
    """Mean against proxy and against LPM, a row for each group of methods: seed means."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 3.7 * len(METHODS)), layout="constrained")
        for row, (preset, others) in zip(
            figure.subplots(len(METHODS), 2, squeeze=False), METHODS, strict=True
        ):
            names = [n for n in (preset, *others) if f"mean: {n}" in results]
            for axes, (_, x, label, y) in zip(row, (PANELS[2], PANELS[0]), strict=True):
                _references(axes, results, x, y)
                for name, look in zip(names, LINES, strict=False):
                    xs, ys = (results[f"{what}: {name}"].mean(axis=1) for what in (x, y))
                    style = {"marker": look.marker, "color": look.colour, "label": name}
                    axes.plot(xs, ys, ms=4, lw=1.1, **style)
                axes.set(xlabel=label, ylabel=UPWARD[y])
            row[0].legend(frameon=False, loc="lower right")
        return figure


def _references(axes: Axes, results: Results, x: str, y: str) -> None:
    """All two-number policies, the one that never buys, and hulls where mixing is linear."""
    xs, ys = (results[f"{what}: two numbers"] for what in (x, y))
    never = (results["orders: two numbers"] == 0).all(axis=1)
    axes.scatter(xs, ys, s=7, color="0.78", lw=0, zorder=1, label="two-number policies")
    axes.scatter(xs[never], ys[never], s=70, marker="*", color="black", zorder=4, label="never buy")
    if x == "proxy":
        hull, known = two_number_hull(results), best_known(results)
        axes.plot(hull.risk, hull.mean, color="0.45", lw=1.0, zorder=2, label="their hull")
        axes.plot(known.risk, known.mean, "k:", lw=1.0, zorder=2, label="best known")


def _preset(axes: Axes, results: Results, name: str, x: str, y: str) -> None:
    """Points per seed; median over seeds at each threshold, with the middle 80% of the mean."""
    colour, marker = LOOKS[name].colour, LOOKS[name].marker
    xs, ys = results[f"{x}: {name}"], results[f"{y}: {name}"]
    low, middle, high = np.quantile(ys, [0.1, 0.5, 0.9], axis=1)
    across = np.median(xs, axis=1)
    order = np.argsort(across)
    band = across[order], low[order], high[order]
    axes.fill_between(*band, color=colour, alpha=0.18, lw=0, zorder=2)
    axes.scatter(xs, ys, s=11, marker=marker, color=colour, alpha=0.55, lw=0.6, zorder=3)
    steps = int(results[f"steps: {name}"])
    label = f"{name}, {steps:,} steps"
    axes.plot(across, middle, marker=marker, ms=3.5, color=colour, lw=1.3, zorder=3, label=label)
