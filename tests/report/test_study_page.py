"""The page of a study whose numbers are made up: its table, its frontier and its failures."""

import json
import re

import pytest

from downside.report.study_page import study_page
from downside.studies import trial as trials
from downside.studies.folder import Fate, StudyFolder, trial_folder
from downside.studies.study import Study

BASE = {
    "env": "downside/Bandit-v0",
    "settings": {"target": 1.0},
    "total_timesteps": 4000,
    "n_seeds": 2,
}


def rows_of(threshold):
    """Two seeds: risks 0.05 below and 0.03 above the bound."""
    risks = (threshold - 0.05, threshold + 0.03)
    return [
        {"seed": 0, "seed_index": i, "threshold": threshold, "risk": risk, "lpm": 0.9 * risk}
        | {"mean": 3.0 + risk, "multiplier": 0.7, "meets": risk <= threshold}
        for i, risk in enumerate(risks)
    ]


@pytest.fixture
def folder(tmp_path):
    study = Study(BASE, {"threshold": [0.2, 0.45, 0.7]}, name="a < b")
    with StudyFolder.open(tmp_path / "study", study) as opened:
        *good, bad = opened.study.trials
        for trial in good:
            place = trial_folder(opened.path, trial)
            place.mkdir(parents=True)
            trials._keep(trial, place, Fate("done"), rows_of(trial.values["threshold"]))
        place = trial_folder(opened.path, bad)
        trials.write_failure(bad, place, "OverflowError: <too much>", 1.0, kept=False)
        (place / "traceback.txt").write_text("Traceback: line 7 of </script>")
    return tmp_path / "study"


def test_settings_failures_and_frontier(folder):
    page = study_page(folder)
    assert "<h1>Study a &lt; b</h1>" in page
    assert "2 of 3 trials done, 1 failed" in page
    assert "0 settings meet their bound with every seed" in page
    assert "2 settings meet it with some seeds" in page
    # mean over the seeds: 3 + 0.2 - 0.01; half of the interval: 12.7062 * 0.04 (Student's, n = 2)
    assert "<td>3.19 ± 0.51</td><td>0.19 ± 0.51</td><td>0.2</td><td>50%</td>" in page
    assert "OverflowError: &lt;too much&gt;" in page
    assert "line 7 of &lt;/script&gt;" in page
    (chart,) = re.findall(r'<script type="application/json" id="frontier-0">(.*?)</script>', page)
    data = json.dumps(json.loads(chart))
    assert '"threshold": 0.45' in data
    assert '"setting": "bandit"' in data


def test_without_several_thresholds_there_is_no_frontier(tmp_path):
    study = Study({**BASE, "settings": {"target": 1.0, "threshold": 0.2}}, {"seed": [0]})
    with StudyFolder.open(tmp_path, study) as opened:
        (trial,) = opened.study.trials
        trial_folder(tmp_path, trial).mkdir(parents=True)
        trials._keep(trial, trial_folder(tmp_path, trial), Fate("done"), rows_of(0.2))
    page = study_page(tmp_path)
    assert "The frontier" not in page
    assert "Failures" not in page
    StudyFolder.open(tmp_path).__exit__()  # the page is no stranger in the folder
