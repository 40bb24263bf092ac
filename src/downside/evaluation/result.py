"""One policy over fresh episodes: what it is worth, what it risks, and whether its bounds hold."""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from downside.evaluation.intervals import Interval, resamples
from downside.evaluation.measures import NAMES, Episodes, measure
from downside.signals import Centralised, Fixed, Signal, Target, TDError, as_target

if TYPE_CHECKING:
    import polars

Kind = Literal["histogram", "probability", "fan", "underwater"]


@final
@dataclass(frozen=True, eq=False)
class Bound:
    """A constraint and what each episode contributed to it; ``sums`` None where nobody can tell.

    >>> bound = Bound("proxy", threshold=0.5, sums=np.array([0.2, 0.4]))
    >>> bound.holds
    True
    """

    name: str
    threshold: float
    sums: np.ndarray | None

    @cached_property
    def value(self) -> float:
        """The mean over the episodes; NaN where it is not known."""
        return float("nan") if self.sums is None else float(self.sums.mean())

    @cached_property
    def replicates(self) -> np.ndarray:
        """The means of the resamples."""
        if self.sums is None:
            return np.full(1, np.nan)
        n = len(self.sums)
        return np.concatenate([counts.astype(float) @ self.sums / n for counts in resamples(n)])

    @property
    def measured(self) -> Interval:
        """The mean over the episodes with its interval."""
        return Interval.of_replicates(self.value, self.replicates)

    @property
    def holds(self) -> bool:
        """Whether the estimate is within the bound."""
        return self.value <= self.threshold


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """One policy over fresh episodes, in numbers that always stand together.

    ``measures`` are those of `downside.evaluation.measures.NAMES` that exist here, each with its
    95% bootstrap interval: ``evaluation["cvar"]``. All but the undiscounted mean are of the return
    as the problem discounts it. ``proxy`` is what is constrained, ``path_shortfall`` what it
    bounds, ``lpm`` what users mean: the lower partial moment about ``about``, the fixed target or
    else the policy's own mean return. ``learnt_means`` says that the mean rewards of `Centralised`
    are those that were learnt.

    >>> rng = np.random.default_rng(0)
    >>> result = Evaluation.of_episodes(rng.normal(2.0, 1.0, 4000), target=1.0)
    >>> print(result["lpm1"])          # normal: 0.0833
    0.0820 [0.0741, 0.0895]
    """

    episodes: Episodes
    target: Target
    order: float = 1
    discount: float = 1.0
    deterministic: bool = False
    bounds: tuple[Bound, ...] = ()
    learnt_means: bool = False

    @staticmethod
    def of_episodes(
        returns: Any,
        *,
        target: Any,
        order: float = 1,
        targets: Any = None,
        signals: Any = None,
        totals: Any = None,
        ended: Any = None,
        drawdowns: Any = None,
        paths: Any = None,
        discount: float = 1.0,
        deterministic: bool = False,
        threshold: float | None = None,
        bounds: tuple[Bound, ...] = (),
        learnt_means: bool = False,
    ) -> "Evaluation":
        """From recorded episodes, wherever they were run: arrays with a number for each episode.

        ``returns``, ``targets`` and ``signals`` are discounted sums of rewards, step targets and
        the proxy's signal; ``totals`` the plain sums of rewards, ``ended``
        whether an episode was not cut short (all by default). ``threshold`` bounds the proxy.
        """
        numbers = np.asarray(returns, float)
        if numbers.ndim != 1 or numbers.size < 2:
            raise ValueError(
                f"returns have the shape {numbers.shape}; give the returns of at least 2 episodes"
            )
        if not np.all(np.isfinite(numbers)):
            raise ValueError("returns are not all finite; leave no NaN or infinity in them")
        others = {"targets": targets, "signals": signals, "totals": totals, "drawdowns": drawdowns}
        columns = {
            name: _column(name, values, numbers.size)
            for name, values in others.items()
            if values is not None
        }
        if threshold is not None:
            if signals is None:
                raise ValueError("a threshold bounds the proxy; give signals= as well")
            own = Bound(name_of(as_target(target), order), float(threshold), columns["signals"])
            bounds = (*bounds, own)
        episodes = Episodes(
            returns=numbers,
            ended=np.ones(numbers.size, bool) if ended is None else np.asarray(ended, bool),
            paths=np.zeros((0, 0)) if paths is None else np.asarray(paths, float),
            **columns,
        )
        goal = as_target(target)
        sums = float(discount), deterministic, bounds
        return Evaluation(episodes, goal, order, *sums, learnt_means)

    @property
    def n_episodes(self) -> int:
        """How many episodes were run."""
        return len(self.episodes.returns)

    @property
    def cut(self) -> float:
        """The share of episodes that were cut short, by a time limit for example."""
        return float(1.0 - np.mean(self.episodes.ended))

    @property
    def about(self) -> float:
        """What partial moments are about: the fixed target, or else the mean return."""
        if isinstance(self.target, Fixed):
            return float(np.asarray(self.target.value))
        return float(self.episodes.returns.mean())

    @property
    def guarantee(self) -> str:
        """In words: what the proxy bounds."""
        return self.target.guarantee

    @cached_property
    def replicates(self) -> dict[str, tuple[float, np.ndarray]]:
        """Each measure and what the bootstrap made of it."""
        constant = self.about if isinstance(self.target, Fixed) else None
        return measure(self.episodes, constant, self.order, discounted=self.discount != 1.0)

    @cached_property
    def measures(self) -> dict[str, Interval]:
        """Each measure with its interval."""
        return {name: Interval.of_replicates(*found) for name, found in self.replicates.items()}

    def __getitem__(self, name: str) -> Interval:
        if name not in self.measures:
            raise KeyError(f"there is no {name!r} here; there are {', '.join(self.measures)}")
        return self.measures[name]

    @property
    def mean(self) -> Interval:
        """The mean return."""
        return self["mean"]

    @property
    def proxy(self) -> Interval:
        """What is constrained."""
        return self["proxy"]

    @property
    def path_shortfall(self) -> Interval:
        """What the proxy bounds."""
        return self["path_shortfall"]

    @property
    def lpm(self) -> Interval:
        """The lower partial moment of the constraint's order."""
        return self[self.lpm_name]

    @property
    def lpm_name(self) -> str:
        """The measure that is the lower partial moment of the constraint's order."""
        return f"lpm{self.order:g}" if self.order in (1, 2) else "lpm"

    @property
    def notes(self) -> list[str]:
        """In words: what was run, what the proxy bounds, what is missing."""
        return notes(self)

    def label(self, name: str) -> str:
        """The words of a measure."""
        if name == "proxy" and self._proxy not in [bound.name for bound in self.bounds]:
            return self._proxy
        about = f"{self.about:.4g}" if isinstance(self.target, Fixed) else "the mean"
        return NAMES[name].format(about=about, order=f"{self.order:g}")

    @property
    def _proxy(self) -> str:
        return name_of(self.target, self.order)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the episodes, as plain values."""
        return {
            "episodes": self.n_episodes,
            "cut": self.cut,
            "policy": "deterministic" if self.deterministic else "sampled",
            "discount": self.discount,
            "about": self.about,
            "order": self.order,
            "guarantee": self.guarantee,
            "bounds": [
                {
                    "name": bound.name,
                    "threshold": bound.threshold,
                    "holds": bound.holds,
                    **bound.measured.to_dict(),
                }
                for bound in self.bounds
            ],
            "measures": {name: interval.to_dict() for name, interval in self.measures.items()},
        }

    def to_frame(self) -> "polars.DataFrame":
        """A row for each measure: name, value, low, high."""
        import polars as pl

        rows = [{"measure": name, **found.to_dict()} for name, found in self.measures.items()]
        return pl.DataFrame(rows)

    def plot(self, path: str | Path | None = None, kind: Kind = "histogram") -> Any:
        """Draw the returns, P(return < x), the fan of paths or the drawdowns; returns the figure.

        ``kind`` is "histogram", "probability", "fan" or "underwater".
        """
        return import_module("downside.report.risk_pictures").plot_evaluation(self, path, kind)

    def __str__(self) -> str:
        rows = [(self.label(name), interval) for name, interval in self.measures.items()]
        return "\n".join([*_verdicts(self), *table(rows), *self.notes])


def name_of(target: Target | Signal, order: float) -> str:
    """What is bounded, in words.

    >>> name_of(Fixed(100.0), order=1)
    'proxy about 100'
    """
    if isinstance(target, Signal):
        return type(target).__name__.lower()
    power = "" if order == 1 else f" of order {order:g}"
    if isinstance(target, Fixed):
        return f"proxy{power} about {float(np.asarray(target.value)):g}"
    if isinstance(target, Centralised):
        return f"proxy{power} about the mean rewards"
    about = "the values" if isinstance(target, TDError) else "its own targets"
    return f"proxy{power} about {about}"


def table(rows: list[tuple[str, Interval]]) -> list[str]:
    """Lines of names, values and intervals, one under the other.

    >>> print(*table([("mean", Interval(1.5, 1.25, 1.75))]), sep="\\n")
    mean         1.5   [1.25, 1.75]
    """
    width = max(len(name) for name, _ in rows)
    return [
        f"{name:<{width}}  {_short(found.value):>10}   [{_short(found.low)}, {_short(found.high)}]"
        for name, found in rows
    ]


def notes(one: Evaluation) -> list[str]:
    """What stands under a table."""
    kind = "deterministic" if one.deterministic else "sampled"
    sums = "not discounted" if one.discount == 1.0 else f"discounted by {one.discount:g} per step"
    words = [
        f"{one.n_episodes:,} fresh episodes of the {kind} policy, returns {sums}; 95% intervals",
        f"order {one.order:g}: {one.guarantee}",
    ]
    if one.episodes.signals is None:
        words.append("the proxy is not measured: it needs what only training knows")
    if one.learnt_means:
        words.append("mean rewards are those that training learnt; their error counts as risk")
    if one.cut > 0:
        words.append(f"{one.cut:.0%} of the episodes were cut short: what would follow is missing")
    if "lpm0" in one.replicates and one.replicates["lpm0"][0] == 0.0:
        words.append(
            f"no episode fell short: with 95% confidence fewer than {3.0 / one.n_episodes:.2g} do"
        )
    return words


def _verdicts(one: Evaluation) -> list[str]:
    lines: list[str] = []
    for bound in one.bounds:
        found = bound.measured
        if bound.sums is None:
            lines.append(f"bound: {bound.name} <= {bound.threshold:g}; not measured")
            continue
        word = "holds" if bound.holds else "does not hold"
        if not bound.holds and found.low <= bound.threshold:
            word += ", by no more than the interval"
        lines.append(
            f"bound: {bound.name} <= {bound.threshold:g}; measured {_short(found.value)} "
            f"[{_short(found.low)}, {_short(found.high)}]: {word}"
        )
    return [*lines, ""] if lines else []


def _column(name: str, values: Any, size: int) -> np.ndarray:
    column = np.asarray(values, float)
    if column.shape != (size,):
        raise ValueError(
            f"{name} have the shape {column.shape}; give one number for each of {size}"
        )
    return column


def _short(value: float) -> str:
    return f"{value:.4g}"
