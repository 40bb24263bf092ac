"""One HTML file from a folder of results: verdicts first, then every figure.

It needs nothing but itself: styles, data and the charts' runtime are inside, and its own policy
forbids the browser to fetch anything.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import vl_convert

from downside.experiments.base import OURS, Claim, Results, load_results
from downside.experiments.catalogue import CLAIMS, PaperClaim
from downside.report.charts import Json
from downside.report.panels import Panel
from downside.report.sections import SECTIONS

PAPER = "A Natural Actor-Critic Algorithm with Downside Risk Constraints"
POLICY = (  # what the browser may do: nothing that is not in the file
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:"
)
NOT_RUN = "not run"
LOOKS = {  # a verdict's class, and its line at the top
    "holds": ("holds", "Hold as printed"),
    "holds with a correction": ("correction", "Hold with a correction"),
    "fails": ("fails", "Fail"),
    "not reached at this scale": ("undecided", "Not decided at this scale"),
    NOT_RUN: ("idle", "Not run here"),
    OURS: ("idle", "Beyond the paper"),
}
INTRODUCTION = (
    "The paper trains a policy to earn as much as it can while its downside risk stays below a "
    "bound nu. The risk that people mean is the lower partial moment (LPM): how far the return "
    "falls short of a target, on average. The risk that is constrained is a proxy, the sum of each "
    "step's shortfall, because temporal differences can learn it. Its method is called NRCPO."
)


@dataclass(frozen=True)
class Judged:
    """A claim as one experiment judged it, and how to run that again."""

    claim: Claim
    experiment: str
    rerun: str


@dataclass(frozen=True)
class Run:
    """What an experiment left in its folder."""

    experiment: str
    document: Mapping[str, Any]
    results: Results
    folder: Path

    @property
    def rerun(self) -> str:
        """The command that gives its numbers."""
        scale, seed = self.document["scale"], self.document["seed"]
        return f"downside reproduce {self.experiment} --scale {scale} --seed {seed}"

    @property
    def judged(self) -> list[Judged]:
        """Its verdicts."""
        claims = [Claim(**claim) for claim in self.document["claims"]]
        return [Judged(claim, self.experiment, self.rerun) for claim in claims]


def write_page(folder: Path) -> Path:
    """Write ``report.html`` from what the experiments left in ``folder``; returns its path."""
    runs = find_runs(folder)
    if not runs:
        raise ValueError(
            f"there are no results in {folder}; make some with: "
            f"downside reproduce all --out {folder}"
        )
    path = folder / "report.html"
    path.write_text(page(runs), encoding="utf-8")
    return path


def find_runs(folder: Path) -> list[Run]:
    """The experiments whose claims and results are in the folder."""
    return [
        Run(name, json.loads((place / "claims.json").read_text()), load_results(place), place)
        for name in SECTIONS
        if (place := folder / name) and (place / "claims.json").exists()
        if (place / "results.npz").exists()
    ]


def page(runs: Sequence[Run]) -> str:
    """The whole document."""
    rows = verdict_rows([judged for run in runs for judged in run.judged])
    body = [
        f"<h1>What holds in “{PAPER}”</h1>",
        '<p class="quiet wide">Spooner and Savani, 2020; every claim tried again by the library '
        f"downside. {escape(_extent(runs))}</p>",
        f'<p class="wide">{INTRODUCTION}</p>',
        _lines(rows),
        _verdicts(rows),
        *map(_section, runs),
    ]
    return document("What holds: " + PAPER, "\n".join(body))


def verdict_rows(judged: Iterable[Judged]) -> dict[int, list[Judged]]:
    """The paper's claims in order, each with its verdicts; none where it was not run."""
    rows: dict[int, list[Judged]] = {number: [] for number in CLAIMS}
    for each in judged:
        rows[int(each.claim.id.split()[0])].append(each)
    return rows


def summary(rows: Mapping[int, Sequence[Judged]]) -> dict[str, list[tuple[int, str]]]:
    """Which claims, or parts of claims, got each verdict: (number, name).

    A claim that several experiments judge alike is named once. What the paper does not say is kept
    apart, with its verdict.
    """
    found: dict[str, list[tuple[int, str]]] = {verdict: [] for verdict in LOOKS}
    for number, each in rows.items():
        if not each:
            found[NOT_RUN].append((number, CLAIMS[number].name))
        for judged in each:
            claim, name = judged.claim, judged.claim.id.split(maxsplit=1)[1]
            verdict = OURS if claim.is_ours else claim.verdict
            part = (number, f"{name} ({claim.verdict})" if claim.is_ours else name)
            if part not in found[verdict]:
                found[verdict].append(part)
    return found


def _lines(rows: Mapping[int, Sequence[Judged]]) -> str:
    def line(verdict: str, parts: Sequence[tuple[int, str]]) -> str:
        look, words = LOOKS[verdict]
        named = ", ".join(f'<a href="#claim-{n}">{n} {escape(name)}</a>' for n, name in parts)
        return (
            f'<li class="{look}"><b>{words}: {len(parts) or "none"}</b>'
            f"<span>{': ' if parts else ''}{named}.</span></li>"
        )

    return (
        '<ul class="lines" aria-label="The verdicts in a few lines">'
        + "".join(line(verdict, parts) for verdict, parts in summary(rows).items())
        + "</ul>"
    )


def _verdicts(rows: Mapping[int, Sequence[Judged]]) -> str:
    heads = ("claim", "the paper says", "we measured, with interval", "verdict", "to rerun")
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    bodies = "".join(_claim(number, CLAIMS[number], each) for number, each in rows.items())
    return (
        '<table class="verdicts"><caption class="quiet" hidden>The paper\'s claims and what was '
        f"measured</caption><thead><tr>{head}</tr></thead>{bodies}</table>"
    )


def _claim(number: int, claim: PaperClaim, judged: Sequence[Judged]) -> str:
    """A group of rows: one for each part of the claim and each experiment that judged it."""
    span = max(len(judged), 1)
    head = f'<th scope="rowgroup" rowspan="{span}">{number} {escape(claim.name)}</th>'
    texts = [each.claim.paper for each in judged] or [claim.says]
    shared = len(set(texts)) == 1
    rows: list[str] = []
    for i in range(span):
        cells = head if i == 0 else ""
        if not shared or i == 0:
            over = span if shared else 1
            text = escape(texts[i])
            cells += f'<td class="says" rowspan="{over}" data-label="The paper says">{text}</td>'
        cells += _measured(judged[i], judged[i - 1] if i else None) if judged else _not_run(claim)
        rows.append(f"<tr>{cells}</tr>")
    return f'<tbody id="claim-{number}">{"".join(rows)}</tbody>'


def _measured(judged: Judged, before: Judged | None) -> str:
    """Number, verdict and command; what the row before has said already is left out."""
    claim, told = judged.claim, before.claim if before else None
    what = "" if told and told.what == claim.what else claim.what
    first, rest = first_sentence(claim.note)
    if told and first_sentence(told.note)[0] == first:
        first = rest = ""
    more = f"<details><summary>more</summary><p>{escape(rest)}</p></details>" if rest else ""
    look, _ = LOOKS[claim.verdict]
    return (
        f'<td class="measured" data-label="We measured"><b>{claim.words}</b>'
        f'<span class="what">{escape(what)}</span></td>'
        f'<td class="verdict" data-label="Verdict"><b class="{look}">{claim.verdict}</b>'
        f"<span>{escape(first)}</span>{more}</td>"
        f'<td class="rerun" data-label="To rerun">{_command(judged.rerun)}</td>'
    )


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence, and the rest.

    >>> first_sentence("It holds in Fig. 4: 0.5 of them. Not elsewhere. Never.")
    ('It holds in Fig. 4: 0.5 of them.', 'Not elsewhere. Never.')
    """
    first, *rest = re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)
    return first, "".join(rest)


def _command(words: str) -> str:
    """A command that breaks before an option, not within one."""
    parts = escape(words).replace(" --", "\n--").split("\n")
    return f"<code>{' '.join(f'<span>{part}</span>' for part in parts)}</code>"


def _not_run(claim: PaperClaim) -> str:
    how = " or ".join(_command(f"downside reproduce {name}") for name in claim.judged_by)
    why = "no experiment in this folder judges it"
    look, _ = LOOKS[NOT_RUN]
    return (
        f'<td class="measured" data-label="We measured"><span class="what">{why}</span></td>'
        f'<td class="verdict" data-label="Verdict"><b class="{look}">{NOT_RUN}</b></td>'
        f'<td class="rerun" data-label="To rerun">{how}</td>'
    )


def _extent(runs: Sequence[Run]) -> str:
    by_scale: dict[str, list[str]] = {}
    for run in runs:
        by_scale.setdefault(run.document["scale"], []).append(run.experiment)
    parts = [f"{', '.join(names)} at scale {scale}" for scale, names in by_scale.items()]
    seconds = sum(run.document["seconds"] for run in runs)
    return f"Run: {'; '.join(parts)}; {seconds / 60:,.0f} minutes of work."


def _section(run: Run) -> str:
    section = SECTIONS[run.experiment]
    panels = "".join(panel_html(panel, _files(panel, run)) for panel in section.panels(run.results))
    document = run.document
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    ran = f"{document['seconds']:,.0f} seconds, seed {document['seed']}; {versions}"
    return (
        f'<section id="{run.experiment}"><h2>{escape(section.title)}</h2>'
        f"<p>{escape(section.about)}</p>{panels}{_evidence(run)}"
        f'<p class="ran"><code>{escape(run.rerun)}</code>: {escape(ran)}.</p></section>'
    )


def panel_html(panel: Panel, links: str = "") -> str:
    """A figure with its heading, pickers and caption; ``links`` follow the caption."""
    pickers = "".join(picker.html(panel.figure) for picker in panel.pickers)
    charts = "".join(_chart(f"{panel.figure}-{i}", spec) for i, spec in enumerate(panel.charts))
    inside = (
        (f'<div class="pickers">{pickers}</div>' if pickers else "")
        + charts
        + (f'<div class="scroll">{panel.picture}</div>' if panel.picture else "")
    )
    return (
        f'<h3>{escape(panel.title)}</h3><figure id="{panel.figure}">'
        f'<div class="panel">{inside}</div>'
        f"<figcaption>{escape(panel.caption)}{links}</figcaption></figure>"
    )


def _files(panel: Panel, run: Run) -> str:
    """Links to the static figures beside the page, as far as they are there."""
    links = [
        f'<a href="{run.experiment}/{stem}.{kind}">{kind.upper()}</a>'
        for stem in panel.files
        for kind in ("png", "svg", "pdf")
        if (run.folder / f"{stem}.{kind}").exists()
    ]
    return f" In the paper's layout: {', '.join(links)}." if links else ""


def _chart(name: str, spec: Json) -> str:
    words = escape(spec["description"])
    return (
        f'<div class="chart" data-chart="{name}" role="figure" aria-label="{words}"></div>'
        f'<script type="application/json" id="{name}">{_json(spec)}</script>'
    )


def _evidence(run: Run) -> str:
    """Every number behind the verdicts, folded away."""

    def words(value: float | None) -> str:
        return "not reached" if value is None else f"{value:,.5g}"

    rows = [
        f"<tr><td>{escape(claim.id)}</td><td>{escape(name)}</td><td>{words(value)}</td></tr>"
        for claim in (judged.claim for judged in run.judged)
        for name, value in claim.evidence.items()
    ]
    return (
        f"<details><summary>all {len(rows)} numbers behind these verdicts</summary>"
        f'<div class="evidence"><table>{"".join(rows)}</table></div></details>'
    )


def _json(value: Json) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")


def document(title: str, body: str) -> str:
    """A page that needs nothing but itself."""
    assets = files("downside.report") / "assets"
    style, script = ((assets / name).read_text() for name in ("page.css", "page.js"))
    runtime = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")  # Vega and Vega-Lite
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style></head><body>",
            body,
            "<noscript><p>The interactive charts need JavaScript; the figures beside this page "
            "do not.</p></noscript>",
            f"<script>{runtime}</script>",
            f"<script>{script}</script>",
            "</body></html>",
        ]
    )
