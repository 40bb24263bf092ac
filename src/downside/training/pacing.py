"""When a checkpoint is due: often where little has been computed, rarely where saving is dear."""

import math
import time
from collections.abc import Callable
from typing import final

SAVE_SECONDS = 10.0
"""The longest pause, and so what a kill can lose of a long run, unless saving is dear."""

SAVE_SHARE = 0.2
"""The largest share of the time that saving may take, however young a run or slow a disk is."""


def pause(cost: float, lived: float) -> float:
    """How long to wait with the next checkpoint in a process that has computed for so long.

        pause = sqrt(2 * cost * lived)

    Saving every ``p`` seconds takes ``cost / p`` of the time, and a kill loses ``p / 2`` on
    average. A process that has lived for a while may be killed after about as long again, since
    nothing else is known: then both together, ``cost / p + p / (2 * lived)`` of the time, are least
    at this pause (Young's interval, 1974).

    >>> pause(1/64, 2.0), pause(1/64, 32.0), pause(1/64, 3200.0)
    (0.25, 1.0, 10.0)
    >>> pause(1/64, 0.0), pause(4.0, 2.0)
    (0.078125, 20.0)
    """
    return max(cost / SAVE_SHARE, min(SAVE_SECONDS, math.sqrt(2.0 * cost * lived)))


@final
class Pace:
    """When the next checkpoint of this process is due.

    The first save, before the first chunk, loads what saving needs, and the first chunk compiles:
    neither says anything about those to come, so the clock starts after the second save. One slow
    save among quick ones is an accident of the disk; the quicker one of the last two counts.

    >>> clock = iter([1.0, 1.5, 7.0, 7.07, 7.08]).__next__
    >>> pace = Pace(clock)
    >>> pace.saved(cost=0.3), pace.is_due  # at 1.0 and 1.5: at once
    (None, True)
    >>> pace.saved(cost=1/64), pace.is_due, pace.is_due  # at 7.0, 7.07 and 7.08
    (None, False, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._n_saves, self._since = clock, 0, 0.0
        self._due, self._last_cost = -math.inf, math.inf

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is old enough for a new one."""
        return self._clock() >= self._due

    def saved(self, cost: float) -> None:
        """A checkpoint was written just now, and that took so many seconds."""
        now = self._clock()
        self._n_saves += 1
        if self._n_saves == 1:
            return
        if self._n_saves == 2:
            self._since = now
        self._due = now + pause(min(cost, self._last_cost), now - self._since)
        self._last_cost = cost
