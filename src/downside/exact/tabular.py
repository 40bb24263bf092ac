"""Exact values, risk and state distribution of a policy in a finite MDP, in float64.

A policy is a table of probabilities (S, A), or (T, S, A) if it depends on the time. With a horizon
every answer carries the time as its first axis: (T, S, A); without one it is (S, A).
"""

from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from downside.closed_forms import normal_lower_partial_moment
from downside.environments.base import Transition
from downside.environments.tabular import Tabular
from downside.signals import Predictions, Target, as_target

Table = NDArray[np.float64]


def check_policy(mdp: Tabular, policy: ArrayLike) -> Table:
    """Read a policy: probabilities (S, A), or (T, S, A) with a horizon."""
    table = np.asarray(policy, float)
    shapes: list[tuple[int, ...]] = [(mdp.n_states, mdp.n_actions)]
    if mdp.horizon is not None:
        shapes.append((mdp.horizon, *shapes[0]))
    if table.shape not in shapes:
        allowed = " or ".join(map(str, shapes))
        raise ValueError(f"the policy has the shape {table.shape}; it must be {allowed}")
    if np.any(table < 0) or not np.allclose(table.sum(-1), 1.0, atol=1e-9):
        raise ValueError("the rows of a policy are probabilities: not negative, with a sum of 1")
    return table


def action_values(mdp: Tabular, policy: ArrayLike, cumulants: ArrayLike | None = None) -> Table:
    """q(s, a) = E[sum_t g^t c_t | s, a], of the rewards or of any table of cumulants.

    ``cumulants`` broadcasts to (S, A, K), or to (T, S, A, K) with a horizon.

    >>> chain = Tabular([[[0.0, 1.0]], [[0.0, 1.0]]], [[[1.0]], [[2.0]]], discount=0.5)
    >>> action_values(chain, [[1.0], [1.0]])[:, 0]   # 2 / (1 - 0.5) = 4, then 1 + 0.5 * 4
    array([3., 4.])
    """
    policy = check_policy(mdp, policy)
    table = np.asarray(mdp.rewards if cumulants is None else cumulants, float)
    expected = np.sum(mdp.transitions * table, axis=-1)
    if mdp.horizon is None:
        chain = np.einsum("sa,sat->st", policy, _continuation(mdp))
        v = _solve(np.eye(mdp.n_states) - chain, np.sum(policy * expected, -1))
        return expected + _continuation(mdp) @ v
    shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
    policy, expected = np.broadcast_to(policy, shape), np.broadcast_to(expected, shape)
    continuation = _continuation(mdp)
    q, v = np.zeros(shape), np.zeros(mdp.n_states)
    for t in reversed(range(mdp.horizon)):
        q[t] = expected[t] + continuation @ v
        v = np.sum(policy[t] * q[t], axis=-1)
    return q


def start_value(mdp: Tabular, policy: ArrayLike, cumulants: ArrayLike | None = None) -> float:
    """J = E[sum_t g^t c_t] from the start distribution.

    >>> start_value(Tabular([[[1.0]]], [[[3.0]]], discount=0.5, horizon=2), [[1.0]])   # 3 + 1.5
    4.5
    """
    policy = check_policy(mdp, policy)
    q, first = action_values(mdp, policy, cumulants), policy
    if mdp.horizon is not None:
        q, first = q[0], policy[0] if policy.ndim == 3 else policy
    return float(mdp.start @ np.sum(first * q, axis=-1))


def state_distribution(mdp: Tabular, policy: ArrayLike) -> Table:
    """The discounted state distribution d(s) = sum_t g^t P(S_t = s), not normalised.

    With a horizon entry (t, s) is g^t P(S_t = s).

    >>> swap = Tabular([[[0.0, 1.0]], [[1.0, 0.0]]], 0.0, discount=0.5, horizon=2)
    >>> state_distribution(swap, [[1.0], [1.0]]).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    policy = check_policy(mdp, policy)
    continuation = _continuation(mdp)
    if mdp.horizon is None:
        chain = np.einsum("sa,sat->st", policy, continuation)
        return _solve((np.eye(mdp.n_states) - chain).T, mdp.start)
    policy = np.broadcast_to(policy, (mdp.horizon, mdp.n_states, mdp.n_actions))
    d = np.zeros((mdp.horizon, mdp.n_states))
    d[0] = mdp.start
    for t in range(mdp.horizon - 1):
        d[t + 1] = np.einsum("s,sa,sat->t", d[t], policy[t], continuation)
    return d


def proxy(mdp: Tabular, policy: ArrayLike, target: Any, order: float = 1) -> Table:
    """The action-values of the signal ((tau_R - R)+)^order: what a risk critic learns [proxy].

    >>> from downside.signals import Fixed
    >>> coin = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=[[[0, 0]]], horizon=2)
    >>> float(proxy(coin, [[1.0]], Fixed(0.0))[0, 0, 0])   # two flips, each short half the time
    1.0
    """
    return action_values(mdp, policy, risk_cumulants(mdp, policy, target, order))


def risk_cumulants(mdp: Tabular, policy: ArrayLike, target: Any, order: float = 1) -> Table:
    """The expected signal of each outcome (over the reward's noise and the next action).

    ``target`` is a target, a number, or a function of the transition.

    >>> coin = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=[[[0, 0]]], horizon=1)
    >>> risk_cumulants(coin, [[1.0]], 0.5).tolist()   # 0.5 is missed by 1.5 on tails
    [[[[0.0, 1.5]]]]
    """
    policy = check_policy(mdp, policy)
    targets = step_targets(mdp, policy, target)
    rewards, stds = np.asarray(mdp.rewards)[..., None], np.asarray(mdp.reward_std)[..., None]
    signals = normal_lower_partial_moment(rewards, stds, targets, order)
    return np.sum(signals * _next_action_weights(mdp, policy), axis=-1)


def step_targets(mdp: Tabular, policy: ArrayLike, target: Any) -> Table:
    """tau_R for every step: (S, A, K, next action), with the time first if there is a horizon.

    >>> coin = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=[[[0, 0]]], horizon=4)
    >>> step_targets(coin, [[1.0]], 2.0)[:, 0, 0, 0, 0].tolist()   # split evenly
    [0.5, 0.5, 0.5, 0.5]
    """
    policy = check_policy(mdp, policy)
    goal = as_target(target)
    q = action_values(mdp, policy)
    q = q[None] if mdp.horizon is None else q
    n_times, n_states, n_actions = q.shape
    n_outcomes = mdp.transitions.shape[-1]
    next_q = np.concatenate([q[1:], 0 * q[:1]]) if mdp.horizon is not None else q
    grid = np.indices((n_times, n_states, n_actions, n_outcomes, n_actions)).reshape(5, -1)
    time, state, action, outcome, next_action = grid
    at = state, action, outcome
    next_state = mdp.next_states[at]
    terminated = mdp.ends[at]
    if mdp.horizon is not None:
        terminated = terminated | (time + 1 >= mdp.horizon)
    step = {
        "obs": state,
        "action": action,
        "reward": mdp.rewards[at],
        "mean_reward": np.sum(mdp.transitions * mdp.rewards, axis=-1)[state, action],
        "next_obs": next_state,
        "discount": np.where(terminated, 0.0, mdp.discount),
        "terminated": terminated,
        "truncated": np.zeros_like(terminated),
        "time": time,
    }
    prediction = {
        "value": q[time, state, action],
        "next_value": next_q[time, next_state, next_action],
    }
    with jax.enable_x64(True):
        flat = np.asarray(_targets(goal, step, prediction, mdp.discount, mdp.horizon), float)
        if np.any(mdp.reward_std > 0):
            _refuse_noisy_target(goal, step, prediction, mdp, flat)
    table = flat.reshape(n_times, n_states, n_actions, n_outcomes, n_actions)
    return table[0] if mdp.horizon is None else table


def _refuse_noisy_target(
    target: Target, step: Any, prediction: Any, mdp: Tabular, flat: Table
) -> None:
    moved = step | {"reward": step["reward"] + 0.5}
    if not np.array_equal(flat, _targets(target, moved, prediction, mdp.discount, mdp.horizon)):
        raise ValueError(
            "the target depends on the reward, and the rewards are noisy: its exact proxy is not "
            "known; use a target of the state and action, or rewards without noise"
        )


@partial(jax.jit, static_argnames=("horizon",))
def _targets(
    target: Target, steps: Any, predictions: Any, discount: Any, horizon: int | None
) -> jax.Array:
    def one(step: Any, prediction: Any) -> jax.Array:
        transition = Transition(**step, next_state=None)
        return target.step_target(transition, Predictions(**prediction), discount, horizon)

    return jax.vmap(one)(steps, predictions)


def _next_action_weights(mdp: Tabular, policy: Table) -> Table:
    """pi(a' | s') of each outcome, at the next time."""
    if policy.ndim == 2:
        return policy[mdp.next_states]
    following = np.concatenate([policy[1:], policy[-1:]])
    return following[:, mdp.next_states]


def _continuation(mdp: Tabular) -> Table:
    """g P(s' and the episode goes on | s, a), as a matrix (S, A, S)."""
    weights = np.where(mdp.ends, 0.0, mdp.discount * mdp.transitions)
    dense = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    s, a, _ = np.indices(weights.shape)
    np.add.at(dense, (s, a, mdp.next_states), weights)
    return dense


def _solve(matrix: Table, right: Table) -> Table:
    try:
        solution = np.asarray(np.linalg.solve(matrix, right), np.float64)
    except np.linalg.LinAlgError:
        solution = np.full_like(right, np.inf)
    if not np.all(np.isfinite(solution)) or np.max(np.abs(matrix @ solution - right)) > 1e-6:
        raise ValueError(
            "this policy may never end an episode, so its values are not finite at a discount "
            "of 1; give the MDP a horizon or a discount below 1"
        )
    return solution
