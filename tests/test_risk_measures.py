"""Ratios, tails and drawdowns by hand and by the numbers of other libraries."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from downside.moments import (
    conditional_value_at_risk,
    kappa_ratio,
    lower_partial_moment,
    maximum_drawdown,
    omega_ratio,
    semideviation,
    sortino_ratio,
    upper_partial_moment,
    upside_potential_ratio,
    value_at_risk,
)
from moment_samples import GRID, SAMPLES, WEIGHTS


def test_measures_by_hand():
    # mean 11/6; squared shortfalls below it (5/6)^2, (23/6)^2, (20/6)^2: 25 + 529 + 400 = 954
    assert semideviation(SAMPLES) == pytest.approx(math.sqrt(954 / 36 / 6))
    # target 1.5: shortfalls 0.5, 3.5, 3 and excesses 2.5, 1, 5.5; mean excess 1/3
    squares, cubes = 0.25 + 12.25 + 9, 0.125 + 42.875 + 27
    assert sortino_ratio(SAMPLES, 1.5) == pytest.approx(1 / 3 / math.sqrt(squares / 6))
    assert kappa_ratio(SAMPLES, 1.5) == pytest.approx(1 / 3 / (cubes / 6) ** (1 / 3))
    assert omega_ratio(SAMPLES, 1.5) == pytest.approx(9 / 7)
    assert upside_potential_ratio(SAMPLES, 1.5) == pytest.approx(1.5 / math.sqrt(squares / 6))


def test_ratios_reduce_to_each_other():
    targets = np.array([[-1.0], [0.4], [3.0]])
    keywords = {"axis": 1, "weights": WEIGHTS}
    sortino = sortino_ratio(SAMPLES, targets, **keywords)
    np.testing.assert_allclose(sortino, kappa_ratio(SAMPLES, targets, 2, **keywords))
    omega = omega_ratio(SAMPLES, targets, **keywords)
    np.testing.assert_allclose(omega, 1 + kappa_ratio(SAMPLES, targets, 1, **keywords))
    deviation = lower_partial_moment(SAMPLES, targets, 2, **keywords) ** 0.5
    potential = upper_partial_moment(SAMPLES, targets, **keywords) / deviation
    np.testing.assert_allclose(upside_potential_ratio(SAMPLES, targets, **keywords), potential)


def test_semideviation_of_a_symmetric_sample_is_half_the_variance():
    symmetric = np.array([1.3, 2.0, 4.7, 5.4])  # about 3.35
    assert semideviation(symmetric) == pytest.approx(symmetric.std() / math.sqrt(2))


@pytest.mark.parametrize("ratio", [sortino_ratio, kappa_ratio, omega_ratio, upside_potential_ratio])
def test_ratio_without_a_shortfall(ratio):
    rows = np.array([[3.0, 2.0, 2.0], [2.0, 2.0, 2.0], [2.0, 1.0, 4.0]])
    for array in (rows, jnp.asarray(rows)):
        values = np.asarray(ratio(array, 2.0, axis=1))
        assert values[0] == np.inf
        assert np.isnan(values[1])
        assert np.isfinite(values[2])


def test_tail_by_hand():
    # worst first: -2, -1.5, 1, 2.5, 4, 7. A level of 0.4 is 2.4 samples of 6
    assert value_at_risk(SAMPLES, 0.4) == 1.0
    expected = (-2 - 1.5 + 0.4 * 1) / 2.4
    assert conditional_value_at_risk(SAMPLES, 0.4) == pytest.approx(expected)
    assert value_at_risk(SAMPLES, 0.01) == conditional_value_at_risk(SAMPLES, 0.01) == -2.0
    assert value_at_risk(SAMPLES, 1.0) == 7.0
    assert conditional_value_at_risk(SAMPLES, 1.0) == pytest.approx(SAMPLES.mean())


def test_rank_of_the_quantile_is_not_moved_by_rounding():
    assert 0.07 * 100 > 7
    assert value_at_risk(np.arange(100.0)[::-1], 0.07) == 6.0


@pytest.mark.parametrize("axis", [None, 0, -2, (0, 2), (2, 1), ()])
def test_tail_axes(axis):
    quantile = np.quantile(GRID, 0.3, axis=axis, method="inverted_cdf")
    np.testing.assert_allclose(value_at_risk(GRID, 0.3, axis), quantile)
    levels = (np.arange(1800) + 0.5) / 6000  # midpoints up to 0.3; every jump is at a cell's end
    average = np.quantile(GRID, levels, axis=axis, method="inverted_cdf").mean(axis=0)
    np.testing.assert_allclose(conditional_value_at_risk(GRID, 0.3, axis), average)


returns = st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(np.array)


@settings(deadline=None)
@given(returns, st.floats(0.01, 1.0), st.floats(0.0, 0.05))
def test_tail_average_is_below_the_quantile_and_continuous(samples, level, step):
    average = conditional_value_at_risk(samples, level)
    assert average <= value_at_risk(samples, level)
    further = conditional_value_at_risk(samples, min(level + step, 1.0))
    # level * average is the integral of the quantile: it moves by at most step * max|x|
    bound = 2 * step * np.abs(samples).max() / level
    assert -1e-9 <= further - average <= bound + 1e-9


def test_maximum_drawdown_by_hand():
    # wealth 1, 0.8, 1.6, 1.2, 2.4, 0.6, 0.9: the fall from 2.4 to 0.6
    assert maximum_drawdown(np.log([0.8, 2.0, 0.75, 2.0, 0.25, 1.5])) == pytest.approx(0.75)
    assert maximum_drawdown(np.log([0.6, 1.1, 1.3])) == pytest.approx(0.4)  # from the start
    assert maximum_drawdown(np.log([1.2, 1.1])) == 0.0
    assert maximum_drawdown([0.2, -np.inf, 0.1]) == 1.0
    np.testing.assert_allclose(
        maximum_drawdown(np.log([[1.5, 0.5], [0.4, 3.0]]), axis=0), [0.6, 0.5]
    )


@settings(deadline=None)
@given(returns)
def test_maximum_drawdown_over_all_pairs(log_returns):
    wealth = np.exp(np.concatenate([[0.0], np.cumsum(log_returns)]))
    falls = [1 - wealth[j] / wealth[i] for i in range(len(wealth)) for j in range(i, len(wealth))]
    drawdown = maximum_drawdown(log_returns)
    assert drawdown == pytest.approx(max(falls), abs=1e-9)
    assert 0 <= drawdown <= 1


def test_numbers_of_other_libraries():
    """Computed by skfolio 1.12 and empyrical-reloaded 0.7, in tests/peers/test_measures.py."""
    r = np.array([0.021, -0.034, 0.008, 0.055, -0.012, -0.071, 0.034, 0.017, -0.003, 0.042, -0.026])
    assert lower_partial_moment(r, 0.005, 1) == pytest.approx(0.015545454545454546)
    assert lower_partial_moment(r, 0.005, 4) == pytest.approx(3.3351595454545454e-06)
    assert semideviation(r) == pytest.approx(0.02677960525663096)
    assert semideviation(r) * math.sqrt(11 / 10) == pytest.approx(0.028086686943658453)  # T - 1
    assert value_at_risk(r, 0.15) == -0.034
    assert conditional_value_at_risk(r, 0.15) == pytest.approx(-0.05642424242424241)
    assert sortino_ratio(r, 0.005) == pytest.approx(-0.07798087509868196)
    assert omega_ratio(r, 0.005) == pytest.approx(0.8596491228070176)
    assert maximum_drawdown(r) == pytest.approx(0.07964885277987514)
