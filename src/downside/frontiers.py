"""The frontier: the best mean return for every bound on risk, with intervals over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl

from downside.agent import Agent
from downside.checks import check_count, check_single
from downside.control import NRCPO
from downside.evaluation import Evaluations
from downside.evaluation.comparison import difference
from downside.export import NumpyPolicy

N_THRESHOLDS = 11


@final
@dataclass(frozen=True, eq=False)
class FrontierPolicy:
    """What one learner of a frontier found: a policy, its parameters, and how to act with them.

    ``act(obs)`` draws an action with NumPy alone; ``act(obs, deterministic=True)`` gives the most
    likely one.
    """

    threshold: float
    seed: int
    numpy: NumpyPolicy

    @property
    def policy(self) -> Any:
        """The policy."""
        return self.numpy.policy

    @property
    def theta(self) -> np.ndarray:
        """Its parameters."""
        return self.numpy.theta

    def act(
        self, obs: Any, rng: np.random.Generator | None = None, deterministic: bool = False
    ) -> Any:
        """An action of the environment, for one observation or a batch of them."""
        return self.numpy.predict(obs, deterministic, rng)


@final
@dataclass(frozen=True, eq=False)
class Frontier:
    """Policies for every threshold and seed, judged on the same fresh episodes.

    ``note`` says where the thresholds come from. A policy holds if its measured proxy is at most
    the threshold. A threshold is dominated if another one has a clearly higher mean return (beyond
    the interval of their paired difference) and no more risk.
    """

    thresholds: tuple[float, ...]
    evaluations: Evaluations
    agent: Agent
    note: str

    @property
    def n_seeds(self) -> int:
        """Policies for each threshold."""
        return self.evaluations.n_seeds

    @cached_property
    def policies(self) -> list[list[FrontierPolicy]]:
        """What was learnt: ``policies[i][j]`` for threshold i and seed j."""
        n = self.n_seeds
        return [
            [FrontierPolicy(bound, j, self.agent.to_numpy(i * n + j)) for j in range(n)]
            for i, bound in enumerate(self.thresholds)
        ]

    def to_frame(self) -> pl.DataFrame:
        """A row for each threshold and seed: every measure with low and high, and what holds.

        It can be written with polars: ``frontier.to_frame().write_csv(path)``, ``.write_parquet``.
        """
        rows: list[dict[str, Any]] = []
        for i, one in enumerate(self.evaluations):
            row: dict[str, Any] = {
                "threshold": self.thresholds[i // self.n_seeds],
                "seed": i % self.n_seeds,
            }
            row |= {"risk": one.bounds[0].value, "holds": one.bounds[0].holds}
            for name, found in one.measures.items():
                row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
            rows.append(row)
        return pl.DataFrame(rows)

    @cached_property
    def dominated(self) -> np.ndarray:
        """Which thresholds are dominated by another one."""
        blocks = self.evaluations.blocks
        beats = np.zeros((len(blocks), len(blocks)), bool)
        for i, other in enumerate(blocks):
            for j, own in enumerate(blocks):
                if i != j and difference(other, own, "proxy").value <= 0.0:
                    beats[i, j] = difference(other, own, "mean").low > 0.0
        return np.asarray(beats.any(axis=0))

    @cached_property
    def feasible(self) -> np.ndarray:
        """For which thresholds at least one seed found a policy that holds."""
        holds = [one.bounds[0].holds for one in self.evaluations]
        return np.asarray(np.reshape(holds, (-1, self.n_seeds)).any(axis=1))

    def summary(self) -> pl.DataFrame:
        """A row for each threshold: mean and risk over seeds with intervals, and what holds."""
        rows: list[dict[str, Any]] = []
        for i, block in enumerate(self.evaluations.blocks):
            mean, risk = block.over_seeds("mean"), block.over_seeds("proxy")
            lpm = block.over_seeds(block[0].lpm_name)
            rows.append(
                {
                    "threshold": self.thresholds[i],
                    "mean": mean.value,
                    "mean_low": mean.low,
                    "mean_high": mean.high,
                    "risk": risk.value,
                    "risk_low": risk.low,
                    "risk_high": risk.high,
                    "lpm": lpm.value,
                    "lpm_low": lpm.low,
                    "lpm_high": lpm.high,
                    "n_hold": sum(one.bounds[0].holds for one in block),
                    "n_seeds": self.n_seeds,
                    "dominated": bool(self.dominated[i]),
                    "feasible": bool(self.feasible[i]),
                }
            )
        return pl.DataFrame(rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """Mean against risk, and risk against its bound, with bands over seeds."""
        return import_module("downside.report.risk_pictures").plot_frontier(self, path)

    def __str__(self) -> str:
        lines = [
            f"{'threshold':>10}  {'mean':>9}  {'95% interval':<22}  {'risk':>9}  "
            f"{'95% interval':<22}  holds"
        ]
        for row in self.summary().to_dicts():
            mean, risk = (
                f"[{row[f'{name}_low']:.4g}, {row[f'{name}_high']:.4g}]"
                for name in ("mean", "risk")
            )
            words = [f"{row['n_hold']} of {row['n_seeds']}"]
            words += ["dominated"] if row["dominated"] else []
            words += [] if row["feasible"] else ["no policy found"]
            lines.append(
                f"{row['threshold']:>10.4g}  {row['mean']:>9.4g}  {mean:<22}  "
                f"{row['risk']:>9.4g}  {risk:<22}  {', '.join(words)}"
            )
        first = self.evaluations[0]
        lines += [
            f"{self.note}; risk is the {first.bounds[0].name}, of order {first.order:g}",
            *first.notes,
        ]
        return "\n".join(lines)


def frontier(
    env: Any,
    *,
    target: Any,
    thresholds: Sequence[float] | np.ndarray | None = None,
    n_seeds: int = 5,
    total_timesteps: int = 300_000,
    order: float = 1,
    algorithm: Callable[..., Agent] = NRCPO,
    n_eval_episodes: int | None = None,
    seed: int = 0,
    progress_bar: bool = True,
    **options: Any,
) -> Frontier:
    """Train a policy for every threshold and seed as one batch, and judge all of them alike.

    ``thresholds`` None: 11 of them from 0 to the risk of a run without a bound, which is made
    first. ``algorithm`` is `NRCPO` or `RCPO`, ``options`` are its settings; ``total_timesteps`` are
    per policy. ``n_eval_episodes`` are 10,000 by default, and 100 in a Python environment.

    >>> from downside.environments import Bandit
    >>> from downside.signals import Centralised
    >>> found = frontier(Bandit(), target=Centralised(), thresholds=[0.5, 2.0], n_seeds=2,
    ...                  total_timesteps=4000, n_eval_episodes=500, progress_bar=False)
    >>> found.to_frame().shape[0], found.policies[1][0].threshold
    (4, 2.0)
    """
    check_count("n_seeds", n_seeds, least=1)
    check_single("a frontier", options, "make one for each")
    if n_eval_episodes is not None:
        check_count("n_eval_episodes", n_eval_episodes, least=2)

    def train(bounds: Sequence[float]) -> Agent:
        made = algorithm(
            env,
            target=target,
            threshold=list(bounds),
            order=order,
            n_seeds=n_seeds,
            seed=seed,
            **options,
        )
        return made.learn(total_timesteps, progress_bar=progress_bar)

    note = f"{total_timesteps:,} steps for each policy"
    if thresholds is None:
        risk = _risk_without_a_bound(train([float("inf")]), n_eval_episodes)
        chosen = tuple(np.linspace(0.0, risk, N_THRESHOLDS).tolist())
        note += f"; thresholds from 0 to {risk:.4g}, the risk of a run without a bound"
    else:
        chosen = _checked(thresholds)
    agent = train(chosen)
    return Frontier(chosen, agent.evaluate(n_eval_episodes), agent, note)


def _risk_without_a_bound(agent: Agent, n_eval_episodes: int | None) -> float:
    risk = agent.evaluate(n_eval_episodes).over_seeds("proxy").value
    if not risk > 0.0:
        raise ValueError(
            f"the risk of a run without a bound is {risk:.4g}: there is nothing to trade for the "
            "mean; set a higher target, or give thresholds="
        )
    return risk


def _checked(thresholds: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    """Upwards, each once."""
    values = np.unique(np.asarray(thresholds, float))
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(
            f"thresholds are {thresholds!r}; give one or more finite numbers, such as "
            "[0.1, 0.2, 0.4]"
        )
    return tuple(values.tolist())
