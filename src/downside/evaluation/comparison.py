"""Comparing policies on the same luck: paired differences."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from downside.checks import check_count
from downside.evaluation.intervals import Interval
from downside.evaluation.result import Evaluation
from downside.evaluation.several import Evaluations

if TYPE_CHECKING:
    import polars


class Judged(Protocol):
    """What can be judged over fresh episodes, such as an agent."""

    def evaluate(self, n_eval_episodes: int | None, *, seed: int) -> Evaluations:
        """Over episodes that depend on the seed and their number alone."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """The difference of each measure, first minus other, for every other policy.

    ``differences`` holds a dictionary of measures for each of the others; ``names`` are of all.
    """

    names: tuple[str, ...]
    results: tuple[Evaluations, ...]
    differences: tuple[dict[str, Interval], ...]

    def to_dict(self) -> dict[str, Any]:
        """By the names of the pairs."""
        return {
            f"{self.names[0]} - {other}": {name: found.to_dict() for name, found in each.items()}
            for other, each in zip(self.names[1:], self.differences, strict=True)
        }

    def to_frame(self) -> "polars.DataFrame":
        """A row for each pair and measure: first, other, measure, difference, low, high."""
        import polars as pl

        rows = [
            {
                "first": self.names[0],
                "other": other,
                "measure": name,
                "difference": found.value,
                "low": found.low,
                "high": found.high,
            }
            for other, each in zip(self.names[1:], self.differences, strict=True)
            for name, found in each.items()
        ]
        return pl.DataFrame(rows)

    def __str__(self) -> str:
        one = self.results[0][0]
        lines: list[str] = []
        for k, (other, each) in enumerate(zip(self.names[1:], self.differences, strict=True), 1):
            labels = [one.label(name) for name in each]
            width = max(map(len, labels))
            head = f"{'':<{width}}  {self.names[0]:>10}  {other:>10}"
            lines.append(f"{head}  {'difference':>10}   95% interval")
            for label, (name, found) in zip(labels, each.items(), strict=True):
                first, second = (_mean(self.results[i], name) for i in (0, k))
                clear = "" if found.low <= 0.0 <= found.high else "  *"
                lines.append(
                    f"{label:<{width}}  {first:>10.4g}  {second:>10.4g}  {found.value:>10.4g}   "
                    f"[{found.low:.4g}, {found.high:.4g}]{clear}"
                )
            lines.append("")
        n = one.n_episodes
        lines.append(
            f"differences over the same {n:,} episodes, {self.names[0]} minus the other; * the "
            "interval does not contain 0"
        )
        return "\n".join(lines)


def compare(
    *policies: Any,
    names: tuple[str, ...] | None = None,
    n_eval_episodes: int | None = None,
    seed: int = 1,
) -> Comparison:
    """The difference of every measure between the first and each of the others, in pairs.

    Each is an agent, or an evaluation that was made with the same seed and number of episodes (a
    block of `Evaluations` for one threshold of several). Episode i meets the same noise under each,
    so the luck that they share cancels. Seeds of training are paired too where there are as many.
    Partial moments are about each one's own target. Agents are judged by ``n_eval_episodes``: by
    default as many as an evaluation beside them has, else as many as ``agent.evaluate`` takes.

    >>> rng = np.random.default_rng(0)
    >>> luck = rng.normal(size=5000)
    >>> bold = Evaluation.of_episodes(2.0 * luck + 1.1, target=0.0)
    >>> shy = Evaluation.of_episodes(luck + 1.0, target=0.0)
    >>> found = compare(bold, shy, names=("bold", "shy")).differences[0]
    >>> found["lpm1"].low > 0.0
    True
    """
    if len(policies) < 2:
        raise ValueError("compare needs at least two policies: compare(agent_a, agent_b)")
    if n_eval_episodes is None:
        judged = [each for each in policies if isinstance(each, Evaluation | Evaluations)]
        n_eval_episodes = _episodes_of(judged[0]) if judged else None
    else:
        check_count("n_eval_episodes", n_eval_episodes, least=2)
    results = tuple(_evaluations(each, n_eval_episodes, seed) for each in policies)
    labels = names or tuple(_LETTERS[i] for i in range(len(policies)))
    if len(labels) != len(policies):
        raise ValueError(f"there are {len(labels)} names for {len(policies)} policies")
    sizes = {each[0].n_episodes for each in results}
    if len(sizes) > 1:
        raise ValueError(
            f"evaluations of {sorted(sizes)} episodes cannot be paired; evaluate all of them with "
            "the same n_eval_episodes and seed"
        )
    return Comparison(
        labels, results, tuple(differences(results[0], other) for other in results[1:])
    )


def differences(first: Evaluations, other: Evaluations) -> dict[str, Interval]:
    """Of every measure that both have, mean over seeds minus mean over seeds."""
    shared = [name for name in first[0].replicates if name in other[0].replicates]
    return {name: difference(first, other, name) for name in shared}


def difference(first: Evaluations, other: Evaluations, name: str) -> Interval:
    """Of one measure, with the interval over the pairs."""
    (a, many_a), (b, many_b) = (_stack(each, name) for each in (first, other))
    with np.errstate(invalid="ignore"):
        if len(a) == len(b):
            return Interval.over_seeds(a - b, many_a - many_b)
        value = float(a.mean() - b.mean())
        shared = 1.96 * float((many_a.mean(axis=0) - many_b.mean(axis=0)).std())
    reaches = [Interval.of_mean(each).high - each.mean() for each in (a, b) if len(each) > 1]
    reach = float(np.sqrt(shared**2 + np.sum(np.square(reaches))))
    return Interval(value, value - reach, value + reach)


def _episodes_of(one: Evaluation | Evaluations) -> int:
    return (one if isinstance(one, Evaluation) else one[0]).n_episodes


def _evaluations(policy: Any, n_eval_episodes: int | None, seed: int) -> Evaluations:
    if isinstance(policy, Evaluation):
        return Evaluations((policy,))
    if not isinstance(policy, Evaluations):
        if not hasattr(policy, "evaluate"):
            raise ValueError(f"{policy!r} cannot be compared; give agents or evaluations")
        judged: Judged = policy
        policy = judged.evaluate(n_eval_episodes, seed=seed)
    if len(policy.blocks) > 1:
        raise ValueError(
            "one of the policies has several thresholds; compare the blocks of its evaluation: "
            "compare(*agent.evaluate().blocks)"
        )
    return policy


def _stack(each: Evaluations, name: str) -> tuple[np.ndarray, np.ndarray]:
    found = [one.replicates[name] for one in each]
    return np.array([value for value, _ in found]), np.stack([many for _, many in found])


def _mean(each: Evaluations, name: str) -> float:
    return float(np.mean([one.replicates[name][0] for one in each]))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
