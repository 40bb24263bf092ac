"""What the report shows of each experiment, from its saved results."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from downside.exact.portfolio import concave_hull
from downside.experiments.base import Results
from downside.experiments.consumption_claims import WINDOW, moving_average, window_of
from downside.report.charts import ALL, Axis, Json, Picker, Risk, frontier, learning_curves
from downside.report.figures import FIGURES
from downside.report.style import STYLE

N_POINTS = 120  # of a curve; more do not show on a screen


@dataclass(frozen=True)
class Panel:
    """A figure of the report: charts that share pickers, or a static picture.

    ``files`` is the stem of the static files that stand beside the report.
    """

    title: str
    caption: str
    figure: str
    pickers: Sequence[Picker] = ()
    charts: Sequence[Json] = ()
    picture: str = ""
    files: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Section:
    """An experiment: its heading, what it is about in two sentences, and its panels."""

    title: str
    about: str
    panels: Callable[[Results], list[Panel]]


def still(experiment: str, name: str, results: Results, alt_text: str, least: int) -> str:
    """A figure of an experiment, inline."""
    return inline(name, lambda: FIGURES[experiment][name](results), alt_text, least)


def inline(name: str, draw: Callable[[], Figure], alt_text: str, least: int) -> str:
    """A figure as inline SVG whose black is the colour of the page's text.

    Names of its parts get a prefix, since those of two figures would clash in one page. On a
    screen narrower than ``least`` (in rem) it scrolls.
    """
    with matplotlib.rc_context({"svg.fonttype": "path", "font.size": STYLE["font.size"]}):
        svg = _svg(draw())
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"#000000|#(?:262626|404040)\b", "currentColor", svg)
    svg = re.sub(r"(\d\.\d\d\d)\d+", r"\1", svg)
    words = (
        f'<svg class="still" style="min-width: {least}rem" role="img" '
        f'aria-label="{escape(alt_text)}"'
    )
    return svg.replace("<svg", words, 1)


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, bbox_inches="tight")
    return file.getvalue()


def _landscape(results: Results) -> list[Panel]:
    tree = "A tree: right or left, then up or down, each step worth plus or minus 1."
    slack = (
        "Proxy less LPM on random MDPs by target: never negative for fixed targets that are split "
        "over the horizon with the rest charged and for the TD error, often negative for the "
        "printed split, for early ends without a charge and for the centralised target."
    )
    surfaces = (
        "Four surfaces over the policy's two probabilities: the variance has minima at all four "
        "corners, mean less variance a local maximum at each corner, the LPM is least on two "
        "edges, mean less LPM has one maximum, at (1, 1)."
    )
    return [
        Panel(
            "Fig. 1: the tree",
            "Two choices, each worth +1 or -1; theta1 and theta2 are the policy.",
            "fig1",
            picture=still("landscape", "fig1_tree", results, tree, least=20),
            files=["fig1_tree"],
        ),
        Panel(
            "Fig. 2: its landscape",
            "From closed forms. Circles and red edges are optima. A learner that penalises the "
            "variance can be caught at any corner; with the shortfall below 0 it cannot.",
            "fig2",
            picture=still("landscape", "fig2_landscape", results, surfaces, least=44),
            files=["fig2_landscape"],
        ),
        Panel(
            "Where the proxy bounds the LPM",
            f"A point is a random MDP ({results['bound: centralised'].size:,} in each row), a row "
            "a way to set the target of each step. To the left of 0 the LPM is larger than the "
            "proxy that should bound it.",
            "bound",
            picture=still("landscape", "bound", results, slack, least=40),
            files=["bound"],
        ),
    ]


GOALS = {
    "mean": "the mean, E",
    "order 1": "E - 2 LPM of order 1",
    "order 2": "E - LPM of order 2",
}


def _bandit(results: Results) -> list[Panel]:
    goals = [str(goal) for goal in results["goals"]]
    goal = Picker("goal", "goal:", {g: GOALS.get(g, g) for g in (*goals[1:], goals[0])})
    methods = [str(name) for name in results["methods"]]
    first = [name for name in ("figure", "printed", "fast") if name in methods]
    preset = Picker(
        "preset", "preset:", {n: n for n in (*first, *(m for m in methods if m not in first))}
    )
    samples = Axis("samples", "samples", form=",d")
    arms = learning_curves(
        list(_arm_rows(results, goals, methods)),
        x=samples,
        y=Axis("probability", "probability of the arm", zero=True),
        line="arm",
        figure="fig3",
        pickers=[goal, preset],
        alt_text="Probability of each arm against samples, for the picked goal and preset.",
    )
    share = learning_curves(
        list(_share_rows(results, goals, methods)),
        x=Axis("samples", "samples (log scale)", log=True, form=",~s"),
        y=Axis("share", "share of trials with p(right arm) > 0.95", zero=True),
        line="method",
        figure="fig3b",
        pickers=[goal],
        rules=[{"value": 0.95, "label": "95%"}],
        alt_text="Share of trials that are right against samples, by method, for the picked goal.",
    )
    return [
        Panel(
            "Fig. 3: what the agents come to prefer",
            "Mean over trials and the middle 80% of them. Arm A pays little and steadily, B pays "
            "most on average and varies most, C has a floor: it is the right arm for both "
            "risk-averse goals. Preset printed has the paper's constants, figure a policy step at "
            "every sample without normalisation, fast is tuned.",
            "fig3",
            pickers=[goal, preset],
            charts=[arms],
            files=["fig3_bandit"],
        ),
        Panel(
            "How many samples each method needs",
            "Where a line passes 95% for good, nearly all trials have found the right arm. A click "
            "in the legend picks out a method.",
            "fig3b",
            pickers=[goal],
            charts=[share],
            files=["bandit_samples"],
        ),
    ]


def _arm_rows(results: Results, goals: Sequence[str], methods: Sequence[str]) -> Iterator[Json]:
    for name in methods:
        counts = results[f"counts: {name}"]
        for j, goal in enumerate(goals):
            mean, (low, high) = results[f"mean: {name}"][j], results[f"band: {name}"][j]
            for arm, label in enumerate("ABC"):
                common = {"arm": f"arm {label}", "goal": goal, "preset": name}
                yield {"samples": 0, "probability": 1 / 3, "low": 1 / 3, "high": 1 / 3} | common
                for i in _thinned(len(counts), 40):
                    yield {
                        "samples": int(counts[i]),
                        "probability": mean[i, arm],
                        "low": low[i, arm],
                        "high": high[i, arm],
                        **common,
                    }


def _share_rows(results: Results, goals: Sequence[str], methods: Sequence[str]) -> Iterator[Json]:
    for name in methods:
        counts = results[f"counts: {name}"]
        for j, goal in enumerate(goals):
            share = results[f"share: {name}"][j]
            for i in _thinned(len(counts), 80, log=True):
                row = {"samples": int(counts[i]), "method": name, "goal": goal}
                yield row | {"share": share[i]}


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


def _portfolio(results: Results) -> list[Panel]:
    risks = [risk for risk in RISKS if f"{risk.column}: figure" in results]
    chart, picker = frontier(
        list(_policy_rows(results)),
        risks=risks,
        label="preset",
        order="place",
        tooltips=TOOLTIPS,
        figure="fig4",
        references=list(_reference_rows(results)),
        hull="proxy",
        alt_text=(
            "Mean return against the picked measure of risk: a point for each learnt policy, a "
            "line for each preset through the medians at each threshold, grey points for all "
            "policies of two numbers."
        ),
    )
    n_seeds = results["mean: figure"].shape[1]
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
            f"{int(results['episodes']):,} fresh episodes; the line goes through the medians. "
            "Grey: all 121 policies that order one number at the low rate and another at the high "
            "one; with the proxy to the right, their hull. Point at a policy for its numbers; a "
            "click in the legend picks out a preset.",
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
        steps = int(results[f"steps: {preset}"])
        for k, nu in enumerate(results["thresholds"]):
            for seed in range(results[f"mean: {preset}"].shape[1]):
                yield {
                    "preset": f"{preset}, {steps:,} steps",
                    "place": k,
                    "threshold": bound_words(nu),
                    "seed": seed,
                    **{name: results[f"{name}: {preset}"][k, seed] for name in measures},
                }


def _reference_rows(results: Results) -> Iterator[Json]:
    measures = [name for name in TOOLTIPS if f"{name}: two numbers" in results]
    corners = concave_hull(results["proxy: two numbers"], results["discounted: two numbers"]).risk
    for i, (low, high) in enumerate(results["orders: two numbers"]):
        words = "never buy" if low == high == 0 else f"orders {low} (low rate), {high} (high rate)"
        numbers = {name: results[f"{name}: two numbers"][i] for name in measures}
        yield {"preset": words, "hull": numbers["proxy"] in corners, **numbers}


def _prediction(results: Results) -> list[Panel]:
    problems = [str(name) for name in results["problems"]]
    problem = Picker("problem", "problem:", {name: name for name in problems})
    curves = learning_curves(
        list(_error_rows(results, problems)),
        x=Axis("steps", "environment steps (log scale)", log=True, form=",~s"),
        y=Axis(
            "error",
            "root mean square relative error (log scale)",
            log=True,
            form=".0%",
            values=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        ),
        line="method",
        figure="samples",
        pickers=[problem],
        rules=[{"value": 0.1, "label": "10%"}, {"value": 0.05, "label": "5%"}],
        alt_text="Error of the estimated risk against environment steps, by method.",
        height=320,
    )
    words = "Noise of the TD targets of q and of the proxies of order 1 and 2, on each problem."
    return [
        Panel(
            "How many samples a risk estimate needs",
            "Error of the proxy of order 1 at the start, with 95% bands over the seeds. All "
            "methods learn from the same experience; lower and further left is better.",
            "samples",
            pickers=[problem],
            charts=[curves],
            files=["samples"],
        ),
        Panel(
            "How noisy its targets are",
            "Squared coefficient of variation of the TD targets (variance over squared mean), log "
            "scale.",
            "targets",
            picture=still("prediction", "targets", results, words, least=30),
            files=["targets"],
        ),
    ]


def _error_rows(results: Results, problems: Sequence[str]) -> Iterator[Json]:
    for name in problems:
        counts, bands = results[f"counts: {name}"], results[f"rmse: {name}"][:, 0]
        for j, method in enumerate(map(str, results["methods"])):
            low, middle, high = bands[:, j]
            for i in _thinned(len(counts), 60, log=True):
                row = {"steps": int(counts[i]), "method": method, "problem": name}
                yield row | {"error": middle[i], "low": low[i], "high": high[i]}


CURVES = {
    "mean": "mean return J_R, evaluated",
    "risk": "risk J_C (the proxy), evaluated",
    "multiplier": "Lagrange multiplier",
}


def _consumption(results: Results) -> list[Panel]:
    presets = [str(name) for name in results["presets"]]
    first = [name for name in ("figure", "recommended") if name in presets]
    names = (*first, *(name for name in presets if name not in first))
    preset = Picker("preset", "preset:", {name: name for name in names})
    bounds = [bound_words(nu) for nu in results["thresholds"]]
    threshold = Picker("threshold", "threshold nu:", {ALL: "all"} | {nu: nu for nu in bounds})
    charts = [
        learning_curves(
            list(_training_rows(results, presets, measure)),
            x=Axis("episodes", "training episodes", form=",d"),
            y=Axis("value", title, zero=measure != "mean"),
            line="nu",
            figure="fig5",
            pickers=[preset, threshold],
            rules=list(_levels(results, bounds, measure)),
            alt_text=f"{title} against training episodes, a line for each threshold.",
            height=220,
        )
        for measure, title in CURVES.items()
    ]
    return [
        Panel(
            "Fig. 5: learning to consume",
            f"Mean over {results[f'mean: {presets[0]}'].shape[1]} seeds, moving average of "
            f"{WINDOW} evaluations or a fifth of them; bands hold the middle 80% of the seeds. "
            "Dashed lines: above, the exact optimum under the bound; in the middle, the bound nu.",
            "fig5",
            pickers=[preset, threshold],
            charts=charts,
            files=["fig5_consumption"],
        )
    ]


def _training_rows(results: Results, presets: Sequence[str], measure: str) -> Iterator[Json]:
    for preset in presets:
        episodes = results[f"episodes: {preset}"]
        curves = moving_average(results[f"{measure}: {preset}"], window_of(len(episodes)))
        middle = curves.mean(axis=1)
        low, high = np.quantile(curves, [0.1, 0.9], axis=1)
        for k, nu in enumerate(results["thresholds"]):
            common = {"preset": preset, "threshold": bound_words(nu), "nu": _nu(nu)}
            for i in _thinned(len(episodes), N_POINTS):
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


def bound_words(threshold: Any) -> str:
    """A threshold as people read it.

    >>> bound_words(0.05), bound_words(float("inf"))
    ('0.05', 'no bound')
    """
    return f"{threshold:g}" if np.isfinite(threshold) else "no bound"


def _thinned(n: int, most: int, *, log: bool = False) -> list[int]:
    """Places of at most ``most`` of n points, the first and the last among them.

    >>> _thinned(1000, 4), _thinned(1000, 4, log=True)
    ([0, 333, 666, 999], [0, 9, 99, 999])
    """
    if n <= most:
        return list(range(n))
    places = np.geomspace(1, n, most) - 1 if log else np.linspace(0, n - 1, most)
    return np.unique(places.round().astype(int)).tolist()


SECTIONS = {
    "landscape": Section(
        "The tree and its landscape",
        "Why downside risk? In a game of two choices, penalising the variance traps a learner in "
        "local optima; penalising the shortfall below 0 does not. The lemmas and the bound are "
        "tried here on random variables and random MDPs.",
        _landscape,
    ),
    "bandit": Section(
        "The bandit",
        "Three arms, one pull: does a learner that fears losses find the arm with a floor, and "
        "how many samples does it need beside a Monte-Carlo gradient?",
        _bandit,
    ),
    "portfolio": Section(
        "The portfolio",
        "Cash, and an asset that pays more and may default. How do mean and risk move as the "
        "bound nu on the proxy is loosened?",
        _portfolio,
    ),
    "consumption": Section(
        "Optimal consumption",
        "Spend wealth over a year, or invest it in an asset that may default. Does the learner "
        "keep its risk at nu, and how near does it come to the best that is possible?",
        _consumption,
    ),
    "prediction": Section(
        "Sample efficiency",
        "The risk of a given policy, estimated by temporal differences and by Monte-Carlo, "
        "against exact answers on six problems.",
        _prediction,
    ),
}
