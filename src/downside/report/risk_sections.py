"""What the report shows of the experiments with bounds: the portfolio and consumption."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from downside.exact.portfolio import concave_hull
from downside.experiments.base import Results
from downside.experiments.consumption_claims import WINDOW, moving_average, window_of
from downside.report.charts import ALL, Axis, Json, Picker, learning_curves
from downside.report.consumption_figure import LOOKS as THRESHOLD_LOOKS
from downside.report.consumption_figure import risk_top
from downside.report.frontier_chart import Risk, frontier
from downside.report.panels import Panel, bound_words, still
from downside.report.portfolio_figure import LOOKS
from downside.report.style import N_POINTS, thinned

RISKS = (
    Risk("lpm", "LPM of order 1 of the return (log wealth)", "mean", "mean return (log wealth)"),
    Risk("minimum", "minimum return (log wealth)", "mean", "mean return (log wealth)"),
    Risk("quantile", "1% quantile of the return (log wealth)", "mean", "mean return (log wealth)"),
    Risk("proxy", "proxy: what is constrained", "discounted", "mean return, discounted"),
    Risk(
        "path shortfall",
        "path shortfall: what the proxy bounds",
        "discounted",
        "mean return, discounted",
    ),
)
TOOLTIPS = {
    "threshold": "threshold nu",
    "seed": "seed",
    "mean": "mean",
    "discounted": "mean, discounted",
    "lpm": "LPM",
    "proxy": "proxy",
    "path shortfall": "path shortfall",
    "minimum": "minimum",
    "quantile": "1% quantile",
}


def portfolio_panels(results: Results) -> list[Panel]:
    """Fig. 4, the proxy beside the LPM, and other methods."""
    risks = [risk for risk in RISKS if f"{risk.column}: figure" in results]
    presets = results["presets"].tolist()
    chart, picker = frontier(
        list(_policy_rows(results)),
        risks=risks,
        label="preset",
        order="place",
        tooltips=TOOLTIPS,
        figure="fig4",
        references=list(_reference_rows(results)),
        hull="proxy",
        looks={
            _preset_words(results, name): look for name, look in LOOKS.items() if name in presets
        },
        alt_text=(
            "Mean return against the picked measure of risk: a point for each learnt policy, a "
            "line for each preset through the medians at each threshold with a band, grey points "
            "for all policies of two numbers, a star for the one that never buys."
        ),
    )
    n_seeds = " or ".join(str(n) for n in sorted({_seeds(results, name) for name in presets}))
    two = (
        "LPM against proxy of all policies of two numbers; two policies of the same mean are "
        "marked, one with the lower proxy and the higher LPM."
    )
    methods = "Mean against proxy and against LPM, a line for each method."
    others = Panel(
        "Other methods on the same axes",
        "Lines through seed means, as many steps in each row. First row: other ways to solve the "
        "same problem; second: bounds on the LPM instead of the proxy; third: the paper's "
        "algorithm with one thing changed.",
        "portfolio-methods",
        picture=still("portfolio", "portfolio_methods", results, methods, least=40)
        if "variants" in results
        else "",
        files=["portfolio_methods"],
    )
    return [
        Panel(
            "Fig. 4: the frontier",
            f"A point is one learnt policy ({n_seeds} seeds at each threshold nu), measured over "
            f"{int(results['episodes']):,} fresh episodes; the line goes through the medians, "
            "the band holds the middle 80% of the means. Star: never buy. Grey: all 121 policies "
            "that order one number at the low rate and another at the high one; with the proxy to "
            "the right, their hull. Point at a policy for its numbers; a click in the legend picks "
            "out a preset.",
            "fig4",
            pickers=[picker],
            charts=[chart],
            files=["fig4_portfolio"],
        ),
        Panel(
            "A lower proxy need not mean a lower LPM",
            "All policies that order one number at the low rate and another at the high one. The "
            "two that are marked earn the same: the one with the lower proxy has the higher LPM.",
            "proxy-and-lpm",
            picture=still("portfolio", "proxy_and_lpm", results, two, least=30),
            files=["proxy_and_lpm"],
        ),
        *([others] if others.picture else []),
    ]


def _policy_rows(results: Results) -> Iterator[Json]:
    measures = [name for name in TOOLTIPS if name not in ("threshold", "seed")]
    for preset in map(str, results["presets"]):
        for k, nu in enumerate(results["thresholds"]):
            for seed in range(_seeds(results, preset)):
                yield {
                    "preset": _preset_words(results, preset),
                    "place": k,
                    "threshold": bound_words(nu),
                    "seed": seed,
                    **{name: results[f"{name}: {preset}"][k, seed] for name in measures},
                }


def _seeds(results: Results, preset: str) -> int:
    return results[f"mean: {preset}"].shape[1]


def _preset_words(results: Results, preset: str) -> str:
    return f"{preset}, {int(results[f'steps: {preset}']):,} steps"


def _reference_rows(results: Results) -> Iterator[Json]:
    measures = [name for name in TOOLTIPS if f"{name}: two numbers" in results]
    corners = concave_hull(results["proxy: two numbers"], results["discounted: two numbers"]).risk
    for i, (low, high) in enumerate(results["orders: two numbers"]):
        never = bool(low == high == 0)
        words = "never buy" if never else f"orders {low} (low rate), {high} (high rate)"
        numbers = {name: results[f"{name}: two numbers"][i] for name in measures}
        yield {"preset": words, "hull": numbers["proxy"] in corners, "star": never, **numbers}


CURVES = {
    "mean": "mean return J_R, evaluated",
    "risk": "risk J_C (the proxy), evaluated",
    "multiplier": "Lagrange multiplier",
}


def consumption_panels(results: Results) -> list[Panel]:
    """Fig. 5, and the bound on losses where it was trained."""
    presets = [str(name) for name in results["presets"]]
    names = sorted(presets, key=lambda name: (name != _shown_first(results), presets.index(name)))
    preset = Picker("preset", "preset:", {name: name for name in names})
    pickers = [preset, _threshold_picker(results)]
    learning = Panel(
        "Fig. 5: learning to consume",
        f"Mean over {results[f'mean: {presets[0]}'].shape[1]} seeds, moving average of "
        f"{WINDOW} evaluations or a third of them; bands hold the middle 80% of the seeds. "
        "Dashed lines: above, the exact optimum under the bound; in the middle, the bound nu. "
        "The risk without a bound grows beyond its panel.",
        "fig5",
        pickers=pickers,
        charts=_training_charts(results, "fig5", pickers),
        files=["fig5_consumption"],
    )
    return [learning, *([_capital_panel(results)] if "capital optimum" in results else [])]


def _capital_panel(results: Results) -> Panel:
    """The same for the target that sums to the initial wealth, as a preset of its own."""
    capital = {
        **results,
        "presets": np.array(["capital"]),
        "thresholds": results["capital thresholds"],
        "optimum": results["capital optimum"],
    }
    pickers = [_threshold_picker(capital)]
    shares = ", ".join(
        f"{share:.2f} at {nu:g}"
        for nu, share in zip(
            capital["thresholds"], results["final share: capital"].mean(axis=1), strict=True
        )
    )
    return Panel(
        "A bound on losses",
        "Preset recommended with a target that sums to the initial wealth, so that J_C bounds the "
        "LPM about it. Dashed lines: above, the best mean under the bound, by dynamic programming; "
        f"in the middle, the bound nu. The final policies put a share at risk of {shares}.",
        "capital",
        pickers=pickers,
        charts=_training_charts(capital, "capital", pickers),
    )


def _threshold_picker(results: Results) -> Picker:
    bounds = [bound_words(nu) for nu in results["thresholds"]]
    return Picker("threshold", "threshold nu:", {ALL: "all"} | {nu: nu for nu in bounds})


def _training_charts(results: Results, figure: str, pickers: Sequence[Picker]) -> list[Json]:
    presets = [str(name) for name in results["presets"]]
    bounds = [bound_words(nu) for nu in results["thresholds"]]
    return [
        learning_curves(
            list(_training_rows(results, presets, measure)),
            x=Axis("episodes", "training episodes", form=",d"),
            y=Axis(
                "value",
                title,
                zero=measure != "mean",
                top=risk_top(results) if measure == "risk" else None,
            ),
            line="nu",
            figure=figure,
            looks=dict(zip(map(_nu, results["thresholds"]), THRESHOLD_LOOKS, strict=True)),
            pickers=pickers,
            rules=list(_levels(results, bounds, measure)),
            alt_text=f"{title} against training episodes, a line for each threshold.",
            height=220,
        )
        for measure, title in CURVES.items()
    ]


def _shown_first(results: Results) -> str:
    """The paper's curves, if they were trained until a bound was felt, else ours."""
    felt = results["multiplier: figure"].max() > 0
    return "figure" if felt else "recommended"


def _training_rows(results: Results, presets: Sequence[str], measure: str) -> Iterator[Json]:
    for preset in presets:
        episodes = results[f"episodes: {preset}"]
        curves = moving_average(results[f"{measure}: {preset}"], window_of(len(episodes)))
        middle = curves.mean(axis=1)
        low, high = np.quantile(curves, [0.1, 0.9], axis=1)
        for k, nu in enumerate(results["thresholds"]):
            common = {"preset": preset, "threshold": bound_words(nu), "nu": _nu(nu)}
            for i in thinned(len(episodes), N_POINTS):
                yield {
                    "episodes": int(episodes[i]),
                    "value": middle[k, i],
                    "low": low[k, i],
                    "high": high[k, i],
                    **common,
                }


def _levels(results: Results, bounds: Sequence[str], measure: str) -> Iterator[Json]:
    """What a curve may be held against: the exact optimum, and the bound."""
    for nu, words, best in zip(results["thresholds"], bounds, results["optimum"], strict=True):
        if measure == "mean":
            row = {"value": best, "label": f"optimum, {_nu(nu)}"}
        elif measure == "risk" and np.isfinite(nu):
            row = {"value": nu, "label": f"bound, {_nu(nu)}"}
        else:
            continue
        yield row | {"threshold": words, "nu": _nu(nu)}


def _nu(threshold: Any) -> str:
    return f"nu = {threshold:g}" if np.isfinite(threshold) else "no bound"
