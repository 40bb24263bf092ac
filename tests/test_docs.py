"""The numbers of the documentation are those of the committed results."""

import json
import re
import runpy
from pathlib import Path

import constants
import prose
import pytest
from benchmarks.table import fill, tables
from tables import PAGES
from tables import fill as fill_page

from downside.closed_forms import normal_lower_partial_moment, pareto_lower_partial_moment
from downside.environments import Consumption, Tabular
from downside.exact import return_distribution, risk_cumulants, start_value
from downside.experiments.base import number
from downside.experiments.catalogue import CLAIMS as PAPER
from downside.signals import Custom, Fixed

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
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


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_and_numbers_of_a_page_are_those_of_the_committed_results(name):
    assert fill_page(name) == (ROOT / name).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_mark_stands_right_after_its_number(name):
    page = (ROOT / name).read_text()
    assert re.findall(r"<!--(\w.*?)-->", page) == prose.MARK.findall(page)


def unmarked(page):
    """Numbers with a point or a percent sign in sentences, without a mark: what is around them."""
    text = re.sub(r"^```.*?^```$|^    .*?$", "", page, flags=re.M | re.S)
    text = re.sub(prose.MARK, "", text)
    text = re.sub(r"`[^`]*`|<!--.*?-->|!?\[[^]]*\]\([^)]*\)", "", text)
    return re.findall(r".{0,30}\d(?:\.\d+%?|%).{0,10}", text)


@pytest.mark.parametrize("name", constants.CONSTANTS)
def test_a_number_in_a_sentence_is_marked_or_a_known_constant(name):
    page = (ROOT / name).read_text()
    if name != "README.md":  # its table consists of sentences; the others are filled, or settings
        page = re.sub(r"^\|.*$", "", page, flags=re.M)
    page = re.sub(r"(?<=\S)\n *(?=[^\s#|-])", " ", page)  # sentences without their line breaks
    for phrase in constants.CONSTANTS[name]:
        assert phrase in page, f"{name} does not have the constant {phrase!r}"
        page = page.replace(phrase, "")
    for phrase in constants.ANYWHERE:
        page = re.sub(phrase, "", page)
    assert unmarked(page) == []


def test_what_counts_as_a_number_without_a_mark():
    assert (
        unmarked("it is 0.25<!--a--> and 12%<!--b-->, `0.5`, 7 [0.3](x0.4)\n```\n0.2\n```\n") == []
    )
    assert len(unmarked("it is 0.25 or so<!--a-->\nand then 12% and\n-1.5%")) == 3


PRINTED = [
    path
    for page in ("command_line", "evaluation")
    for path in (DOCS / "results" / page).glob("*.txt")
]


@pytest.mark.parametrize("path", PRINTED, ids=[path.stem for path in PRINTED])
def test_what_was_printed_stands_on_its_page_as_it_was_committed(path):
    assert path.read_text() in (DOCS / f"{path.parent.name}.md").read_text()


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


def test_the_catalogue_names_the_experiments_that_judge_each_claim():
    judges = {number: set() for number in PAPER}
    for path in CLAIMS:
        for claim in json.loads(path.read_text())["claims"]:
            judges[int(claim["id"].split()[0])].add(path.parent.name)
    committed = {path.parent.name for path in CLAIMS}
    for claim, found in judges.items():
        assert found == set(PAPER[claim].judged_by) & committed


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


def test_what_exact_tau_has_to_tell_apart():
    about_a = normal_lower_partial_moment(1.0, 1.0, target=1.0)
    about_c = pareto_lower_partial_moment(1.0, 1.5, target=3.0)  # its mean: 1.5 / (1.5 - 1)
    page = (DOCS / "paper" / "bandit.md").read_text()
    words = (
        f"Exact tau has to tell {3 - 2 * about_c:.2f} (arm C) from {1 - 2 * about_a:.2f} (arm A)"
    )
    assert words in " ".join(page.split())


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
