"""Ctrl-C while something long runs: finish what is begun, keep it, and then stop."""

import signal
import threading
from types import FrameType
from typing import Any, final

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


@final
class Interrupts:
    """Within it, a first Ctrl-C (or a polite kill) is only noted; a second one stops at once.

    >>> with Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     interrupts.seen
    <Signals.SIGTERM: 15>
    """

    def __init__(self) -> None:
        self.seen: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            ours = [n for n in SIGNALS if signal.getsignal(n) in _DEFAULTS]  # else another's
            self._before = {number: signal.signal(number, self._note) for number in ours}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def stop(self, message: str) -> None:
        """Do what the signal asked for: end the program."""
        if self.seen is signal.SIGTERM:
            raise SystemExit(128 + self.seen)
        raise KeyboardInterrupt(message)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
