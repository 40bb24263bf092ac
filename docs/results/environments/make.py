"""Makes docs/results/environments/environments.json and the tables of docs/real_environments.md.

python docs/results/environments/make.py [NAME ...]

Every environment is trained with the library's defaults: without a bound, then under a bound. One
that is in the file already is left as it is; delete its entry to make it again. The MuJoCo task
needs gymnasium and mujoco<3.4.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import downside as ds
from downside.defaults import hosting_for
from downside.environments import Tabular
from downside.evaluation import evaluate_host
from downside.evaluation.comparison import differences
from downside.exact import InfeasibleError, constrained_optimum
from downside.signals import Constraint

HERE = Path(__file__).parent
FOUND = HERE / "environments.json"
PAGE = HERE.parents[1] / "real_environments.md"
N_SEEDS = 5


class Noisy(gymnasium.ActionWrapper):
    """Normal noise of deviation 0.1 on every action."""

    def action(self, action):
        """The action with noise, within its bounds."""
        noise = 0.1 * self.unwrapped.np_random.normal(size=action.shape)
        return np.clip(action + noise, -1.0, 1.0).astype(action.dtype)


def swimmer():
    """The MuJoCo task; Noisy has to stand inside the time limit's bookkeeping."""
    return Noisy(gymnasium.make("Swimmer-v5"))


def inventory():
    """The environment of the tutorial."""
    sys.path.insert(0, str(HERE.parents[2] / "examples"))
    from inventory import Inventory

    return Inventory()


def basic_strategy(obs, rng):
    """Blackjack as books have it, where cards are only taken or not: 1 takes one."""
    total, dealer, ace = obs
    if ace:
        return int(total < 18 or (total == 18 and dealer in (1, 9, 10)))
    return int(total < 12 or (total == 12 and dealer not in (4, 5, 6)) or
               (total < 17 and dealer in (1, 7, 8, 9, 10)))  # fmt: skip


def order_up_to(level):
    """Fill the store of the tutorial up to a level."""
    return lambda obs, rng: int(np.clip(level - round(10 * float(obs[0])), 0, 5))


@dataclass(frozen=True)
class Problem:
    """An environment, how long to learn, and what is bounded.

    The threshold is ``share`` of the risk that NAC takes, or, where the exact answer is known,
    lies so far between the least risk and that of the best policy without a bound; where that
    policy has the least risk, it is a tenth above.
    """

    env: Any
    steps: int
    target: float
    share: float = 0.5
    episodes: int = 100
    options: dict[str, Any] = field(default_factory=dict)
    good: float | None = None
    good_is: str = "threshold of Gymnasium"
    rules: tuple[Any, ...] = ()
    tabular: bool = False


SLIPPERY = {"env_options": {"is_slippery": True}}
PROBLEMS = {
    "CartPole-v1": Problem("CartPole-v1", 100_000, 450.0, episodes=50, good=475.0),
    "Acrobot-v1": Problem("Acrobot-v1", 40_000, -100.0, 0.9, episodes=50, good=-100.0),
    "FrozenLake-v1": Problem(
        "FrozenLake-v1", 160_000, 1.0, episodes=300, options=SLIPPERY, tabular=True
    ),
    "CliffWalking-v1": Problem(
        "CliffWalking-v1", 160_000, -60.0, options={**SLIPPERY, "discount": 0.99}, tabular=True
    ),
    "Taxi-v4": Problem("Taxi-v4", 160_000, 6.0, options={"discount": 0.99}, tabular=True),
    "Blackjack-v1": Problem(
        "Blackjack-v1",
        40_000,
        0.0,
        0.9,
        episodes=500,
        options={"horizon": 20},
        good_is="basic strategy",
        rules=(basic_strategy,),
    ),
    "MountainCarContinuous-v0": Problem(
        "MountainCarContinuous-v0", 40_000, 90.0, 0.9, episodes=20, good=90.0
    ),
    "Pendulum-v1": Problem(
        "Pendulum-v1", 60_000, -200.0, 0.9, episodes=50, good=-150.0, good_is="usual score"
    ),
    "Swimmer-v5, noisy actions": Problem(swimmer, 40_000, 30.0, 0.8, episodes=20, good=360.0),
    "Inventory": Problem(
        inventory,
        60_000,
        8.0,
        episodes=500,
        options={"horizon": 12},
        good_is="best order-up-to rule",
        rules=tuple(order_up_to(level) for level in range(1, 8)),
    ),
}


def main() -> None:
    """All environments, or those that are named, and the page's tables."""
    for name in sys.argv[1:] or PROBLEMS:
        if name not in read():
            began = time.perf_counter()
            found = judge(PROBLEMS[name])
            found["seconds"] = round(time.perf_counter() - began)
            FOUND.write_text(json.dumps(read() | {name: found}, indent=1) + "\n")
    write_page()


def read() -> dict[str, Any]:
    """What is known so far."""
    return json.loads(FOUND.read_text()) if FOUND.exists() else {}


def judge(problem: Problem) -> dict[str, Any]:
    """Random actions, NAC, and NRCPO under a bound, over the same fresh episodes."""
    options = {"n_seeds": N_SEEDS, "seed": 0, **problem.options}
    exact = known(problem)
    neutral = ds.NAC(problem.env, **options).learn(problem.steps, progress_bar=False)
    free = neutral.evaluate(problem.episodes, target=problem.target)
    threshold = exact.pop("threshold", problem.share * free.over_seeds("proxy").value)
    agent = ds.NRCPO(problem.env, target=problem.target, threshold=threshold, **options)
    bound = agent.learn(problem.steps, progress_bar=False).evaluate(problem.episodes)
    paired = differences(bound, free)
    rows = {"NAC": free, "NRCPO": bound}
    measures = ("mean", "proxy", "lpm1")
    return {
        "steps": problem.steps,
        "episodes": problem.episodes,
        "target": problem.target,
        "discount": neutral.env.discount,
        "threshold": threshold,
        "random": by_rule(problem, None),
        "good": problem.good if problem.good is not None else exact.get("mean", best(problem)),
        "good_is": "exact optimum" if problem.tabular else problem.good_is,
        "exact": exact,
        "holds": sum(one.bounds[0].holds for one in bound),
        "lowest and highest seed": {
            name: [f([one.mean.value for one in each]) for f in (min, max)]
            for name, each in rows.items()
        },
        **{n: {m: each.over_seeds(m).to_dict() for m in measures} for n, each in rows.items()},
        "NRCPO - NAC": {m: paired[m].to_dict() for m in measures},
    }


def by_rule(problem: Problem, rule: Any) -> float:
    """The mean return of a fixed rule, or of random actions, over the same episodes."""
    given = dict(problem.options)
    env_options, discount = given.pop("env_options", None), given.pop("discount", None)
    host = hosting_for(problem.env, env_options, discount, given.get("horizon")).first
    host.action_space.seed(0)
    act = rule or (lambda obs, rng: host.action_space.sample())
    found = evaluate_host(host, act, problem.target, n_eval_episodes=problem.episodes)
    return found.mean.value


def best(problem: Problem) -> float | None:
    """The mean return of the best rule, if there are any."""
    return max((by_rule(problem, rule) for rule in problem.rules), default=None)


def known(problem: Problem) -> dict[str, float]:
    """By linear programming: the best mean without a bound, the bound, and the best under it."""
    if not problem.tabular:
        return {}
    discount = problem.options.get("discount", 1.0)
    horizon = gymnasium.spec(problem.env).max_episode_steps if discount == 1.0 else None
    options = problem.options.get("env_options", {})
    mdp = Tabular.from_gymnasium(problem.env, discount=discount, horizon=horizon, **options)

    def under(threshold: float) -> Any:
        return constrained_optimum(mdp, [Constraint(problem.target, threshold)])

    free = under(np.inf)
    try:
        least = float(under(0.0).risks[0])
    except InfeasibleError as told:  # it names the least risk, rounded up
        least = float(str(told).rsplit(maxsplit=1)[1])
    risk = float(free.risks[0])
    trades = risk > 1.001 * least
    threshold = least + problem.share * (risk - least) if trades else 1.1 * least
    bound = under(threshold)
    return {
        "mean": free.mean,
        "risk": risk,
        "least risk": least,
        "threshold": threshold,
        "bound mean": bound.mean,
        "bound risk": float(bound.risks[0]),
    }


def learnt(name: str, one: dict[str, Any]) -> str:
    """A row of the first table."""
    low, high = one["lowest and highest seed"]["NAC"]
    mean = interval(one["NAC"]["mean"])
    return (
        f"| {name} | {one['steps']:,} | {one['random']:.4g} | {mean} | {low:.4g} to {high:.4g} "
        f"| {one['good']:.4g} ({one['good_is']}) |"
    )


def bounded(name: str, one: dict[str, Any]) -> str:
    """A row of the second table."""
    change, risk = one["NRCPO - NAC"], one["NAC"]["proxy"]["value"]
    return (
        f"| {name} | {one['target']:g} | {one['threshold']:.4g} | {risk:.4g} "
        f"| {interval(one['NRCPO']['proxy'])} | {one['holds']} of {N_SEEDS} "
        f"| {interval(change['proxy'])} | {interval(change['lpm1'])} | {interval(change['mean'])} |"
    )


def exactly(name: str, one: dict[str, Any]) -> str:
    """A row of the third table."""
    exact = one["exact"]
    return (
        f"| {name} | {exact['mean']:.4g} | {one['NAC']['mean']['value']:.4g} | {exact['risk']:.4g} "
        f"| {exact['least risk']:.4g} | {one['threshold']:.4g} | {exact['bound mean']:.4g} "
        f"| {one['NRCPO']['mean']['value']:.4g} | {one['NRCPO']['proxy']['value']:.4g} |"
    )


def interval(found: dict[str, float]) -> str:
    """value [low, high]"""
    return f"{found['value']:.4g} [{found['low']:.4g}, {found['high']:.4g}]"


def rows(found: dict[str, Any]) -> dict[str, list[str]]:
    """The rows of the page's tables, by the marks that they follow there."""
    ordered = [(name, found[name]) for name in PROBLEMS if name in found]
    return {
        "learnt": [learnt(*each) for each in ordered],
        "bounded": [bounded(*each) for each in ordered],
        "exact": [exactly(*each) for each in ordered if each[1]["exact"]],
    }


def write_page() -> None:
    """Put the rows into the page, behind the head of each table."""
    text = PAGE.read_text()
    for mark, lines in rows(read()).items():
        before, rest = text.split(f"<!-- {mark} -->\n")
        head = rest.splitlines()[:2]
        after = rest.split("\n\n", 1)[1]
        text = f"{before}<!-- {mark} -->\n" + "\n".join([*head, *lines]) + "\n\n" + after
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
