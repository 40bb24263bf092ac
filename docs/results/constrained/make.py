"""Makes docs/results/constrained/constrained.json: NRCPO beside the linear programme.

python docs/results/constrained/make.py [KIND ...]

Random MDPs of two sizes, each under two bounds, and slippery lakes and cliffs, without a bound too,
with the library's defaults. Errors are those of the policy that the agent shows, evaluated exactly:
of the mean in shares of the best policy's gain over the uniform one (on lakes over standing still:
under a tight bound the uniform one may be as good as the best), of the risk in shares of the bound,
of the multiplier (averaged over the second half) in shares of the exact one. The best policies of
problems with a horizon look at the clock, those of the agents do not.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

import downside as ds
from downside import exact
from downside.agent import Agent
from downside.environments import Tabular

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))
from random_mdps import random_mdp  # noqa: E402

KINDS = {
    "small": {"n_states": 6, "n_actions": 3, "discount": 0.9, "end_share": 0.15},
    "larger": {"n_states": 12, "n_actions": 4, "discount": 0.95, "end_share": 0.1},
    "20 steps": {"n_states": 6, "n_actions": 3, "discount": 1.0, "end_share": 0.05, "horizon": 20},
}
MDPS = range(11000, 11020)  # no default was chosen by them
LAKES = range(30, 36)  # nor by these maps
TIME_LIMIT = 100  # of FrozenLake
PLACES = (0.25, 0.6)  # of the bound, between the least risk and that of the best free policy
STEPS = 200_000, 600_000
N_SEEDS = 4


def random_mdps(kind: str) -> Iterator[tuple[str, Tabular, float]]:
    """Each under two bounds."""
    for seed in MDPS:
        mdp = random_mdp(np.random.default_rng(seed), **{"horizon": None} | KINDS[kind])
        yield from ((f"{seed} {place}", mdp, bound_at(mdp, place)) for place in PLACES)


def lakes(size: int, **kind: Any) -> Iterator[tuple[str, Tabular, float]]:
    """Random slippery maps, each under two bounds and without one."""
    for seed in LAKES:
        maps = generate_random_map(size=size, seed=seed)
        env = gymnasium.make("FrozenLake-v1", desc=maps, is_slippery=True)
        mdp = Tabular.from_gymnasium(env, **kind)
        yield from ((f"{seed} {place}", mdp, bound_at(mdp, place)) for place in PLACES)
        yield f"{seed} free", mdp, np.inf


def cliffs() -> Iterator[tuple[str, Tabular, float]]:
    """Slippery; its best policies have no risk about their own mean rewards, so nothing binds."""
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    for discount in (0.9, 0.93, 0.95, 0.97, 0.98, 0.99):
        yield f"{discount} free", Tabular.from_gymnasium(env, discount=discount), np.inf


PROBLEMS = {
    "small": lambda: random_mdps("small"),
    "larger": lambda: random_mdps("larger"),
    "20 steps": lambda: random_mdps("20 steps"),
    "lakes of 16": lambda: lakes(4, discount=0.97),
    "lakes of 64": lambda: lakes(8, discount=0.97),
    "lakes of 16, 100 steps": lambda: lakes(4, discount=1.0, horizon=TIME_LIMIT),
    "cliffs": cliffs,
}


def bound_at(mdp: Tabular, place: float) -> float:
    """A threshold between the least risk of all and that of the best policy without a bound."""
    free = exact.constrained_optimum(mdp, [ds.Constraint(ds.Centralised(), np.inf)])
    try:
        exact.constrained_optimum(mdp, [ds.Constraint(ds.Centralised(), 0.0)])
        least = 0.0
    except exact.InfeasibleError as error:
        least = float(str(error).rsplit(maxsplit=1)[1])
    return least + place * (float(free.risks[0]) - least)


def probabilities(agent: Agent, theta: np.ndarray) -> np.ndarray:
    """The policy as a table (states, actions)."""
    states = np.arange(agent.env.n_states, dtype=np.float32)
    logits = np.array([agent.policy.preferences(theta, s) for s in states], float)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def uniform_mean(mdp: Tabular) -> float:
    """What random actions gain."""
    uniform = np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)
    return float(exact.start_value(mdp, uniform))


def errors(mdp: Tabular, threshold: float, floor: float) -> list[dict[str, list[float]]]:
    """Of every seed, after so many steps each; the mean in shares of what the best is above."""
    best = exact.constrained_optimum(mdp, [ds.Constraint(ds.Centralised(), threshold)])
    gain = best.mean - floor
    agent = ds.NRCPO(mdp, target=ds.Centralised(), threshold=threshold, n_seeds=N_SEEDS)
    found = []
    for steps in STEPS:
        agent.learn(steps - agent.steps, progress_bar=False)
        policies = [probabilities(agent, theta) for theta in agent.theta]
        signals = [exact.risk_cumulants(mdp, policy, ds.Centralised()) for policy in policies]
        means = np.array([exact.start_value(mdp, policy) for policy in policies])
        risks = np.array(
            [exact.start_value(mdp, *pair) for pair in zip(policies, signals, strict=True)]
        )
        rows = {"mean": (best.mean - means) / gain, "risk": risks / threshold - 1.0}
        if np.isfinite(threshold):
            multipliers = agent.records.multipliers[:, :, 0]
            late = multipliers[len(multipliers) // 2 :].mean(axis=0) / best.multipliers[0]
            rows["multiplier"] = late - 1.0
        found.append({k: v.tolist() for k, v in rows.items()})
    return found


def summary(rows: list[dict[str, list[float]]]) -> dict[str, float]:
    """Over all problems and seeds: the worse of lost mean and excess of risk, and the rest."""
    mean, risk = (np.array([r[k] for r in rows]) for k in ("mean", "risk"))
    multiplier = [abs(np.median(r["multiplier"])) for r in rows if "multiplier" in r]
    worse = np.maximum(np.maximum(mean, risk), 0.0)
    return {
        "runs": worse.size,
        "median": float(np.median(worse)),
        "within 5%": float(np.mean(worse <= 0.05)),
        "within 10%": float(np.mean(worse <= 0.1)),
        "worst": float(worse.max()),
        "mean excess": float(np.maximum(risk, 0.0).mean()),
        "median multiplier error": float(np.median(multiplier)) if multiplier else None,
    }


def main() -> None:
    """Measure all of them, or those that are named."""
    path = HERE / "constrained.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for kind in sys.argv[1:] or PROBLEMS:
        rows = []
        for name, mdp, threshold in PROBLEMS[kind]():
            floor = 0.0 if kind.startswith("lakes") else uniform_mean(mdp)
            rows.append(errors(mdp, threshold, floor))
            print(kind, name, {k: np.round(v, 3) for k, v in rows[-1][-1].items()}, flush=True)
        for steps, column in zip(STEPS, zip(*rows, strict=True), strict=True):
            found[f"{kind}, {steps}"] = summary(list(column))
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
