"""The pieces of a page: a figure with its words, drawn by the browser or inline."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from downside.experiments.base import Results
from downside.report.charts import Json, Picker
from downside.report.figures import FIGURES
from downside.report.style import STYLE


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


def bound_words(threshold: Any) -> str:
    """A threshold as people read it.

    >>> bound_words(0.05), bound_words(float("inf"))
    ('0.05', 'no bound')
    """
    return f"{threshold:g}" if np.isfinite(threshold) else "no bound"
