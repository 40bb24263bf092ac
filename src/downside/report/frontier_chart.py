"""The interactive frontier: mean against a risk that the reader picks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import altair as alt
import numpy as np

from downside.report.charts import (
    Json,
    Picker,
    Row,
    Table,
    colours,
    finished,
    legend_columns,
    plain,
    rows_of,
    shapes,
)
from downside.report.style import GREY, Look

STAR = "M0,-1L.22,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.22,-.31Z"
MIDDLE = (0.1, 0.5, 0.9)  # of the seeds: the ends of a band, and the median


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
    looks: Mapping[str, Look] = MappingProxyType({}),
    height: int = 380,
) -> tuple[Json, Picker]:
    """A point for each policy, a line through the medians with a band, and a picker of the risk.

    ``label`` is the column with the line's name, ``order`` the one that orders a line's points
    (the threshold); ``tooltips`` are columns and their words. The band holds the middle 80% of
    what is upward at each threshold. ``references`` are policies to compare with (columns as in
    ``table``, as far as they are known), shown beside the risks that they have; those whose
    ``star`` is true are stars. ``hull`` is what mixing some of them reaches at one `Risk`: its
    column. ``looks`` are as in `learning_curves`.
    """
    rows, others = rows_of(table), rows_of(references)
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
        scale=colours(names, looks),
        sort=names,
        legend=alt.Legend(columns=legend_columns(names), symbolOpacity=1.0),
    )
    shape = alt.Shape(f"{label}:N", scale=shapes(names, looks), sort=names)
    shown = [alt.Tooltip(f"{name}:{_kind(rows, name)}", title=t) for name, t in tooltips.items()]
    layers: list[Any] = []
    stars: list[Any] = []
    if others:
        known = [name for name in tooltips if name in others[0]]
        # where a measure is not known, some place inside the picture, and nothing is drawn
        filled = [{**rows[0], **row} for row in others]
        seen = f"indexof({[r.column for r in risks if r.column in known]}, risk) >= 0"
        grey = at_picked(filled)
        policy = [
            alt.Tooltip(f"{label}:N", title="policy"),
            *(t for t, name in zip(shown, tooltips, strict=True) if name in known),
        ]
        layers.append(
            grey.mark_point(
                size=14, filled=True, color=GREY, opacity=alt.expr(f"{seen} ? 0.55 : 0")
            ).encode(x=x, y=y, tooltip=policy)
        )
        star = grey.transform_filter("datum.star").mark_point(
            shape=STAR, size=170, filled=True, opacity=alt.expr(f"{seen} ? 1 : 0")
        )
        stars.append(star.encode(x=x, y=y, color=alt.value("currentColor"), tooltip=policy))
        if hull is not None:
            edge = grey.transform_filter("datum.hull").mark_line(
                color=GREY, strokeWidth=1.5, opacity=alt.expr(f"risk === '{hull}' ? 1 : 0")
            )
            layers.append(edge.encode(x=x, y=y, order=alt.Order(f"{hull}:Q")))
    band = alt.Chart(alt.InlineData(values=_bands(rows, risks, label, order)))
    layers.append(
        band.transform_calculate(
            x="datum[risk]", y=f"datum[{up} + ' low']", high=f"datum[{up} + ' high']"
        )
        .mark_area()
        .encode(
            x=x,
            y=y,
            y2="high:Q",
            color=colour,
            opacity=alt.condition(highlight, alt.value(0.18), alt.value(0.03)),
        )
    )
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
    layers += stars
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
    return finished(chart, figure, [picker], alt_text, height), picker


def _bands(rows: list[Json], risks: Sequence[Risk], label: str, order: str) -> list[Json]:
    """At each place of a line the median of every risk, and the middle of what is upward."""
    places: dict[tuple[str, Any], list[Json]] = {}
    for row in rows:
        places.setdefault((row[label], row[order]), []).append(row)

    def quantile(seeds: list[Json], column: str, part: float) -> Any:
        known = [seed[column] for seed in seeds if seed[column] is not None]
        return plain(np.quantile(known, part)) if known else None

    low, middle, high = MIDDLE
    return [
        {
            label: name,
            order: place,
            **{r.column: quantile(seeds, r.column, middle) for r in risks},
            **{f"{r.up} low": quantile(seeds, r.up, low) for r in risks},
            **{f"{r.up} high": quantile(seeds, r.up, high) for r in risks},
        }
        for (name, place), seeds in places.items()
    ]


def _choice(words: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{column}': '{text}'" for column, text in words.items())
    return "{" + pairs + "}[risk]"


def _kind(rows: Sequence[Row], column: str) -> str:
    return "N" if isinstance(rows[0][column], str) else "Q"
