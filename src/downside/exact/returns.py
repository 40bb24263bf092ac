"""The exact distribution of the return of a policy in a finite MDP."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from downside.closed_forms import normal_lower_partial_moment
from downside.environments.tabular import Tabular
from downside.exact.tabular import action_values, check_policy, step_targets
from downside.signals import TDError, as_target

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ReturnDistribution:
    """A mixture of normals (of points, where no reward is noisy), by rising value.

    ``error`` bounds the mean absolute difference from the true return: 0 but for rounding where
    the distribution is exact, and an LPM of order 1 is off by no more than it.

    >>> coin = ReturnDistribution(np.array([-1.0, 3.0]), np.zeros(2), np.array([0.5, 0.5]), 0.0)
    >>> coin.mean(), coin.variance(), coin.lower_partial_moment(3.0, order=0)
    (1.0, 4.0, 0.5)
    """

    values: Vector
    stds: Vector
    probabilities: Vector
    error: float

    def mean(self) -> float:
        """E[G]."""
        return float(self.probabilities @ self.values)

    def variance(self) -> float:
        """V[G]."""
        return float(self.probabilities @ ((self.values - self.mean()) ** 2 + self.stds**2))

    def lower_partial_moment(self, target: float, order: float = 1) -> float:
        """E[((target - G)+)^order]."""
        moments = normal_lower_partial_moment(self.values, self.stds, target, order)
        return float(self.probabilities @ moments)


def return_distribution(
    mdp: Tabular,
    policy: ArrayLike,
    *,
    state: int | None = None,
    action: int | None = None,
    cumulants: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_atoms: int = 50_000,
) -> ReturnDistribution:
    """The distribution of the discounted return from the start, or from a state (and an action).

    Every path is followed; paths that meet in the same state with the same return are one.
    Without a horizon paths are cut, and completed with their expected rest, when what may still
    come is below ``tolerance`` on average. If more than ``max_atoms`` returns are possible, the
    nearest are merged. ``error`` states the sum of both; the mean stays exact.

    >>> walk = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=[[[0, 0]]], horizon=2)
    >>> dist = return_distribution(walk, [[1.0]])
    >>> dist.values.tolist(), dist.probabilities.tolist()
    ([-2.0, 0.0, 2.0], [0.25, 0.5, 0.25])
    """
    policy = check_policy(mdp, policy)
    table = np.asarray(mdp.rewards if cumulants is None else cumulants, float)
    ahead, remaining = _ahead(mdp, policy, table)
    start = mdp.start if state is None else np.eye(mdp.n_states)[state]
    atoms = _Atoms.at(np.flatnonzero(start), start[start > 0])
    finished: list[_Atoms] = []
    weight, merged, time = 1.0, 0.0, 0
    while True:
        at = time if policy.ndim == 3 else slice(None)
        choice = (
            np.eye(mdp.n_actions)[[action] * mdp.n_states] if action is not None else policy[at]
        )
        signal = table[time] if table.ndim == 4 else table
        last = mdp.horizon is not None and time + 1 >= mdp.horizon
        ended, atoms = _advance(mdp, atoms, choice, signal, weight, last)
        finished.append(ended)
        action, weight, time = None, weight * float(mdp.discount), time + 1
        atoms, moved = _merge(atoms, max_atoms)
        merged += moved
        left = 0.0 if last else weight * float(atoms.probabilities @ remaining[atoms.states])
        if left <= max(tolerance, 0.1 * merged) or not atoms.states.size:
            break
    atoms = atoms.raised(weight * ahead[atoms.states])
    joined, moved = _merge(_Atoms.join([*finished, atoms]), max_atoms)
    order = np.argsort(joined.values, kind="stable")
    returns = ReturnDistribution(
        values=joined.values[order],
        stds=np.sqrt(joined.variances[order]),
        probabilities=joined.probabilities[order],
        error=merged + moved + 2.0 * left,
    )
    if returns.error > 0.01 * np.sqrt(returns.variance()) + 3.0 * tolerance:
        warnings.warn(
            f"the return takes too many values to list: its distribution is off by up to "
            f"{returns.error:.3g} on average; raise max_atoms, or give the MDP a horizon",
            stacklevel=2,
        )
    return returns


def path_shortfall(
    mdp: Tabular, policy: ArrayLike, target: Any, order: float = 1, *, tolerance: float = 1e-10
) -> float:
    """E[((T_G - G)+)^order], T_G = sum_t g^t tau_R: what the proxy really bounds.

    >>> from downside.signals import Fixed
    >>> walk = Tabular([[[0.5, 0.5]]], [[[1.0, -1.0]]], next_states=[[[0, 0]]], horizon=2)
    >>> path_shortfall(walk, [[1.0]], Fixed(0.0))
    0.5
    """
    policy = check_policy(mdp, policy)
    if isinstance(as_target(target), TDError):  # T_G telescopes to q(s, a) of the first step
        q, first = action_values(mdp, policy), policy
        if mdp.horizon is not None:
            q, first = q[0], policy[0] if policy.ndim == 3 else policy
        return sum(
            mdp.start[s]
            * first[s, a]
            * return_distribution(
                mdp, policy, state=int(s), action=int(a), tolerance=tolerance
            ).lower_partial_moment(float(q[s, a]), order)
            for s, a in np.argwhere(mdp.start[:, None] * first > 0)
        )
    gaps = step_targets(mdp, policy, target)[..., 0] - mdp.rewards
    gap = return_distribution(mdp, policy, cumulants=-gaps, tolerance=tolerance)
    return gap.lower_partial_moment(0.0, order)


@dataclass(frozen=True)
class _Atoms:
    """Paths that are still alike: where they are, what they have, how likely they are."""

    states: NDArray[np.int64]
    values: Vector
    variances: Vector
    probabilities: Vector

    @staticmethod
    def at(states: NDArray[np.int64], probabilities: Vector) -> "_Atoms":
        zeros = np.zeros(len(states))
        return _Atoms(states, zeros, zeros, probabilities)

    @staticmethod
    def join(parts: "list[_Atoms]") -> "_Atoms":
        """All of them, wherever they are."""
        return _Atoms(
            np.concatenate([0 * part.states for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.variances for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
        )

    def raised(self, amounts: Vector) -> "_Atoms":
        return _Atoms(self.states, self.values + amounts, self.variances, self.probabilities)

    def where(self, keep: NDArray[Any]) -> "_Atoms":
        return _Atoms(
            self.states[keep], self.values[keep], self.variances[keep], self.probabilities[keep]
        )


def _advance(
    mdp: Tabular, atoms: _Atoms, choice: Vector, signal: Vector, weight: float, last: bool
) -> tuple[_Atoms, _Atoms]:
    """Let every atom take every action and outcome; split those that end from those that go on."""
    shape = mdp.transitions.shape
    joint = choice[:, :, None] * mdp.transitions
    s, a, k = np.nonzero(joint > 0)
    order = np.argsort(s, kind="stable")
    s, a, k = s[order], a[order], k[order]
    first = np.searchsorted(s, np.arange(shape[0]))
    count = np.searchsorted(s, np.arange(shape[0]), side="right") - first
    repeats = count[atoms.states]
    offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    branch = np.repeat(first[atoms.states], repeats) + offsets
    outcome = s[branch], a[branch], k[branch]
    signal = np.broadcast_to(signal, shape)
    moved = _Atoms(
        mdp.next_states[outcome],
        np.repeat(atoms.values, repeats) + weight * signal[outcome],
        np.repeat(atoms.variances, repeats) + (weight * mdp.reward_std[outcome]) ** 2,
        np.repeat(atoms.probabilities, repeats) * joint[outcome],
    )
    ends = mdp.ends[outcome] | last
    return moved.where(ends), moved.where(~ends)


def _merge(atoms: _Atoms, max_atoms: int) -> tuple[_Atoms, float]:
    """Join atoms that are equal but for rounding; the nearest too if there are too many.

    Returns a bound on the mean absolute distance that the joined returns moved.
    """
    atoms = atoms.where(atoms.probabilities > 0.0)  # what underflowed weighs nothing
    if not atoms.states.size:
        return atoms, 0.0
    equal = _labels(_rounded(atoms.values), _rounded(atoms.variances), atoms.states)
    first = np.unique(equal, return_index=True)[1]
    mass = np.bincount(equal, atoms.probabilities)
    same = atoms.where(first)  # values are kept as they are, so that P(G < x) stays exact
    atoms = _Atoms(same.states, same.values, same.variances, mass.astype(np.float64))
    return (atoms, 0.0) if mass.size <= max_atoms else _joined(atoms, max_atoms)


def _joined(atoms: _Atoms, max_atoms: int) -> tuple[_Atoms, float]:
    """About ``max_atoms`` means of neighbours, finer where much probability lies close together.

    The bins hold equal parts of sqrt(probability * gap to the next value): the density of points
    that keeps the mean absolute distance least.
    """
    stds = np.sqrt(atoms.variances)
    width = max(float(np.ptp(stds)) / 10.0, 1e-300)
    kinds = _labels(np.round((stds - stds.min()) / width), atoms.states)
    order = np.lexsort((atoms.values, kinds))
    atoms, stds, kinds = atoms.where(order), stds[order], kinds[order]
    gaps = np.where(np.diff(kinds, prepend=-1) == 0, np.diff(atoms.values, prepend=0.0), 0.0)
    position = np.cumsum(np.sqrt(atoms.probabilities * gaps))
    bins = np.floor(position / max(position[-1], 1e-300) * max_atoms)
    label = _labels(bins, kinds)
    mass = np.bincount(label, atoms.probabilities).astype(np.float64)
    values = np.bincount(label, atoms.probabilities * atoms.values) / mass
    variances = np.bincount(label, atoms.probabilities * atoms.variances) / mass
    states = np.zeros(mass.size, int)
    states[label] = atoms.states
    moved = np.abs(atoms.values - values[label]) + np.abs(stds - np.sqrt(variances)[label])
    return _Atoms(states, values, variances, mass), float(atoms.probabilities @ moved)


def _labels(*columns: np.ndarray) -> NDArray[np.int64]:
    """Number the distinct rows."""
    label = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, index = np.unique(column, return_inverse=True)
        label = np.unique(label * values.size + index, return_inverse=True)[1]
    return label


def _rounded(numbers: Vector) -> Vector:
    """To a part in 1e12 of the largest."""
    return np.round(numbers / max(float(np.max(np.abs(numbers))), 1e-300) * 1e12)


def _ahead(mdp: Tabular, policy: Vector, table: Vector) -> tuple[Vector, Vector]:
    """What is still to come from each state: on average, and at most in size (with its noise)."""
    if mdp.horizon is not None:
        return np.zeros(mdp.n_states), np.full(mdp.n_states, np.inf)
    expected = action_values(mdp, policy, table)
    size = action_values(mdp, policy, np.abs(table) + mdp.reward_std)
    return np.sum(policy * expected, axis=-1), np.sum(policy * size, axis=-1)
