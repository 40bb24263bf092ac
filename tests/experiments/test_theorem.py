import numpy as np

from downside.experiments import theorem
from downside.experiments.theorem import judge_compatible, run_compatible


def test_the_theorem_holds_on_random_mdps():
    found = run_compatible(np.random.default_rng(8), 16)
    assert found["compatible_distance"].shape == (16,)
    claim = judge_compatible(found)
    assert claim.verdict == "holds"
    assert claim.measured < 1e-6


def test_it_needs_the_right_weights(monkeypatch):
    def even(mdp, policy):
        return np.ones((mdp.horizon or 1, theorem.N_STATES))

    monkeypatch.setattr(theorem, "state_distribution", even)
    found = run_compatible(np.random.default_rng(8), 16)
    assert judge_compatible(found).verdict == "fails"
