"""Fig. 5: learning to consume under a bound, beside the exact optimum."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from downside.environments import Consumption
from downside.environments.episodes import rollout
from downside.exact import consumption as exact
from downside.exact.consumption_grid import optima
from downside.experiments.base import Experiment, Results, Workshop
from downside.experiments.catalogue import Scale
from downside.experiments.consumption_claims import judge
from downside.experiments.consumption_runs import PRESETS, Plan, evaluate, train
from downside.moments import lower_partial_moment

ENV, CAPITAL = Consumption(), Consumption(target="capital")
THRESHOLDS = np.array([0.05, 0.1, np.inf])
CAPITAL_THRESHOLDS = np.array([0.05, 0.1, 0.15])


@dataclass(frozen=True)
class Scope:
    """What is trained and for how long; fresh episodes for each final policy.

    ``plans`` are by preset. ``capital`` is preset recommended under the target that bounds losses,
    whose optimum is computed on a grid of ``n_wealths``.
    """

    plans: dict[str, Plan]
    n_episodes: int
    capital: Plan | None = field(default=None)
    n_wealths: int = 1000


SCOPES: dict[Scale, Scope] = {
    "smoke": Scope(
        {"figure": Plan(2, 12_000, 3), "recommended": Plan(2, 40_000, 2)},
        n_episodes=500,
        capital=Plan(2, 40_000, 1),
        n_wealths=200,
    ),
    "default": Scope(
        {
            "printed": Plan(5, 20_000, 5),
            "figure": Plan(5, 8_000_000, 50),
            "recommended": Plan(5, 3_200_000, 40),
        },
        n_episodes=2_000,
    ),
    "full": Scope(
        {
            "printed": Plan(5, 11_500_000, 11_500),
            "figure": Plan(5, 8_500_000, 610),
            "figure, plain": Plan(5, 8_500_000, 610),
            "recommended": Plan(5, 6_000_000, 300),
            "recommended, plain": Plan(5, 2_000_000, 100),
        },
        n_episodes=10_000,
        capital=Plan(5, 6_000_000, 300),
    ),
}


def run(scale: Scale, seed: int, workshop: Workshop) -> Results:
    """Train every preset at every threshold; the final policies meet the same fresh episodes."""
    scope = SCOPES[scale]
    key = jax.random.fold_in(jax.random.key(seed), 6)
    results: dict[str, np.ndarray] = {
        "thresholds": THRESHOLDS,
        "presets": np.array(list(scope.plans)),
        "optimum": np.array([exact.optimum(ENV, nu).mean for nu in THRESHOLDS.tolist()]),
    }

    def learn(name: str, env: Consumption, nus: np.ndarray, plan: Plan) -> Results:
        curves, thetas = train(name, env, nus, plan, seed, workshop)
        found = evaluate(PRESETS[name].policy, env, thetas, key, scope.n_episodes)
        return {**curves, **{f"final {what}": values for what, values in found.items()}}

    for name, plan in scope.plans.items():
        part = workshop.part(name, lambda n=name, p=plan: learn(n, ENV, THRESHOLDS, p))
        results |= {f"{what}: {name}": values for what, values in part.items()}
    if (plan := scope.capital) is not None:
        nus = CAPITAL_THRESHOLDS
        part = workshop.part("capital", lambda: learn("recommended", CAPITAL, nus, plan))
        results["capital thresholds"] = nus
        results |= {f"{what}: capital": values for what, values in part.items()}
        best = workshop.part("capital optimum", lambda: _capital_optimum(nus, scope.n_wealths))
        results["capital optimum"] = best["mean"]
    return results | _even_consumer(key, scope.n_episodes)


def _capital_optimum(nus: np.ndarray, n_wealths: int) -> Results:
    found = optima(CAPITAL, nus.tolist(), n_wealths=n_wealths)
    return {"mean": np.array([best.mean for best in found])}


def _even_consumer(key: Any, n_episodes: int) -> dict[str, np.ndarray]:
    """Consume 1 / (T - t) of the wealth, all of the rest at risk: no proxy at all, and a loss."""
    left = ENV.horizon - np.arange(ENV.horizon)
    sums = rollout(ENV, _consume_evenly, key, n_episodes)
    lpm = lower_partial_moment(np.asarray(sums.total, float), float(ENV.initial_wealth), 1)
    answer = exact.evaluate_fixed(ENV, 1.0 / left, 1.0)
    return {"even consumer": np.array([answer.mean, answer.risk, lpm])}


def _consume_evenly(obs: Any, key: Any) -> Any:
    return jnp.stack([jnp.ones_like(obs[0]), 1.0 / (ENV.horizon - obs[0])])


EXPERIMENT = Experiment(run=run, judge=judge)
