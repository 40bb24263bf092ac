import numpy as np
import polars as pl

from downside.report.charts import ALL, Axis, Picker, learning_curves
from downside.report.style import Look

X, Y = Axis("steps", "steps"), Axis("error", "relative error", log=True)


def curves(table, **options):
    settings = {"x": X, "y": Y, "line": "method", "figure": "f", "alt_text": "Words."}
    return learning_curves(table, **(settings | options))


def rows_of(chart, layer):
    data = chart["layer"][layer].get("data") or chart["data"]
    return data.get("values") or chart["datasets"][data["name"]]


def test_a_polars_table_and_rows_give_the_same_chart():
    rows = [{"steps": n, "error": 1.0 / n, "method": m} for m in "ab" for n in (1, 3)]
    assert curves(rows) == curves(pl.DataFrame(rows))


def test_numbers_have_four_digits_and_none_where_they_are_not_finite():
    error = [1.0 / 3.0, np.inf, np.float32(2e-9)]
    found = rows_of(curves([{"steps": 1, "error": e, "method": "a"} for e in error]), 0)
    assert [row["error"] for row in found] == [0.3333, None, 2e-9]


def test_more_lines_than_colours_still_look_different():
    chart = curves([{"steps": 1, "error": 0.5, "method": f"m{i}"} for i in range(14)])
    line = chart["layer"][0]["encoding"]
    looks = list(
        zip(
            line["color"]["scale"]["range"],
            map(str, line["strokeDash"]["scale"]["range"]),
            strict=True,
        )
    )
    assert len(looks) == len(set(looks)) == 14


def test_a_picker_filters_the_tables_that_have_its_column():
    picker = Picker("nu", "nu", {ALL: "all", "0.1": "0.1"})
    table = [{"steps": 1, "error": 0.5, "method": "a", "nu": "0.1"}]
    chart = curves(table, pickers=[picker], rules=[{"value": 0.2, "label": "20%"}])
    assert ["transform" in layer for layer in chart["layer"]] == [True, False, False]
    assert chart["layer"][0]["transform"][0]["filter"] == "nu === 'all' || datum['nu'] === nu"
    (bound,) = [p for p in chart["params"] if p["name"] == "nu"]
    assert bound["bind"]["element"] == "#f-nu"
    assert bound["value"] == ALL


def test_a_band_is_drawn_only_where_there_is_one():
    row = {"steps": 1, "error": 0.5, "method": "a"}
    kinds = [
        [layer["mark"]["type"] for layer in curves([each])["layer"]]
        for each in (row, row | {"low": 0.4, "high": 0.6})
    ]
    assert kinds == [["line"], ["area", "line"]]


def test_a_line_has_the_look_that_is_given_for_it():
    rows = [{"steps": 1, "error": 0.5, "method": m} for m in "abc"]
    looks = {"b": Look("#123456", dashes=":"), "c": Look("#404040")}
    line = curves(rows, looks=looks)["layer"][0]["encoding"]
    assert line["color"]["scale"]["range"] == ["#0072B2", "#123456", "currentColor"]
    assert line["strokeDash"]["scale"]["range"] == [[1, 0], [2, 2], [1, 0]]
