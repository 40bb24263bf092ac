"""Partial moments by hand, and the lemmas about them."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from downside.moments import lower_partial_moment, upper_partial_moment
from moment_samples import GRID, ORDERS, SAMPLES, WEIGHTS, by_loop


@pytest.mark.parametrize(
    ("order", "lower", "upper"),
    [
        # target 2: shortfalls 1, 4, 3.5 and excesses 2, 0.5, 5, out of 6 samples
        (0, 3 / 6, 3 / 6),
        (0.5, (1 + 2 + math.sqrt(3.5)) / 6, (math.sqrt(2) + math.sqrt(0.5) + math.sqrt(5)) / 6),
        (1, 8.5 / 6, 7.5 / 6),
        (2, (1 + 16 + 12.25) / 6, (4 + 0.25 + 25) / 6),
        (3, (1 + 64 + 42.875) / 6, (8 + 0.125 + 125) / 6),
    ],
)
def test_moments_by_hand(order, lower, upper):
    assert lower_partial_moment(SAMPLES, 2.0, order) == pytest.approx(lower, rel=1e-14)
    assert upper_partial_moment(SAMPLES, 2.0, order) == pytest.approx(upper, rel=1e-14)


@pytest.mark.parametrize("order", ORDERS)
def test_moments_against_a_loop(order):
    expected = by_loop(SAMPLES, 1.7, order, WEIGHTS)
    assert lower_partial_moment(SAMPLES, 1.7, order, weights=WEIGHTS) == pytest.approx(expected)
    mirrored = by_loop(-SAMPLES, -1.7, order, WEIGHTS)
    assert upper_partial_moment(SAMPLES, 1.7, order, weights=WEIGHTS) == pytest.approx(mirrored)


def test_order_zero_does_not_count_the_target_itself():
    assert lower_partial_moment([2.5, 2.5, 1.0, 6.0], 2.5, 0) == 1 / 4
    assert upper_partial_moment([2.5, 2.5, 1.0, 6.0], 2.5, 0) == 1 / 4


def test_a_shortfall_and_an_excess_make_the_difference():
    """(x)+ - (-x)+ = x, so UPM_1 - LPM_1 = E[X] - target."""
    difference = upper_partial_moment(SAMPLES, 1.7) - lower_partial_moment(SAMPLES, 1.7)
    assert difference == pytest.approx(SAMPLES.mean() - 1.7)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, -1)])
def test_axis(axis):
    shortfall = np.maximum(0.6 - GRID, 0) ** 1.5
    moment = lower_partial_moment(GRID, 0.6, 1.5, axis)
    np.testing.assert_allclose(moment, shortfall.mean(axis=axis))


def test_targets_broadcast():
    targets = np.array([[-1.0], [2.0], [3.5]])
    expected = [by_loop(SAMPLES, t, 2, WEIGHTS) for t in targets[:, 0]]
    moments = lower_partial_moment(SAMPLES, targets, 2, axis=1, weights=WEIGHTS)
    np.testing.assert_allclose(moments, expected)
    per_sample = SAMPLES - np.array([1.0, -1.0, 2.0, 0.5, -3.0, 1.0])  # shortfalls 0 where < 0
    assert lower_partial_moment(SAMPLES, per_sample) == 0.5 / 6 * (0 + 2 + 0 + 0 + 6 + 0)


def test_weights_that_sum_to_zero_give_nan():
    weights = np.array([[0.0, 0.0, 0.0], [1.0, 3.0, 0.0]])
    moments = lower_partial_moment([1.0, -1.0, 5.0], 2.0, axis=1, weights=weights)
    np.testing.assert_array_equal(moments, [np.nan, (1 + 3 * 3) / 4])


# The lemmas, for variables X_1, ..., X_T with finitely many joint outcomes


@st.composite
def joint_distributions(draw):
    """Outcomes (n, T), their weights (n,), a target per variable (T,) and a discount."""
    size, horizon = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    number = st.floats(-10, 10, allow_subnormal=False)

    def array(n):
        return np.array(draw(st.lists(number, min_size=n, max_size=n)))

    outcomes = array(size * horizon).reshape(size, horizon)
    weights = np.array(draw(st.lists(st.floats(0.05, 3.0), min_size=size, max_size=size)))
    return outcomes, weights, array(horizon), draw(st.floats(0.1, 1.0))


@pytest.mark.parametrize("moment", [lower_partial_moment, upper_partial_moment])
@settings(deadline=None)
@given(joint=joint_distributions(), order=st.sampled_from([1, 1.3, 2, 3]))
def test_moments_of_a_discounted_sum(moment, joint, order):
    """Lemma 1 (order 1, where the factor is 1) and its form of order m.

    moment_m(sum g^t X_t | sum g^t tau_t) <= S^(m-1) sum g^t moment_m(X_t | tau_t),  S = sum g^t
    """
    outcomes, weights, targets, discount = joint
    powers = discount ** np.arange(len(targets))
    factor = powers.sum() ** (order - 1)
    by_path = moment(outcomes @ powers, targets @ powers, order, axis=()) - factor * (
        moment(outcomes, targets, order, axis=()) @ powers
    )
    assert np.all(by_path <= 1e-9 * 40**order)
    of_sum = moment(outcomes @ powers, targets @ powers, order, weights=weights)
    of_terms = moment(outcomes, targets, order, axis=0, weights=weights[:, None])
    assert of_sum <= factor * (powers @ of_terms) + 1e-9 * 40**order


@settings(deadline=None)
@given(joint_distributions())
def test_lemma_1_for_two_variables(joint):
    outcomes, weights, targets, _ = joint
    for moment in (lower_partial_moment, upper_partial_moment):
        x, y = outcomes[:, 0], outcomes[:, 1]
        of_sum = moment(x + y, targets[0] + targets[1], weights=weights)
        apart = moment(x, targets[0], weights=weights) + moment(y, targets[1], weights=weights)
        assert of_sum <= apart + 1e-12 * 40


@pytest.mark.parametrize("order", [1.5, 2, 3])
def test_the_factor_is_tight_and_needed(order):
    """The same shortfall d at every step: (S d)^m on the left, S d^m without the factor."""
    discount, shortfall = 0.8, 1.3
    powers = discount ** np.arange(4)
    total = powers.sum()  # 2.952
    targets = np.array([0.5, -1.0, 2.0, 0.7])
    of_sum = lower_partial_moment((targets - shortfall) @ powers, targets @ powers, order)
    of_terms = lower_partial_moment(targets - shortfall, targets, order, axis=())
    assert of_sum == pytest.approx((total * shortfall) ** order)
    assert of_sum == pytest.approx(total ** (order - 1) * (powers @ of_terms))
    assert of_sum > 1.5 * (powers @ of_terms)


def variance(values, weights):
    mean = np.average(values, weights=weights)
    return np.average((values - mean) ** 2, weights=weights)


@settings(deadline=None)
@given(joint_distributions())
def test_lemma_2(joint):
    """V[(c - X)+] <= V[X], with V[(c - X)+] = LPM_2 - LPM_1^2; and the same above c."""
    outcomes, weights, targets, _ = joint
    assume(len(weights) > 1)
    x, c = outcomes[:, 0], targets[0]
    for moment in (lower_partial_moment, upper_partial_moment):
        clipped = moment(x, c, 2, weights=weights) - moment(x, c, 1, weights=weights) ** 2
        assert clipped <= variance(x, weights) + 1e-9


def test_lemma_2_is_tight_where_nothing_is_clipped():
    clipped = lower_partial_moment(SAMPLES, 8.0, 2) - lower_partial_moment(SAMPLES, 8.0) ** 2
    assert clipped == pytest.approx(SAMPLES.var())
    partly = lower_partial_moment(SAMPLES, 1.5, 2) - lower_partial_moment(SAMPLES, 1.5) ** 2
    assert partly < 0.25 * SAMPLES.var()
