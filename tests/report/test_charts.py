import numpy as np
import polars as pl
import pytest

from downside.report.charts import ALL, Axis, Picker, Risk, frontier, learning_curves

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


@pytest.fixture
def policies():
    return [
        {"preset": "a", "place": k, "seed": s, "lpm": 0.1 * k + s, "cvar": 5.0 * k, "mean": 1.0 + k}
        for k in range(3)
        for s in range(2)
    ]


def test_references_are_hidden_beside_a_risk_that_they_do_not_have(policies):
    chart, picker = frontier(
        policies,
        risks=[Risk("lpm", "LPM", "mean", "mean"), Risk("cvar", "CVaR", "mean", "mean")],
        label="preset",
        order="place",
        tooltips={"seed": "seed", "lpm": "LPM", "mean": "mean", "cvar": "CVaR"},
        figure="f",
        alt_text="Words.",
        references=[{"preset": "never", "lpm": 0.0, "mean": 0.5}],
    )
    assert picker.options == {"lpm": "LPM", "cvar": "CVaR"}
    grey = chart["layer"][0]
    assert grey["mark"]["opacity"] == {"expr": "indexof(['lpm'], risk) >= 0 ? 0.55 : 0"}
    assert [t["field"] for t in grey["encoding"]["tooltip"]] == ["preset", "lpm", "mean"]
    (row,) = rows_of(chart, 0)
    assert (row["lpm"], row["mean"], row["preset"]) == (0.0, 0.5, "never")
