"""Interactive charts from tidy tables, as Vega-Lite specifications made with altair.

A chart takes the width of the element that it stands in, and its text the colour of the page
around it (``currentColor``), so that one specification serves phones and desks, light and dark.
A `Picker` is a ``<select>`` of the page; every chart that names it follows it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import altair as alt
import polars as pl

Row = Mapping[str, Any]
Table = pl.DataFrame | Sequence[Row]
Json = dict[str, Any]

ALL = "all"
# Okabe and Ito's colours; the first blue a little lighter, for dark pages
PALETTE = ("#1F86CC", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 4])
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down")
GREY = "#8a8f98"
DIGITS = 4

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_TEXT = {"labelColor": "currentColor", "titleColor": "currentColor"}
CONFIG: Json = {
    "background": None,
    "font": _FONT,
    "padding": {"left": 5, "top": 5, "right": 12, "bottom": 5},  # half of the last label
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "domainColor": "currentColor",
        "domainOpacity": 0.5,
        "tickColor": "currentColor",
        "tickOpacity": 0.5,
        "gridColor": "currentColor",
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
        "labelFlush": False,
    },
    "axisY": {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleY": -12},
    "legend": {
        **_TEXT,
        "orient": "top",
        "direction": "horizontal",
        "title": None,
        "labelFontSize": 12,
        "labelLimit": 320,
        "symbolStrokeWidth": 2,
        "offset": 30,
    },
    "title": {"color": "currentColor", "fontSize": 12, "fontWeight": "normal"},
    "text": {"color": "currentColor"},
}


@dataclass(frozen=True)
class Picker:
    """A choice that the reader makes: its options by value, each with its words.

    >>> Picker("nu", "threshold", {"0.1": "0.1", "inf": "no bound"}).html("fig5")
    '<label>threshold <select id="fig5-nu"><option value="0.1">0.1</option>...</select></label>'
    """

    name: str
    label: str
    options: Mapping[str, str]

    def html(self, figure: str) -> str:
        """The element; the first option is chosen."""
        options = "".join(
            f'<option value="{escape(value)}">{escape(words)}</option>'
            for value, words in self.options.items()
        )
        return (
            f"<label>{escape(self.label)} "
            f'<select id="{figure}-{self.name}">{options}</select></label>'
        )

    def parameter(self, figure: str) -> alt.Parameter:
        """What a chart knows of it."""
        return alt.param(
            name=self.name,
            value=next(iter(self.options)),
            bind=alt.BindDirect(element=f"#{figure}-{self.name}", event="change"),
        )


@dataclass(frozen=True)
class Axis:
    """A column of the table, what it is called, and how it is drawn, up to ``top``."""

    column: str
    title: str
    log: bool = False
    form: str | None = None
    zero: bool = False
    top: float | None = None
    values: tuple[float, ...] | None = None

    def encoding(self) -> Json:
        """Scale and axis, for altair's channels."""
        return {
            "type": "quantitative",
            "scale": alt.Scale(type="log", nice=False)
            if self.log
            else alt.Scale(zero=self.zero, nice=True, domainMax=self.top or alt.Undefined),
            "axis": alt.Axis(
                title=self.title,
                grid=not self.log or self.values is not None,
                format=self.form or alt.Undefined,
                values=self.values or alt.Undefined,
                tickCount=alt.Undefined if self.values else 6,
            ),
        }


def learning_curves(
    table: Table,
    *,
    x: Axis,
    y: Axis,
    line: str,
    figure: str,
    alt_text: str,
    pickers: Sequence[Picker] = (),
    rules: Table = (),
    height: int = 260,
) -> Json:
    """A line for each value of the column ``line``, with a band if there are ``low`` and ``high``.

    A picker's name is a column of the table; only rows with the picked value are shown, all of
    them at `ALL`. ``rules`` are horizontal lines: ``value`` and ``label``, the pickers' columns
    where a rule stands for some of them only, and ``line`` where it belongs to one.

    >>> rows = [dict(n=n, mean=1 / n, low=0.5 / n, high=2 / n, method="TD") for n in (1, 2)]
    >>> chart = learning_curves(
    ...     rows, x=Axis("n", "samples"), y=Axis("mean", "error"), line="method", figure="f",
    ...     alt_text="The error falls.",
    ... )
    >>> [layer["mark"]["type"] for layer in chart["layer"]]
    ['area', 'line']
    """
    rows = _rows(table)
    names = list(dict.fromkeys(str(row[line]) for row in rows))
    highlight = alt.selection_point(fields=[line], bind="legend", name="highlight")
    shown = alt.condition(highlight, alt.value(1.0), alt.value(0.15))
    base = _filtered(alt.Chart(alt.InlineData(values=rows)), rows, pickers).encode(
        x=alt.X(x.column, **x.encoding()),
        color=alt.Color(
            f"{line}:N",
            scale=_scale(names, PALETTE),
            sort=names,
            legend=alt.Legend(
                symbolType="stroke", symbolOpacity=1.0, symbolSize=300, columns=_columns(names)
            ),
        ),
    )
    tooltip = [
        alt.Tooltip(f"{line}:N"),
        alt.Tooltip(x.column, type="quantitative", title=x.title, format=",.4~g"),
        alt.Tooltip(y.column, type="quantitative", title=y.title, format=".3~g"),
    ]
    layers: list[Any] = []
    if "low" in rows[0]:
        band = base.mark_area(clip=True).encode(
            y=alt.Y("low", **y.encoding()),
            y2="high",
            opacity=alt.condition(highlight, alt.value(0.18), alt.value(0.03)),
        )
        layers.append(band)
    layers.append(
        base.mark_line(strokeWidth=2, clip=True).encode(
            y=alt.Y(y.column, **y.encoding()),
            strokeDash=alt.StrokeDash(f"{line}:N", scale=_scale(names, DASHES, 1), sort=names),
            opacity=shown,
            tooltip=tooltip,
        )
    )
    if levels := _rows(rules):
        layers += _levels(levels, y, pickers, line, _scale(names, PALETTE))
    layers[0] = layers[0].add_params(highlight)
    return _finished(alt.layer(*layers), figure, pickers, alt_text, height)


def _levels(
    rows: list[Json], y: Axis, pickers: Sequence[Picker], line: str, colours: alt.Scale
) -> list[Any]:
    """Horizontal lines; their labels stand below and above by turns, so that two fit together."""
    marked = [{**row, "above": i % 2 == 1} for i, row in enumerate(rows)]
    across = _filtered(alt.Chart(alt.InlineData(values=marked)), rows, pickers)
    at = alt.Y("value", **y.encoding())
    colour = alt.Color(f"{line}:N", scale=colours) if line in rows[0] else alt.value("currentColor")
    rule = across.mark_rule(strokeDash=[3, 3], opacity=0.8)
    text = across.mark_text(
        align="right", baseline="middle", fontSize=11, dy=alt.expr("datum.above ? -8 : 9")
    )
    return [
        rule.encode(y=at, color=colour, tooltip=["label:N", "value:Q"]),
        text.encode(x=alt.value({"expr": "width"}), y=at, text="label:N"),
    ]


@dataclass(frozen=True)
class Risk:
    """A choice for the horizontal axis: its column and words, and what stands upward beside it."""

    column: str
    words: str
    up: str
    up_words: str


def frontier(
    table: Table,
    *,
    risks: Sequence[Risk],
    label: str,
    order: str,
    tooltips: Mapping[str, str],
    figure: str,
    alt_text: str,
    references: Table = (),
    hull: str | None = None,
    height: int = 380,
) -> tuple[Json, Picker]:
    """A point for each policy, a line through the medians, and a picker of the risk.

    ``label`` is the column with the line's name, ``order`` the one that orders a line's points
    (the threshold); ``tooltips`` are columns and their words. ``references`` are policies to
    compare with (columns as in ``table``, as far as they are known), shown beside the risks that
    they have. ``hull`` is what mixing some of them reaches at one `Risk`: its column.
    """
    rows, others = _rows(table), _rows(references)
    names = list(dict.fromkeys(str(row[label]) for row in rows))
    picker = Picker("risk", "risk to the right:", {r.column: r.words for r in risks})
    up = "{" + ", ".join(f"'{r.column}': '{r.up}'" for r in risks) + "}[risk]"
    words = {r.column: r.words for r in risks}, {r.column: r.up_words for r in risks}

    def at_picked(data: list[Json]) -> alt.Chart:
        chart = alt.Chart(alt.InlineData(values=data))
        return chart.transform_calculate(x="datum[risk]", y=f"datum[{up}]")

    scale = alt.Scale(zero=False, nice=True)
    x = alt.X("x:Q", axis=alt.Axis(title=None, format="~g", tickCount=6), scale=scale)
    y = alt.Y("y:Q", axis=alt.Axis(title=None, format="~g"), scale=scale)
    highlight = alt.selection_point(fields=[label], bind="legend", name="highlight")
    colour = alt.Color(
        f"{label}:N",
        scale=_scale(names, PALETTE),
        sort=names,
        legend=alt.Legend(columns=_columns(names)),
    )
    shape = alt.Shape(f"{label}:N", scale=_scale(names, SHAPES), sort=names)
    shown = [alt.Tooltip(f"{name}:{_kind(rows, name)}", title=t) for name, t in tooltips.items()]
    layers: list[Any] = []
    if others:
        known = [name for name in tooltips if name in others[0]]
        # where a measure is not known, some place inside the picture, and nothing is drawn
        filled = [{**rows[0], **row} for row in others]
        seen = f"indexof({[r.column for r in risks if r.column in known]}, risk) >= 0"
        grey = at_picked(filled)
        layers.append(
            grey.mark_point(
                size=14, filled=True, color=GREY, opacity=alt.expr(f"{seen} ? 0.55 : 0")
            ).encode(
                x=x,
                y=y,
                tooltip=[
                    alt.Tooltip(f"{label}:N", title="policy"),
                    *(t for t, name in zip(shown, tooltips, strict=True) if name in known),
                ],
            )
        )
        if hull is not None:
            edge = grey.transform_filter("datum.hull").mark_line(
                color=GREY, strokeWidth=1.5, opacity=alt.expr(f"risk === '{hull}' ? 1 : 0")
            )
            layers.append(edge.encode(x=x, y=y, order=alt.Order(f"{hull}:Q")))
    layers.append(
        at_picked(rows)
        .transform_aggregate(x="median(x)", y="median(y)", groupby=[label, order])
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=colour,
            order=alt.Order(f"{order}:Q"),
            opacity=alt.condition(highlight, alt.value(1.0), alt.value(0.15)),
        )
    )
    layers.append(
        at_picked(rows)
        .mark_point(size=46, filled=True)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=shape,
            opacity=alt.condition(highlight, alt.value(0.75), alt.value(0.1)),
            tooltip=[alt.Tooltip(f"{label}:N", title="preset"), *shown],
        )
        .add_params(highlight)
    )
    layers.append(
        alt.Chart(alt.InlineData(values=[{}])).mark_text(
            align="left",
            fontSize=12,
            x=0,
            y=-14,
            text=alt.expr(_choice(words[1])),
        )
    )
    chart = alt.layer(*layers).properties(
        title=alt.TitleParams(text=alt.expr(_choice(words[0])), orient="bottom", offset=8)
    )
    return _finished(chart, figure, [picker], alt_text, height), picker


def _columns(names: Sequence[str]) -> Any:
    """As many columns of the legend as fit beside each other.

    By the size of the place, since ``width`` is that of the axes, which changes with the legend;
    it is named to be told when the window changes.
    """
    each = 7 * max(map(len, names)) + 40
    return alt.expr(f"max(1, floor((0 * width + containerSize()[0] - 60) / {each}))")


def _choice(words: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{column}': '{text}'" for column, text in words.items())
    return "{" + pairs + "}[risk]"


def _kind(rows: Sequence[Row], column: str) -> str:
    return "N" if isinstance(rows[0][column], str) else "Q"


def _filtered(chart: alt.Chart, rows: Sequence[Row], pickers: Sequence[Picker]) -> alt.Chart:
    """Keep the rows that are picked, by every picker whose column the rows have."""
    for picker in pickers:
        if picker.name in rows[0]:
            name = picker.name
            chart = chart.transform_filter(f"{name} === '{ALL}' || datum['{name}'] === {name}")
    return chart


def _scale(names: Sequence[str], values: Sequence[Any], shift: int = 0) -> alt.Scale:
    """A value for each name; with more names than values, they start again, shifted by some."""
    n = len(values)
    places = [(i + shift * (i // n)) % n for i in range(len(names))]
    return alt.Scale(domain=list(names), range=[values[i] for i in places])


def _finished(
    chart: alt.LayerChart | alt.FacetChart,
    figure: str,
    pickers: Sequence[Picker],
    alt_text: str,
    height: int,
) -> Json:
    whole = chart.add_params(*(picker.parameter(figure) for picker in pickers)).properties(
        width="container", height=height, description=alt_text
    )
    spec = whole.to_dict()
    del spec["$schema"]  # an address, though nobody would fetch it
    return {**spec, "config": CONFIG}


def _rows(table: Table) -> list[Json]:
    """Rows as JSON holds them: numbers of a few digits, None where one is not finite."""
    rows = table.to_dicts() if isinstance(table, pl.DataFrame) else table
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | int) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None
