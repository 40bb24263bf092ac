"""The best policy of a finite MDP under bounds on its risk, by linear programming."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from scipy.sparse import linalg

from downside.environments.tabular import Tabular
from downside.exact.tabular import risk_cumulants, start_value
from downside.signals import Constraint, TDError

Table = NDArray[np.float64]


class InfeasibleError(ValueError):
    """No policy meets the thresholds."""


@dataclass(frozen=True)
class ConstrainedOptimum:
    """The best policy, evaluated exactly, and what a relaxed threshold would be worth.

    ``policy`` is (S, A), or (T, S, A) with a horizon. ``multipliers`` are the derivatives of the
    best mean with respect to the thresholds.

    >>> ConstrainedOptimum(np.ones((1, 1)), 1.5, np.array([0.2]), np.array([0.0])).mean
    1.5
    """

    policy: Table
    mean: float
    risks: Table
    multipliers: Table


def constrained_optimum(mdp: Tabular, constraints: Sequence[Constraint]) -> ConstrainedOptimum:
    """Maximise the mean return subject to ``proxy <= threshold`` for each constraint.

    The variables are the discounted visits x(s, a) >= 0 of the policy:

        max sum x r    subject to    sum_a x(s', a) - sum g P(s' | s, a) x(s, a) = start(s'),
                                     sum x c_i <= threshold_i

    The vertex that the solver finds is then solved for exactly, since its own tolerances can
    leave a policy well above the threshold.

    >>> from downside.signals import Fixed
    >>> gamble = Tabular([[[1.0, 0.0], [0.5, 0.5]]], [[[1.0, 1.0], [4.0, 0.0]]],
    ...                  next_states=[[[0, 0], [0, 0]]], horizon=1)
    >>> best = constrained_optimum(gamble, [Constraint(Fixed(1.0), threshold=0.2)])
    >>> best.policy[0, 0].round(6).tolist(), round(best.mean, 6), best.multipliers.round(6).tolist()
    ([0.6, 0.4], 1.4, [2.0])
    """
    for constraint in constraints:
        if isinstance(constraint.target, TDError):
            raise ValueError(
                "TDError() depends on the policy, so its optimum is no linear programme"
            )
    shape = (mdp.horizon or 1, mdp.n_states, mdp.n_actions)
    uniform = np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)
    tables = [risk_cumulants(mdp, uniform, c.target, c.order) for c in constraints]

    def per_visit(table: Any) -> Table:
        return np.broadcast_to(np.sum(mdp.transitions * table, -1), shape).reshape(-1)

    flow, start = _flow(mdp)
    gains = per_visit(mdp.rewards)
    costs = np.stack([per_visit(t) for t in tables]) if tables else np.zeros((0, gains.size))
    thresholds = np.array([float(c.threshold) for c in constraints])
    finite = np.isfinite(thresholds)
    solution = optimize.linprog(
        -gains,
        A_ub=costs[finite] if finite.any() else None,
        b_ub=thresholds[finite] if finite.any() else None,
        A_eq=flow,
        b_eq=start,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status == 2:
        raise InfeasibleError(_lowest_risks(flow, start, costs, thresholds))
    if solution.status != 0:
        raise ValueError(f"the linear programme has no solution: {solution.message}")
    multipliers = np.zeros(len(constraints))
    if finite.any():
        multipliers[finite] = np.maximum(0.0, -solution.ineqlin.marginals)
    binding = multipliers > 0
    visits = _polish(solution.x, flow, start, costs[binding], thresholds[binding])
    policy = _policy_of(visits.reshape(shape))
    policy = policy if mdp.horizon is not None else policy[0]
    risks = np.array([start_value(mdp, policy, table) for table in tables])
    return ConstrainedOptimum(policy, start_value(mdp, policy), risks, multipliers)


def _flow(mdp: Tabular) -> tuple[Any, Table]:
    """What enters a state leaves it, by one action or another; (time, state) with a horizon."""
    n_times, n_states, n_actions = mdp.horizon or 1, mdp.n_states, mdp.n_actions
    s, a, k = np.nonzero(~mdp.ends & (mdp.transitions > 0))
    weights = mdp.discount * mdp.transitions[s, a, k]
    leaving = s * n_actions + a
    size = n_states * n_actions
    inflow = sparse.csr_array((weights, (mdp.next_states[s, a, k], leaving)), (n_states, size))
    outflow = sparse.kron(sparse.eye_array(n_states), np.ones((1, n_actions)))
    if mdp.horizon is None:
        return sparse.csr_array(outflow - inflow), np.asarray(mdp.start)
    later = sparse.eye_array(n_times, k=-1)
    flow = sparse.kron(sparse.eye_array(n_times), outflow) - sparse.kron(later, inflow)
    return sparse.csr_array(flow), np.concatenate([mdp.start, np.zeros((n_times - 1) * n_states)])


def _polish(x: Table, flow: Any, start: Table, costs: Table, thresholds: Table) -> Table:
    """Solve the equations of the vertex again, on its support, with the bounds that bind."""
    support = x > 1e-9
    equations = sparse.vstack([flow[:, support], sparse.csr_array(costs[:, support])], "csr")
    right = np.concatenate([start, thresholds])
    exact = _solve(equations, right)
    residual = np.max(np.abs(equations @ exact - right), initial=0.0)
    if not residual <= 1e-9 or np.any(exact < 0):
        return np.maximum(x, 0.0)
    visits = np.zeros_like(x)
    visits[support] = exact
    return visits


def _solve(equations: Any, right: Table) -> Table:
    """The solution of sparse equations: exactly where a vertex makes them square, as it should."""
    met = np.diff(equations.indptr) > 0  # states that are never reached say nothing
    rows, n_columns = np.count_nonzero(met), equations.shape[1]
    if rows == n_columns:
        try:
            return linalg.splu(sparse.csc_array(equations[met])).solve(right[met])
        except RuntimeError:  # singular
            pass
    return linalg.lsmr(equations, right, atol=1e-15, btol=1e-15, maxiter=20 * n_columns)[0]


def _policy_of(visits: Table) -> Table:
    totals = visits.sum(-1, keepdims=True)
    uniform = np.full_like(visits, 1.0 / visits.shape[-1])
    return np.divide(visits, totals, out=uniform, where=totals > 0)


def _rounded_up(risk: float) -> str:
    """Nine digits, so that the number itself is a threshold that can be met."""
    digit = 10.0 ** (np.floor(np.log10(max(abs(risk), 1e-300))) - 8)
    return f"{np.ceil(risk / digit + 1e-3) * digit:.9g}"


def _lowest_risks(flow: Any, start: Table, costs: Table, thresholds: Table) -> str:
    lowest = [optimize.linprog(c, A_eq=flow, b_eq=start, method="highs").fun for c in costs]
    return "no policy meets the thresholds: " + "; ".join(
        f"threshold {nu:.9g}, lowest risk {_rounded_up(low)}"
        for nu, low in zip(thresholds, lowest, strict=True)
    )
