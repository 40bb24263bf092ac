"""What people ask about a run: how far, how fast, how risky, and whether it is alive."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from downside.store.checkpoint import Checkpoint, read_newest
from downside.store.errors import StoreError
from downside.store.lock import Holder, holder


def read_status(path: str | Path) -> dict[str, Any]:
    """From the newest intact checkpoint of a training run, in words and numbers."""
    found, process = read_newest(path), holder(path)
    try:
        return _in_words(found, process)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise StoreError(f"{found.path} is no checkpoint of a training run: {error!r}") from error


def _in_words(found: Checkpoint, process: Holder | None) -> dict[str, Any]:
    facts = found.facts
    goal = int(facts["goal"])
    learners = int(facts["learners"])
    status: dict[str, Any] = {
        "steps": f"{found.step:,} of {goal:,} ({found.step / goal:.0%})",
        "learners": learners,
        "speed": _speed(facts, found.step * learners),
    }
    if "mean" in facts:
        status["mean return"] = _rounded([facts["mean"]])
    for j, bound in enumerate(zip(*facts["thresholds"], strict=True)):
        status[_numbered("bound", j)] = _rounded(bound)
        if "risks" in facts:
            status[_numbered("risk", j)] = _rounded(row[j] for row in facts["risks"])
            status[_numbered("multiplier", j)] = _rounded(row[j] for row in facts["multipliers"])
    if facts.get("failed"):
        status["stopped learners"] = facts["failed"]
    saved = datetime.fromisoformat(facts["saved"])
    age = (datetime.now(UTC) - saved).total_seconds()
    status["last checkpoint"] = f"{facts['saved']} ({age:.0f} s ago)"
    status["process"] = f"running: {process}" if process else "none; run it again to go on"
    if process is None and found.step >= goal:
        status["process"] = "none; it is done"
    if found.skipped:
        status["damage"] = "; ".join(found.skipped)
    return status


def _speed(facts: dict[str, Any], steps: int) -> str:
    """Without compiling, once there was more than that."""
    seconds = float(facts["seconds"])
    if not seconds > 0:
        return "not started"
    return f"{float(facts.get('speed', steps / seconds)):,.0f} learner-steps/s"


def _numbered(word: str, j: int) -> str:
    return word if j == 0 else f"{word} {j + 1}"


def _rounded(values: Any) -> str:
    """In the order of the thresholds, unknown ones as a dash; once where all are equal."""
    words = [f"{value:.4g}" if not math.isnan(value) else "-" for value in map(float, values)]
    return words[0] if len(set(words)) == 1 else ", ".join(words)
