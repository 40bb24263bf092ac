import jax.numpy as jnp
import numpy as np
import pytest

from downside.agents import PID, Ascent, FixedMultiplier
from downside.agents.multiplier import LARGEST, relative_excess, steady_excess

RULES = {
    "ascent": Ascent(rate=0.1),
    "ascent, limited": Ascent(rate=0.1, limit=0.3),
    "pid": PID(rate=0.1, gain=1.0, weight=0.5),
    "pid, growing": PID(rate=0.1, gain=1.0, weight=0.5, growing=True),
    "pid, damped": PID(rate=0.1, gain=1.0, weight=0.5, damping=2.0, limit=3.0),
    "fixed": FixedMultiplier(0.7),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def follow(rule, samples, threshold):
    state = rule.init()
    for sample in samples:
        state = rule.update(state, jnp.asarray(sample), threshold)
    return float(rule.value(state))


@each_rule
@pytest.mark.parametrize("threshold", [0.0, 1e-9, 0.4, 1e9, np.inf])
def test_a_multiplier_is_finite_and_never_negative(rule, threshold):
    for samples in ([5.0] * 20, [0.0] * 20, [5.0, 0.0] * 10):
        value = follow(rule, samples, threshold)
        assert np.isfinite(value)
        assert value >= 0.0


@each_rule
def test_no_bound_means_no_multiplier(rule):
    if not isinstance(rule, FixedMultiplier):
        assert follow(rule, [5.0] * 10, np.inf) == 0.0


def test_ascent_by_hand():
    # 0.1 (3 - 2) = 0.1, then + 0.1 (7 - 2) = 0.6, then 0.6 - 0.8 < 0.
    assert follow(Ascent(rate=0.1), [3.0, 7.0], 2.0) == pytest.approx(0.6)
    assert follow(Ascent(rate=0.1), [3.0, 7.0, -6.0], 2.0) == 0.0
    assert follow(Ascent(rate=0.1, limit=0.25), [3.0, 7.0], 2.0) == pytest.approx(0.25)
    assert follow(Ascent(rate=0.1, start=1.0), [2.0], 2.0) == 1.0


def test_pid_by_hand():
    # Excesses 1 and 3: averages 0.5 and 1.75, integral 0.1 (0.5 + 1.75), change 1.25.
    rule = PID(rate=0.1, gain=2.0, weight=0.5, damping=4.0)
    assert follow(rule, [3.0, 5.0], 2.0) == pytest.approx(0.225 + 2 * 1.75 + 4 * 1.25)


def test_a_growing_integral_multiplies():
    # A constant excess of 1 with weight 1: integral + 1 grows by the factor 1.1 each time.
    rule = PID(rate=0.1, gain=0.0, weight=1.0, growing=True)
    assert follow(rule, [3.0] * 30, 2.0) == pytest.approx(1.1**30 - 1.0, rel=1e-5)


def test_the_integral_does_not_wind_up_below_zero():
    # After long satisfaction one violation is answered at once.
    rule = PID(rate=0.1, gain=0.0, weight=1.0)
    assert follow(rule, [0.0] * 100 + [3.0], 2.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Ascent(rate=-1.0), "rate is -1.0; it must be finite and not below 0"),
        (lambda: Ascent(limit=-1.0), "limit is -1.0; it must not be below 0"),
        (lambda: PID(weight=2.0), "weight is 2.0; a probability"),
        (lambda: FixedMultiplier(-0.5), "multiplier is -0.5; it must be finite and not below 0"),
    ],
)
def test_bad_rules_are_refused(make, advice):
    with pytest.raises(ValueError, match=advice):
        make()


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (None, 2.0 / 18.0),
        (4.0, 2.0 / 4.0),  # smaller than 10 + 8
        (40.0, 2.0 / 18.0),
        (0.5, 1.0),  # at most
        (0.0, 2.0 / 18.0),  # unknown
    ],
)
def test_an_excess_counts_in_its_size_or_its_spread(spread, expected):
    spread = None if spread is None else jnp.asarray(spread)
    found = relative_excess(jnp.asarray(10.0), jnp.asarray(8.0), spread)
    assert float(found) == pytest.approx(expected)
    assert float(relative_excess(jnp.asarray(10.0), jnp.asarray(np.inf), spread)) == -1.0


def test_a_risk_that_swings_about_its_bound_has_no_excess_on_average():
    # Three batches without risk and one with four times the bound are at it on average; in units
    # that move with the risk itself they would seem to lie below, (3 (-1) + 3/5) / 4.
    risks, bound, far = [0.0, 0.0, 4.0, 0.0], jnp.asarray(1.0), jnp.asarray(100.0)
    steady = [steady_excess(jnp.asarray(c), bound, bound, far) for c in risks]
    moving = [relative_excess(jnp.asarray(c), bound) for c in risks]
    assert float(sum(steady)) == pytest.approx(0.0)
    assert float(sum(moving)) == pytest.approx(-2.4)
    nine = jnp.asarray(9.0)
    assert float(steady_excess(nine, bound, bound, far)) == 3.0  # at most
    assert float(steady_excess(jnp.asarray(1.2), bound, bound, jnp.asarray(0.4))) == pytest.approx(
        0.5
    )
    assert float(steady_excess(nine, jnp.asarray(np.inf), bound, far)) == -1.0
    assert float(steady_excess(*jnp.zeros(4))) == 0.0
    # A bound of 0 that is all but met: 2e-3 is a fifth of LEAST_RISK of 10.
    nearly, none, spread = jnp.array([2e-3, 0.0, 10.0])
    assert float(steady_excess(nearly, none, nearly, spread)) == pytest.approx(0.2)


def test_a_growing_rule_does_not_overflow():
    rule = PID(rate=0.5, gain=4.0, weight=1.0, growing=True)
    state = rule.init()
    for _ in range(300):  # 1.5^300 is beyond float32
        state = rule.update(state, jnp.asarray(1.0), 0.0)
    assert float(rule.value(state)) == LARGEST
    for _ in range(100):
        state = rule.update(state, jnp.asarray(-1.0), 0.0)
    assert float(rule.value(state)) == 0.0
