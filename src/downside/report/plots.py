"""Pictures of single results, for the users' own problems."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from downside.estimation import RiskEstimate
from downside.report.style import STYLE


def plot_estimate(estimate: RiskEstimate, path: str | Path | None = None) -> Figure:
    """The proxy as it was learnt, seed by seed, beside that of fresh episodes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.subplots()
        steps, curve = estimate.steps, estimate.curve
        axes.plot(steps, curve, color="0.75", linewidth=0.7, zorder=1)
        axes.plot([], [], color="0.75", linewidth=0.7, label=f"{curve.shape[1]} seeds")
        axes.plot(steps, curve.mean(axis=1), color="tab:blue", label="learnt, mean over seeds")
        fresh = estimate.fresh.proxy
        axes.axhspan(fresh.low, fresh.high, color="tab:orange", alpha=0.25, linewidth=0)
        name = f"{estimate.fresh.n_episodes} fresh episodes, 95% interval"
        axes.axhline(fresh.value, color="tab:orange", label=name)
        low, high = np.min([curve[-1].min(), fresh.low]), np.max([curve[-1].max(), fresh.high])
        reach = 1.5 * max(high - low, 1e-9)
        axes.set_ylim(max(low - reach, min(0.0, curve.min())), high + reach)
        axes.set(xlabel="environment steps per seed", ylabel="risk proxy at the start")
        axes.set_title(f"learnt by {estimate.method}")
        axes.legend(frameon=False)
        if path is not None:
            figure.savefig(path, dpi=200)
        return figure
