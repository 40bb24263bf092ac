"""The numbers of the documentation are those of the committed results."""

import json
import re
import runpy
from pathlib import Path

import pytest
from benchmarks.table import fill, tables

from downside.environments import Consumption, Tabular
from downside.exact import return_distribution, risk_cumulants, start_value
from downside.experiments.base import number
from downside.experiments.catalogue import CLAIMS as PAPER
from downside.signals import Custom, Fixed

DOCS = Path(__file__).parents[1] / "docs"
SOURCE = Path(__file__).parents[1] / "src" / "downside"
CLAIMS = sorted((DOCS / "results").glob("*/claims.json"))


@pytest.mark.parametrize("path", CLAIMS, ids=[path.parent.name for path in CLAIMS])
def test_the_table_of_an_experiment_is_that_of_its_committed_claims(path):
    page = (DOCS / "paper" / f"{path.parent.name}.md").read_text()
    document = json.loads(path.read_text())
    # a shorter run is committed only under its own name
    assert document["scale"] == "full" or f"`{document['command']}`" in page
    for claim in document["claims"]:
        measured = number(claim["measured"])
        if claim["low"] is not None:
            measured += f" [{number(claim['low'])}, {number(claim['high'])}]"
        assert f"| {claim['id']}: {claim['paper']} | {measured} | {claim['verdict']} |" in page
        assert claim["what"], f"{claim['id']} does not say what its number is"


@pytest.mark.parametrize("name", ["portfolio", "consumption"])
def test_the_tables_of_a_figure_are_those_of_its_committed_results(name):
    fill_page = runpy.run_path(str(DOCS / "results" / "tables.py"))["fill"]
    assert fill_page(name) == (DOCS / "paper" / f"{name}.md").read_text()


TABLES = sorted((DOCS / "results" / "evaluation").glob("*.txt"))


@pytest.mark.parametrize("path", TABLES, ids=[path.stem for path in TABLES])
def test_the_tables_of_the_evaluation_page_are_the_committed_ones(path):
    assert path.read_text() in (DOCS / "evaluation.md").read_text()


def test_the_tables_of_the_benchmark_page_are_the_committed_ones():
    page, folder = (DOCS / "benchmarks.md").read_text(), DOCS / "results" / "benchmarks"
    for text in tables(folder).values():
        assert text in page
    assert fill(page, folder) == page


def test_the_page_on_real_environments_has_the_committed_numbers():
    made = runpy.run_path(str(DOCS / "results" / "environments" / "make.py"))
    page = (DOCS / "real_environments.md").read_text()
    found = made["read"]()
    for mark, lines in made["rows"](found).items():
        table = page.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0].splitlines()[2:]
        assert table == lines
    missing = [name for name in made["PROBLEMS"] if name not in found]
    for name in missing:
        assert f"- {name}" in page.split("## Not measured")[1]


def evidence(experiment, name):
    claims = json.loads((DOCS / "results" / experiment / "claims.json").read_text())["claims"]
    return next(claim["evidence"] for claim in claims if claim["id"] == name)


def test_the_catalogue_names_the_experiments_that_judge_each_claim():
    judges = {number: set() for number in PAPER}
    for path in CLAIMS:
        for claim in json.loads(path.read_text())["claims"]:
            judges[int(claim["id"].split()[0])].add(path.parent.name)
    committed = {path.parent.name for path in CLAIMS}
    for claim, found in judges.items():
        assert found == set(PAPER[claim].judged_by) & committed


def test_the_page_on_the_bound_has_the_committed_numbers():
    page = (DOCS / "bound.md").read_text()
    found = evidence("landscape", "2 bound")
    shares = {k.removeprefix("share violated: "): v for k, v in found.items() if "share" in k}
    assert len(shares) == 8
    for target, share in shares.items():
        assert f"| {target} | {share:.0%} |" in page
    assert f"one of {found['MDPs']:,.0f} random MDPs" in page
    assert f"g/2 = {found['pure luck: LPM']:.2f}" in page
    bandit = [found[f"uniform bandit: {what}"] for what in ("proxy", "LPM")]
    assert "proxy {:.3f},\n  LPM {:.3f}".format(*bandit) in page
    clipped = evidence("landscape", "4 variance")["cancelling rewards: variance of the clipped sum"]
    assert f"2/9 = {clipped:.4f}" in page

    found = evidence("portfolio", "10 lower proxy")
    mean, proxy, lpm = (
        " and ".join(f"{found[f'{what}: orders {pair}']:.3f}" for pair in ("(0, 10)", "(3, 3)"))
        for what in ("mean", "proxy", "lpm")
    )
    assert f"means {mean},\nproxies {proxy}, LPMs {lpm}" in page
    assert f"{found['share of pairs ordered against it']:.0%} are ordered one way" in page


@pytest.mark.parametrize("ends", [False, True])
def test_the_counter_examples_of_the_split(ends):
    # no reward at two steps, or one if the episode ends early; tau = 1, g = 0.9
    mdp = Tabular(
        transitions=[[[1.0]]],
        rewards=[[[0.0]]],
        next_states=[[[0]]],
        ends=[[[ends]]],
        discount=0.9,
        horizon=2,
    )
    policy = [[1.0]]

    def proxy(target):
        return start_value(mdp, policy, risk_cumulants(mdp, policy, target))

    def split(transition):
        return 0.1 / (1 - 0.9**2)

    assert return_distribution(mdp, policy).lower_partial_moment(1.0) == pytest.approx(1.0)
    assert proxy(Fixed(1.0)) == pytest.approx(1.0)
    page = (DOCS / "bound.md").read_text()
    if ends:
        assert f"{proxy(Custom(split)):.3f}, is all that is counted" in page
    else:
        printed = proxy(Custom(lambda transition: 0.1))
        assert f"0.1 + 0.9 x 0.1 = {printed:.2f}" in page
        assert f"= {split(None):.3f} it is" in page


def test_the_sums_of_the_printed_targets():
    env = Consumption()
    left = range(env.horizon, 0, -1)  # steps left, for somebody who consumes at a fixed rate
    steps = sum((n / env.horizon) * float(env.time_step) * n for n in left)
    page = (DOCS / "paper" / "misprints.md").read_text()
    assert f"= {steps:.1f} W_0 if T counts steps" in page
    assert f"= {steps / env.horizon:.3f} W_0 if T = 1" in page


def test_every_word_of_the_glossary_is_in_its_file():
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (`.+?`) \|", (DOCS / "glossary.md").read_text(), re.M)
    assert len(rows) > 25
    for _, word, places in rows:
        text = "".join((SOURCE / place).read_text() for place in re.findall("`(.+?)`", places))
        for name in re.findall(r"`(\w+)`", word):
            assert name in text, (word, places)
