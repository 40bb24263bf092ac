import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from downside import moments
from downside.closed_forms import normal_lower_partial_moment
from downside.evaluation import Bound, Evaluation, Evaluations, Interval
from downside.evaluation.intervals import resamples
from downside.evaluation.measures import NAMES, measure
from downside.signals import Centralised

RETURNS = np.random.default_rng(7).gamma(2.0, 1.5, 600) - 1.7
TARGETS = np.random.default_rng(8).normal(0.4, 0.3, 600)
SIGNALS = np.abs(np.random.default_rng(9).normal(0.3, 0.2, 600))


def evaluation(target=0.5, order=1, returns=RETURNS, **options):
    return Evaluation.of_episodes(
        returns,
        target=target,
        order=order,
        **{"targets": TARGETS, "signals": SIGNALS, "totals": 2.0 * returns} | options,
    )


def by_moments(x, target, level=0.05):
    """The same measures, as the functions of `moments` have them."""
    return {
        "mean": x.mean(),
        "std": x.std(),
        "lpm0": moments.lower_partial_moment(x, target, 0),
        "lpm1": moments.lower_partial_moment(x, target, 1),
        "lpm2": moments.lower_partial_moment(x, target, 2),
        "minimum": x.min(),
        "var": moments.value_at_risk(x, level),
        "cvar": moments.conditional_value_at_risk(x, level),
        "sortino": moments.sortino_ratio(x, target),
        "omega": moments.omega_ratio(x, target),
        "kappa3": moments.kappa_ratio(x, target, 3),
    }


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_measures_are_those_of_the_moments_on_the_sample_and_on_every_resample(scale):
    x = RETURNS * scale
    found = evaluation(target=0.5 * scale, returns=x).replicates
    for name, expected in by_moments(x, 0.5 * scale).items():
        assert found[name][0] == pytest.approx(expected, rel=1e-10)
    counts = next(resamples(600))
    for i in (0, 17):
        resample = np.repeat(x, counts[i])
        assert len(resample) == 600
        for name, expected in by_moments(resample, 0.5 * scale).items():
            assert found[name][1][i] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("order", [1, 3])
def test_without_a_fixed_target_moments_are_about_the_mean_of_each_resample(order):
    found = evaluation(Centralised(), order=order).replicates
    i = 5
    resample = np.repeat(RETURNS, next(resamples(600))[i])
    names = {"lpm0": 0, "lpm1": 1, "lpm2": 2} | ({} if order == 1 else {"lpm": 3})
    for name, power in names.items():
        for value, x in ((found[name][0], RETURNS), (found[name][1][i], resample)):
            expected = moments.lower_partial_moment(x, x.mean(), power)
            assert value == pytest.approx(expected, rel=1e-10)
    assert "sortino" not in found


@given(st.integers(2, 60), st.integers(0, 999))
def test_the_tail_is_right_for_any_number_of_episodes(n, seed):
    x = np.random.default_rng(seed).choice([-1.5, 0.25, 2.0, 3.5], n)
    found = evaluation(returns=x, targets=None, signals=None).replicates
    counts = np.concatenate(list(resamples(n)))
    for i in (0, 3):
        resample = np.repeat(x, counts[i])
        assert found["var"][1][i] == moments.value_at_risk(resample, 0.05)
        assert found["minimum"][1][i] == resample.min()
        assert found["cvar"][1][i] == pytest.approx(
            float(moments.conditional_value_at_risk(resample, 0.05)), abs=1e-9
        )


def test_intervals_cover_the_truth_as_often_as_they_say():
    # Normal(1, 2), 200 samples of 400 episodes: 95% of 200 with 4 standard errors is 178 to 200.
    # The mean, the deviation, LPM 1 about 0.4 and the VaR at 5% of a normal are known.
    rng = np.random.default_rng(3)
    truth = {
        "mean": 1.0,
        "std": 2.0,
        "lpm1": float(normal_lower_partial_moment(1.0, 2.0, 0.4, 1)),
        "var": 1.0 - 1.6448536 * 2.0,
    }
    covered = dict.fromkeys(truth, 0)
    for _ in range(200):
        one = Evaluation.of_episodes(rng.normal(1.0, 2.0, 400), target=0.4)
        for name, value in truth.items():
            covered[name] += one[name].low <= value <= one[name].high
    assert all(count >= 178 for count in covered.values()), covered


def test_intervals_over_seeds_cover_the_truth():
    # Policies whose own mean is normal(0, 1), judged on the same episodes, whose luck has variance
    # 50 / 100: 300 groups of 5 seeds. 95% with 4 standard errors is 270 of 300; the two parts
    # together are a little wide, so all may be covered.
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(300):
        luck = rng.normal(0.0, np.sqrt(50.0), 100)
        own = rng.normal(size=5)
        seeds = [Evaluation.of_episodes(luck + mean, target=0.0) for mean in own]
        counts = np.concatenate(list(resamples(100)))
        values = np.array([one.episodes.returns.mean() for one in seeds])
        many = np.stack([counts @ one.episodes.returns / 100 for one in seeds])
        interval = Interval.over_seeds(values, many)
        covered += interval.low <= 0.0 <= interval.high
    assert covered >= 270


def test_intervals_over_seeds_stay_where_the_measure_can_be():
    # One of 40 episodes of the first seed falls short, two of the second, so that many a resample
    # has no shortfall: Student's reach from 2 seeds is 12.7 standard errors, far below 0.
    few = [np.r_[np.full(n, -1.0), np.full(40 - n, 2.0)] for n in (1, 2)]
    several = Evaluations(tuple(Evaluation.of_episodes(x, target=0.0) for x in few), n_seeds=2)
    assert several.over_seeds("lpm0").low == several.over_seeds("lpm1").low == 0.0
    often = Evaluations(tuple(Evaluation.of_episodes(-x, target=0.0) for x in few), n_seeds=2)
    assert often.over_seeds("lpm0").high == 1.0
    omega = several.over_seeds("omega")
    assert omega.low < 2.0 * 38 / 2 < omega.value < omega.high == np.inf
    assert several.over_seeds("mean").high > 2.0  # which has no such end


def test_nothing_is_drawn_anew_and_every_resample_has_n_episodes():
    for n in (2, 601, 30_000):
        first, again = next(resamples(n)), next(resamples(n))
        np.testing.assert_array_equal(first, again)
        assert set(first.sum(axis=1).tolist()) == {n}


def test_the_numbers_of_a_bound():
    bound = Bound("proxy about 1", 0.25, SIGNALS)
    assert bound.value == pytest.approx(SIGNALS.mean())
    assert bound.holds == (SIGNALS.mean() <= 0.25)
    assert bound.measured.low < bound.value < bound.measured.high
    assert Bound("penalty", 1.0, None).holds is False


def test_a_single_policy_prints_its_verdict_its_table_and_its_words():
    ended = np.arange(600) % 4 > 0
    one = evaluation(threshold=0.2, discount=0.9, ended=ended, drawdowns=np.abs(TARGETS))
    text = str(one)
    for words in (
        "bound: proxy about 0.5 <= 0.2; measured 0.3",
        "does not hold",
        "mean return, undiscounted",
        "proxy (what is constrained)",
        "path shortfall (what it bounds)",
        "CVaR at 5%",
        "Kappa ratio of order 3 about 0.5",
        "maximum drawdown",
        "600 fresh episodes of the sampled policy, returns discounted by 0.9 per step",
        "the proxy bounds the LPM about the fixed target",
        "25% of the episodes were cut short",
    ):
        assert words in text
    assert set(one.to_dict()["measures"]) == set(NAMES) - {"lpm"}
    assert one.to_frame().columns == ["measure", "value", "low", "high"]
    assert one.lpm == one["lpm1"]


def test_no_shortfall_is_no_proof_and_ratios_are_infinite():
    one = evaluation(target=-9.0)
    assert "no episode fell short: with 95% confidence fewer than 0.005 do" in str(one)
    assert one["sortino"].value == math.inf


def test_several_policies_are_blocks_of_seeds_under_one_line_of_verdict():
    def policy(shift, threshold):
        return evaluation(returns=RETURNS + shift, signals=SIGNALS + shift, threshold=threshold)

    results = [policy(s, nu) for nu in (0.3, 0.8) for s in (-0.1, 0.0, 0.6)]
    several = Evaluations(tuple(results), n_seeds=3)

    mean = SIGNALS.mean()
    held = sum(mean + s <= 0.3 for s in (-0.1, 0.0, 0.6))
    assert f"bound: proxy about 0.5 <= 0.3; measured {mean + 0.5 / 3:.4g}" in several.verdicts[0]
    assert f"{held} of 3 seeds hold" in several.verdicts[0]
    assert len(several.blocks) == 2
    assert several[4] is results[4]
    text = str(several)
    assert text.count("lowest and highest seed") == 2
    assert f"{RETURNS.mean() - 0.1:.4g} to {RETURNS.mean() + 0.6:.4g}" in text
    frame = several.to_frame()
    assert frame.columns[:4] == ["block", "threshold", "seed", "measure"]
    assert frame["threshold"].unique().sort().to_list() == [0.3, 0.8]
    assert len(several.to_dict()["policies"]) == 6
    with pytest.raises(ValueError, match=r"take one of \.blocks"):
        several.over_seeds("mean")


def test_one_policy_alone_prints_as_itself():
    one = evaluation()
    assert str(Evaluations((one,))) == str(one)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: evaluation(returns=np.ones((2, 3))), r"shape \(2, 3\)"),
        (lambda: evaluation(returns=np.array([1.0])), "at least 2 episodes"),
        (lambda: evaluation(returns=np.array([1.0, np.nan])), "not all finite"),
        (lambda: evaluation(signals=SIGNALS[:3]), "one number for each of 600"),
        (lambda: evaluation(signals=None, threshold=0.5), "give signals="),
        (lambda: evaluation()["cvr"], "there is no 'cvr' here; there are mean"),
        (lambda: Evaluations((evaluation(),), n_seeds=2), "1 results for 2 seeds"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, advice):
    with pytest.raises((ValueError, KeyError), match=advice):
        make()


def test_measures_without_signals_are_left_out_and_it_is_said():
    one = evaluation(signals=None, targets=None, totals=None)
    assert "proxy" not in one.measures
    assert "the proxy is not measured" in str(one)
    assert "total" not in measure(one.episodes, 0.5, 1, discounted=True)
