import json
from pathlib import Path

import numpy as np
import pytest

from downside.experiments.base import load_experiment, load_results
from downside.experiments.landscape import judge, local_maxima
from downside.experiments.theory import THEOREMS
from experiment_runs import reproduce


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("results")
    reproduce("landscape", path)
    return path


def test_claims_have_the_documented_form(folder):
    document = json.loads((folder / "claims.json").read_text())
    assert document["schema"] == 1
    assert {"experiment", "scale", "command", "seconds", "versions", "means"} <= set(document)
    assert [claim["id"][0] for claim in document["claims"]] == ["1", "2", "3", "4", "5", "6"]
    for claim in document["claims"]:
        assert {"id", "paper", "measured", "low", "high", "verdict", "note"} <= set(claim)
        assert np.isfinite(claim["measured"])


def test_verdicts_follow_from_the_saved_results_alone(folder):
    saved = json.loads((folder / "claims.json").read_text())["claims"]
    again = judge(load_results(folder))
    assert [claim.verdict for claim in again] == [claim["verdict"] for claim in saved]
    assert [claim.measured for claim in again] == [claim["measured"] for claim in saved]


def test_counter_examples_are_those_derived_by_hand(folder):
    evidence = json.loads((folder / "claims.json").read_text())["claims"][1]["evidence"]
    # Pure luck: 0, then +1 or -1. Each reward is its own mean, so the proxy is 0; G = -g with
    # probability 1/2 about a mean of 0, so the LPM is g / 2.
    assert evidence["pure luck: proxy"] == 0.0
    assert evidence["pure luck: LPM"] == pytest.approx(0.45)
    assert evidence["uniform bandit: LPM"] > evidence["uniform bandit: proxy"]
    for name in THEOREMS:
        assert evidence[f"share violated: {name}"] == 0.0


@pytest.mark.parametrize(
    ("claim", "broken", "shift"),
    [
        (0, "subadditivity_upper", 60.0),
        (1, f"bound: {THEOREMS[0]}", -60.0),
        (2, "contraction_ratios", 2.0),
        (3, "lemma2_gaps", -60.0),
        (4, "optima_mean_lpm", 1),
        (4, "optima_lpm", -1),
    ],
)
def test_a_verdict_fails_when_its_numbers_do(folder, claim, broken, shift):
    results = load_results(folder)
    results[broken] = results[broken] + shift
    assert judge(results)[claim].verdict == "fails"


def test_local_maxima_of_a_known_surface():
    # Two peaks, at (1, 1) and at the corner (3, 4); the plateau at 0 exceeds nothing.
    values = np.zeros((4, 5))
    values[1, 1], values[3, 4] = 2.0, 1.0
    assert local_maxima(values).tolist() == [[1, 1], [3, 4]]


def test_an_unknown_experiment_names_the_choices():
    with pytest.raises(ValueError, match="choose one of landscape"):
        load_experiment("portfolios")
