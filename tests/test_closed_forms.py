import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from downside.closed_forms import (
    normal_lower_partial_moment,
    normal_upper_partial_moment,
    pareto_lower_partial_moment,
    pareto_upper_partial_moment,
)
from downside.moments import lower_partial_moment, upper_partial_moment

ORDERS = [0, 0.4, 1, 1.5, 2, 3]


@pytest.mark.parametrize("order", [-1, -0.5, math.nan, math.inf])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(ValueError, match=r"type a number >= 0"):
        pareto_upper_partial_moment(1.0, 3.0, 1.5, order)


def quad(integrand, *ends):
    """The integral over neighbouring intervals, so that no peak is missed."""
    pieces = itertools.pairwise(ends)
    return sum(integrate.quad(integrand, *piece, epsabs=0, epsrel=1e-11)[0] for piece in pieces)


@pytest.mark.parametrize("order", [0, 0.7, 1, 1.5, 2, 3, 6.3])
@pytest.mark.parametrize("z", [-7.0, -5.8, -2.3, -0.4, 0.0, 0.6, 3.1, 9.0, 60.0, 3000.0])
def test_normal_against_quadrature(order, z):
    mean, std = 0.7, 1.9
    target = mean + z * std
    peak = max((z + math.hypot(z, 2 * math.sqrt(order))) / 2, 0.0)  # of the integrand in u
    ends = sorted({0.0, max(peak - 14, 0.0), max(peak - 1, 0.0), peak + 1, peak + 14})
    density = stats.norm().pdf
    reference = std**order * quad(lambda u: u**order * density(z - u), *ends)
    moment = normal_lower_partial_moment(mean, std, target, order)
    assert moment == pytest.approx(reference, rel=1e-7)
    mirrored = normal_upper_partial_moment(-mean, std, -target, order)
    assert mirrored == moment


def test_normal_simple_forms():
    mean, std, target = np.array([[0.4], [-1.1]]), np.array([0.3, 2.2]), 0.9
    z = (target - mean) / std
    cdf, pdf = stats.norm.cdf(z), stats.norm.pdf(z)
    forms = [cdf, std * (z * cdf + pdf), std**2 * ((1 + z**2) * cdf + z * pdf)]
    for order, form in enumerate(forms):
        moment = normal_lower_partial_moment(mean, std, target, order)
        np.testing.assert_allclose(moment, form, rtol=1e-12)


def test_normal_extremes():
    assert normal_lower_partial_moment(0.3, 2.0, -200.0, 1.5) == 0.0
    # E[(a + s Z)^3] = a^3 + 3 a s^2 where the other side has no weight
    assert normal_lower_partial_moment(0.0, 2.0, 400.0, 3) == pytest.approx(400**3 + 3 * 400 * 4)
    assert normal_lower_partial_moment(0.0, 1.0, np.inf, 0) == 1.0


@pytest.mark.parametrize("std", [0.0, 1e-300])
def test_normal_without_spread_is_a_constant(std):
    targets = np.array([-1.0, 0.5, 2.5])
    for order in ORDERS:
        point = [0.0, 0.0, 2.0**order]
        moment = normal_lower_partial_moment(0.5, std, targets, order)
        np.testing.assert_allclose(moment[[0, 2]], [point[0], point[2]], rtol=1e-14)
    assert normal_lower_partial_moment(0.5, 0.0, 0.5, 0) == 0.0  # P(X < target) is strict


@pytest.mark.parametrize("order", [0, 0.3, 1, 2, 2.6, 4])
@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0, 3.3, 45.0])
@pytest.mark.parametrize("ratio", [1.02, 1.6, 9.0, 11.0, 1000.0])
def test_pareto_lower_against_quadrature(order, shape, ratio):
    scale = 1.7
    span = math.log(ratio)  # X = scale exp(v), v exponential of rate shape
    ends = sorted({0.0, *(min(span, c / shape) for c in (1, 4, 12, 30)), 0.9 * span, span})
    reference = quad(
        lambda v: shape * math.exp(-shape * v) * (-math.expm1(v - span)) ** order, *ends
    )
    moment = pareto_lower_partial_moment(scale, shape, scale * ratio, order)
    assert moment == pytest.approx(reference * (scale * ratio) ** order, rel=1e-9)


@pytest.mark.parametrize("order", [0, 0.3, 1, 2, 2.6])
@pytest.mark.parametrize("shape", [2.9, 4.0, 45.0])
@pytest.mark.parametrize("target", [-20.0, -0.6, 0.0, 0.5, 1.5, 1.7, 2.8, 40.0])
def test_pareto_upper_against_quadrature(order, shape, target):
    scale = 1.7
    start = math.log(max(target, scale) / scale)
    rate = shape - order
    ends = [start + c for c in (0, 0.03, 0.1, 0.4, 2, 8 / rate + 2, 40 / rate + 3)]
    reference = quad(
        lambda v: shape * math.exp(-shape * v) * (scale * math.exp(v) - target) ** order, *ends
    )
    moment = pareto_upper_partial_moment(scale, shape, target, order)
    assert moment == pytest.approx(reference, rel=1e-9)


def test_pareto_by_hand():
    # shape 1: integral of (t - x) s / x^2 over (s, t) = t - s - s log(t/s)
    expected = 5.1 - 1.7 - 1.7 * math.log(3)
    assert pareto_lower_partial_moment(1.7, 1.0, 5.1) == pytest.approx(expected)
    # the cdf; the mean s a / (a - 1); and UPM_1 - LPM_1 = E[X] - target
    target = np.array([1.0, 1.7, 2.4, 30.0])
    cdf = stats.pareto(2.5, scale=1.7).cdf(target)
    np.testing.assert_allclose(pareto_lower_partial_moment(1.7, 2.5, target, 0), cdf)
    np.testing.assert_allclose(pareto_upper_partial_moment(1.7, 2.5, target, 0), 1 - cdf)
    lower = pareto_lower_partial_moment(1.7, 2.5, target)
    upper = pareto_upper_partial_moment(1.7, 2.5, target)
    np.testing.assert_allclose(upper - lower, 1.7 * 2.5 / 1.5 - target)


def test_pareto_upper_moment_is_infinite_from_the_shape_upwards():
    orders = [1.9, 2.0, 2.5]
    moments = [pareto_upper_partial_moment(1.7, 2.0, 3.0, order) for order in orders]
    assert np.isinf(moments).tolist() == [False, True, True]


def test_closed_forms_broadcast_and_keep_nan():
    for form in (pareto_lower_partial_moment, pareto_upper_partial_moment):
        grid = form([[1.0], [2.0]], 3.5, [0.5, 1.5, np.nan], 1.2)
        assert np.isnan(grid).tolist() == [[False, False, True]] * 2
        assert grid[1, 1] == form(2.0, 3.5, 1.5, 1.2)
    for form in (normal_lower_partial_moment, normal_upper_partial_moment):
        grid = form([[1.0], [2.0]], [0.0, 0.4, np.nan], 1.5, 1.2)
        assert np.isnan(grid).tolist() == [[False, False, True]] * 2
        assert grid[1, 1] == form(2.0, 0.4, 1.5, 1.2)


def test_closed_forms_refuse_impossible_parameters():
    with pytest.raises(ValueError, match=r"standard deviation is >= 0"):
        normal_lower_partial_moment(0.0, -1.0, 0.5)
    with pytest.raises(ValueError, match=r"are > 0; one entry is not"):
        pareto_lower_partial_moment(0.0, 2.0, 0.5)
    with pytest.raises(ValueError, match=r"are > 0; one entry is not"):
        pareto_upper_partial_moment(1.0, [2.0, -1.0], 0.5)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2])
def test_samples_approach_the_closed_forms(order):
    """Within 4 standard errors, so once in 16,000 seeds by chance per comparison."""
    rng = np.random.default_rng(7)
    normal = rng.normal(0.3, 1.4, size=40_000)
    pareto = 1.7 * (1 + rng.pareto(5.5, size=40_000))
    cases = [
        (lower_partial_moment, normal, 0.8, normal_lower_partial_moment(0.3, 1.4, 0.8, order)),
        (upper_partial_moment, normal, 0.8, normal_upper_partial_moment(0.3, 1.4, 0.8, order)),
        (lower_partial_moment, pareto, 2.1, pareto_lower_partial_moment(1.7, 5.5, 2.1, order)),
        (upper_partial_moment, pareto, 2.1, pareto_upper_partial_moment(1.7, 5.5, 2.1, order)),
    ]
    for moment, samples, target, exact in cases:
        second = moment(samples, target, 2 * order)
        error = math.sqrt((second - moment(samples, target, order) ** 2) / len(samples))
        assert abs(moment(samples, target, order) - exact) < 4 * error
