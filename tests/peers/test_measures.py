"""The same numbers as skfolio and empyrical-reloaded, where they define the same thing.

Where they do not, the test states by how much they differ and why. The numbers of
`test_numbers_in_the_ordinary_tests` stand in tests/test_risk_measures.py too.
"""

import numpy as np
import pytest

from downside import moments

pytestmark = pytest.mark.peers
peer = pytest.importorskip("skfolio.measures")
empyrical = pytest.importorskip("empyrical")

RETURNS = np.array(
    [0.021, -0.034, 0.008, 0.055, -0.012, -0.071, 0.034, 0.017, -0.003, 0.042, -0.026]
)
MANY = np.random.default_rng(20).normal(0.01, 0.05, size=20)  # 20 * 0.05 is one whole sample
TARGET = 0.005


def same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_lower_partial_moments():
    for order, theirs in [
        (1, peer.first_lower_partial_moment(RETURNS, TARGET)),
        (2, peer.semi_variance(RETURNS, TARGET, biased=True)),
        (4, peer.fourth_lower_partial_moment(RETURNS, TARGET)),
    ]:
        same(moments.lower_partial_moment(RETURNS, TARGET, order), theirs)


def test_columns_are_an_axis():
    columns = np.stack([RETURNS, RETURNS[::-1] * 1.5], axis=1)
    theirs = peer.first_lower_partial_moment(columns, np.array([TARGET, -0.02]))
    same(moments.lower_partial_moment(columns, [TARGET, -0.02], axis=0), theirs)


def test_semideviation_and_the_divisor():
    same(moments.semideviation(RETURNS), peer.semi_deviation(RETURNS, biased=True))
    # skfolio divides by T - 1 unless told otherwise
    size = len(RETURNS)
    factor = np.sqrt(size / (size - 1))
    same(moments.semideviation(RETURNS) * factor, peer.semi_deviation(RETURNS))


def test_no_target_is_the_mean_in_skfolio():
    theirs = peer.first_lower_partial_moment(RETURNS)
    same(moments.lower_partial_moment(RETURNS, RETURNS.mean()), theirs)


def test_ratios_of_empyrical():
    per_period = {"annualization": 1}
    same(
        moments.lower_partial_moment(RETURNS, TARGET, 2) ** 0.5,
        empyrical.downside_risk(RETURNS, TARGET, **per_period),
    )
    same(
        moments.sortino_ratio(RETURNS, TARGET),
        empyrical.sortino_ratio(RETURNS, TARGET, **per_period),
    )
    same(
        moments.omega_ratio(RETURNS, TARGET),
        empyrical.omega_ratio(RETURNS, required_return=TARGET, **per_period),
    )
    # without annualization=1 it multiplies the Sortino ratio by the root of 252
    annual = empyrical.sortino_ratio(RETURNS, TARGET)
    same(moments.sortino_ratio(RETURNS, TARGET) * np.sqrt(252), annual)


def test_without_a_shortfall_empyrical_has_no_omega():
    gains = np.abs(RETURNS)
    assert np.isnan(empyrical.omega_ratio(gains, annualization=1))
    assert moments.omega_ratio(gains, 0.0) == np.inf


@pytest.mark.parametrize("level", [0.05, 0.15, 0.37, 0.8])
def test_tail_of_skfolio_is_a_loss(level):
    same(moments.value_at_risk(RETURNS, level), -peer.value_at_risk(RETURNS, 1 - level))
    same(moments.conditional_value_at_risk(RETURNS, level), -peer.cvar(RETURNS, 1 - level))


def test_whole_number_of_worst_samples():
    """Both the worst and the second worst of 20 are a 5% quantile; skfolio takes the better."""
    worst, second = np.sort(MANY)[:2]
    assert moments.value_at_risk(MANY, 0.05) == worst
    assert peer.value_at_risk(MANY, 0.95) == -second
    same(moments.conditional_value_at_risk(MANY, 0.05), -peer.cvar(MANY, 0.95))


def test_tail_of_empyrical():
    """It interpolates the quantile, and averages whole samples, int((n - 1) level) + 1 of them."""
    worst = np.sort(RETURNS)
    # n = 11: 10 * 0.15 = 1.5, halfway from the 2nd worst to the 3rd; the worst two
    same(empyrical.value_at_risk(RETURNS, 0.15), (worst[1] + worst[2]) / 2)
    same(empyrical.conditional_value_at_risk(RETURNS, 0.15), worst[:2].mean())
    # 11 * 0.15 = 1.65: the 2nd worst; the worst and 0.65 of the 2nd
    same(moments.value_at_risk(RETURNS, 0.15), worst[1])
    ours = moments.conditional_value_at_risk(RETURNS, 0.15)
    same(ours, (worst[0] + 0.65 * worst[1]) / 1.65)
    # equal where the average is over whole samples in both
    same(moments.conditional_value_at_risk(RETURNS, 2 / 11), worst[:2].mean())


def test_maximum_drawdown():
    simple = np.expm1(RETURNS)  # both take simple returns, and report a fall as negative
    ours = moments.maximum_drawdown(RETURNS)
    same(ours, -empyrical.max_drawdown(simple))
    same(ours, peer.max_drawdown(peer.get_drawdowns(simple, compounded=True)))
    # unless told to compound, skfolio takes the fall of the sum of returns, not of wealth
    total = np.cumsum(simple)
    same(
        peer.max_drawdown(peer.get_drawdowns(simple)), np.max(np.maximum.accumulate(total) - total)
    )
    assert round(ours, 4) == 0.0796
    assert round(peer.max_drawdown(peer.get_drawdowns(simple)), 4) == 0.0805


def test_sortino_of_skfolio():
    """A portfolio divides the mean by the semideviation about the mean, with T - 1."""
    skfolio = pytest.importorskip("skfolio")
    portfolio = skfolio.Portfolio(X=RETURNS[:, None], weights=[1.0])
    same(portfolio.sortino_ratio, RETURNS.mean() / peer.semi_deviation(RETURNS))
    assert round(portfolio.sortino_ratio, 4) == 0.1003
    assert round(moments.sortino_ratio(RETURNS, 0.0), 4) == 0.1115


def test_missing_returns():
    gap = np.append(RETURNS, np.nan)
    same(
        peer.first_lower_partial_moment(gap, TARGET), moments.lower_partial_moment(RETURNS, TARGET)
    )
    same(empyrical.conditional_value_at_risk(gap, 0.15), np.sort(RETURNS)[:2].mean())
    assert np.isnan(moments.lower_partial_moment(gap, TARGET))


def test_numbers_in_the_ordinary_tests():
    same(peer.first_lower_partial_moment(RETURNS, TARGET), 0.015545454545454546)
    same(peer.fourth_lower_partial_moment(RETURNS, TARGET), 3.3351595454545454e-06)
    same(peer.semi_deviation(RETURNS, biased=True), 0.02677960525663096)
    same(peer.semi_deviation(RETURNS), 0.028086686943658453)
    same(-peer.value_at_risk(RETURNS, 0.85), -0.034)
    same(-peer.cvar(RETURNS, 0.85), -0.05642424242424241)
    same(empyrical.sortino_ratio(RETURNS, TARGET, annualization=1), -0.07798087509868196)
    omega = empyrical.omega_ratio(RETURNS, required_return=TARGET, annualization=1)
    same(omega, 0.8596491228070176)
    same(-empyrical.max_drawdown(np.expm1(RETURNS)), 0.07964885277987514)
