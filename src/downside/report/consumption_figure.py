"""Fig. 5: mean, risk and multiplier while the consumption problem is learnt."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from downside.experiments.base import Results
from downside.experiments.consumption_claims import moving_average, window_of
from downside.report.style import BLUE, GREEN, N_POINTS, RED, STYLE, Look, thinned

LOOKS = (  # of the thresholds, in order
    Look(BLUE),
    Look(RED, dashes="--"),
    Look(GREEN, dashes="-."),
)
ROWS = {"mean": "mean return $J_R$", "risk": "risk $J_C$", "multiplier": "multiplier"}


def learning(results: Results) -> Figure:
    """A column for each preset: J_R, J_C and the multiplier against training episodes."""
    presets = results["presets"].tolist()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.1 * len(presets) + 0.4, 6.6), layout="constrained")
        grid = np.reshape(figure.subplots(3, len(presets), sharex="col", sharey="row"), (3, -1))
        for column, name in zip(grid.T, presets, strict=True):
            column[0].set_title(name)
            column[-1].set_xlabel("training episodes")
            column[-1].xaxis.set_major_locator(MaxNLocator(4))
            column[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            for axes, what in zip(column, ROWS, strict=True):
                _curves(axes, results, name, what)
        for axes, words in zip(grid[:, 0], ROWS.values(), strict=True):
            axes.set_ylabel(words)
        grid[1, 0].set_ylim(0.0, risk_top(results))
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return figure


def risk_top(results: Results) -> float:
    """Up to where the risk is drawn: what is bounded can be told apart, what is not runs out."""
    bounded = np.isfinite(results["thresholds"])
    risks = [results[f"risk: {name}"][bounded].mean(axis=1) for name in results["presets"]]
    return max(0.2, 1.5 * max(float(each.max()) for each in risks))


def _curves(axes: Axes, results: Results, name: str, what: str) -> None:
    """Moving averages: the mean over seeds and the middle 80%; the optimum and the bound."""
    episodes, curves = results[f"episodes: {name}"], results[f"{what}: {name}"]
    shown = thinned(len(episodes), N_POINTS)
    averages = moving_average(curves, window_of(curves.shape[-1]))[..., shown]
    episodes = episodes[shown]
    levels = {"mean": results["optimum"], "risk": results["thresholds"]}
    for i, (nu, average) in enumerate(zip(results["thresholds"], averages, strict=True)):
        colour, dash = LOOKS[i].colour, LOOKS[i].dashes
        bound = f"nu = {nu:g}" if np.isfinite(nu) else "no bound"
        low, high = np.quantile(average, [0.1, 0.9], axis=0)
        axes.fill_between(episodes, low, high, color=colour, alpha=0.18, lw=0)
        axes.plot(episodes, average.mean(axis=0), color=colour, ls=dash, lw=1.3, label=bound)
        if what in levels and np.isfinite(levels[what][i]):
            words = {"mean": f"optimum, {bound}", "risk": bound}[what]
            axes.axhline(levels[what][i], color=colour, lw=0.8, ls=":", label=words)
    axes.spines[["top", "right"]].set_visible(False)
