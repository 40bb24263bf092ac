"""The paper's figures, drawn from saved results and written as PNG, SVG and PDF."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from downside.experiments.base import Results, load_results
from downside.report.bound_figures import proxy_and_lpm, slack
from downside.report.consumption_figure import learning
from downside.report.portfolio_figure import frontier, methods
from downside.report.style import BLUE, GREY, INK, ORANGE, RED, SKY, STYLE, Look


def draw(experiment: str, folder: Path) -> list[Path]:
    """Draw every figure of an experiment into its folder; returns the files."""
    results = load_results(folder)
    return [
        path
        for name in drawn(experiment, results)
        for path in save(FIGURES[experiment][name](results), folder / name)
    ]


def drawn(experiment: str, results: Results) -> list[str]:
    """The figures of an experiment for which a run of this scale left numbers."""
    return [name for name in FIGURES[experiment] if name not in NEEDS or NEEDS[name] in results]


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG, SVG and PDF, without dates, so that equal results give equal files."""
    paths = [stem.with_suffix(f".{kind}") for kind in ("png", "svg", "pdf")]
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context(STYLE):
        for path in paths:
            figure.savefig(path, dpi=200, bbox_inches="tight", metadata=undated[path.suffix])
    return paths


def tree(results: Results) -> Figure:
    """Fig. 1: two choices, each worth +1 or -1."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.8))
        axes = figure.subplots()
        nodes = {
            r"$s_0$": (0.0, 0.0),
            r"$s_\rightarrow$": (2.6, 0.0),
            r"$s_\leftarrow$": (-2.6, 0.0),
            r"$s_{\rightarrow\uparrow}$": (5.2, 1.0),
            r"$s_{\rightarrow\downarrow}$": (5.2, -1.0),
            r"$s_{\leftarrow\uparrow}$": (-5.2, 1.0),
            r"$s_{\leftarrow\downarrow}$": (-5.2, -1.0),
        }
        places = np.array(list(nodes.values()))
        axes.scatter(*places.T, s=900, facecolor="none", edgecolor="0.25", zorder=2)
        for text, place in nodes.items():
            axes.text(*place, text, ha="center", va="center")
        edges = [(0, 1, 1), (0, 2, 1), (1, 3, 2), (1, 4, 2), (2, 5, 2), (2, 6, 2)]
        for start, end, choice in edges:
            good = end in (1, 3, 5)
            probability = rf"\theta_{choice}" if good else rf"1-\theta_{choice}"
            _edge(axes, places[start], places[end], f"${probability}$:  $r = {1 if good else -1}$")
        axes.set(xlim=(-5.8, 5.8), ylim=(-1.6, 1.6), aspect="equal")
        axes.axis("off")
        return figure


def _edge(axes: Axes, start: np.ndarray, end: np.ndarray, text: str) -> None:
    """An arrow with its label along it, above a rising or level arrow and below a falling one."""
    arrow = {"arrowstyle": "-|>", "shrinkA": 17, "shrinkB": 17, "color": "0.25"}
    axes.annotate("", (end[0], end[1]), (start[0], start[1]), arrowprops=arrow)
    run, rise = end - start
    above = rise >= 0
    x, y = (start + end) / 2
    axes.text(
        x,
        y + (0.1 if above else -0.1),
        text,
        rotation=float(np.degrees(np.arctan(rise / run))),
        rotation_mode="anchor",
        transform_rotates_text=True,
        ha="center",
        va="bottom" if above else "top",
        fontsize=8,
    )


def landscape(results: Results) -> Figure:
    """Fig. 2: moments of the return over (theta1, theta2), with their optima marked."""
    panels = {
        "variance": (r"(a)  $\mathbb{V}[G]$", -1.0, "minima"),
        "mean_variance": (r"(b)  $\mathbb{E}[G] - \mathbb{V}[G]$", 1.0, "local maxima"),
        "lpm": (r"(c)  $\mathbb{M}_-[G \mid 0]$", -1.0, "minima"),
        "mean_lpm": (r"(d)  $\mathbb{E}[G] - \mathbb{M}_-[G \mid 0]$", 1.0, "maximum"),
    }
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 3.1), layout="constrained")
        for axes, (name, (title, sign, what)) in zip(
            figure.subplots(1, 4, sharey=True), panels.items(), strict=True
        ):
            values = sign * results[f"panel_{name}"]
            grid = np.linspace(0.0, 1.0, len(values))
            # theta1 runs along the first axis of the results and to the right in the picture
            surface = axes.imshow(
                values.T, origin="lower", extent=(0.0, 1.0, 0.0, 1.0), cmap="viridis"
            )
            axes.contour(grid, grid, values.T, levels=9, colors="white", linewidths=0.4, alpha=0.6)
            optima = grid[results[f"optima_{name}"]]
            _mark(axes, optima, what)
            axes.set(title=title, xlabel=r"$\theta_1$", aspect="equal", xticks=[0, 0.5, 1])
            axes.set_yticks([0, 0.5, 1])
            figure.colorbar(surface, ax=axes, shrink=0.8)
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.42), frameon=False)
        figure.axes[0].set_ylabel(r"$\theta_2$")
        return figure


def _mark(axes: Axes, optima: np.ndarray, what: str) -> None:
    """Dots for single optima; a band where a whole edge is optimal."""
    along_edges = len(optima) > 4
    axes.scatter(
        *optima.T,
        s=14 if along_edges else 40,
        color="tab:red" if along_edges else "white",
        edgecolor="none" if along_edges else "black",
        clip_on=False,
        zorder=3,
        label=f"{what}: both edges" if along_edges else what,
    )


ESTIMATES = (  # of the methods, in order
    Look(RED),
    Look(BLUE),
    Look(SKY, dashes=":"),
    Look(ORANGE),
    Look(INK, dashes="--"),
)


def learning_curves(results: Results) -> Figure:
    """Error of the estimated proxy of order 1 against samples, a panel for each problem."""
    problems, methods = results["problems"], results["methods"]
    n_rows = -(-len(problems) // 3)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 0.6 + 3.0 * n_rows), layout="constrained")
        panels = figure.subplots(n_rows, 3, squeeze=False).flat
        for axes, name in zip(panels, problems, strict=False):
            counts, (low, middle, high) = results[f"counts: {name}"], results[f"rmse: {name}"][:, 0]
            for j, (method, look) in enumerate(zip(methods, ESTIMATES, strict=False)):
                colour, label = look.colour, str(method)
                axes.fill_between(counts, low[j], high[j], color=colour, alpha=0.15, lw=0)
                axes.plot(counts, middle[j], look.dashes, color=colour, lw=1.4, label=label)
            for tolerance in (0.05, 0.1):
                axes.axhline(tolerance, color="0.6", lw=0.6, zorder=0)
            axes.set(xscale="log", yscale="log", title=str(name), xlabel="environment steps")
            axes.set_yticks([0.01, 0.05, 0.1, 0.5, 1.0], ["1%", "5%", "10%", "50%", "100%"])
            axes.set_yticks([], minor=True)
            axes.set_ylim(0.008, 1.6)
        for axes in list(panels):
            axes.axis("off")
        figure.supylabel("root mean square relative error")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=len(methods), frameon=False
        )
        return figure


def target_noise(results: Results) -> Figure:
    """Squared coefficient of variation of the TD targets of q and of the proxy, by problem."""
    problems = results["problems"]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.2), layout="constrained")
        axes = figure.subplots()
        for j, what in enumerate(("q", "proxy of order 1", "proxy of order 2")):
            spreads = [
                np.mean(
                    results[f"target variances: {name}"].mean(axis=1)[:, j]
                    / results[f"target means: {name}"].mean(axis=1)[:, j] ** 2
                )
                for name in problems
            ]
            places = np.arange(len(problems)) + 0.27 * (j - 1)
            axes.bar(places, spreads, 0.25, label=what, color=(GREY, BLUE, RED)[j])
        axes.set_xticks(np.arange(len(problems)), [str(p).replace(" ", "\n", 1) for p in problems])
        axes.set(yscale="log", ylabel="variance / squared mean\nof the TD targets")
        axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return figure


ARMS = {  # colours as in the paper; dashes for those who cannot tell blue from purple
    "arm A": Look("#D62728", dashes="--"),
    "arm B": Look("#1F77B4", dashes=":"),
    "arm C": Look("#9467BD"),
}
GOAL_TITLES = (
    r"$\mathbb{E}[R]$",
    r"$\mathbb{E}[R] - 2\,\mathbb{M}_-[R]$",
    r"$\mathbb{E}[R] - \mathbb{M}_-^2[R]$",
)
METHODS = {
    "printed": Look(GREY),
    "figure": Look(BLUE),
    "figure, exact tau": Look(BLUE, dashes=":"),
    "fast": Look(RED),
    "fast, exact tau": Look(RED, dashes=":"),
    "Monte-Carlo, 100": Look(ORANGE),
    "Monte-Carlo, 100, tau held": Look(ORANGE, dashes=":"),
    "Monte-Carlo, 10000": Look(INK, dashes="--"),
}


def arm_probabilities(results: Results) -> Figure:
    """Fig. 3: the probability of each arm against samples, a row for each preset."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.6), layout="constrained")
        rows = figure.subplots(3, 3, sharey=True, sharex="row")
        for row, name in zip(rows, ("printed", "figure", "fast"), strict=True):
            counts = np.append(0, results[f"counts: {name}"])
            for j, axes in enumerate(row):
                start = np.full((1, 3), 1 / 3)  # before the first sample
                low, high, mean = (
                    np.append(start, curve, axis=0)
                    for curve in (*results[f"band: {name}"][j], results[f"mean: {name}"][j])
                )
                for arm, (label, look) in enumerate(ARMS.items()):
                    colour, dashes = look.colour, look.dashes
                    axes.fill_between(
                        counts, low[:, arm], high[:, arm], color=colour, alpha=0.15, lw=0
                    )
                    axes.plot(counts, mean[:, arm], dashes, color=colour, lw=1.4, label=label)
                axes.set(ylim=(-0.02, 1.02), xlim=(0, counts[-1]))
            row[0].set_ylabel(f"{name}\nprobability")
        for axes, title in zip(rows[0], GOAL_TITLES, strict=True):
            axes.set_title(title)
        for axes in rows[1:].flat:
            axes.axvline(5000, color="0.6", lw=0.6, zorder=0)
        rows[1, 0].set_xlim(0, min(8000, results["counts: figure"][-1]))
        rows[2, 0].set_xlim(0, min(3000, results["counts: fast"][-1]))
        rows[2, 1].set_xlabel("samples")
        handles, labels = rows[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return figure


def trials_right(results: Results) -> Figure:
    """The share of trials with p(right arm) > 0.95 against samples, every method on one axis."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 3.6), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for j, (axes, title) in enumerate(zip(panels, GOAL_TITLES, strict=True)):
            for name, look in METHODS.items():
                if name not in results["methods"]:
                    continue
                counts, share = results[f"counts: {name}"], results[f"share: {name}"][j]
                line = {"color": look.colour, "ls": look.dashes, "label": name, "lw": 1.4}
                axes.plot(counts, share, drawstyle="steps-post", **line)
            axes.axhline(0.95, color="0.6", lw=0.6, zorder=0)
            axes.set(xscale="log", title=title, xlabel="samples", ylim=(-0.02, 1.02))
        panels[0].set_ylabel("share of trials with\np(right arm) > 0.95")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        return figure


FIGURES: dict[str, dict[str, Callable[[Results], Figure]]] = {
    "landscape": {"fig1_tree": tree, "fig2_landscape": landscape, "bound": slack},
    "bandit": {"fig3_bandit": arm_probabilities, "bandit_samples": trials_right},
    "portfolio": {
        "fig4_portfolio": frontier,
        "portfolio_methods": methods,
        "proxy_and_lpm": proxy_and_lpm,
    },
    "consumption": {"fig5_consumption": learning},
    "prediction": {"samples": learning_curves, "targets": target_noise},
}
NEEDS = {"portfolio_methods": "variants"}  # what a figure needs that not every scale leaves
