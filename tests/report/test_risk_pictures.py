import numpy as np
import pytest

from downside.evaluation import Evaluation, Evaluations
from downside.signals import Centralised

RNG = np.random.default_rng(5)
REWARDS = RNG.normal(0.01, 0.1, (400, 12))


def policy(shift=0.0, target=0.0, **options):
    rewards = REWARDS + shift
    return Evaluation.of_episodes(
        rewards.sum(axis=1),
        target=target,
        signals=np.maximum(-rewards, 0.0).sum(axis=1),
        targets=np.zeros(400),
        threshold=0.5,
        **{"paths": rewards[:100], "drawdowns": np.full(400, 0.3)} | options,
    )


def lines_of(axes):
    return {line.get_label(): line.get_xdata() for line in axes.get_lines()}


def test_the_histogram_shows_target_and_tail_and_shades_the_shortfall(tmp_path):
    one = policy(target=0.05)
    figure = one.plot(tmp_path / "returns.png")
    (axes,) = figure.axes
    lines = lines_of(axes)
    assert lines["target 0.05"][0] == 0.05
    assert lines[f"VaR at 5%: {one['var'].value:.3g}"][0] == one["var"].value
    assert lines[f"CVaR at 5%: {one['cvar'].value:.3g}"][0] == one["cvar"].value
    shaded = [bar for bar in axes.patches if hasattr(bar, "get_width") and bar.get_width() > 0]
    area = sum(bar.get_width() * bar.get_height() for bar in shaded)
    # a part of one bin is cut at the target: up to a bin's share of the episodes
    assert abs(area - one["lpm0"].value) < 0.06
    assert max(bar.get_x() + bar.get_width() for bar in shaded) == pytest.approx(0.05)
    assert axes.get_title().startswith("bound: proxy about 0.05 <= 0.5; measured")
    assert (tmp_path / "returns.png").stat().st_size > 5000


def test_the_curve_is_the_share_of_returns_below():
    one = policy()
    (axes,) = one.plot(kind="probability").axes
    line = next(each for each in axes.get_lines() if each.get_label() == "P(return < x)")
    for x, y in list(zip(*line.get_data(), strict=True))[::97]:
        assert y == pytest.approx(np.mean(one.episodes.returns < x))


@pytest.mark.parametrize("kind", ["fan", "underwater"])
def test_bands_are_quantiles_of_the_paths(kind):
    (axes,) = policy().plot(kind=kind).axes
    wealth = np.concatenate([np.zeros((100, 1)), REWARDS[:100].cumsum(axis=1)], axis=1)
    expected = wealth
    if kind == "underwater":
        peak = np.stack([wealth[:, : t + 1].max(axis=1) for t in range(13)], axis=1)
        expected = 100.0 * (np.exp(wealth - peak) - 1.0)
    median = next(each for each in axes.get_lines() if each.get_label() == "median")
    np.testing.assert_allclose(median.get_ydata(), np.median(expected, axis=0))


@pytest.mark.parametrize("kind", ["histogram", "probability", "fan", "underwater"])
def test_several_policies_are_drawn_together(kind, tmp_path):
    results = tuple(policy(shift) for shift in (0.0, 0.01, 0.02, 0.03))
    labels = ("kl=0.1", "kl=0.2")
    figure = Evaluations(results, 2, labels).plot(tmp_path / f"{kind}.png", kind)
    shown = [axes for axes in figure.axes if axes.axison]
    if kind == "probability":
        words = [text.get_text() for text in shown[0].get_legend().get_texts()]
    else:
        words = [axes.get_title() for axes in shown]
    assert words[0].startswith(labels[0])
    assert words[1].startswith(labels[1])


@pytest.mark.parametrize(
    ("one", "kind", "advice"),
    [
        (policy(drawdowns=None), "underwater", r"evaluate\(log_returns=True\)"),
        (policy(paths=None), "fan", "give paths="),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(one, kind, advice):
    with pytest.raises(ValueError, match=advice):
        one.plot(kind=kind)


def test_about_the_mean_the_line_is_called_so():
    (axes,) = policy(target=Centralised()).plot().axes
    assert any(label.startswith("mean ") for label in lines_of(axes))


def test_a_verdict_fits_above_its_picture():
    rng = np.random.default_rng(3)
    seeds = [
        Evaluation.of_episodes(
            rng.normal(0.1, 0.3, 100),
            target=0.0512345,
            threshold=0.3,
            signals=rng.normal(shift, 0.2, 100),
        )
        for shift in (0.29, 0.31)
    ]
    figure = Evaluations(tuple(seeds), n_seeds=2).plot(kind="histogram")
    title = figure.axes[0].title
    figure.draw_without_rendering()
    box = title.get_window_extent()
    assert "seeds hold" in title.get_text().replace("\n", " ")
    assert 0.0 <= box.x0 <= box.x1 <= figure.bbox.width
