"""Several policies over the same fresh episodes: seeds of one training, one block per threshold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np

from downside.evaluation.intervals import Interval
from downside.evaluation.measures import limits
from downside.evaluation.result import Bound, Evaluation, Kind

if TYPE_CHECKING:
    import polars


@final
@dataclass(frozen=True, eq=False)
class Evaluations(Sequence[Evaluation]):
    """The evaluations of an agent's policies, in the order (threshold, seed).

    A sequence of them: ``evaluations[0]`` is the first policy's. A block holds the seeds of one
    threshold; all of them met the same noise. Where settings have several values, the order is
    (combination, threshold, seed), and ``labels`` has what the combination of each block is called.

    >>> rng = np.random.default_rng(0)
    >>> seeds = [Evaluation.of_episodes(rng.normal(m, 1.0, 2000), target=0.0) for m in (1.0, 1.2)]
    >>> found = Evaluations(tuple(seeds), n_seeds=2)
    >>> len(found), found.over_seeds("mean").low < 1.1 < found.over_seeds("mean").high
    (2, True)
    """

    results: tuple[Evaluation, ...]
    n_seeds: int = 1
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.results or len(self.results) % self.n_seeds:
            raise ValueError(
                f"there are {len(self.results)} results for {self.n_seeds} seeds; give as many "
                "for every threshold"
            )

    @overload
    def __getitem__(self, index: int) -> Evaluation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Evaluation]: ...
    def __getitem__(self, index: int | slice) -> Evaluation | Sequence[Evaluation]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    @property
    def blocks(self) -> list["Evaluations"]:
        """One for each threshold, with its seeds."""
        n = self.n_seeds
        return [
            Evaluations(self.results[i : i + n], n, self.labels[i // n : i // n + 1])
            for i in range(0, len(self), n)
        ]

    @property
    def label(self) -> str:
        """What the combination of settings of the first block is called; "" where there is one."""
        return self.labels[0] if self.labels else ""

    def over_seeds(self, name: str) -> Interval:
        """A measure's mean over the seeds of one threshold, with its interval.

        The interval covers the spread over seeds (Student's) and the episodes (bootstrap).
        """
        if len(self.blocks) > 1:
            raise ValueError("several thresholds or settings have no mean; take one of .blocks")
        found = [one.replicates[name] for one in self]
        return Interval.over_seeds(
            np.array([value for value, _ in found]),
            np.stack([each for _, each in found]),
            *limits(name),
        )

    @property
    def verdicts(self) -> list[str]:
        """A line for each bound: the bound, the measured risk, how many seeds hold."""
        blocks = list(self._settled())
        named = len(blocks) > 1
        return [
            lead(each.block.label if named else "") + line
            for each in blocks
            for line in each.lines()
        ]

    @property
    def mean_words(self) -> str:
        """The mean return over the seeds of one threshold, in words."""
        found, discounted = self.over_seeds("mean"), self[0].discount != 1.0
        words = "mean discounted return" if discounted else "mean return"
        return f"{words} {found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"

    def to_dict(self) -> dict[str, Any]:
        """Every policy's numbers, by threshold and seed."""
        return {
            "n_seeds": self.n_seeds,
            "verdicts": self.verdicts,
            "policies": [
                {
                    "block": i // self.n_seeds,
                    **({"variant": self.labels[i // self.n_seeds]} if self.labels else {}),
                    "seed": i % self.n_seeds,
                    **one.to_dict(),
                }
                for i, one in enumerate(self)
            ],
        }

    def to_frame(self) -> "polars.DataFrame":
        """A row for each policy and measure: block, threshold, seed, measure, value, low, high.

        Where settings have several values, the column ``variant`` has those of the policy.
        """
        import polars as pl

        frames = [
            one.to_frame().select(
                pl.lit(i // self.n_seeds).alias("block"),
                *(pl.lit(x).alias("variant") for x in self.labels[i // self.n_seeds :][:1]),
                pl.lit(_threshold(one)).alias("threshold"),
                pl.lit(i % self.n_seeds).alias("seed"),
                pl.all(),
            )
            for i, one in enumerate(self)
        ]
        return pl.concat(frames)

    def plot(self, path: str | Path | None = None, kind: Kind = "histogram") -> Any:
        """As `Evaluation.plot`, the seeds of a threshold together, a panel or curve for each."""
        return import_module("downside.report.risk_pictures").plot_evaluations(self, path, kind)

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self[0])
        parts = [
            "\n".join([*each.title(), *each.lines(), *each.table()]) for each in self._settled()
        ]
        return "\n\n".join([*parts, "\n".join(self._all_notes())])

    def _settled(self) -> Iterator["_Block"]:
        return (_Block(block) for block in self.blocks)

    def _all_notes(self) -> list[str]:
        """Those of the policies, each once."""
        found = list(dict.fromkeys(note for one in self for note in one.notes))
        if self.n_seeds > 1:
            found.append(
                "intervals of the mean over seeds cover the seeds (Student) and the episodes "
                "(bootstrap)"
            )
        return found


class _Block:
    """The seeds of one threshold, in lines."""

    def __init__(self, block: Evaluations) -> None:
        self.block = block

    def title(self) -> list[str]:
        return [self.block.label] if self.block.label else []

    def lines(self) -> list[str]:
        return [self._verdict(j) for j in range(len(self.block[0].bounds))]

    def _verdict(self, j: int) -> str:
        bounds = [one.bounds[j] for one in self.block]
        name = f"bound: {bounds[0].name} <= {bounds[0].threshold:.4g}"
        if any(bound.sums is None for bound in bounds):
            return f"{name}; not measured"
        values = np.array([bound.value for bound in bounds])
        least, _ = limits(bounds[0].name.split()[0])  # a proxy is not below 0, a penalty may be
        found = Interval.over_seeds(values, np.stack([bound.replicates for bound in bounds]), least)
        n, held = len(bounds), sum(bound.holds for bound in bounds)
        words = f"{held} of {n} seeds hold"
        near = sum(_is_near(bound) for bound in bounds)
        if near:
            words += f", {near} above by no more than the interval"
        return f"{name}; measured {found.value:.4g} [{found.low:.4g}, {found.high:.4g}]; {words}"

    def table(self) -> list[str]:
        first = self.block[0]
        names = list(first.measures)
        labels = [first.label(name) for name in names]
        width = max(map(len, labels))
        n = self.block.n_seeds
        many = f"  {'lowest and highest seed'}" if n > 1 else ""
        head = f"{'':<{width}}  {'mean' if n > 1 else 'value':>10}   {'95% interval':<24}{many}"
        lines = [head.rstrip()]
        for name, label in zip(names, labels, strict=True):
            found = self.block.over_seeds(name)
            reach = f"[{found.low:.4g}, {found.high:.4g}]"
            line = f"{label:<{width}}  {found.value:>10.4g}   {reach:<24}"
            if n > 1:
                values = [one.replicates[name][0] for one in self.block]
                line += f"  {min(values):.4g} to {max(values):.4g}"
            lines.append(line.rstrip())
        return lines


def lead(label: str) -> str:
    """What a line begins with that speaks of learners with settings of their own.

    >>> lead("kl=0.1"), lead("")
    ('kl=0.1: ', '')
    """
    return f"{label}: " if label else ""


def _is_near(bound: Bound) -> bool:
    return not bound.holds and bound.measured.low <= bound.threshold


def _threshold(one: Evaluation) -> float:
    """That of the first bound; NaN where there is none."""
    return one.bounds[0].threshold if one.bounds else math.nan
