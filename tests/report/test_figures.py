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


def test_optima_are_marked_where_they_are(results):
    axes = [a for a in landscape(results).axes if a.get_title()]

    assert [a.get_title()[:3] for a in axes] == ["(a)", "(b)", "(c)", "(d)"]
    marks = [a.collections[-1] for a in axes]
    assert marks[0].get_offsets().tolist() == [[1.0, 0.5]]
    assert marks[2].get_offsets().tolist() == [[1.0, y] for y in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert marks[1].get_label() == "local maxima"
    assert marks[2].get_label() == "minima: both edges"


def test_theta1_runs_to_the_right(results):
    first = landscape(results).axes[0]
    picture = first.images[0].get_array()
    assert picture[0].tolist() == [0.0, -1.0, -2.0, -3.0, -4.0]  # the variance is shown, not -V


def test_equal_results_give_equal_files(results, tmp_path):
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        kinds = {path.suffix for path in save(tree(results), tmp_path / number / "tree")}
        assert kinds == {".png", ".svg", ".pdf"}
    for kind in ("png", "svg", "pdf"):
        one, two = ((tmp_path / number / f"tree.{kind}").read_bytes() for number in ("1", "2"))
        assert one == two
