"""The measured numbers in the sentences of the documentation, from the committed results.

A number is followed by a comment without blanks around its name, ``0.027<!--gain-->``, which no
page shows; `fill` writes the number that has this name here. ``python docs/results/tables.py``
does so on all pages.
"""

import json
import re
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

HERE = Path(__file__).parent
MARK = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?%?<!--(\w[^>]*?)-->")


def fill(page: str, numbers: dict[str, str]) -> str:
    """The page with its marked numbers as they are here; a name that is not here is an error."""
    return MARK.sub(lambda found: f"{numbers[found[1]]}<!--{found[1]}-->", page)


def read(experiment: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The evidence of all claims of an experiment, and the means over its seeds."""
    document = json.loads((HERE / experiment / "claims.json").read_text())
    evidence = {k: v for claim in document["claims"] for k, v in claim["evidence"].items()}
    return evidence, document.get("means", {})


def readme() -> dict[str, str]:
    """README.md."""
    found, _ = read("consumption")
    nus = ("0.05", "0.1")
    least = min(found[f"fraction of the optimum at nu = {nu}: recommended"] for nu in nus)
    return {"optimum": f"{least:.0%}"}


def two_policies() -> dict[str, str]:
    """Orders (0, 10) and (3, 3): a lower proxy with a higher LPM."""
    found, _ = read("portfolio")
    numbers = {
        f"{what} {name}": f"{found[f'{what}: orders {orders}']:.3f}"
        for what in ("mean", "proxy", "lpm")
        for name, orders in (("a", "(0, 10)"), ("b", "(3, 3)"))
    }
    return numbers | {"against": f"{found['share of pairs ordered against it']:.0%}"}


def bound() -> dict[str, str]:
    """docs/bound.md."""
    found, _ = read("landscape")
    return {
        "MDPs": f"{found['MDPs']:,.0f}",
        "luck": f"{found['pure luck: LPM']:.2f}",
        "bandit proxy": f"{found['uniform bandit: proxy']:.3f}",
        "bandit lpm": f"{found['uniform bandit: LPM']:.3f}",
        "clipped": f"{found['cancelling rewards: variance of the clipped sum']:.4f}",
        **two_policies(),
    }


def bandit() -> dict[str, str]:
    """docs/paper/bandit.md."""
    found, _ = read("bandit")
    methods = {"f": "figure", "fast": "fast", "mc": "Monte-Carlo, 100", "p": "printed"}
    methods |= {"exact": "fast, exact tau", "held": "Monte-Carlo, 100, tau held"}
    samples = {
        f"{short} {goal}": f"{found[f'n95: {name}, {goal}']:,.0f}"
        for short, name in methods.items()
        for goal in ("mean", "order 1", "order 2")
        if found[f"n95: {name}, {goal}"] is not None
    }
    end = "share right at the end"
    likeliest = [v for k, v in found.items() if re.match(r"likeliest arm right.*: printed", k)]
    return samples | {
        "p(C)": f"{found['p(right) at 5000: printed, order 1']:.2f}",
        "widest": f"{found['n95, high: Monte-Carlo, 10000, mean']:,.0f}",
        "end": f"{found[f'{end}: fast, mean']:.1%}",
        "end low": f"{found[f'{end}, low: fast, mean']:.1%}",
        "end high": f"{found[f'{end}, high: fast, mean']:.1%}",
        "end mc": f"{found[f'{end}: Monte-Carlo, 100, order 2']:.0%}",
        "end mc 10000": f"{found[f'{end}: Monte-Carlo, 10000, order 2']:.0%}",
        "lost": f"{1 - found[f'{end}: Monte-Carlo, 100, tau held, order 1']:.0%}",
        "likeliest low": f"{min(likeliest):.0%}",
        "likeliest high": f"{max(likeliest):.0%}",
    }


def portfolio() -> dict[str, str]:
    """docs/paper/portfolio.md."""
    found, means = read("portfolio")

    def proxy(method: str, place: float | None) -> float:
        places = means.get(f"sweep: {method}", means["thresholds"])
        return means[f"proxy: {method}"][places.index(place)]

    printed = zip(means["thresholds"], means["proxy: printed"], strict=True)
    bounds = zip(means["sweep: LPM itself"], means["shortfall: LPM itself"], strict=True)
    times = [shortfall / nu for nu, shortfall in bounds if nu]
    lpm = "rank correlation of lpm"
    return {
        "gain": f"{found['mean at equal proxy: recommended less figure']:.3f}",
        "off": f"{found['|proxy - nu|: recommended']:.4f}",
        "off f": f"{found['|proxy - nu|: figure']:.4f}",
        "free": f"{proxy('recommended', None):.2f}",
        "within": f"{max(abs(p - nu) for nu, p in printed if nu and 0.3 <= nu < 1):.3f}",
        "printed 0.1": f"{proxy('printed', 0.1):.2f}",
        "printed 0.2": f"{proxy('printed', 0.2):.2f}",
        "lpm": f"{found[f'{lpm}: recommended']:.2f}",
        "lpm low": f"{found[f'{lpm}, low: recommended']:.2f}",
        "lpm high": f"{found[f'{lpm}, high: recommended']:.2f}",
        "fixed 0.5": f"{proxy('fixed multipliers', 0.5):.2f}",
        "fixed 2": f"{proxy('fixed multipliers', 2.0):.2f}",
        "learnt 0.8": f"{proxy('learnt mean reward', 0.8):.2f}",
        "learnt 0.1": f"{proxy('learnt mean reward', 0.1):.2f}",
        "x 10": f"{proxy('figure, rewards x 10', 0.1):.2f}",
        "x 1": f"{proxy('figure, shorter', 0.1):.2f}",
        "x 10 off": f"{found['distance from the bound: figure, rewards x 10']:.3f}",
        "x 1 off": f"{found['distance from the bound: figure, shorter']:.3f}",
        "lpm off": f"{found['distance from the bound: LPM measured']:.3f}",
        "times low": f"{min(times):.1f}",
        "times high": f"{max(times):.1f}",
        **two_policies(),
    }


def consumption() -> dict[str, str]:
    """docs/paper/consumption.md."""
    found, _ = read("consumption")

    def seeds(what: str, nu: str) -> list[float]:
        return [found[f"{what} at nu = {nu}, seed {i}"] for i in range(5)]

    lost, *others = sorted(seeds("capital: J_C", "0.05"), reverse=True)
    over = [j / float(nu) - 1 for nu in ("0.1", "0.15") for j in seeds("capital: J_C", nu)]
    numbers = {
        "slow": f"{min(seeds('figure: J_C', 'inf')):.2f}",
        "second": f"{sorted(seeds('figure: J_C', 'inf'))[1]:.3f}",
        "plain": f"{found['risk at nu = inf: figure, plain']:.2f}",
        "lost": f"{lost:.2f}",
        "lost multiplier": f"{max(seeds('capital: multiplier', '0.05')):.0f}",
        "others low": f"{min(others):.2f}",
        "others high": f"{max(others):.2f}",
        "above": f"{sum(x > 0 for x in over)}",
        "over": f"{max(over):.0%}",
    }
    pairs = {"online": "figure less figure, plain", "batch": "recommended less recommended, plain"}
    for short, pair in pairs.items():
        for nu in ("0.05", "0.1", "inf"):
            numbers[f"{short} {nu}"] = f"{found[f'mean at nu = {nu}: {pair}']:.2f}"
            error = found[f"mean at nu = {nu}, standard error: {pair}"]
            numbers[f"{short} {nu} error"] = f"{error:.2f}"
    return numbers


def prediction() -> dict[str, str]:
    """docs/paper/prediction.md."""
    found, _ = read("prediction")
    plain, lstd = "10%: samples, Monte-Carlo, plain average", "10%: samples, LSTD(lambda)"
    ahead = ("random MDPs", "slippery CliffWalking", "slippery FrozenLake")
    saved = [found[f"{name}, {plain}"] / found[f"{name}, {lstd}"] for name in ahead]
    slow = [1 / v for k, v in found.items() if k.endswith("10%: ratio, SARSA(lambda) alone")]
    higher = [v for k, v in found.items() if k.endswith(": order 2 over order 1")]
    noise = "TD targets, variance of the proxy over that of q"
    order2 = "portfolio, uniform: samples for 10%, order 2"
    return {
        "saved low": f"{min(saved):.1f}",
        "saved high": f"{max(saved):.1f}",
        "slow low": f"{min(slow):.1f}",
        "slow high": f"{max(slow):.1f}",
        "plain": f"{found[f'{order2}, Monte-Carlo, plain average']:,.0f}",
        "lstd": f"{found[f'{order2}, LSTD(lambda)']:,.0f}",
        "buying": f"{found[f'{noise}: portfolio, buying'] - 1:.0%}",
        "consumption": f"{found[f'{noise}: consumption']:.1f}",
        "higher low": f"{min(x for x in higher if x > 1.01):.1f}",
        "higher high": f"{max(higher):.1f}",
    }


def studies() -> dict[str, str]:
    """docs/studies.md."""
    found = json.loads((HERE / "studies" / "studies.json").read_text())
    kills, machinery = found["kills"], found["machinery"]
    lost = {k: v["steps_again"] / v["kills_while_learning"] for k, v in kills.items()}
    return {
        "lost local": f"{round(lost['local'], -3):,.0f}",
        "lost ray": f"{round(lost['ray'], -3):,.0f}",
        "rate ray": f"{machinery['ray']['trials_per_second']:.0f}",
        "look": f"{machinery['local']['look_milliseconds_per_trial']:.2f}",
        "files": f"{found['undisturbed']['local']['files_per_trial']:.0f}",
    }


def benchmarks() -> dict[str, str]:
    """docs/benchmarks.md."""
    rows = json.loads((HERE / "benchmarks" / "libraries.json").read_text())["rows"]

    def find(what: str, method: str, problem: str, nu: float | None, steps: int = 100_000) -> float:
        keys, place = ("method", "problem", "threshold"), (method, problem, nu)
        budget = [row for row in rows if round(row["steps"], -5) == steps]
        return mean(row[what] for row in budget if tuple(row[k] for k in keys) == place)

    fsrl = "FSRL PPO-Lagrangian"
    scaled, ours = f"{fsrl}, costs scaled to a limit of 10", "ours, the paper's features"
    rich, ppo = "ours, richer value features", "Stable-Baselines3 PPO, risk-neutral"
    numbers = {
        "rcpo": f"{find('risk', 'OmniSafe RCPO', 'portfolio', 0.1) / 0.1:.1f}",
        "rcpo c": f"{find('risk', 'OmniSafe RCPO', 'consumption', 0.1) / 0.1:.0f}",
        "fsrl c": f"{find('at equal risk', fsrl, 'consumption', 0.1):.0%}",
        "ours c": f"{find('at equal risk', ours, 'consumption', 0.1):.0%}",
        "rich c": f"{find('at equal risk', rich, 'consumption', 0.1):.0%}",
    }
    for name, method in {"ppo": ppo, "ours": ours, "rich": rich}.items():
        numbers[f"{name} late"] = f"{find('mean', method, 'portfolio', None, 300_000):.3f}"
    for name, method in {"fsrl": scaled, "ours": ours, "rich": rich}.items():
        for nu in (0.1, 0.3):
            later = find("at equal risk", method, "portfolio", nu, 300_000)
            numbers[f"{name} {nu} late"] = f"{later:.3f}"
    for nu in (0.1, 0.3):
        numbers[f"above {nu}"] = f"{find('risk', scaled, 'portfolio', nu) - nu:.2f}"
        numbers[f"fsrl {nu}"] = f"{find('at equal risk', scaled, 'portfolio', nu):.3f}"
        numbers[f"ours {nu}"] = f"{find('at equal risk', ours, 'portfolio', nu):.3f}"

    tasks = json.loads((HERE / "benchmarks" / "tasks.json").read_text())["rows"]

    def spent(method: str, task: str, steps: int) -> float:
        keys, place = ("method", "task", "steps"), (method, task, steps)
        return mean(x["cpu seconds"] for x in tasks if tuple(x[k] for k in keys) == place)

    shares = [
        spent("ours, NAC", *place) / spent("Stable-Baselines3 PPO", *place)
        for place in {(row["task"], row["steps"]) for row in tasks}
    ]
    numbers |= {"time low": f"{min(shares):.0%}", "time high": f"{max(shares):.0%}"}

    speed = json.loads((HERE / "benchmarks" / "throughput.json").read_text())["problems"]
    many, one = "ours, 512, float32 / ", "ours, 1, float32"
    of_portfolio = speed["portfolio"]["ours over theirs"]
    of_consumption = speed["consumption"]["ours over theirs"]
    of_bandit = speed["bandit"]["ours over theirs"]
    axes = json.loads((HERE / "benchmarks" / "scaling.json").read_text())["axes"]
    of_features = axes["features"]["seconds"]
    grown = of_features["700"]["median"] / of_features["200"]["median"]
    numbers["features late"] = f"{log(grown) / log(700 / 200):.1f}"

    start = json.loads((HERE / "benchmarks" / "reproduce.json").read_text())["starts"]
    first, second = (
        {what: spread["median"] for what, spread in start[name].items()}
        for name in ("first start", "second start")
    )
    xla, workers = "of these, in XLA or loading from disk", "seconds of all workers"
    numbers |= {
        "first start": f"{first[xla] / first[workers]:.0%}",
        "saved": f"{1 - second['seconds'] / first['seconds']:.0%}",
        "second start": f"{second[xla]:.1f}",
    }
    return numbers | {
        "alone": f"{1 / of_portfolio[many + one]['median']:.1f}",
        "alone c": f"{1 / of_consumption[many + one]['median']:.1f}",
        "numpy": f"{1 / of_portfolio[f'{many}NumPy loop']['median']:,.0f}",
        "a2c": f"{1 / of_portfolio[f'{many}Stable-Baselines3 A2C, 8 environments']['median']:,.0f}",
        "of c": f"{of_portfolio[f'{many}C, 2 processes']['median']:.2f}",
        "of fast c": f"{of_portfolio[f'{many}C, fast-math, 2 processes']['median']:.2f}",
        "consumption of c": f"{of_consumption[f'{many}C, 2 processes']['median']:.2f}",
        "bandit of c": f"{of_bandit[f'{many}C, 2 processes']['median']:.2f}",
        "double of c": f"{of_portfolio['ours, 512, float64 / C, 2 processes']['median']:.2f}",
    }


def real_environments() -> dict[str, str]:
    """docs/real_environments.md."""
    folder = HERE / "environments"
    lake = json.loads((folder / "environments.json").read_text())["FrozenLake-v1"]
    low, high = lake["lowest and highest seed"]["NAC"]
    causes = json.loads((folder / "causes.json").read_text())

    def risk(name: str, above: float = 0.0) -> float:
        return mean(x for x in causes[name]["risk"] if x > above)

    pendulum = {"": "Pendulum, NRCPO", " nac": "Pendulum, NAC"}
    car = "MountainCarContinuous, NRCPO, not centred"
    no_flag = 50.0  # where the flag is found, the risk is below that
    numbers = {f"pendulum{k}": f"{risk(v):.0f}" for k, v in pendulum.items()}
    numbers |= {f"before{k}": f"{risk(f'{v}, not centred'):.0f}" for k, v in pendulum.items()}
    apart = risk("Pendulum, NRCPO, not centred") - risk("Pendulum, NAC, not centred")
    return numbers | {
        "apart": f"{apart:.0f}",
        "car": f"{risk(car, no_flag):.0f}",
        "car nac": f"{risk('MountainCarContinuous, NAC, not centred', no_flag):.0f}",
        "car eighth": f"{risk(f'{car}, an eighth of the entropy', no_flag):.0f}",
        "lake low": f"{low:.2f}",
        "lake high": f"{high:.2f}",
        "lake best": f"{lake['exact']['mean']:.2f}",
        "lake risks": f"{lake['exact']['risk'] - lake['exact']['least risk']:.3f}",
    }
