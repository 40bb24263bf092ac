"""Fills the tables and the measured numbers of the documentation from the committed results.

python docs/results/tables.py

A table stands below a line ``<!-- NAME -->``; for the numbers in sentences see prose.py. The pages
on benchmarks and on real environments have tables of their own making.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prose

ROOT = Path(__file__).parents[2]
MEASURES = ("proxy", "path shortfall", "lpm", "mean", "minimum", "quantile")
TRENDS = {"mean": "mean", "lpm": "LPM", "minimum": "minimum", "quantile": "1% quantile"}
SHOWN = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, None)
FEASIBLE = {
    "|proxy - nu|": ("mean \\|proxy - nu\\|, binding thresholds", ".3f"),
    "share proxy <= nu": ("share of policies with proxy <= nu, binding, nu > 0", ".2f"),
    "gap to the hull": ("discounted mean less the two-number hull at equal proxy", ".3f"),
    "gap to the best known": ("discounted mean less the best known at equal proxy", ".3f"),
}
BESIDE = {
    "figure": "recommended",
    "RCPO": "recommended",
    "Monte-Carlo": "recommended",
    "fixed multipliers": "recommended",
    "learnt mean reward": "recommended",
    "rewards x 10": "recommended",
    "LPM measured": "recommended",
    "LPM itself": "recommended",
    "figure, shorter": "figure",
    "figure, rewards x 10": "figure, shorter",
    "figure, no pre-training": "figure, shorter",
    "figure, not normalised": "figure, shorter",
}
BOUNDED = ("discounted lpm", "shortfall", "lpm", "proxy", "discounted", "mean", "minimum")
FINAL = {
    "mean": ("J_R", ".3f"),
    "risk": ("J_C", ".3f"),
    "lpm": ("LPM about the initial wealth", ".3f"),
    "fraction of the optimum": ("fraction of J_R*", ".1%"),
    "share": ("share at risk", ".2f"),
}
HELD = {
    "share of evaluations": ("share of evaluations with J_C <= nu, last fifth", ".0%"),
    "share of moving averages": ("share of moving averages with J_C <= nu, last fifth", ".0%"),
    "|J_C - nu| of final policies": ("mean \\|J_C - nu\\| of the final policies", ".3f"),
    "largest drop": ("largest drop of J_R below its best so far", ".1%"),
}


def portfolio() -> dict[str, str]:
    """The tables of Fig. 4."""
    evidence, means = prose.read("portfolio")
    presets = ["printed", "figure", "recommended", "RCPO"]
    trends = [
        (words, *(_interval(evidence, f"rank correlation of {what}", p, ".2f") for p in presets))
        for what, words in (TRENDS | {"proxy": "proxy"}).items()
    ]
    feasible = [
        (words, *(_interval(evidence, what, p, form) for p in presets))
        for what, (words, form) in FEASIBLE.items()
    ]
    counts = (f"{evidence[f'binding thresholds: {p}']:.0f}" for p in presets)
    places = [means["thresholds"].index(nu) for nu in SHOWN]
    frontier = [
        (
            _bound(nu),
            *(
                f"{means[f'{what}: {p}'][i]:{'.2f' if what in ('minimum', 'quantile') else '.3f'}}"
                for p in ("figure", "recommended")
                for what in MEASURES
            ),
        )
        for nu, i in zip(SHOWN, places, strict=True)
    ]
    found = {
        "trends": _table(["", *presets], trends),
        "feasibility": _table(["", *presets], [*feasible, ("binding thresholds", *counts)]),
        "frontier": _table(["nu", *2 * [w.replace("lpm", "LPM") for w in MEASURES]], frontier),
        "methods": _methods(evidence, means),
    }
    for name in ("LPM measured", "LPM itself"):
        rows = [
            (_bound(nu), *(f"{means[f'{what}: {name}'][i]:{_form(what)}}" for what in BOUNDED))
            for i, nu in enumerate(means[f"sweep: {name}"])
        ]
        found[name] = _table(["bound", *BOUNDED], rows)
    return {k: v.replace("| quantile", "| 1% quantile") for k, v in found.items()}


def _form(what: str) -> str:
    return ".4f" if what == "shortfall" else ".3f"


def _methods(evidence: dict[str, Any], means: dict[str, Any]) -> str:
    """Each method less the one beside it."""
    rows = []
    for name, other in BESIDE.items():
        apart = (_less(evidence, w, name, other) for w in ("mean at equal proxy", _LPM))
        what = "|proxy - nu|" if name in ("figure", "RCPO") else "distance from the bound"
        form = _form("shortfall" if name == "LPM itself" else "")
        is_held = f"{what}: {name}" in evidence
        distance = _interval(evidence, what, name, form) if is_held else "-"
        rows.append((name, other, f"{means[f'steps: {name}']:,}", *apart, distance))
    heads = ["method", "beside", "steps", "mean at equal proxy", _LPM, "distance from the bound"]
    return _table(heads, rows)


_LPM = "LPM at equal mean"


def _less(evidence: dict[str, Any], what: str, name: str, other: str) -> str:
    """The evidence has it the other way round."""
    parts = ("", ", low", ", high")
    middle, low, high = (-evidence[f"{what}{x}: {other} less {name}"] for x in parts)
    return f"{middle:+.3f} [{high:+.3f}, {low:+.3f}]"


def consumption() -> dict[str, str]:
    """The tables of Fig. 5."""
    evidence, means = prose.read("consumption")
    presets = ["printed", "figure", "figure, plain", "recommended", "recommended, plain"]
    final = [
        (f"{bound}: {words}", *(f"{evidence[f'{what} at nu = {nu}: {p}']:{form}}" for p in presets))
        for nu, bound in (("0.05", "nu = 0.05"), ("0.1", "nu = 0.1"), ("inf", "no bound"))
        for what, (words, form) in FINAL.items()
    ]
    held = [
        (words, *(f"{evidence[f'{what}: {p}']:{form}}" for p in presets))
        for what, (words, form) in HELD.items()
    ]
    rows = zip(means["capital thresholds"], means["capital optimum"], strict=True)
    capital = [
        (
            _bound(nu),
            f"{best:.3f}",
            *(f"{evidence[f'{what} at nu = {nu}: capital']:{FINAL[what][1]}}" for what in FINAL),
        )
        for nu, best in rows
    ]
    heads = ["nu", "J_R*", *(words for words, _ in FINAL.values())]
    return {
        "final": _table(["", *presets], final),
        "held": _table(["", *presets], held),
        "capital": _table(heads, capital),
    }


def bandit() -> dict[str, str]:
    """The tables of Fig. 3."""
    evidence, _ = prose.read("bandit")
    goals = ["mean", "order 1", "order 2"]
    pieces = ("n95: ", ", mean")
    methods = [k.removeprefix(pieces[0]).removesuffix(pieces[1]) for k in evidence]
    methods = [m for m in methods if f"n95: {m}, mean" in evidence]
    methods.sort(key=lambda name: (not name.startswith("printed"), "Monte" in name))

    def samples(name: str) -> str:
        middle, low, high = (evidence[f"n95{x}: {name}"] for x in ("", ", low", ", high"))
        interval = ", ".join("open" if x is None else f"{x:,.0f}" for x in (low, high))
        return "not reached" if middle is None else f"{middle:,.0f} [{interval}]"

    at_5000 = {
        "p(right) at 5,000": "p(right) at 5000",
        "share of trials above 0.95": "share right at 5000",
        "likeliest arm right": "likeliest arm right at 5000",
    }
    heads = [f"{words}: mean, order 1, order 2" for words in at_5000]
    online = [m for m in methods if m.startswith(("printed", "figure"))]
    early = [
        (m, *(f"{evidence[f'{what}: {m}, {g}']:.2f}" for what in at_5000.values() for g in goals))
        for m in online
    ]
    right = "share right at the end"
    return {
        "samples": _table(
            ["method", *goals], [(m, *(samples(f"{m}, {g}") for g in goals)) for m in methods]
        ),
        "right": _table(
            ["method", *goals],
            [
                (m, *(_interval(evidence, right, f"{m}, {g}", ".3f") for g in goals))
                for m in methods
            ],
        ),
        "at 5,000": _table(
            ["preset", *(part for head in heads for part in head.split(", "))], early
        ),
    }


def prediction() -> dict[str, str]:
    """The tables of the page on sample efficiency."""
    evidence, _ = prose.read("prediction")
    mark = ": SARSA(lambda), trace decay"
    problems = [k.removesuffix(mark) for k in evidence if k.endswith(mark)]
    lstd, plain = "LSTD(lambda)", "Monte-Carlo, plain average"
    methods = ["SARSA(lambda)", lstd, f"recursive {lstd}", "Monte-Carlo, least squares", plain]

    def count(name: str) -> str:
        return "not reached" if evidence[name] is None else f"{evidence[name]:,.0f}"

    def interval(name: str, low: str, high: str, form: str) -> str:
        middle, *ends = (f"{evidence[x]:{form}}" for x in (name, low, high))
        return f"{middle} [{', '.join(ends)}]"

    def ratio(name: str) -> str:
        return interval(name, f"{name}, low", f"{name}, high", ".2f")

    chosen = [
        (
            p,
            *(f"{evidence[f'{p}: SARSA(lambda), {x}']:.3g}" for x in ("trace decay", "step size")),
            count(f"{p}: SARSA(lambda), step size halved after"),
        )
        for p in problems
    ]
    found = {
        "SARSA": _table(["problem", "trace decay", "step size a", "halved after h steps"], chosen)
    }
    heads = ["problem", *(m.replace("(lambda)", "") for m in methods), "ratio"]
    for share in ("10%", "5%"):
        rows = [
            (
                p,
                *(count(f"{p}, {share}: samples, {m}") for m in methods),
                ratio(f"{p}, {share}: ratio"),
            )
            for p in problems
        ]
        found[share] = _table(heads, rows)
    over, orders = "variance of the proxy over that of q", ("order 1", "order 2")
    noise = [
        (
            p,
            interval(
                f"TD targets, {over}: {p}", f"TD targets, low: {p}", f"TD targets, high: {p}", ".3g"
            ),
            *(
                f"{evidence[f'{p}: squared variation of the TD targets, {x}']:.3g}"
                for x in ("q", *orders)
            ),
            ratio(f"{p}: order 2 over order 1"),
            *(
                ", ".join(count(f"{p}: samples for 10%, {x}, {m}") for x in orders)
                for m in (lstd, plain)
            ),
        )
        for p in problems
    ]
    heads = ["problem", "variance, proxy over q", "variation, q", *orders, "order 2 over order 1"]
    heads += ["LSTD, samples for 10%: order 1, order 2", "plain average: order 1, order 2"]
    return found | {"noise": _table(heads, noise)}


def bound() -> dict[str, str]:
    """How often each target violates the bound."""
    evidence, _ = prose.read("landscape")
    mark = "share violated: "
    rows = [(k.removeprefix(mark), f"{v:.0%}") for k, v in evidence.items() if k.startswith(mark)]
    return {"shares": _table(["target, on random MDPs", "share that violates the bound"], rows)}


def studies() -> dict[str, str]:
    """The two engines, undisturbed and among kills."""
    document = json.loads((Path(__file__).parent / "studies" / "studies.json").read_text())
    engines = ("local", "ray")
    quiet = [document["undisturbed"][engine] for engine in engines]
    kills = [document["kills"][engine] for engine in engines]
    nothing = [document["machinery"][engine] for engine in engines]

    def row(words: str, found: list[dict[str, Any]], form: str) -> tuple[str, ...]:
        return (words, *(form.format(**one, million=one.get("steps", 0) / 1e6) for one in found))

    def yes(words: str, found: list[dict[str, Any]]) -> tuple[str, ...]:
        return (words, *("yes" if one["same_bits"] else "no" for one in found))

    again = [one | {"again": one["steps_again"] / 1e6} for one in kills]
    rows = [
        row("200 trials: wall time", quiet, "{wall_seconds:.0f} s"),
        row(
            "ideal: one trial alone in a warm worker, times 200, on two cores",
            quiet,
            "{ideal_seconds:.0f} s",
        ),
        row("trials per hour", quiet, "{trials_per_hour:,}"),
        row(
            "median trial; slowest, which compiles",
            quiet,
            "{median_trial_seconds:.2f} s; {slowest_trial_seconds:.1f} s",
        ),
        yes("same bits", quiet),
        row(
            "among kills: trials; workers and drivers killed",
            kills,
            "{trials}; {workers_killed} and {drivers_killed}",
        ),
        row("wall time", kills, "{wall_seconds:.0f} s"),
        row("trials done; doubled; attempts", kills, "{trials_done}; {trials_doubled}; {attempts}"),
        yes("same bits as undisturbed", kills),
        row(
            "steps of the trials; made again",
            again,
            "{million:.0f} million; {again:.2f} million (**{share_again:.1%}**)",
        ),
        row("kills that met a trial learning", kills, "{kills_while_learning}"),
        row(
            "lost besides, by starting and judging",
            kills,
            "{seconds_of_starting_and_judging:.0f} s",
        ),
        row("trials that take no time, per second", nothing, "{trials_per_second:.0f}"),
    ]
    head = "trials: NRCPO on the bandit, 300,000 steps, 2 seeds"
    return {"studies": _table([head, "local", "Ray, started for it"], rows)}


def _interval(evidence: dict[str, Any], what: str, name: str, form: str) -> str:
    parts = ("", ", low", ", high")
    middle, low, high = (f"{evidence[f'{what}{x}: {name}']:{form}}" for x in parts)
    return f"{middle} [{low}, {high}]"


def _bound(nu: float | None) -> str:
    return "none" if nu is None else f"{nu:g}"


def _table(heads: list[str], rows: list[Any]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0].replace("|  |", "| |"), "|" + "---|" * len(heads), *lines[1:]])


def control() -> dict[str, str]:
    """Finite MDPs beside the linear programme."""
    found = json.loads((Path(__file__).parent / "constrained" / "constrained.json").read_text())
    kinds = {
        "small": "random, 6 states, 3 actions, 0.9",
        "larger": "random, 12 states, 4 actions, 0.95",
        "20 steps": "random, 6 states, 3 actions, 20 steps",
        "lakes of 16": "slippery lakes, 4x4, 0.97",
        "lakes of 64": "slippery lakes, 8x8, 0.97",
        "lakes of 16, 100 steps": "slippery lakes, 4x4, 100 steps",
        "cliffs": "slippery cliff, 0.9 to 0.99",
    }
    columns = {
        "median off": "median",
        "at most 5% off": "within 5%",
        "at most 10%": "within 10%",
        "worst": "worst",
        "mean excess over the bound": "mean excess",
        "error of the multiplier, median seed": "median multiplier error",
    }
    rows = []
    for name, one in sorted(found.items(), key=lambda item: list(kinds).index(_kind(item[0]))):
        steps = name.rsplit(", ", maxsplit=1)[1]
        values = ("" if one[key] is None else f"{one[key]:.1%}" for key in columns.values())
        rows.append((kinds[_kind(name)], f"{int(steps):,}", f"{one['runs']}", *values))
    return {"constrained": _table(["MDPs", "steps", "policies", *columns], rows)}


def _kind(name: str) -> str:
    """Of MDPs, without the steps."""
    return name.rsplit(", ", maxsplit=1)[0]


def none() -> dict[str, str]:
    """No table of this command."""
    return {}


PAGES: dict[str, tuple[Callable[[], dict[str, str]], Callable[[], dict[str, str]]]] = {
    "README.md": (none, prose.readme),
    "docs/bound.md": (bound, prose.bound),
    "docs/control.md": (control, dict),
    "docs/paper/bandit.md": (bandit, prose.bandit),
    "docs/paper/portfolio.md": (portfolio, prose.portfolio),
    "docs/paper/consumption.md": (consumption, prose.consumption),
    "docs/paper/prediction.md": (prediction, prose.prediction),
    "docs/studies.md": (studies, prose.studies),
    "docs/benchmarks.md": (none, prose.benchmarks),
    "docs/real_environments.md": (none, prose.real_environments),
}


def fill(name: str) -> str:
    """The page with its tables and numbers as the committed results have them."""
    tables, numbers = PAGES[name]
    page = (ROOT / name).read_text()
    for mark, table in tables().items():
        below = re.compile(rf"(<!-- {re.escape(mark)} -->\n)(\|[^\n]*\n)+")
        assert below.search(page), f"{name} has no table <!-- {mark} -->"
        page = below.sub(lambda found, table=table: found[1] + table + "\n", page)
    return prose.fill(page, numbers())


if __name__ == "__main__":
    for each in PAGES:
        (ROOT / each).write_text(fill(each))
