"""The process in which trials run, one after the other.

``python -m downside.studies.worker PARENT FD``: orders come as lines of JSON on the standard input;
the answers go to the descriptor FD. The process dies with the one that started it, PARENT: the
kernel sees to it where it can, and the end of its input says so elsewhere.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from downside.store.plain import decode
from downside.studies.study import Trial
from downside.studies.trial import AgainError, DiskError, run_trial

BEGUN = "begun"  # said when a trial's own time begins: the process has started and waits
AGAIN = "again"  # a trial failed in a process that is not new
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Take orders until there are no more."""
    parent, answers = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    orders: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    while True:
        order = json.loads(orders.get())
        _say(answers, {"state": BEGUN})
        _say(answers, follow(order))


def _say(answers: int, answer: dict[str, str]) -> None:
    os.write(answers, json.dumps(answer).encode() + b"\n")


def follow(order: dict[str, Any]) -> dict[str, str]:
    """Run the trial of an order, and say what has become of it."""
    try:
        trial, folder = Trial(**decode(order["trial"])), Path(order["folder"])
        fate = run_trial(trial, folder, is_last=order["is_new"])
        return {"state": fate.state, "reason": fate.reason}
    except AgainError as error:
        return {"state": AGAIN, "reason": str(error)}
    except DiskError as error:
        return {"state": "disk", "reason": str(error)}
    except RuntimeError as error:
        return {"state": "refused", "reason": str(error)}


def _read_orders(orders: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


def _die_with(parent: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could say so
        os._exit(0)


if __name__ == "__main__":
    main()
