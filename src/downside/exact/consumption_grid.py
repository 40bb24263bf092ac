"""The consumption problem under a target that does not grow with the wealth, on a grid of wealths.

Where the target is proportional to the wealth, `downside.exact.consumption` has the answer to
rounding. For ``target="capital"`` the best plan looks at the wealth, and dynamic programming finds
it: values are interpolated between wealths, growth is integrated by Gauss and Hermite's rule.
Written for ``ruin_wealth = 0``, and for a liquid asset that keeps what it is worth: then neither
ending by ruin nor consuming ahead of the target is better than holding it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from downside.environments.consumption import Consumption

LOWEST, HIGHEST = 1e-3, 30.0  # wealth over the initial one; beyond it values are lines
N_SHARES, N_FRACTIONS, N_NODES = 41, 9, 5
CAUTIOUS = 100.0  # a multiplier at which nearly all that counts is the risk
GAIN = 1e-5  # in the mean; below it a further plan is not worth the time


@dataclass(frozen=True)
class GridOptimum:
    """The best mean under a bound on the proxy; ``multiplier`` is its slope in the threshold."""

    mean: float
    risk: float
    multiplier: float


def optima(
    env: Consumption, thresholds: Sequence[float], *, n_wealths: int = 1000
) -> list[GridOptimum]:
    """The best mean J_R*(nu) of all policies whose proxy is at most each of ``thresholds``.

        J_R*(nu) = min over multiplier >= 0 of  l_0(W_0) + multiplier nu
        l_t(W) = max over c + u + y = W of
            (1-p) (c - multiplier (k_t - c)+ + g E[l_{t+1}(R u + M y)])
            + p (c + y - multiplier (d_t - c - y)+)

    with c consumed, u risky and y liquid, k_t the target of a step, d_t that of a default. Plans at
    two multipliers bracket a threshold; a mixture of both has the mean on the line between them,
    and the slope of that line is the next multiplier, until it gains nothing.

    The default environment's answers are too low by about 0.001, for want of more shares.

    >>> short = Consumption(horizon=5, default_probability=0.05, time_step=0.2, target="capital")
    >>> [best] = optima(short, [0.05], n_wealths=200)
    >>> best.risk, 1.0 < best.mean < 2.5
    (0.05, True)
    """
    plans = [_plan(env, multiplier, n_wealths) for multiplier in (CAUTIOUS, 0.0)]
    return [_optimum(env, float(nu), plans, n_wealths) for nu in thresholds]


def _optimum(env: Consumption, nu: float, plans: list[GridOptimum], n: int) -> GridOptimum:
    """At one threshold; the plans that are made on the way are kept for the next one."""
    plans.sort(key=lambda plan: plan.risk)
    if plans[-1].risk <= nu:
        return plans[-1]
    if plans[0].risk > nu:
        raise ValueError(
            f"threshold is {nu}; with target={env.target!r} and n_wealths={n} the least risk that "
            f"the grid resolves is {plans[0].risk:.3g}, so it must be at least that"
        )
    while True:
        at = next(i for i, plan in enumerate(plans) if plan.risk > nu)
        cautious, bold = plans[at - 1], plans[at]
        slope = (bold.mean - cautious.mean) / (bold.risk - cautious.risk)
        plan = _plan(env, slope, n)
        gain = (plan.mean - slope * plan.risk) - (bold.mean - slope * bold.risk)
        if gain <= GAIN:
            weight = (nu - cautious.risk) / (bold.risk - cautious.risk)
            return GridOptimum(cautious.mean + weight * (bold.mean - cautious.mean), nu, slope)
        plans.insert(at, plan)
        plans.sort(key=lambda plan: plan.risk)


def _plan(env: Consumption, multiplier: float, n: int) -> GridOptimum:
    """The plan that maximises mean - multiplier * risk: its own mean and risk from the start."""
    market = _market(env)
    p = market.default
    start = float(np.asarray(env.initial_wealth))
    wealth = start * np.concatenate([[0.0], np.geomspace(LOWEST, HIGHEST, n)])
    shares = np.linspace(0.0, 1.0, N_SHARES)
    mean = risk = np.zeros_like(wealth)
    for t in reversed(range(env.horizon)):
        target, at_default = _targets(env, t, wealth)
        value = _ahead(market, wealth, shares, mean - multiplier * risk)
        fractions = np.linspace(0.0, 1.0, N_FRACTIONS) * target[:, None]
        options = np.concatenate([np.minimum(fractions, wealth[:, None]), wealth[:, None]], axis=1)
        best = np.full_like(wealth, -np.inf)
        consumed, share = np.zeros_like(wealth), np.zeros_like(wealth)
        for c in options.T:
            paid = c[:, None] + np.outer(wealth - c, 1.0 - shares)  # in a default
            usual = (c - multiplier * _short(target, c))[:, None]
            ended = paid - multiplier * _short(at_default[:, None], paid)
            score = (1.0 - p) * usual + p * ended + _at(wealth - c, wealth, value)
            place = score.argmax(axis=1)
            found = score.max(axis=1)
            better = found > best
            best = np.where(better, found, best)
            consumed, share = np.where(better, c, consumed), np.where(better, shares[place], share)
        liquid = (1.0 - share) * (wealth - consumed)
        rest, growth = wealth - consumed, market.growth(share)
        short = (1.0 - p) * _short(target, consumed) + p * _short(at_default, consumed + liquid)
        go_on = (1.0 - p) * market.discount
        expected = [
            go_on * _mean_of(market, rest[:, None] * growth, wealth, f) for f in (mean, risk)
        ]
        mean, risk = consumed + p * liquid + expected[0], short + expected[1]
    return GridOptimum(
        float(np.interp(start, wealth, mean)), float(np.interp(start, wealth, risk)), multiplier
    )


@dataclass(frozen=True)
class _Market:
    """Growth of both assets; nodes and weights stand for the normal noise of the price."""

    default: float
    discount: float
    liquid: float
    risky: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]

    def growth(self, shares: Any) -> Any:
        """Of one unit of which a share is at risk, at each node."""
        return self.liquid + shares[:, None] * (self.risky - self.liquid)


def _market(env: Consumption) -> _Market:
    p, g, step, drift, liquid, volatility = (
        float(np.asarray(x))
        for x in (
            env.default_probability,
            env.discount,
            env.time_step,
            env.drift,
            env.liquid_drift,
            env.volatility,
        )
    )
    if g * (1.0 + liquid * step) < 1.0:
        raise ValueError(
            f"discount is {g} and the liquid asset grows by {liquid * step:.3g} per step, so it "
            "loses value while it is held; on the grid its growth must make up for the discount"
        )
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    risky = 1.0 + drift * step + volatility * np.sqrt(step) * nodes
    return _Market(p, g, 1.0 + liquid * step, risky, weights / weights.sum())


def _targets(env: Consumption, t: int, wealth: Any) -> tuple[Any, Any]:
    """Of a step, and of a step that ends in default."""
    left = env.horizon - t
    if env.target == "capital":
        share = np.full_like(wealth, float(np.asarray(env.initial_wealth)) / env.horizon)
        return share, left * share
    if env.target == "fixed-rate":
        return wealth / left, wealth / left
    raise ValueError(
        f"target is {env.target!r}; the grid knows 'capital' and 'fixed-rate', and "
        "downside.exact.consumption.optimum the printed ones"
    )


def _short(target: Any, reward: Any) -> Any:
    return np.maximum(target - reward, 0.0)


def _ahead(market: _Market, wealth: Any, shares: Any, value: Any) -> Any:
    """What goes on, for each wealth that is invested and each share at risk: (wealths, shares)."""
    grown = wealth[:, None, None] * market.growth(shares)
    go_on = (1.0 - market.default) * market.discount
    return go_on * _mean_of(market, grown, wealth, value)


def _mean_of(market: _Market, places: Any, wealth: Any, value: Any) -> Any:
    """Expectation over the nodes (the last axis); a line beyond the highest wealth."""
    slope = (value[-1] - value[-2]) / (wealth[-1] - wealth[-2])
    beyond = slope * np.maximum(places - wealth[-1], 0.0)
    return (np.interp(places, wealth, value) + beyond) @ market.weights


def _at(places: Any, wealth: Any, table: Any) -> Any:
    """Rows of a table (wealths, shares), interpolated at places within the grid."""
    i = np.clip(np.searchsorted(wealth, places, side="right") - 1, 0, len(wealth) - 2)
    part = ((places - wealth[i]) / (wealth[i + 1] - wealth[i]))[:, None]
    return table[i] * (1.0 - part) + table[i + 1] * part
