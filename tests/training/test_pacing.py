"""How often a run is saved: what that costs, and what a kill loses."""

import numpy as np
import pytest

from downside.training.pacing import CHUNK_SECONDS, SAVE_SHARE, Pace


class Clock:
    """A machine on which chunks and saves take as long as they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def saves(costs, seconds, chunk=None):
    """When a run was saved, from the end of its first chunk on, and the chunks between saves."""
    clock = Clock()
    pace, costs, chunks, between = Pace(clock), iter(costs), 0, []

    def save():
        clock.now += (cost := next(costs))
        pace.saved(cost)

    save()
    clock.now += 6.0  # the first chunk, which compiles
    assert pace.is_due
    save()
    times = [start := clock.now]
    while clock.now < start + seconds:
        clock.now += chunk or pace.chunk_seconds
        chunks += 1
        if pace.is_due:
            save()
            times.append(clock.now)
            between.append(chunks)
            chunks = 0
    return np.array(times) - start, between


@pytest.mark.parametrize("cost", [0.007, 0.045, 0.3, 4.0])
def test_every_chunk_is_saved_and_that_takes_little(cost):
    """Half a second of work and a save, or ten times as long as a save where that is more."""
    times, between = saves([0.5] + [cost] * 10_000, 600.0)
    assert set(between) == {1}
    share = cost * (len(times) - 1) / times[-1]
    assert share == pytest.approx(cost / (cost + max(CHUNK_SECONDS, 10.0 * cost)), rel=1e-6)


@pytest.mark.parametrize("cost", [0.007, 0.045])
def test_short_chunks_share_a_save(cost):
    """A kill then loses at most five times what saving takes, a chunk, and the save itself."""
    chunk = 0.02
    times, between = saves([0.5] + [cost] * 10_000, 9.0, chunk)
    assert (np.diff(times) <= cost / SAVE_SHARE + chunk + cost + 1e-9).all()
    assert cost * len(between) / times[-1] <= SAVE_SHARE


def test_one_slow_save_changes_nothing():
    clock = Clock()
    pace = Pace(clock)
    for clock.now, cost in ((0.3, 0.3), (1.0, 0.01), (3.0, 2.0)):
        pace.saved(cost)
    clock.now += 0.01 / SAVE_SHARE
    assert pace.is_due
    assert pace.chunk_seconds == CHUNK_SECONDS
    pace.saved(2.0)
    assert pace.chunk_seconds == 2.0 * 2.0 / SAVE_SHARE
