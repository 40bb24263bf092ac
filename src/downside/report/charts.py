"""Interactive charts from tidy tables, as Vega-Lite specifications made with altair.

A chart takes the width of the element that it stands in, and its text the colour of the page
around it (``currentColor``), so that one specification serves phones and desks, light and dark.
A `Picker` is a ``<select>`` of the page; every chart that names it follows it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any

import altair as alt
import polars as pl

from downside.report.style import INK, PALETTE, Look

Row = Mapping[str, Any]
Table = pl.DataFrame | Sequence[Row]
Json = dict[str, Any]

ALL = "all"
DASHES = {"-": [1, 0], "--": [7, 3], ":": [2, 2], "-.": [9, 3, 2, 3]}
MORE_DASHES = ([12, 4], [4, 4])
SHAPES = {
    "o": "circle",
    "^": "triangle-up",
    "s": "square",
    "D": "diamond",
    "x": "cross",
    "v": "triangle-down",
}
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
    looks: Mapping[str, Look] = MappingProxyType({}),
    height: int = 260,
) -> Json:
    """A line for each value of the column ``line``, with a band if there are ``low`` and ``high``.

    A picker's name is a column of the table; only rows with the picked value are shown, all of
    them at `ALL`. ``rules`` are horizontal lines: ``value`` and ``label``, the pickers' columns
    where a rule stands for some of them only, and ``line`` where it belongs to one. ``looks`` are
    those of lines that have one in a static figure too.

    >>> rows = [dict(n=n, mean=1 / n, low=0.5 / n, high=2 / n, method="TD") for n in (1, 2)]
    >>> chart = learning_curves(
    ...     rows, x=Axis("n", "samples"), y=Axis("mean", "error"), line="method", figure="f",
    ...     alt_text="The error falls.",
    ... )
    >>> [layer["mark"]["type"] for layer in chart["layer"]]
    ['area', 'line']
    """
    rows = rows_of(table)
    names = list(dict.fromkeys(str(row[line]) for row in rows))
    highlight = alt.selection_point(fields=[line], bind="legend", name="highlight")
    shown = alt.condition(highlight, alt.value(1.0), alt.value(0.15))
    base = _filtered(alt.Chart(alt.InlineData(values=rows)), rows, pickers).encode(
        x=alt.X(x.column, **x.encoding()),
        color=alt.Color(
            f"{line}:N",
            scale=colours(names, looks),
            sort=names,
            legend=alt.Legend(
                symbolType="stroke",
                symbolOpacity=1.0,
                symbolSize=300,
                columns=legend_columns(names),
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
            strokeDash=alt.StrokeDash(f"{line}:N", scale=_dashes(names, looks), sort=names),
            opacity=shown,
            tooltip=tooltip,
        )
    )
    if levels := rows_of(rules):
        layers += _levels(levels, y, pickers, line, colours(names, looks))
    layers[0] = layers[0].add_params(highlight)
    return finished(alt.layer(*layers), figure, pickers, alt_text, height)


def _levels(
    rows: list[Json], y: Axis, pickers: Sequence[Picker], line: str, colours: alt.Scale
) -> list[Any]:
    """Horizontal lines; the first label stands below its line, the others above theirs."""
    marked = [{**row, "above": i > 0} for i, row in enumerate(rows)]
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


def legend_columns(names: Sequence[str]) -> Any:
    """As many columns of the legend as fit beside each other.

    By the size of the place, since ``width`` is that of the axes, which changes with the legend;
    it is named to be told when the window changes.
    """
    each = 7 * max(map(len, names)) + 40
    return alt.expr(f"max(1, floor((0 * width + containerSize()[0] - 60) / {each}))")


def _filtered(chart: alt.Chart, rows: Sequence[Row], pickers: Sequence[Picker]) -> alt.Chart:
    """Keep the rows that are picked, by every picker whose column the rows have."""
    for picker in pickers:
        if picker.name in rows[0]:
            name = picker.name
            chart = chart.transform_filter(f"{name} === '{ALL}' || datum['{name}'] === {name}")
    return chart


def colours(names: Sequence[str], looks: Mapping[str, Look]) -> alt.Scale:
    """Of lines; ink is the colour of the page's text."""
    own = {name: look.colour for name, look in looks.items()}
    return _scale(names, PALETTE, own | {k: "currentColor" for k, v in own.items() if v == INK})


def _dashes(names: Sequence[str], looks: Mapping[str, Look]) -> alt.Scale:
    own = {name: DASHES[look.dashes] for name, look in looks.items()}
    return _scale(names, (*DASHES.values(), *MORE_DASHES), own, shift=1)


def shapes(names: Sequence[str], looks: Mapping[str, Look]) -> alt.Scale:
    """Of points."""
    own = {name: SHAPES[look.marker] for name, look in looks.items()}
    return _scale(names, tuple(SHAPES.values()), own)


def _scale(
    names: Sequence[str], values: Sequence[Any], own: Mapping[str, Any], shift: int = 0
) -> alt.Scale:
    """A value for each name, its own if it has one.

    With more names than values, these start again, shifted by some.
    """
    n = len(values)
    places = [(i + shift * (i // n)) % n for i in range(len(names))]
    found = [own.get(name, values[i]) for name, i in zip(names, places, strict=True)]
    return alt.Scale(domain=list(names), range=found)


def finished(
    chart: alt.LayerChart | alt.FacetChart,
    figure: str,
    pickers: Sequence[Picker],
    alt_text: str,
    height: int,
) -> Json:
    """A chart as the page takes it, with its pickers and its words for those who do not see it."""
    whole = chart.add_params(*(picker.parameter(figure) for picker in pickers)).properties(
        width="container", height=height, description=alt_text
    )
    spec = whole.to_dict()
    del spec["$schema"]  # an address, though nobody would fetch it
    return {**spec, "config": CONFIG}


def rows_of(table: Table) -> list[Json]:
    """Rows as JSON holds them: numbers of a few digits, None where one is not finite."""
    rows = table.to_dicts() if isinstance(table, pl.DataFrame) else table
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None
