"""Claim 6: Theorem 1 on random MDPs, exactly.

The critics are least-squares fits of the exact values to the score, over every state and action.
The gradient that they are held against knows nothing of them: it is a finite difference of the
exact solution of the MDP.
"""

import numpy as np

from downside.environments import Tabular
from downside.exact import action_values, risk_cumulants, start_value, state_distribution
from downside.experiments.base import Claim, Results
from downside.signals import Centralised, Fixed, Target

N_STATES, MULTIPLIER, STEP = 4, 0.7, 1e-5
EXACT = 1e-6  # finite differences and the cut of small singular values leave 1e-8 or so
ALIASED = np.array([[1.0, -0.3], [1.0, 0.5], [1.0, -0.3], [1.0, 0.9]])  # two states look alike


def run_compatible(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Relative distance of w_q - multiplier w_rho from the natural gradient, on n random MDPs."""
    found: list[float] = []
    for i in range(n):
        horizon = None if i % 2 else 4
        mdp = _random_mdp(rng, horizon)
        features = np.eye(N_STATES) if i % 4 < 2 else ALIASED
        target = Fixed(0.9) if i % 8 < 4 else Centralised()
        theta = rng.normal(0.0, 0.5, (features.shape[1], 2))
        found.append(_distance(mdp, features, theta, target))
    return {"compatible_distance": np.array(found)}


def judge_compatible(results: Results) -> Claim:
    """The verdict on claim 6."""
    worst = float(results["compatible_distance"].max())
    return Claim(
        id="6 compatible",
        paper="Theorem 1: the natural gradient of the Lagrangian is w_q - multiplier w_rho",
        measured=worst,
        verdict="holds" if worst < EXACT else "fails",
        what="largest relative distance of the two on random MDPs",
        note=(
            "With critics that are least-squares fits weighted by the discounted state "
            "distribution and the policy, and the shortest solution where several fit. The "
            "gradient is that of the proxy, not of the LPM."
        ),
        evidence={"MDPs": float(len(results["compatible_distance"])), "largest distance": worst},
    )


def _distance(mdp: Tabular, features: np.ndarray, theta: np.ndarray, target: Target) -> float:
    pi = _gibbs(features, theta)
    costs = risk_cumulants(mdp, pi, target)  # of the rewards alone, whatever the policy is

    def lagrangian(parameters: np.ndarray) -> float:
        policy = _gibbs(features, parameters)
        risk = start_value(mdp, policy, costs)
        return float(start_value(mdp, policy) - MULTIPLIER * risk)

    gradient = np.zeros(theta.size)
    for j in range(theta.size):
        change = np.zeros(theta.size)
        change[j] = STEP
        ahead, back = (lagrangian(theta + sign * change.reshape(theta.shape)) for sign in (1, -1))
        gradient[j] = (ahead - back) / (2 * STEP)

    # score(s, a) = phi(s) (e_a - pi(s)), one row for each time, state and action
    scores = np.einsum("si,saj->saij", features, np.eye(2) - pi[:, None, :])
    scores = scores.reshape(N_STATES, 2, -1)
    visits = state_distribution(mdp, pi).reshape(-1, N_STATES, 1) * pi
    root = np.sqrt(visits)[..., None]
    rows = (root * scores).reshape(-1, theta.size)
    shape = (-1, N_STATES, 2)
    critics = [
        np.linalg.lstsq(rows, (root[..., 0] * values.reshape(shape)).ravel(), rcond=1e-6)[0]
        for values in (action_values(mdp, pi), action_values(mdp, pi, costs))
    ]
    fisher = rows.T @ rows
    natural = np.linalg.pinv(fisher, 1e-9, hermitian=True) @ gradient
    direction = critics[0] - MULTIPLIER * critics[1]
    return float(np.linalg.norm(direction - natural) / np.linalg.norm(natural))


def _gibbs(features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Probabilities (states, actions) of a policy with weights (features, actions)."""
    weights = np.exp(features @ theta)
    return weights / weights.sum(axis=1, keepdims=True)


def _random_mdp(rng: np.random.Generator, horizon: int | None) -> Tabular:
    shape = (N_STATES, 2, 3)
    return Tabular(
        transitions=rng.dirichlet(np.ones(3), shape[:2]),
        rewards=rng.normal(0.5, 1.0, shape),
        next_states=rng.integers(0, N_STATES, shape),
        ends=rng.random(shape) < 0.2,
        discount=0.85,
        horizon=horizon,
    )
