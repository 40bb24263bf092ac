import numpy as np
import pytest

from downside.agents import PID, FixedMultiplier
from downside.control import NAC, NRCPO, RCPO
from downside.environments import Bandit, Portfolio, WithReturn
from downside.frontiers import frontier
from downside.saving import load
from downside.signals import Centralised, Constraint, Shortfall

QUIET = {"progress_bar": False}


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: NRCPO(Bandit()), "what is bounded"),
        (lambda: NRCPO(Bandit(), target=1.0, threshold=1.0, stepsize=1), "did you mean kl_steps"),
        (
            lambda: NRCPO(Bandit(), target=1.0, threshold=1.0, step_rule="kl"),
            "step_rule= is a setting of way='online', and this is way='batches'",
        ),
        (
            lambda: RCPO(
                Bandit(),
                target=1.0,
                threshold=1.0,
                way="online",
                penalised=True,
                measure="critic",
            ),
            "predicts no risk",
        ),
        (
            lambda: NRCPO(Portfolio(), constraints=[Constraint(Shortfall(1.0), 0.3)]),
            r"learn in ds\.WithReturn\(env\)",
        ),
        (
            lambda: NRCPO(
                WithReturn(Portfolio(discount=0.99)), constraints=[Constraint(Shortfall(1.0), 0.3)]
            ),
            "env_discount of the Shortfall is 1.0, and the discount of the environment is 0.99",
        ),
        (
            lambda: NRCPO(Bandit(), target=1.0, threshold=1.0, period=[100, 200]),
            r"period is \[100, 200\], and the learners of a batch share one",
        ),
        (
            lambda: NRCPO(Bandit(), target=1.0, threshold=1.0, kl=[0.1, -0.1]),
            "kl is -0.1",
        ),
        (lambda: NAC(Bandit(), kl=[]), r"kl is \[\]; give one value, a list of numbers"),
        (lambda: NAC(Bandit(), lpm_target=[None, 1.0]), r"lpm_target is \[None, 1.0\]; give one"),
        (lambda: NRCPO(Bandit(), target=1.0, threshold=[]), r"threshold is \[\]; give a number"),
        (
            lambda: NAC(Bandit(), multiplier=[FixedMultiplier(1.0), PID(0.1)]),
            r"multiplier is \[FixedMultiplier.*or a list of rules of one kind",
        ),
        (
            lambda: frontier(Bandit(), target=1.0, thresholds=[0.1], kl=[0.01, 0.1]),
            r"kl is \[0.01, 0.1\], and a frontier has one value of it",
        ),
        (lambda: NRCPO(Bandit(), target=1.0, threshold=np.nan), "threshold is nan"),
        (lambda: NAC(Bandit(), n_seeds=0), "n_seeds is 0"),
        (lambda: NAC(Bandit()).learn(0), "total_timesteps is 0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, advice):
    with pytest.raises(ValueError, match=advice):
        make()


def test_learners_with_several_settings_in_a_batch_learn_as_they_would_alone(tmp_path):
    rates = [PID(0.1), PID(0.5)]
    options = {"target": Centralised(), "threshold": [0.2, 0.6], "n_seeds": 2}
    make = lambda **settings: NRCPO(Bandit(), **options, **settings)  # noqa: E731
    many = make(multiplier=rates, kl=[0.01, 0.1]).learn(8000, **QUIET)
    assert [variant["kl"] for variant in many.variants] == [0.01, 0.01, 0.1, 0.1] * 2
    assert many.theta.shape == (16, 3)
    for kl, rate, mine in ((0.1, rates[0], slice(4, 8)), (0.01, rates[1], slice(8, 12))):
        alone = make(kl=kl, multiplier=rate).learn(8000, **QUIET)
        np.testing.assert_array_equal(many.theta[mine], alone.theta)
    assert not np.array_equal(many.theta[:4], many.theta[4:8])
    name = "multiplier.rate=0.1, kl=0.1"
    assert many.summary().splitlines()[2].startswith(f"{name}: mean return")
    found = many.evaluate(200)
    assert found.verdicts[2].startswith(f"{name}: bound: ")
    assert found.to_frame()["variant"].unique(maintain_order=True)[1] == name
    assert f"\n\n{name}\nbound: " in str(found)
    many.save(tmp_path)
    again = load(tmp_path)
    assert again.labels == many.labels
    np.testing.assert_array_equal(again.learn(2000, **QUIET).theta, many.learn(2000, **QUIET).theta)
