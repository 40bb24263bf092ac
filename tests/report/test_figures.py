import numpy as np
import pytest
from matplotlib.colors import to_hex

from downside.report.bound_figures import BROKEN, HOLDS, proxy_and_lpm, slack
from downside.report.figures import (
    arm_probabilities,
    landscape,
    learning_curves,
    save,
    target_noise,
    tree,
    trials_right,
)

PANELS = ("variance", "mean_variance", "lpm", "mean_lpm")


@pytest.fixture
def results():
    """Optima at known places: one dot at (1, 0.5), a whole edge in the third panel."""
    surface = np.add.outer(np.arange(5.0), 10.0 * np.arange(5.0))
    edge = np.array([[4, j] for j in range(5)])
    return {f"panel_{name}": surface for name in PANELS} | {
        f"optima_{name}": edge if name == "lpm" else np.array([[4, 2]]) for name in PANELS
    }


@pytest.fixture
def curves():
    """Two methods on four problems; the error of method j is (j + 1) / sqrt(n)."""
    names = np.array(["first", "second", "third one", "fourth"])
    counts = np.array([100, 400, 1600])
    middle = np.array([1.0, 2.0])[:, None] / np.sqrt(counts)
    rmse = np.stack([[0.5 * middle] * 2, [middle] * 2, [2.0 * middle] * 2])
    targets = np.ones((1, 5, 3)) * np.array([2.0, 4.0, 5.0])
    results = {"problems": names, "methods": np.array(["fast", "slow"])}
    for name in names:
        results |= {
            f"counts: {name}": counts,
            f"rmse: {name}": rmse,
            f"target means: {name}": targets,
            f"target variances: {name}": 3.0 * targets,
        }
    return results


@pytest.fixture
def bandit():
    """Three goals at two counts; the means of the arms are 0.1, 0.2, 0.7 and the band is +-0.05."""
    mean = np.broadcast_to([0.1, 0.2, 0.7], (3, 2, 3))
    results = {"methods": np.array(["printed", "figure", "fast"])}
    for name in results["methods"]:
        results |= {
            f"counts: {name}": np.array([4000, 8000]),
            f"mean: {name}": mean,
            f"band: {name}": np.stack([mean - 0.05, mean + 0.05], axis=1),
            f"share: {name}": np.array([[0.25, 0.5], [0.5, 0.75], [0.75, 1.0]]),
        }
    return results


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title()]


def test_the_panels_stand_in_the_order_of_the_paper(results):
    titles = [axes.get_title() for axes in panels(landscape(results))]

    mean, variance = r"\mathbb{E}[G]", r"\mathbb{V}[G]"
    lpm = r"\mathbb{M}_-[G \mid 0]"
    assert titles == [
        f"(a)  ${variance}$",
        f"(b)  ${mean} - {variance}$",
        f"(c)  ${lpm}$",
        f"(d)  ${mean} - {lpm}$",
    ]


def test_optima_are_marked_where_they_are(results):
    marks = [axes.collections[-1].get_offsets().tolist() for axes in panels(landscape(results))]

    dot, band = [[1.0, 0.5]], [[1.0, y] for y in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert marks == [dot, dot, band, dot]


def test_single_optima_are_dots_and_a_whole_edge_is_a_band(results):
    shown = panels(landscape(results))
    texts = [axes.get_legend().get_texts()[0].get_text() for axes in shown]
    dot, band = (axes.collections[-1] for axes in shown[1:3])

    assert texts == ["minima", "local maxima", "minima: both edges", "maximum"]
    assert dot.get_sizes()[0] > 2 * band.get_sizes()[0]
    assert len(dot.get_edgecolor()) == 1
    assert len(band.get_edgecolor()) == 0


def test_theta1_runs_to_the_right(results):
    first = landscape(results).axes[0]
    picture = first.images[0].get_array()
    assert picture[0].tolist() == [0.0, -1.0, -2.0, -3.0, -4.0]  # the variance is shown, not -V


@pytest.mark.parametrize("figure", [tree, landscape])
def test_equal_results_give_equal_files(figure, results, tmp_path):
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        kinds = {path.suffix for path in save(figure(results), tmp_path / number / "figure")}
        assert kinds == {".png", ".svg", ".pdf"}
    for kind in ("png", "svg", "pdf"):
        one, two = ((tmp_path / number / f"figure.{kind}").read_bytes() for number in ("1", "2"))
        assert one == two


def test_learning_curves_show_each_method_with_its_band(curves):
    figure = learning_curves(curves)
    shown = panels(figure)
    assert [axes.get_title() for axes in shown] == curves["problems"].tolist()
    lines = shown[3].lines[:2]
    assert [line.get_label() for line in lines] == ["fast", "slow"]
    assert lines[1].get_xydata().tolist() == [[100.0, 0.2], [400.0, 0.1], [1600.0, 0.05]]
    band = shown[3].collections[1].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.025, 0.4)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fast", "slow"]


def test_target_noise_is_variance_over_squared_mean(curves):
    bars = [bar.get_height() for bar in target_noise(curves).axes[0].patches]
    # variance 3 m at a mean of m: 3 / m for m = 2, 4, 5, four problems each
    assert bars == pytest.approx([1.5] * 4 + [0.75] * 4 + [0.6] * 4)


@pytest.mark.parametrize("figure", [learning_curves, target_noise])
def test_figures_of_the_prediction_come_out_the_same(figure, curves, tmp_path):
    first, second = (
        save(figure(curves), tmp_path / number)[1].read_bytes() for number in ("1", "2")
    )
    assert first == second


def test_arm_probabilities_start_at_a_third_and_have_the_colours_of_the_paper(bandit):
    rows = np.reshape(arm_probabilities(bandit).axes, (3, 3))
    line = rows[1, 2].lines[2]
    assert (line.get_label(), line.get_color()) == ("arm C", "#9467BD")
    np.testing.assert_allclose(line.get_xydata(), [[0, 1 / 3], [4000, 0.7], [8000, 0.7]])
    band = rows[1, 2].collections[2].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((1 / 3, 0.75))
    assert [row[0].get_ylabel().split("\n")[0] for row in rows] == ["printed", "figure", "fast"]


def test_methods_that_did_not_run_are_left_out(bandit):
    figure = trials_right(bandit)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "printed",
        "figure",
        "fast",
    ]
    line = figure.axes[2].lines[1]
    assert line.get_xydata().tolist() == [[4000.0, 0.75], [8000.0, 1.0]]


@pytest.mark.parametrize("figure", [arm_probabilities, trials_right])
def test_figures_of_the_bandit_come_out_the_same(figure, bandit, tmp_path):
    first, second = (
        save(figure(bandit), tmp_path / number)[1].read_bytes() for number in ("1", "2")
    )
    assert first == second


def test_violations_stand_apart_and_are_counted():
    rows = {"bound: first": np.array([0.2, -0.3, 0.4, -1e-12]), "bound: second": np.ones(2)}
    axes = slack(rows).axes[0]
    colours = {to_hex(dots.get_facecolor()[0]): dots for dots in axes.collections[:2]}
    assert colours[BROKEN.lower()].get_offsets()[:, 0].tolist() == [-0.3]
    assert colours[HOLDS.lower()].get_offsets()[:, 0].tolist() == [0.2, 0.4, -1e-12]  # rounding
    assert [text.get_text() for text in axes.texts] == ["25% violate it", "none violates it"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]


def test_the_two_policies_of_the_same_mean_are_marked():
    orders = np.array([(i, j) for i in range(11) for j in range(11)])
    places = np.arange(len(orders)) / 7.0
    results = {"orders: two numbers": orders}
    results |= {f"{what}: two numbers": places for what in ("proxy", "lpm", "mean")}
    axes = proxy_and_lpm(results).axes[0]
    marks = [c.get_offsets().tolist()[0] for c in axes.collections[1:]]
    assert marks == [[10 / 7, 10 / 7], [36 / 7, 36 / 7]]
    assert [text.get_text() for text in axes.texts] == [
        "orders (0, 10), mean 1.43",
        "orders (3, 3), mean 5.14",
    ]
