"""The numbers of the documentation are those of the committed results."""

import json
from pathlib import Path

import pytest

from downside.experiments.base import number

DOCS = Path(__file__).parents[1] / "docs"
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
