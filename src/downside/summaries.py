"""What a training has come to: a line for every threshold, and what went wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np

from downside.evaluation.several import lead
from downside.signals import Constraint
from downside.training.run import Report

N_PARTS = 4
"""Of the second half of the records, over each of which a multiplier is averaged."""

FEW = 20
"""With fewer records nothing is said of the end: a multiplier on its way up grows too."""


def summarise(
    records: Report,
    constraints: Sequence[tuple[Constraint, ...]],
    names: Sequence[str],
    n_seeds: int,
    failed: np.ndarray,
    remarks: Sequence[str | None],
) -> str:
    """Mean, risk and multiplier over the last tenth of the records, and notes.

    ``names`` and ``remarks`` have one for each line, "" or None where there is nothing to say.
    """
    recent = jax.tree.map(lambda x: x[-max(1, len(records.returns) // 10) :], records)
    lines: list[str] = []
    for i, bounds in enumerate(constraints):
        mine = slice(i * n_seeds, (i + 1) * n_seeds)
        words = [f"{lead(names[i])}mean return {average(recent.returns[:, mine]):.4g}"]
        for j, constraint in enumerate(bounds):
            words.append(
                f"risk {average(recent.risks[:, mine, j]):.4g} of {constraint.threshold:g}, "
                f"multiplier {recent.multipliers[-1, mine, j].mean():.4g}"
            )
        lines.append("; ".join(words))
        n_failed = int(np.count_nonzero(failed[mine]))
        if n_failed:
            lines.append(f"  {n_failed} of {n_seeds} learners went non-finite: see failures()")
        lines += [f"  {note}" for note in _infeasible(records, mine, bounds, n_seeds)]
        if remarks[i] is not None:
            lines.append(f"  {remarks[i]}")
    return "\n".join(lines)


def names_of(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """What blocks of learners are called: the numbers in which their settings differ.

    >>> from downside.agents import PID
    >>> names_of([{"multiplier": PID(rate=0.1)}, {"multiplier": PID(rate=0.3)}])
    ['multiplier.rate=0.1', 'multiplier.rate=0.3']
    """
    flat = [dict(_numbers_of(variant)) for variant in variants]
    differing = [name for name in flat[0] if len({str(each[name]) for each in flat}) > 1]
    return [", ".join(f"{name}={_short(each[name])}" for name in differing) for each in flat]


def _numbers_of(variant: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in variant.items():
        if is_dataclass(value):
            for field in fields(value):
                yield f"{name}.{field.name}", getattr(value, field.name)
        else:
            yield name, value


def _short(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, float | np.floating) else str(value)


def average(values: np.ndarray) -> float:
    """The mean of what is known; NaN where no episode ended."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _infeasible(
    records: Report, mine: slice, bounds: tuple[Constraint, ...], n_seeds: int
) -> list[str]:
    notes: list[str] = []
    for j, constraint in enumerate(bounds):
        lost, lowest = _is_infeasible(records, mine, j, float(constraint.threshold))
        if lost:
            notes.append(
                f"no feasible policy found for {lost} of {n_seeds} seeds: the multiplier "
                f"grows without end; the lowest risk reached was {lowest:.4g}"
            )
    return notes


def _is_infeasible(records: Report, mine: slice, j: int, threshold: float) -> tuple[int, float]:
    """How many learners' multipliers kept growing while the risk stayed above; the least risk."""
    multipliers, risks = records.multipliers[:, mine, j], records.risks[:, mine, j]
    n = len(multipliers)
    if n < FEW:
        return 0, float("nan")
    late = slice(n // 2, None)
    parts = np.stack([part.mean(axis=0) for part in np.array_split(multipliers[late], N_PARTS)])
    lowest = np.min(risks[late], axis=0, initial=np.inf, where=~np.isnan(risks[late]))
    rewards = np.abs(records.discounted[late, mine])
    most = np.max(rewards, axis=0, initial=0.0, where=~np.isnan(rewards))
    seen = np.isfinite(lowest) & (lowest > threshold)
    weighed = parts * np.where(seen, lowest, 0.0)
    growing = np.all(np.diff(parts, axis=0) >= 0, axis=0) & (parts[-1] > 1.25 * parts[0])
    growing |= weighed[0] > 1e4 * most  # it has grown as far as it goes
    outweighs = multipliers[-1] * np.where(seen, lowest, 0.0) > 5.0 * most
    return int(np.count_nonzero(growing & seen & outweighs)), _lowest(risks)


def _lowest(risks: np.ndarray) -> float:
    """The least of the averages over a tenth of the records; single ones have too much luck."""
    width = max(1, len(risks) // 10)
    windows = [
        risks[i : i + width, k]
        for i in range(len(risks) - width + 1)
        for k in range(risks.shape[1])
    ]
    known = [average(window) for window in windows if not np.all(np.isnan(window))]
    return min(known, default=float("nan"))
