import numpy as np
import pytest

from downside.report.frontier_chart import Risk, frontier

RISKS = [Risk("lpm", "LPM", "mean", "mean"), Risk("cvar", "CVaR", "mean", "mean")]


def drawn(policies, **options):
    return frontier(
        policies,
        risks=RISKS,
        label="preset",
        order="place",
        tooltips={"seed": "seed", "lpm": "LPM", "mean": "mean", "cvar": "CVaR"},
        figure="f",
        alt_text="Words.",
        **options,
    )


def layers(chart, kind):
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == kind]


def rows_of(chart, layer):
    data = layer.get("data") or chart["data"]
    return data.get("values") or chart["datasets"][data["name"]]


@pytest.fixture
def policies():
    return [
        {"preset": "a", "place": k, "seed": s, "lpm": 0.1 * k + s, "cvar": 5.0 * k, "mean": 1.0 + k}
        for k in range(3)
        for s in range(2)
    ]


def test_references_are_hidden_beside_a_risk_that_they_do_not_have(policies):
    references = [{"preset": "never", "lpm": 0.0, "mean": 0.5}]
    chart, picker = drawn(policies, references=references)
    assert picker.options == {"lpm": "LPM", "cvar": "CVaR"}
    grey = chart["layer"][0]
    assert grey["mark"]["opacity"] == {"expr": "indexof(['lpm'], risk) >= 0 ? 0.55 : 0"}
    assert [t["field"] for t in grey["encoding"]["tooltip"]] == ["preset", "lpm", "mean"]
    (row,) = rows_of(chart, grey)
    assert (row["lpm"], row["mean"], row["preset"]) == (0.0, 0.5, "never")


def test_a_reference_that_is_a_star_is_drawn_above_the_points(policies):
    references = [
        {"preset": "never", "lpm": 0.0, "mean": 0.5, "star": True},
        {"preset": "often", "lpm": 0.2, "mean": 0.7, "star": False},
    ]
    chart, _ = drawn(policies, references=references)
    star = layers(chart, "point")[-1]
    assert star["mark"]["shape"].startswith("M0,-1")
    assert {"filter": "datum.star"} in star["transform"]
    assert [row["star"] for row in rows_of(chart, star)] == [True, False]


def test_the_band_holds_the_middle_of_the_means_at_the_median_risk():
    means = np.array([0.3, 0.9, 1.1, 1.6, 2.0, 2.2])
    risks = np.array([0.5, 0.1, 0.2, 0.7, 0.3, 0.9])
    policies = [
        {"preset": "a", "place": 4, "seed": s, "lpm": risks[s], "cvar": -risks[s], "mean": means[s]}
        for s in range(6)
    ]
    chart, _ = drawn(policies)
    (band,) = layers(chart, "area")
    (row,) = rows_of(chart, band)
    # sorted risks: the median lies between 0.3 and 0.5; quantile 0.1 half-way from 0.3 to 0.9
    assert (row["lpm"], row["cvar"]) == pytest.approx((0.4, -0.4))
    assert (row["mean low"], row["mean high"]) == pytest.approx((0.6, 2.1))
    steps = {step["as"]: step["calculate"] for step in band["transform"]}
    assert steps["y"] == "datum[{'lpm': 'mean', 'cvar': 'mean'}[risk] + ' low']"
    assert band["encoding"]["y2"]["field"] == "high"


def test_a_policy_without_a_number_is_no_part_of_the_band(policies):
    policies[0]["mean"] = np.nan
    chart, _ = drawn(policies)
    (band,) = layers(chart, "area")
    row = rows_of(chart, band)[0]
    assert (row["mean low"], row["mean high"]) == (1.0, 1.0)
