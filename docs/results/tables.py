"""Fills the tables of docs/paper/portfolio.md and consumption.md from their claims.json.

python docs/results/tables.py

A table stands below a line ``<!-- NAME -->``; every number is read from the committed file.
"""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
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


def portfolio(document: dict[str, Any]) -> dict[str, str]:
    """The tables of Fig. 4."""
    evidence, means = _evidence(document), document["means"]
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
        "methods": _methods(evidence, document["means"]),
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


def consumption(document: dict[str, Any]) -> dict[str, str]:
    """The tables of Fig. 5."""
    evidence = _evidence(document)
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
    return {"final": _table(["", *presets], final), "held": _table(["", *presets], held)}


def _evidence(document: dict[str, Any]) -> dict[str, Any]:
    return {k: v for claim in document["claims"] for k, v in claim["evidence"].items()}


def _interval(evidence: dict[str, Any], what: str, name: str, form: str) -> str:
    parts = ("", ", low", ", high")
    middle, low, high = (f"{evidence[f'{what}{x}: {name}']:{form}}" for x in parts)
    return f"{middle} [{low}, {high}]"


def _bound(nu: float | None) -> str:
    return "none" if nu is None else f"{nu:g}"


def _table(heads: list[str], rows: list[Any]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0].replace("|  |", "| |"), "|" + "---|" * len(heads), *lines[1:]])


PAGES = {"portfolio": portfolio, "consumption": consumption}


def fill(name: str) -> str:
    """The page with its tables as the committed results have them."""
    page = (HERE.parent / "paper" / f"{name}.md").read_text()
    document = json.loads((HERE / name / "claims.json").read_text())
    for mark, table in PAGES[name](document).items():
        below = re.compile(rf"(<!-- {re.escape(mark)} -->\n)(\|[^\n]*\n)+")
        assert below.search(page), f"{name}.md has no table <!-- {mark} -->"
        page = below.sub(lambda found, table=table: found[1] + table + "\n", page)
    return page


if __name__ == "__main__":
    for each in PAGES:
        (HERE.parent / "paper" / f"{each}.md").write_text(fill(each))
