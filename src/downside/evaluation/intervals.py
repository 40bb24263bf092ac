"""Intervals: Student's for means, the bootstrap for everything that weights can express.

All evaluations of n episodes are resampled alike. Where episode i meets the same noise under every
policy, as it does here, differences between policies are then resampled in pairs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

MOST_RESAMPLES, FEWEST_RESAMPLES = 1000, 200
CHUNK = 1_000_000
KEPT = 30_000_000

Estimates = Float[np.ndarray, " policies"]
Replicates = Float[np.ndarray, "policies resamples"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval.

    >>> print(Interval(0.5, 0.46, 0.54))
    0.5000 [0.4600, 0.5400]
    """

    value: float
    low: float
    high: float

    @staticmethod
    def of_mean(samples: Any) -> "Interval":
        """The mean of independent samples; the interval is Student's."""
        numbers = np.asarray(samples, float)
        mean = float(numbers.mean())
        reach = _student_reach(numbers)
        return Interval(mean, mean - reach, mean + reach)

    @staticmethod
    def of_replicates(value: float, replicates: Any) -> "Interval":
        """An estimate, and the middle 95% of what the bootstrap made of it."""
        low, high = np.quantile(replicates, [0.025, 0.975], method="inverted_cdf")
        return Interval(float(value), float(low), float(high))

    @staticmethod
    def over_seeds(
        values: Estimates, replicates: Replicates, least: float = -math.inf, most: float = math.inf
    ) -> "Interval":
        """The mean over independently trained policies that were judged on the same episodes.

        Student's interval for the spread over policies and the bootstrap's for the episodes they
        share, as the root of the sum of squares, cut off at the ``least`` and the ``most`` that
        the measure can be. For one policy it is the bootstrap's alone; where a ratio is infinite
        in some resample, the middle 95% of the resamples of all policies.
        """
        if len(values) == 1:
            return Interval.of_replicates(values[0], replicates[0])
        mean = float(values.mean())
        if not np.all(np.isfinite(replicates)):
            return Interval.of_replicates(mean, replicates)
        shared = 1.96 * float(replicates.mean(axis=0).std())
        reach = math.hypot(_student_reach(values), shared)
        return Interval(mean, max(mean - reach, least), min(mean + reach, most))

    def to_dict(self) -> dict[str, float]:
        """By name."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


def resamples(n: int) -> Iterator[np.ndarray]:
    """How often each of ``n`` episodes occurs in every resample, in chunks (resamples, n).

    There are 1000 resamples, fewer (never below 200) for more than 20,000 episodes. They are the
    same at every call.

    >>> counts = np.concatenate(list(resamples(50)))
    >>> counts.shape, set(counts.sum(axis=1).tolist())
    ((1000, 50), {50})
    """
    yield from _kept(n) if n * _how_many(n) <= KEPT else _draw(n)


def _how_many(n: int) -> int:
    return int(np.clip(20_000_000 // n, FEWEST_RESAMPLES, MOST_RESAMPLES))


@lru_cache(maxsize=2)
def _kept(n: int) -> list[np.ndarray]:
    return list(_draw(n))


def _draw(n: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng((n, 20))
    total, at_once = _how_many(n), max(1, CHUNK // n)
    for first in range(0, total, at_once):
        rows = min(at_once, total - first)
        picked = rng.integers(n, size=(rows, n), dtype=np.int32)
        picked += np.arange(rows, dtype=np.int32)[:, None] * n
        counts = np.bincount(picked.ravel(), minlength=rows * n)
        yield counts.reshape(rows, n).astype(np.uint16)


def _student_reach(numbers: np.ndarray) -> float:
    from scipy.special import stdtrit  # not before it is needed: it takes long to import

    standard_error = float(numbers.std(ddof=1)) / math.sqrt(numbers.size)
    return float(stdtrit(numbers.size - 1, 0.975)) * standard_error
