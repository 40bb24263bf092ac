"""The report as a reader meets it: its words, and the page in a browser without a network."""

import json
import re

import pytest

import made_up_results as made_up
from browser import CHROMIUM, chromium
from downside.experiments.base import OURS, Claim
from downside.experiments.catalogue import CLAIMS
from downside.report.page import Judged, find_runs, page, summary, verdict_rows, write_page

pytestmark = pytest.mark.slow

MOST_BYTES = 3_000_000

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="found no chromium; on Debian: apt-get install chromium"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of three experiments; two of the claims are judged twice, most of them never."""
    folder = tmp_path_factory.mktemp("results")
    made_up.leave(folder, "consumption", made_up.consumption(), [made_up.claim("11 consumption")])
    made_up.leave(
        folder,
        "portfolio",
        made_up.portfolio(),
        [
            made_up.claim("10 frontier", "holds with a correction", 0.94, low=0.9, high=0.99),
            made_up.claim("10 lower proxy", "not reached at this scale", None),
        ],
    )
    bandit = made_up.claim("7 bandit", "fails", 7300.0, note="a < b & </script> here. Also.")
    made_up.leave(folder, "bandit", made_up.bandit(), [bandit])
    (folder / "portfolio" / "fig4_portfolio.png").touch()
    return write_page(folder)


@pytest.fixture(scope="module")
def tab():
    with chromium() as found:
        yield found


@pytest.fixture
def opened(tab, report):
    tab.requests.clear()
    tab.complaints.clear()
    tab.look()
    tab.open(report)
    tab.wait(
        "document.querySelectorAll('.chart').length"
        " === document.querySelectorAll('.chart svg.marks').length"
    )
    return tab


def pick(tab, name, value):
    tab.run(
        f"(() => {{ const s = document.getElementById('{name}'); s.value = '{value}';"
        " s.dispatchEvent(new Event('change')); })()"
    )


def drawn(tab, chart):
    """The shapes of a chart: what would change if it showed something else."""
    return tab.run(
        f"[...document.querySelectorAll('[data-chart={chart}] svg path')]"
        ".map(path => path.getAttribute('d') + path.getAttribute('transform')).join()"
    )


def words(tab, chart):
    return tab.run(f"document.querySelector('[data-chart={chart}] svg').textContent")


def test_the_claims_stand_in_the_order_of_the_paper(report):
    bodies = re.findall(r'<tbody id="claim-(\d+)">(.*?)</tbody>', report.read_text())
    assert [int(number) for number, _ in bodies] == list(range(1, 13))
    for number, body in bodies:
        judged = int(number) in (7, 10, 11)
        assert ("not run" in body) != judged, number
        assert body.count("<tr>") == (2 if number == "10" else 1)


def test_a_row_has_number_meaning_verdict_and_command(report):
    body = re.search(r'<tbody id="claim-10">(.*?)</tbody>', report.read_text())[1]
    assert "0.94 [0.9, 0.99]" in body
    assert "number of 10 frontier" in body
    assert "holds with a correction" in body
    assert "not reached</b>" in body
    assert "downside reproduce portfolio</span> <span>--scale smoke" in body


def test_a_claim_that_was_not_run_names_its_command(report):
    body = re.search(r'<tbody id="claim-8">(.*?)</tbody>', report.read_text())[1]
    assert "downside reproduce prediction" in body
    assert CLAIMS[8].says in body


def test_the_five_lines_follow_from_the_verdicts(report):
    lines = re.findall(r"<li class.*?</li>", report.read_text())
    plain = [re.sub("<.*?>", "", line) for line in lines]
    assert plain == [
        "Hold as printed: 1: 11 consumption.",
        "Hold with a correction: 1: 10 frontier.",
        "Fail: 1: 7 bandit.",
        "Not decided at this scale: 1: 10 lower proxy.",
        "Not run here: 9: 1 subadditivity, 2 bound, 3 contraction, 4 variance, 5 landscape, "
        "6 compatible, 8 efficiency, 9 higher orders, 12 no calibration.",
        "Beyond the paper: none.",
    ]


def test_what_the_paper_does_not_say_is_kept_apart():
    ours = Claim("11 optimum", f"{OURS} near the optimum", 0.97, "holds", "")
    theirs = Claim("11 stability", "stable", 0.1, "fails", "")
    found = summary(verdict_rows(Judged(each, "consumption", "") for each in (ours, theirs)))
    assert found["holds"] == []
    assert found["fails"] == [(11, "stability")]
    assert found[OURS] == [(11, "optimum (holds)")]


def test_a_claim_judged_alike_by_two_experiments_is_counted_once(report):
    runs = find_runs(report.parent)
    judged = [each for run in runs for each in run.judged]
    twice = summary(verdict_rows([*judged, judged[0]]))
    assert twice == summary(verdict_rows(judged))


def test_the_page_needs_nothing_but_itself(report):
    text = report.read_text()
    assert report.stat().st_size < MOST_BYTES
    assert text.count("window.vegaEmbed=") == 1  # the runtime is there once
    before = text[: text.index("<script>")]
    assert "http" not in before.replace("http-equiv", "").replace("http://www.w3.org/", "")
    assert not re.search(r'(src|srcset)="(?!data:)', before)
    links = {link for link in re.findall(r'href="([^"]*)"', before) if link[0] != "#"}
    assert {link for link in links if not link.startswith("data:")} == {
        "portfolio/fig4_portfolio.png"  # beside the page, for a click
    }


def test_words_of_a_claim_cannot_break_the_page(report):
    assert "a &lt; b &amp; &lt;/script&gt; here." in report.read_text()


def test_every_chart_and_picture_has_words_for_those_who_do_not_see_it(report):
    text = report.read_text()
    charts = re.findall(r'<div class="chart"[^>]*>', text)
    assert len(charts) == 6
    assert all(re.search(r'aria-label="[^"]{20,}"', chart) for chart in charts)


def test_a_static_figure_takes_the_colour_of_the_page_and_names_of_its_own(report):
    (picture,) = re.findall(r'<svg class="still".*?</svg>', report.read_text(), re.DOTALL)
    assert re.search(r'aria-label="[^"]{20,}"', picture)
    assert "#000000" not in picture
    assert "currentColor" in picture
    names = set(re.findall(r'\bid="(.*?)"', picture))
    assert all(name.startswith("proxy_and_lpm-") for name in names)
    assert set(re.findall(r'(?:href="#|url\(#)(.*?)["\)]', picture)) <= names


def test_a_folder_without_results_is_refused_with_a_command(tmp_path):
    with pytest.raises(ValueError, match=r"downside reproduce all --out"):
        write_page(tmp_path)


def test_an_experiment_without_its_numbers_is_left_out(report, tmp_path):
    made_up.leave(tmp_path, "portfolio", made_up.portfolio(), [made_up.claim("10 frontier")])
    made_up.leave(tmp_path, "bandit", made_up.bandit(), [made_up.claim("7 bandit")])
    (tmp_path / "bandit" / "results.npz").unlink()
    assert [run.experiment for run in find_runs(tmp_path)] == ["portfolio"]
    assert 'id="bandit"' not in page(find_runs(tmp_path))


def test_the_data_of_the_charts_are_those_of_the_results(report):
    specs = dict(
        re.findall(
            r'<script type="application/json" id="(fig\S+)">(.*?)</script>', report.read_text()
        )
    )
    layers = json.loads(specs["fig4-0"])["layer"]
    sets = json.loads(specs["fig4-0"]).get("datasets", {})
    data = [layer["data"].get("values") or sets[layer["data"]["name"]] for layer in layers]
    learnt = max((rows for rows in data if "seed" in rows[0] and "hull" not in rows[0]), key=len)
    results = made_up.portfolio()
    assert len(learnt) == 12
    row = next(
        r
        for r in learnt
        if (r["preset"], r["threshold"], r["seed"]) == ("figure, 2,500,000 steps", "0.5", 1)
    )
    for name in ("mean", "lpm", "proxy", "minimum", "path shortfall"):
        assert row[name] == pytest.approx(results[f"{name}: figure"][1, 1], rel=1e-3)


@needs_browser
def test_no_request_no_error_and_every_chart(opened):
    assert opened.run("document.querySelectorAll('.chart svg.marks').length") == 6
    assert opened.run(
        "[...document.querySelectorAll('.chart svg')].every(s => s.clientWidth > 300)"
    )
    asked = [url for url in opened.requests if not url.startswith("data:")]
    assert len(asked) == 1  # the file itself
    assert asked[0].startswith("file:")
    assert opened.complaints == []


@needs_browser
def test_picking_a_risk_changes_the_frontier_and_its_axes(opened):
    first, title = drawn(opened, "fig4-0"), words(opened, "fig4-0")
    assert "LPM of order 1" in title
    pick(opened, "fig4-risk", "proxy")
    opened.wait(
        "document.querySelector('[data-chart=fig4-0] svg').textContent.includes('constrained')"
    )
    assert "mean return, discounted" in words(opened, "fig4-0")
    assert drawn(opened, "fig4-0") != first
    pick(opened, "fig4-risk", "lpm")
    opened.wait(
        "document.querySelector('[data-chart=fig4-0] svg').textContent.includes('LPM of order 1')"
    )
    assert drawn(opened, "fig4-0") == first
    assert opened.complaints == []


@needs_browser
def test_one_threshold_picks_the_curves_of_all_three_charts(opened):
    charts = [f"fig5-{i}" for i in range(3)]
    lines = "document.querySelectorAll('[data-chart={}] svg .mark-line path').length"
    assert [opened.run(lines.format(chart)) for chart in charts] == [3, 3, 3]
    pick(opened, "fig5-threshold", "0.1")
    for chart in charts:
        opened.wait(f"{lines.format(chart)} === 1")
    text = words(opened, "fig5-0")
    assert "optimum, nu = 0.1" in text
    assert "optimum, nu = 0.05" not in text
    assert opened.complaints == []


@needs_browser
def test_a_tooltip_names_the_numbers_of_a_policy(opened):
    opened.run("document.getElementById('fig4').scrollIntoView({block: 'center'})")
    x, y = opened.run(
        "(() => { const points = document.querySelectorAll("
        "'[data-chart=fig4-0] svg .mark-symbol.role-mark path');"
        "const b = points[points.length - 2].getBoundingClientRect();"  # the last one is the star
        "return [b.x + b.width / 2, b.y + b.height / 2] })()"
    )
    for shift in (-3, 0):
        opened.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
    opened.wait("document.getElementById('vg-tooltip-element')?.innerText.includes('LPM')")
    told = opened.run("document.getElementById('vg-tooltip-element').innerText")
    for name in ("threshold nu", "seed", "mean", "LPM", "proxy", "minimum"):
        assert name in told


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_page_without_scrolling_sideways(opened, report, dark):
    opened.look(width=390, height=844, dark=dark)
    opened.open(report)
    opened.wait("document.querySelectorAll('.chart svg.marks').length === 6")
    assert opened.run("document.documentElement.scrollWidth") == 390
    assert opened.run(
        "[...document.querySelectorAll('.chart svg')].every(s => s.clientWidth < 390)"
    )


@needs_browser
@pytest.mark.parametrize("width", [390, 768, 1000, 1200, 1600])
def test_no_words_of_a_chart_are_cut_off(opened, report, width):
    opened.look(width=width, height=844)
    opened.open(report)
    opened.wait("document.querySelectorAll('.chart svg.marks').length === 6")
    cut = opened.run(
        "[...document.querySelectorAll('.chart svg.marks')].flatMap(svg => {"
        "const all = svg.getBoundingClientRect();"
        "return [...svg.querySelectorAll('text')].filter(text => {"
        "const b = text.getBoundingClientRect();"
        "return b.width > 0 && (b.top < all.top - 1 || b.bottom > all.bottom + 1"
        " || b.left < all.left - 1 || b.right > all.right + 1)"
        "}).map(text => text.textContent) })"
    )
    assert cut == []


@needs_browser
def test_text_is_light_in_the_dark_and_dark_in_the_light(opened, report):
    def brightness(selector, what):
        colour = opened.run(f"getComputedStyle(document.querySelector('{selector}')).{what}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    label = "[data-chart=fig4-0] svg .role-axis-label text"
    for dark in (False, True):
        opened.look(dark=dark)
        opened.open(report)
        opened.wait("document.querySelectorAll('.chart svg.marks').length === 6")
        ground = brightness("body", "backgroundColor")
        for part in (brightness("body", "color"), brightness(label, "fill")):
            assert (ground < 60 and part > 180) if dark else (ground > 240 and part < 80)
