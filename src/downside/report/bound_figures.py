"""What the proxy bounds and what it does not, in two pictures."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from downside.experiments.base import Results
from downside.experiments.portfolio_claims import CAREFUL, EVEN
from downside.experiments.theory import ROUNDING
from downside.report.style import BLUE, RED, STYLE

HOLDS, BROKEN = BLUE, RED


def slack(results: Results) -> Figure:
    """Proxy less LPM on random MDPs, a row for each target: to the left of 0 there is no bound."""
    names = [name for name in results if name.startswith("bound: ")]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 0.9 + 0.42 * len(names)), layout="constrained")
        axes = figure.subplots()
        rng = np.random.default_rng(0)  # where a point stands within its row
        for row, name in enumerate(names):
            values = results[name]
            broken = values < -ROUNDING
            heights = row + rng.uniform(-0.3, 0.3, values.size)
            for which, colour in ((~broken, HOLDS), (broken, BROKEN)):
                axes.scatter(
                    values[which],
                    heights[which],
                    s=3,
                    color=colour,
                    alpha=0.5,
                    lw=0,
                    rasterized=True,
                )
            axes.text(
                1.01,
                row,
                f"{broken.mean():.0%} violate it" if broken.any() else "none violates it",
                transform=axes.get_yaxis_transform(),
                va="center",
                color=BROKEN if broken.any() else HOLDS,
            )
        axes.axvline(0.0, color="0.25", lw=0.8)
        axes.set_yticks(range(len(names)), [name.removeprefix("bound: ") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("proxy less LPM (last row: less path shortfall)")
        return figure


def proxy_and_lpm(results: Results) -> Figure:
    """The two-number policies of the portfolio: LPM against proxy, and two of the same mean."""
    proxy, lpm, mean = (results[f"{what}: two numbers"] for what in ("proxy", "lpm", "mean"))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.6, 4.0), layout="constrained")
        axes = figure.subplots()
        points = axes.scatter(proxy, lpm, c=mean, s=22, cmap="viridis")
        figure.colorbar(points, ax=axes, label="mean return (log wealth)")
        for pair, shift in ((CAREFUL, (-6, 12)), (EVEN, (14, -16))):
            at = np.flatnonzero((results["orders: two numbers"] == pair).all(axis=1))[0]
            place = (float(proxy[at]), float(lpm[at]))
            axes.scatter(*place, s=90, facecolor="none", edgecolor=BROKEN, lw=1.5)
            axes.annotate(
                f"orders {pair}, mean {mean[at]:.2f}",
                place,
                xytext=shift,
                textcoords="offset points",
                color=BROKEN,
            )
        axes.set(xlabel="proxy, discounted", ylabel="LPM of order 1 (log wealth)")
        axes.margins(0.08)
        return figure
