"""How often a run is saved: what that costs, and what a kill loses."""

import math

import numpy as np
import pytest

from downside.training.pacing import SAVE_SECONDS, SAVE_SHARE, Pace, pause


@pytest.mark.parametrize(("cost", "lived"), [(0.004, 3.0), (0.02, 7.0), (0.05, 90.0)])
def test_no_other_pause_costs_less(cost, lived):
    """Saving and one kill per lifetime, by brute force over pauses."""
    pauses = np.geomspace(0.01, 100.0, 20_001)
    best = pauses[np.argmin(cost / pauses + pauses / (2.0 * lived))]
    assert pause(cost, lived) == pytest.approx(best, rel=1e-3)


class Clock:
    """A machine on which chunks and saves take as long as they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def saves(costs, chunk, seconds, first_chunk):
    """When a run was saved, from the end of its first chunk on."""
    clock = Clock()
    pace, costs = Pace(clock), iter(costs)

    def save():
        clock.now += (cost := next(costs))
        pace.saved(cost)

    save()
    clock.now += first_chunk
    assert pace.is_due
    save()
    times = [start := clock.now]
    while clock.now < start + seconds:
        clock.now += chunk
        if pace.is_due:
            save()
            times.append(clock.now)
    return np.array(times) - start


@pytest.mark.parametrize("cost", [0.007, 0.045])
@pytest.mark.parametrize("seconds", [0.9, 9.0, 90.0])
def test_a_kill_at_any_moment_loses_little_and_saving_takes_little(cost, seconds):
    """At age t a kill loses at most 5 * cost or sqrt(2 * cost * t), a chunk, and the save itself.

    Pauses p at age t make up dt of saving per p, so over all t the share is at most
    SAVE_SHARE, and about the mean of sqrt(cost / (2 t)), which is sqrt(2 * cost / seconds).
    """
    chunk = 0.02
    times = saves([0.5] + [cost] * 10_000, chunk, seconds, first_chunk=6.0)
    gaps, ages = np.diff(times), times[1:]
    allowed = np.maximum(cost / SAVE_SHARE, np.sqrt(2.0 * cost * ages)) + chunk + cost
    assert (gaps <= allowed + 1e-9).all()
    share = cost * len(gaps) / ages[-1]
    assert share <= min(SAVE_SHARE, math.sqrt(2.0 * cost / seconds))


def test_one_slow_save_changes_nothing_and_slow_ones_are_made_less_often():
    clock = Clock()
    pace = Pace(clock)
    for clock.now, cost in ((0.3, 0.3), (1.0, 0.01), (3.0, 2.0)):
        pace.saved(cost)
    clock.now += math.sqrt(2.0 * 0.01 * 2.0) + 1e-9
    assert pace.is_due
    assert np.diff(saves([0.3] + [2.0] * 9, 0.5, 30.0, 0.1)).min() >= 2.0 / SAVE_SHARE


def test_a_long_run_loses_ten_seconds_at_most():
    gaps = np.diff(saves([0.1] + [0.02] * 10_000, 0.5, 20_000.0, 0.1))
    assert gaps.max() <= SAVE_SECONDS + 0.5 + 0.02
    assert gaps[-1] >= SAVE_SECONDS
