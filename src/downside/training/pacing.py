"""When a checkpoint is due: at the end of every chunk, unless saving would take much of the time.

Chunks are long enough for that (see `Pace.chunk_seconds`), so a kill loses the running chunk and no
more. Only chunks that something else cuts short, such as the edge of a record in a run of a second
or a callback at every policy update, may share a checkpoint.
"""

import math
import time
from collections.abc import Callable
from typing import final

CHUNK_SECONDS = 0.5
"""How long a chunk takes, unless saving is dear: the bar moves, and Ctrl-C is heard, as often."""

SAVE_SHARE = 0.2
"""The largest share of the time that saving may take, however short chunks are."""


@final
class Pace:
    """When the next checkpoint of this process is due, and how long a chunk should take.

    The first save, before the first chunk, loads what saving needs: it says nothing about those to
    come. One slow save among quick ones is an accident of the disk; the quicker one of the last two
    counts.

    >>> clock = iter([1.0, 1.5, 7.0, 7.07, 7.08]).__next__
    >>> pace = Pace(clock)
    >>> pace.saved(cost=0.3), pace.is_due  # at 1.0 and 1.5: at once
    (None, True)
    >>> pace.saved(cost=1/64), pace.is_due, pace.is_due  # at 7.0, 7.07 and 7.08
    (None, False, True)
    >>> pace.chunk_seconds
    0.5
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._n_saves = clock, 0
        self._saved, self._pause, self._last_cost = -math.inf, 0.0, math.inf

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is old enough for a new one."""
        return self._clock() >= self._saved + self._pause

    @property
    def chunk_seconds(self) -> float:
        """Twice the shortest pause, so that one is due at the end of every whole chunk."""
        return max(CHUNK_SECONDS, 2.0 * self._pause)

    def saved(self, cost: float) -> None:
        """A checkpoint was written just now, and that took so many seconds."""
        self._saved = self._clock()
        self._n_saves += 1
        if self._n_saves > 1:
            self._pause = min(cost, self._last_cost) / SAVE_SHARE
            self._last_cost = cost
