"""One set of colours for static figures and charts, which all can see."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

import made_up_results as made_up
from downside.report.consumption_figure import learning
from downside.report.figures import arm_probabilities, trials_right
from downside.report.portfolio_figure import frontier
from downside.report.sections import SECTIONS
from downside.report.style import PALETTE

LIGHT, DARK = "#ffffff", "#1a1e23"  # of the panels of a page
# Machado, Oliveira and Fernandes (2009), complete loss of one kind of cone
CONES = {
    "red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour):
    channels = np.array(to_rgb(colour))
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """As WCAG 2 has it; 3 is enough for the parts of a picture."""
    low, high = sorted(0.05 + linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other))
    return high / low


def lab(light):
    """CIELAB of linear light."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(light, 0, 1) / [0.9505, 1.0, 1.089]
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def test_contrast_of_black_and_white():
    assert contrast("#000000", LIGHT) == pytest.approx(21.0)


@pytest.mark.parametrize("paper", [LIGHT, DARK])
def test_the_first_colours_stand_out_from_a_light_and_a_dark_page(paper):
    assert min(contrast(colour, paper) for colour in PALETTE[:4]) > 3.0
    assert min(contrast(colour, paper) for colour in PALETTE) > 2.2


@pytest.mark.parametrize("cones", CONES.values(), ids=CONES)
def test_the_colour_blind_tell_the_colours_apart(cones):
    seen = [lab(np.array(cones) @ linear(colour)) for colour in PALETTE]
    apart = [np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)]
    assert min(apart) > 15.0  # a difference of 2 can just be seen side by side


def chart_colours(experiment, results, number=0, chart=0):
    """The colours of a chart by the names of its lines."""
    spec = SECTIONS[experiment].panels(results)[number].charts[chart]
    scale = next(
        layer["encoding"]["color"]["scale"]
        for layer in spec["layer"]
        if "scale" in layer["encoding"].get("color", {})
    )
    ink = [c if c != "currentColor" else "#404040" for c in scale["range"]]
    return dict(zip(scale["domain"], map(str.lower, ink), strict=True))


def line_colours(axes):
    lines = (line for line in axes.lines if not line.get_label().startswith("_"))
    return {line.get_label(): to_hex(line.get_color()) for line in lines}


def shared(chart, figure):
    names = chart.keys() & figure.keys()
    assert {name: chart[name] for name in names} == {name: figure[name] for name in names}
    return len(names)


def test_charts_have_the_colours_of_the_static_figures():
    portfolio, consumption = made_up.portfolio(), made_up.consumption()
    bandit = made_up.bandit()
    drawn = line_colours(frontier(portfolio).axes[0])
    assert shared(chart_colours("portfolio", portfolio), drawn) == 2
    for row in range(3):
        drawn = line_colours(learning(consumption).axes[3 * row])
        assert shared(chart_colours("consumption", consumption, chart=row), drawn) == 3
    drawn = line_colours(arm_probabilities(bandit).axes[0])
    assert shared(chart_colours("bandit", bandit), drawn) == 3
    drawn = line_colours(trials_right(bandit).axes[0])
    assert shared(chart_colours("bandit", bandit, number=1), drawn) == 3


def test_the_bound_on_losses_is_a_panel_of_its_own_beside_its_optimum():
    results = made_up.consumption()
    trained = {k: v for k, v in results.items() if k.endswith(": figure")}
    capital = {k.replace(": figure", ": capital"): v for k, v in trained.items()}
    bounds = {
        "capital thresholds": np.array([0.05, 0.1, 0.15]),
        "capital optimum": np.array([1.28, 1.49, 1.61]),
    }
    without = SECTIONS["consumption"].panels(results)
    panels = SECTIONS["consumption"].panels(results | capital | bounds)
    assert [panel.figure for panel in without] == ["fig5"]
    assert [panel.figure for panel in panels] == ["fig5", "capital"]
    drawn = str(panels[1].charts[0])
    assert "optimum, nu = 0.15" in drawn
    assert "1.61" in drawn
