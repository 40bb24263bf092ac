import numpy as np
import pytest

from downside.report.figures import landscape, save, tree

PANELS = ("variance", "mean_variance", "lpm", "mean_lpm")


@pytest.fixture
def results():
    """Optima at known places: one dot at (1, 0.5), a whole edge in the third panel."""
    surface = np.add.outer(np.arange(5.0), 10.0 * np.arange(5.0))
    edge = np.array([[4, j] for j in range(5)])
    return {f"panel_{name}": surface for name in PANELS} | {
        f"optima_{name}": edge if name == "lpm" else np.array([[4, 2]]) for name in PANELS
    }


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
