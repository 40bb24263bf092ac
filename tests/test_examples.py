"""The examples run, are short, and do what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_runs(path, capsys):
    assert len(path.read_text().splitlines()) <= 60
    neutral, careful = runpy.run_path(str(path))["main"](24_000)
    assert "a bound of" in capsys.readouterr().out
    risk = careful.records.risks[-3:].mean()
    assert np.isfinite(risk)
    assert risk < 2.0 * careful.constraints[0][0].threshold  # half of the risk without a bound
    assert neutral.steps == careful.steps == 24_000
