"""Samples and wall time until two claims of the paper hold, by the method that learns.

Fig. 3: 95% of the trials keep the right arm above 0.95. Fig. 4: the weakest rank correlation with
nu of mean, LPM and minimum, on seed means, is 0.9. Methods are SARSA(lambda) with the presets of
the experiments, LSTD(lambda) in its place (not tuned), and Monte-Carlo: gradients of whole batches
on the bandit, batches whose advantages are plain returns on the portfolio.
"""

import time
from dataclasses import replace

import numpy as np

from benchmarks.measuring import say

GOAL = "order 1"
SEED = 70_001
MONTE_CARLO = ("Monte-Carlo, 100", "Monte-Carlo, 10000")
CHECKPOINTS = (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000, 2_500_000)
LSTD_MOST = 200_000  # its step costs the square of the features: that takes long enough
STRONG = 0.9


def run(quick, peers):
    """Both figures."""
    return {
        "bandit": {"goal": GOAL, "methods": _bandit(quick)},
        "portfolio": {"rank correlation": STRONG, "methods": _portfolio(quick)},
    }


def _bandit(quick):
    """n95, and the wall time of one trial up to there, compiled beforehand."""
    from downside.experiments.bandit import report_keys
    from downside.experiments.bandit_runs import GOALS, arm_curves, samples_until, settling_times

    n_trials = 8 if quick else 400
    found = {}
    for name, (agent, spacing, n_points) in _bandit_methods(quick).items():
        say(f"solution: bandit, {name}")
        trials = n_trials if spacing < 10_000 else max(4, n_trials // 10)
        keys = report_keys(SEED, trials)
        arm_curves([agent], keys, spacing, n_points)  # compiles
        began = time.perf_counter()
        curves = arm_curves([agent], keys, spacing, n_points)[0]
        seconds = time.perf_counter() - began
        needed = float(samples_until(settling_times(curves[..., GOALS[GOAL].right], spacing)))
        samples = spacing * n_points
        found[name] = {
            "trials": trials,
            "samples": needed if np.isfinite(needed) else None,
            "looked at most": samples,
            "milliseconds per trial": (
                1e3 * seconds / trials * needed / samples if np.isfinite(needed) else None
            ),
        }
    return found


def _bandit_methods(quick):
    """{name: (agent, spacing, points)}."""
    from downside.critics import LSTD
    from downside.experiments.bandit_runs import (
        BATCH_PRESETS,
        GOALS,
        PRESETS,
        actor_critic,
        batch_gradient,
    )

    points = 20 if quick else 240
    figure, fast = (actor_critic(PRESETS[name], GOALS[GOAL]) for name in ("figure", "fast"))
    found = {
        "SARSA, figure": (figure, 50, points),
        "SARSA, fast": (fast, 50, points),
        "LSTD, fast": (replace(fast, critic=LSTD(ridge=1.0)), 50, points),
    }
    for name, spacing, n in zip(MONTE_CARLO, (100, 10_000), (120, 40), strict=True):
        gradient = batch_gradient(BATCH_PRESETS[name, GOAL], GOALS[GOAL])
        found[name] = (gradient, spacing, 2 if quick else n)
    return _some(found, quick, "fast", "Monte-Carlo, 100")


def _some(methods, quick, *words):
    """Those that have one of the words in their names, where all would take too long."""
    return {k: v for k, v in methods.items() if not quick or any(k.endswith(w) for w in words)}


def _portfolio(quick):
    """The first checkpoint from where the trends hold, and the learning time up to it."""
    thresholds = np.array([0.1, 0.5, 0.9] if quick else [i / 10 for i in range(11)])
    checkpoints = (2000, 4000) if quick else CHECKPOINTS
    n_seeds, n_episodes = (1, 200) if quick else (5, 10_000)
    found = {}
    methods = _some(_portfolio_methods(thresholds), quick, "LSTD(1), figure", "trace 0.9")
    for name, settings in methods.items():
        say(f"solution: portfolio, {name}")
        due = [n for n in checkpoints if n <= LSTD_MOST or "LSTD" not in name]
        found[name] = _until_monotone(settings, thresholds, due, n_seeds, n_episodes)
    return found


def _until_monotone(settings, thresholds, checkpoints, n_seeds, n_episodes):
    import jax

    from downside.agent import Agent
    from downside.experiments.portfolio_claims import weakest_trend
    from downside.experiments.portfolio_runs import evaluate
    from downside.signals import Centralised, Constraint

    constraints = [(Constraint(Centralised(), nu),) for nu in thresholds.tolist()]
    agent = Agent(settings, constraints, n_seeds, SEED)
    seconds, trends, key = 0.0, {}, jax.random.key(SEED)
    for steps in checkpoints:
        began = time.perf_counter()
        agent.learn(steps - agent.steps, progress_bar=False)
        seconds += time.perf_counter() - began
        thetas = agent.theta.reshape(len(thresholds), n_seeds, -1)
        measured = evaluate(settings[0].policy, thetas, key, n_episodes)
        results = {f"{what}: it": values for what, values in measured.items()}
        results["thresholds"] = thresholds
        trends[str(steps)] = float(weakest_trend(results, "it", np.arange(n_seeds)))
        if trends[str(steps)] >= STRONG:
            break
    reached = trends[str(steps)] >= STRONG
    return {
        "samples per learner": steps if reached else None,
        "looked at most": steps,
        "learners": len(settings) * n_seeds,
        "seconds, all learners, with compilation": seconds if reached else None,
        "weakest trend": trends,
    }


def _portfolio_methods(thresholds):
    from downside.critics import LSTD
    from downside.experiments.portfolio_runs import PRESETS, settings_of

    bounds = thresholds.tolist()
    figure = [settings_of(PRESETS["figure"], nu) for nu in bounds]
    batches = [settings_of(PRESETS["recommended"], nu) for nu in bounds]
    least_squares = LSTD(trace_decay=1.0, ridge=10.0, forgetting=1.0 - 1.0 / 20_000)
    return {
        "SARSA(1), figure": figure,
        "LSTD(1), figure": [replace(one, critic=least_squares, tile=8) for one in figure],
        "batches, trace 0.9": batches,
        "batches, Monte-Carlo": [replace(one, trace_decay=1.0) for one in batches],
    }
