"""The measures of an evaluation, each as a function of weights on the episodes.

Equal weights give the measure itself, the counts of a resample give its replicate. The formulas are
those of `downside.moments`, arranged so that a thousand resamples are a few products of matrices.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from downside.evaluation.intervals import resamples
from downside.moments import lower_partial_moment, upper_partial_moment

LEVEL = 0.05

NAMES = {
    "mean": "mean return",
    "total": "mean return, undiscounted",
    "std": "standard deviation",
    "lpm0": "P(return < {about})",
    "lpm1": "LPM of order 1 about {about}",
    "lpm2": "LPM of order 2 about {about}",
    "lpm": "LPM of order {order} about {about}",
    "proxy": "proxy (what is constrained)",
    "path_shortfall": "path shortfall (what it bounds)",
    "minimum": "minimum",
    "var": "VaR at 5%",
    "cvar": "CVaR at 5%",
    "sortino": "Sortino ratio about {about}",
    "omega": "Omega ratio about {about}",
    "kappa3": "Kappa ratio of order 3 about {about}",
    "drawdown": "maximum drawdown, mean",
}
"""Every measure and its words, in the order of the table."""

NOT_NEGATIVE = ("std", "lpm1", "lpm2", "lpm", "proxy", "path_shortfall", "omega", "drawdown")


def limits(name: str) -> tuple[float, float]:
    """The least and the most that a measure can be.

    >>> limits("lpm0"), limits("mean")
    ((0.0, 1.0), (-inf, inf))
    """
    if name == "lpm0":
        return 0.0, 1.0
    return (0.0 if name in NOT_NEGATIVE else -math.inf), math.inf


Numbers = Float[np.ndarray, " episodes"]


@dataclass(frozen=True, eq=False)
class Episodes:
    """What is kept of each episode of one policy.

    ``returns`` are discounted as the problem is, ``totals`` plain sums of rewards; ``targets`` and
    ``signals`` are the discounted sums of step targets and of the proxy's signal. All but the
    returns are None where they are not known. ``ended`` tells episodes that came to their end from
    those that were cut short. ``drawdowns`` exist where the reward is a log-return. ``paths`` (some
    episodes, steps) are the rewards of the first episodes, 0 after their end.
    """

    returns: Numbers
    ended: np.ndarray
    totals: Numbers | None = None
    targets: Numbers | None = None
    signals: Numbers | None = None
    drawdowns: Numbers | None = None
    paths: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def measure(
    episodes: Episodes, about: float | None, order: float, discounted: bool
) -> dict[str, tuple[float, np.ndarray]]:
    """Each measure and its replicates; ``about`` None is the policy's own mean return.

    Ratios need a target that is a constant: about the mean itself they are 0, or 1 for Omega.
    """
    plan = _Plan(episodes, about, order, discounted)
    n = len(episodes.returns)
    values = plan.of(np.ones((1, n)))
    chunks = [plan.of(counts.astype(float)) for counts in resamples(n)]
    return {
        name: (float(values[name][0]), np.concatenate([chunk[name] for chunk in chunks]))
        for name in NAMES
        if name in values
    }


class _Plan:
    """What does not depend on the weights, computed once."""

    def __init__(
        self, episodes: Episodes, about: float | None, order: float, discounted: bool
    ) -> None:
        x = episodes.returns
        self.n, self.about, self.power = len(x), about, order
        self.middle = float(x.mean())  # variances of deviations from here lose no digits
        self.columns: dict[str, np.ndarray] = {
            "deviation": x - self.middle,
            "square": (x - self.middle) ** 2,
        }
        if discounted and episodes.totals is not None:
            self.columns["total"] = episodes.totals
        if episodes.signals is not None:
            self.columns["proxy"] = episodes.signals
        if episodes.targets is not None:
            self.columns["path_shortfall"] = _each(x, episodes.targets, order)
        if episodes.drawdowns is not None:
            self.columns["drawdown"] = episodes.drawdowns
        if about is None:
            self._split(x - self.middle)
        else:
            targets = np.full_like(x, about)
            self.columns |= {f"lpm{m}": _each(x, targets, m) for m in (0, 1, 2, 3)}
            if order not in (1, 2):
                self.columns["lpm"] = _each(x, targets, order)
            self.columns["upm1"] = upper_partial_moment(x[:, None], about, 1, axis=1)
        self.matrix = np.stack(list(self.columns.values()), axis=1)
        self.returns, self.order = x, np.argsort(x, kind="stable")
        self.sorted = x[self.order]
        self.rank = max(1, math.ceil(round(LEVEL * self.n, 9)))
        self.tail = min(self.n, self.rank + 12 * math.isqrt(self.rank) + 20)

    def _split(self, deviation: np.ndarray) -> None:
        """Columns for what lies below the mean of any resample, and what lies near it.

        Resampled means stay within 6 standard errors, up to one in 10^9; what is further below is
        always short, so its part of a moment about the mean m is a polynomial in m.
        """
        self.reach = 6.0 * float(deviation.std()) / math.sqrt(self.n)
        below = deviation < -self.reach
        self.near = np.flatnonzero(np.abs(deviation) <= self.reach)
        for power in (0, 1, 2):
            self.columns[f"below{power}"] = np.where(below, deviation**power, 0.0)

    def of(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Every measure under these weights (resamples, episodes), which sum to n."""
        means = dict(zip(self.columns, (counts @ self.matrix / self.n).T, strict=True))
        deviation = means.pop("deviation")
        square = np.maximum(means.pop("square") - deviation**2, 0.0)
        below = [means.pop(f"below{power}", np.zeros(0)) for power in (0, 1, 2)]
        found = {"mean": self.middle + deviation, "std": np.sqrt(square), **means}
        if self.about is None:
            found |= self._about_own_mean(counts, deviation, *below)
        else:
            excess = found["mean"] - self.about
            found["sortino"] = _ratio(excess, np.sqrt(found["lpm2"]))
            found["kappa3"] = _ratio(excess, np.cbrt(found.pop("lpm3")))
            found["omega"] = _ratio(found.pop("upm1"), found["lpm1"])
        return found | self._tail(counts)

    def _about_own_mean(
        self, counts: np.ndarray, shift: np.ndarray, n0: np.ndarray, n1: np.ndarray, n2: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Partial moments about the mean of each resample, which is ``shift`` from the sample's."""
        everything = np.any(np.abs(shift) > self.reach) or self.power not in (1, 2)
        near = slice(None) if everything else self.near
        picked = counts[:, near]
        short = np.maximum(shift[:, None] - (self.returns[near] - self.middle), 0.0)
        found = {
            "lpm0": np.sum(picked * (short > 0.0), axis=1) / self.n,
            "lpm1": np.einsum("rn,rn->r", picked, short) / self.n,
            "lpm2": np.einsum("rn,rn,rn->r", picked, short, short) / self.n,
        }
        if self.power not in (1, 2):
            found["lpm"] = np.sum(picked * short**self.power, axis=1) / self.n
        if everything:
            return found
        return {
            "lpm0": found["lpm0"] + n0,
            "lpm1": found["lpm1"] + shift * n0 - n1,
            "lpm2": found["lpm2"] + shift**2 * n0 - 2.0 * shift * n1 + n2,
        }

    def _tail(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Minimum, VaR and CVaR: the worst of the episodes, as often as each was drawn."""
        ordered = counts[:, self.order[: self.tail]]
        upto = np.cumsum(ordered, axis=1)
        if np.any(upto[:, -1] < self.rank):  # the tail was cut too close
            ordered = counts[:, self.order]
            upto = np.cumsum(ordered, axis=1)
        worst = self.sorted[: ordered.shape[1]]
        last = np.argmax(upto >= self.rank, axis=1)
        quantile = worst[last]
        short = np.maximum(quantile[:, None] - worst, 0.0)
        lpm = np.einsum("rn,rn->r", ordered, short) / self.n
        return {
            "minimum": worst[np.argmax(upto > 0, axis=1)],
            "var": quantile,
            "cvar": quantile - lpm / LEVEL,
        }


def _each(returns: np.ndarray, targets: np.ndarray, order: float) -> np.ndarray:
    """((target - G)+)^order, episode by episode."""
    return lower_partial_moment(returns[:, None], targets[:, None], order, axis=1)


def _ratio(numerator: Any, denominator: Any) -> np.ndarray:
    """Infinite where there is no shortfall, as in `downside.moments`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(numerator / denominator)
