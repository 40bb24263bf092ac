"""The benchmark as one figure, from the JSON files that are there; nothing is computed anew."""

import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from downside.report.style import STYLE

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw(folder, name="benchmarks"):
    """Write FOLDER/benchmarks.png and .svg: a panel for each part that can be drawn."""
    found = {path.stem: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
    panels = [(panel, found[part]) for part, panel in PANELS if part in found]
    if not panels:
        return None
    with matplotlib.rc_context(STYLE):
        rows = -(-len(panels) // 2)
        figure = Figure(figsize=(11.0, 3.9 * rows), layout="constrained")
        axes = figure.subplots(rows, 2, squeeze=False).ravel()
        for each, (panel, document) in zip(axes, panels, strict=False):
            panel(each, document)
        for each in axes[len(panels) :]:
            each.set_axis_off()
        for kind in ("png", "svg"):
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(Path(folder) / f"{name}.{kind}", dpi=150, metadata=metadata)
    return figure


def _throughput(axes, document):
    """Time per learner-step on the portfolio, with the middle half of the turns."""
    rows = document["problems"]["portfolio"]["ns"]
    names = list(rows)[::-1]
    middle = np.array([rows[name]["median"] for name in names])
    sides = np.array([[rows[name]["low"], rows[name]["high"]] for name in names]).T
    colours = [COLOURS[0] if name.startswith("ours") else "0.6" for name in names]
    axes.barh(names, middle, xerr=np.abs(sides - middle), color=colours, height=0.7)
    axes.set(xscale="log", xlabel="ns per learner-step", title="(a)  training on the portfolio")


def _scaling(axes, document):
    """Time against each size, relative to the smallest."""
    for (axis, found), colour in zip(document["axes"].items(), COLOURS, strict=False):
        sizes = np.array([float(n) for n in found["seconds"]])
        times = np.array([row["median"] for row in found["seconds"].values()])
        label = f"{axis}: exponent {found['exponent']:.2f}"
        axes.plot(sizes / sizes[0], times / times[0], "o-", ms=3.5, color=colour, label=label)
    axes.set(xscale="log", yscale="log", title="(b)  scaling")
    axes.set(xlabel="size / smallest size", ylabel="time / time there")
    axes.legend(frameon=False)


def _libraries(problem, letter, unit):
    def panel(axes, document):
        """Mean against the bounded risk at the last shared budget: a point for each seed."""
        rows = [row for row in document["rows"] if row["problem"] == problem]
        rows = [row for row in rows if _budget(row, document) == document["budgets"][-1]]
        methods = list(dict.fromkeys(row["method"] for row in rows))
        for method, colour in zip(methods, COLOURS, strict=False):
            mine = [row for row in rows if row["method"] == method]
            risk, mean = ([row[what] for row in mine] for what in ("risk", "mean"))
            axes.plot(risk, mean, "o", ms=4.5, alpha=0.7, color=colour, label=method)
        for nu in sorted({row["threshold"] for row in rows if row["threshold"] is not None}):
            axes.axvline(nu, color="0.7", lw=0.8, zorder=0)
        steps = f"{document['budgets'][-1]:,} steps"
        axes.set(title=f"({letter})  {problem}, {steps}", xlabel="proxy (lines: its bounds)")
        axes.set(ylabel=unit, xscale="symlog" if problem == "consumption" else "linear")
        axes.legend(frameon=False, fontsize=7)

    return panel


def _budget(row, document):
    """The shared budget that a row belongs to: peers end whole rollouts, a little above it."""
    at_most = [b for b in document["budgets"] if row["steps"] >= b]
    last = document["budgets"][-1]
    return at_most[-1] if at_most and row["steps"] < 2 * last else None


PANELS = (
    ("throughput", _throughput),
    ("scaling", _scaling),
    ("libraries", _libraries("portfolio", "c", "mean return (log wealth)")),
    ("libraries", _libraries("consumption", "d", "mean return")),
)
