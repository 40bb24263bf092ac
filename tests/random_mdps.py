"""Random finite MDPs and policies, and every path of them: references written another way."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from downside.environments import Tabular


def random_mdp(
    rng: np.random.Generator,
    *,
    horizon: int | None,
    discount: float,
    n_states: int = 3,
    n_actions: int = 2,
    n_outcomes: int = 2,
    end_share: float = 0.25,
    reward_std: float = 0.0,
) -> Tabular:
    """Several outcomes may lead to one state; some outcomes end the episode."""
    shape = (n_states, n_actions, n_outcomes)
    return Tabular(
        transitions=rng.dirichlet(np.full(n_outcomes, 0.8), shape[:2]),
        rewards=rng.normal(0.3, 1.0, shape),
        next_states=rng.integers(0, n_states, shape),
        ends=rng.random(shape) < end_share,
        reward_std=reward_std * rng.random(shape),
        start=rng.dirichlet(np.ones(n_states)),
        discount=discount,
        horizon=horizon,
    )


def random_policy(rng: np.random.Generator, mdp: Tabular) -> np.ndarray:
    return rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states)


@dataclass(frozen=True)
class Path:
    """One possible episode: the indices of its steps, and whether each one ends it."""

    probability: float
    steps: tuple[tuple[int, int, int], ...]  # (state, action, outcome)

    def discounted(self, mdp: Tabular, numbers: list[float]) -> float:
        return sum(float(mdp.discount) ** t * x for t, x in enumerate(numbers))


def all_paths(mdp: Tabular, policy: np.ndarray, state: int) -> Iterator[Path]:
    """Every episode from ``state`` up to the horizon, by plain recursion."""

    def follow(s: int, probability: float, steps: tuple) -> Iterator[Path]:
        for a in range(mdp.n_actions):
            for k in range(mdp.transitions.shape[2]):
                p = probability * policy[s, a] * mdp.transitions[s, a, k]
                if p == 0.0:
                    continue
                path = (*steps, (s, a, k))
                if mdp.ends[s, a, k] or len(path) == mdp.horizon:
                    yield Path(p, path)
                else:
                    yield from follow(int(mdp.next_states[s, a, k]), p, path)

    yield from follow(state, 1.0, ())
