"""One bar on standard error while something long runs."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, final

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    track,
)
from rich.text import Text

T = TypeVar("T")


def follow(items: Iterable[T], total: int, what: str, *, shown: bool) -> Iterable[T]:
    """Go through ``items`` with a progress bar, if it is wanted and somebody can see it.

    >>> list(follow("ab", total=2, what="letters", shown=False))
    ['a', 'b']
    """
    console = Console(stderr=True)
    hidden = not (shown and console.is_terminal)
    return track(items, what, total, console=console, disable=hidden, transient=True)


LOG_SECONDS = 30.0


@final
class TrainingBar:
    """Steps done, speed, time left, mean return, risk against its bound, and multiplier.

    One bar in a terminal; elsewhere, as in a log file, a line every `LOG_SECONDS`, also while a
    slow environment makes the steps of one update. With several
    thresholds or seeds, the numbers are means over all learners. ``acted`` tells how many steps of
    each learner were made since the last update, where an environment makes them one by one.
    """

    def __init__(
        self,
        total: int,
        done: int,
        thresholds: np.ndarray,
        *,
        shown: bool,
        acted: Callable[[], int] | None = None,
    ) -> None:
        self._console = Console(stderr=True)
        self._total, self._thresholds, self._shown = total, thresholds, shown
        self._acted = acted or (lambda: 0)
        self._bar = Progress(
            _Steps(self._acted),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[words]}"),
            console=self._console,
            transient=True,
            disable=not (shown and self._console.is_terminal),
        )
        self._words = "compiling" if acted is None else "acting"
        self._task = self._bar.add_task("training", total=total, completed=done, words=self._words)
        self._last = done
        self._over = threading.Event()

    def __enter__(self) -> "TrainingBar":
        self._bar.start()
        if self._shown and not self._console.is_terminal:
            threading.Thread(target=self._log, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._bar.stop()

    def advance(self, done: int, report: Any, seconds: float) -> None:
        """Show what a chunk brought, after ``done`` steps of this call."""
        speed = (done - self._last) * len(report.steps) / max(seconds, 1e-9)
        words = [f"{speed:,.0f} learner-steps/s", f"mean {_mean(report.returns)}"]
        for j in range(self._thresholds.shape[1]):
            risk, bound = _mean(report.risks[:, j]), _mean(self._thresholds[:, j])
            words.append(f"risk {risk} of {bound}, multiplier {_mean(report.multipliers[:, j])}")
        self._last, self._words = done, "  ".join(words)
        self._bar.update(self._task, completed=done, words=self._words)

    def say(self, line: str) -> None:
        """One line, unless nothing is wanted."""
        if self._shown:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _log(self) -> None:
        while not self._over.wait(LOG_SECONDS):
            done = min(self._last + self._acted(), self._total)
            self.say(f"{done:,} of {self._total:,} steps  {self._words}")


@final
class _Steps(ProgressColumn):
    """Steps that were learnt from, and those that the next update will learn from."""

    def __init__(self, acted: Callable[[], int]) -> None:
        self._acted = acted
        super().__init__()

    def render(self, task: Task) -> Text:
        return Text(f"{task.completed + self._acted():,.0f} steps")


def _mean(values: Any) -> str:
    found = np.asarray(values, float)
    found = found[~np.isnan(found)]
    return f"{found.mean():.4g}" if found.size else "-"
