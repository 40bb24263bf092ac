"""The consumption problem in closed form: fixed policies, and the best one under a risk bound.

Reward, target and growth are all proportional to wealth, so the values of a policy that looks at
the clock alone are a factor of the step times the wealth. Written for ``ruin_wealth = 0``; with
a positive one the episode ends early, which changes the answers by what so little wealth is worth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from downside.checks import check_range
from downside.environments.consumption import Consumption
from downside.exact.constrained import InfeasibleError

_TIE = 1e-12
_CONVERGED = 1e-10


@dataclass(frozen=True)
class ConsumptionAnswer:
    """Mean and standard deviation of the discounted return, and the risk proxy J_C."""

    mean: float
    std: float
    risk: float


@dataclass(frozen=True)
class ConsumptionOptimum:
    """The best mean under a bound on the proxy, and a policy that attains it.

    ``multiplier`` is the slope of the best mean in the threshold: what one more unit of risk is
    worth. At the least threshold that can be met it is the smallest of all that enforce it.
    """

    mean: float
    std: float
    risk: float
    multiplier: float
    fractions: Float[np.ndarray, " horizon"]
    shares: Float[np.ndarray, " horizon"]


@dataclass(frozen=True)
class _Market:
    """The numbers of the environment in double precision; ``rates`` are target / wealth."""

    default: float
    liquid_growth: float
    risky_growth: float
    risky_variance: float
    discount: float
    initial_wealth: float
    rates: Float[np.ndarray, " horizon"]

    def growth(self, risky: Any, liquid: Any) -> Any:
        """Expected wealth after a step without default, of what was put where."""
        return self.risky_growth * risky + self.liquid_growth * liquid

    def shortfall(self, rate: float, consumed: Any, liquid: Any) -> Any:
        """Expected (target - reward)+ of one step, per unit of wealth."""
        usual = np.maximum(rate - consumed, 0.0)
        at_default = np.maximum(rate - consumed - liquid, 0.0)
        return (1.0 - self.default) * usual + self.default * at_default


def evaluate_fixed(env: Consumption, fractions: Any, shares: Any) -> ConsumptionAnswer:
    """Mean, deviation and proxy of a policy that depends on time alone, by recursion.

    ``fractions`` (consumed) and ``shares`` (risky, of the rest) are numbers or one per step. With
    f consumed, u risky and y liquid out of one unit of wealth, R and M the risky and liquid growth,
    p the default probability, g the discount and k the target's rate,

        a_t = f + p y + (1-p) g a_{t+1} h,    h = E[R] u + M y                        mean
        c_t = (1-p)(k-f)+ + p (k-f-y)+ + (1-p) g c_{t+1} h                            proxy
        v_t = p(1-p) (y - g a_{t+1} h)^2 + (1-p) g^2 (a_{t+1}^2 s + v_{t+1} (h^2 + s))   variance

    where s = V[R] u^2. The variance is that of the expectations given the step, and the mean of
    the variances given it.

    >>> even = 1.0 / (200 - np.arange(200))
    >>> answer = evaluate_fixed(Consumption(), even, 1.0)
    >>> round(answer.mean, 6), round(answer.std, 5), answer.risk
    (1.443506, 0.57173, 0.0)
    """
    market = _market(env)
    consumed = _per_step("fractions", fractions, env.horizon)
    share = _per_step("shares", shares, env.horizon)
    risky, liquid = share * (1.0 - consumed), (1.0 - share) * (1.0 - consumed)
    p, g = market.default, market.discount
    mean = variance = risk = 0.0
    for t in reversed(range(env.horizon)):
        f, u, y = consumed[t], risky[t], liquid[t]
        h = market.growth(u, y)
        s = market.risky_variance * u**2
        ahead = g * mean
        variance = p * (1.0 - p) * (y - ahead * h) ** 2 + (1.0 - p) * (
            ahead**2 * s + g**2 * variance * (h**2 + s)
        )
        risk = market.shortfall(market.rates[t], f, y) + (1.0 - p) * g * risk * h
        mean = f + p * y + (1.0 - p) * ahead * h
    wealth = market.initial_wealth
    return ConsumptionAnswer(
        mean=float(wealth * mean),
        std=float(wealth * np.sqrt(variance)),
        risk=float(wealth * risk),
    )


def optimum(env: Consumption, threshold: float) -> ConsumptionOptimum:
    """The exact J_R*(nu): the best mean of all policies whose proxy is at most ``threshold``.

        J_R*(nu) = min over multiplier >= 0 of  W_0 l_0(multiplier) + multiplier nu
        l_t = max over (f, u, y) of  f + p y - multiplier c(f, y) + (1-p) g l_{t+1} (E[R] u + M y)

    with c the expected shortfall of the step. The maximum is a linear programme with kinks at
    f = k and f + y = k, so one of its vertices is best, and W_0 l_0 is the upper envelope of the
    lines mean - multiplier * risk of the policies made of vertices. A secant between a policy above
    the threshold and one below it walks along that envelope and stops after finitely many steps.
    The two policies at the kink are merged into one: amounts are averaged with the expected
    wealths as weights, which keeps the mean and, the shortfall being convex, does not raise the
    risk.

    >>> best = optimum(Consumption(), threshold=0.05)
    >>> round(best.mean, 6), round(best.multiplier, 3), round(best.risk, 6)
    (1.46518, 0.421, 0.05)
    """
    market = _market(env)
    limit = threshold / market.initial_wealth
    bold = _best_plan(market, mean_weight=1.0, risk_weight=0.0)
    if bold.risk <= limit:
        return _optimum(env, bold, multiplier=0.0)
    cautious = _best_plan(market, mean_weight=0.0, risk_weight=1.0)
    if not cautious.risk <= limit:
        least = cautious.risk * market.initial_wealth
        raise InfeasibleError(
            f"threshold is {threshold}; no policy has a proxy below {least:.6g} with "
            f"target={env.target!r}, so it must be at least that"
        )
    while True:
        multiplier = (bold.mean - cautious.mean) / (bold.risk - cautious.risk)
        plan = _best_plan(market, mean_weight=1.0, risk_weight=multiplier)
        chord = bold.mean - multiplier * bold.risk
        if plan.mean - multiplier * plan.risk <= chord + _CONVERGED * max(1.0, abs(chord)):
            break
        bold, cautious = (bold, plan) if plan.risk <= limit else (plan, cautious)
    weight = (limit - cautious.risk) / (bold.risk - cautious.risk)
    return _optimum(env, _merge(market, bold, cautious, weight), float(multiplier))


@dataclass(frozen=True)
class _Plan:
    """What to do with each unit of wealth: rows (consumed, risky, liquid); its mean and risk."""

    amounts: Float[np.ndarray, "horizon 3"]
    mean: float
    risk: float


def _best_plan(market: _Market, mean_weight: float, risk_weight: float) -> _Plan:
    """Maximise mean_weight * mean - risk_weight * risk; among equals, what the weights leave out.

    A weight of 0 on the mean asks for the best mean among the plans of least risk; otherwise the
    plan of least risk among the best is taken.
    """
    go_on = (1.0 - market.default) * market.discount
    amounts = np.empty((len(market.rates), 3))
    mean = risk = 0.0
    for t in reversed(range(len(market.rates))):
        vertices = _vertices(market.rates[t])
        consumed, risky, liquid = vertices.T
        ahead = go_on * market.growth(risky, liquid)
        means = consumed + market.default * liquid + ahead * mean
        risks = market.shortfall(market.rates[t], consumed, liquid) + ahead * risk
        score = mean_weight * means - risk_weight * risks
        tied = score >= np.max(score) - _TIE * max(1.0, abs(np.max(score)))
        second = means if mean_weight == 0.0 else -risks
        best = np.argmax(np.where(tied, second, -np.inf))
        amounts[t], mean, risk = vertices[best], float(means[best]), float(risks[best])
    return _Plan(amounts, mean, risk)


def _vertices(rate: float) -> Float[np.ndarray, "6 3"]:
    """Corners of f + u + y = 1, and where f = k and f + y = k cut its edges (k within [0, 1])."""
    k = min(max(rate, 0.0), 1.0)
    corners = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    return np.array([*corners, [k, 1.0 - k, 0.0], [k, 0.0, 1.0 - k], [0.0, 1.0 - k, k]])


def _merge(market: _Market, bold: _Plan, cautious: _Plan, weight: float) -> _Plan:
    """Average of the amounts; each plan counts by its weight and its expected wealth."""
    total = weight * _expected_wealth(market, bold)[:, None] * bold.amounts
    total += (1.0 - weight) * _expected_wealth(market, cautious)[:, None] * cautious.amounts
    wealth = total.sum(axis=1, keepdims=True)
    idle = np.array([1.0, 0.0, 0.0])  # nothing is left: any split will do
    amounts = np.where(wealth > 0.0, total / np.where(wealth > 0.0, wealth, 1.0), idle)
    mean = weight * bold.mean + (1.0 - weight) * cautious.mean
    return _Plan(amounts, mean, weight * bold.risk + (1.0 - weight) * cautious.risk)


def _expected_wealth(market: _Market, plan: _Plan) -> Float[np.ndarray, " horizon"]:
    """E[g^t W_t, no default before t] per unit of initial wealth."""
    growth = market.growth(plan.amounts[:, 1], plan.amounts[:, 2])
    factors = (1.0 - market.default) * market.discount * growth
    return np.concatenate([[1.0], np.cumprod(factors[:-1])])


def _optimum(env: Consumption, plan: _Plan, multiplier: float) -> ConsumptionOptimum:
    invested = plan.amounts[:, 1] + plan.amounts[:, 2]
    shares = plan.amounts[:, 1] / np.where(invested > 0.0, invested, 1.0)
    fractions = plan.amounts[:, 0]
    answer = evaluate_fixed(env, fractions, shares)
    return ConsumptionOptimum(
        answer.mean, answer.std, answer.risk, multiplier, fractions=fractions, shares=shares
    )


def _market(env: Consumption) -> _Market:
    step = _number(env.time_step)
    return _Market(
        default=_number(env.default_probability),
        liquid_growth=1.0 + _number(env.liquid_drift) * step,
        risky_growth=1.0 + _number(env.drift) * step,
        risky_variance=_number(env.volatility) ** 2 * step,
        discount=_number(env.discount),
        initial_wealth=_number(env.initial_wealth),
        rates=_target_rates(env, step),
    )


def _target_rates(env: Consumption, step: float) -> Float[np.ndarray, " horizon"]:
    time = np.arange(float(env.horizon))
    if env.target == "fixed-rate":
        return 1.0 / (env.horizon - time)
    if env.target == "printed-steps":
        return step * (env.horizon - time)
    if env.target == "printed-time":
        return step * (1.0 - step * time)
    raise ValueError(
        f"target is {env.target!r}, which is not proportional to the wealth, so there is no closed "
        "form; simulate with downside.environments.episodes.rollout, or choose 'fixed-rate', "
        "'printed-steps' or 'printed-time'"
    )


def _number(value: Any) -> float:
    return float(np.asarray(value))


def _per_step(name: str, value: Any, horizon: int) -> Float[np.ndarray, " horizon"]:
    check_range(name, value, 0.0, 1.0, "each of them lies in [0, 1]")
    given = np.asarray(value, float)
    if given.shape not in ((), (horizon,)):
        raise ValueError(
            f"{name} has the shape {given.shape}; give one number, or one per step: ({horizon},)"
        )
    return np.broadcast_to(given, (horizon,))
