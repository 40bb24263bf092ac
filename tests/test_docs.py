"""The numbers of the documentation are those of the committed results."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
CLAIMS = sorted((DOCS / "results").glob("*/claims.json"))


@pytest.mark.parametrize("path", CLAIMS, ids=[path.parent.name for path in CLAIMS])
def test_the_table_of_an_experiment_is_that_of_its_committed_claims(path):
    page = (DOCS / "paper" / f"{path.parent.name}.md").read_text()
    document = json.loads(path.read_text())
    # a shorter run is committed only under its own name
    assert document["scale"] == "full" or f"`{document['command']}`" in page
    for claim in document["claims"]:
        measured = f"{claim['measured']:.3g}"
        if claim["low"] is not None:
            measured += f" [{claim['low']:.3g}, {claim['high']:.3g}]"
        assert f"| {claim['id']}: {claim['paper']} | {measured} | {claim['verdict']} |" in page


TABLES = sorted((DOCS / "results" / "evaluation").glob("*.txt"))


@pytest.mark.parametrize("path", TABLES, ids=[path.stem for path in TABLES])
def test_the_tables_of_the_evaluation_page_are_the_committed_ones(path):
    assert path.read_text() in (DOCS / "evaluation.md").read_text()
