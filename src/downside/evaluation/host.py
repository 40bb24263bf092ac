"""Fresh episodes of a policy in a Python environment."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from downside.checks import check_count
from downside.environments.base import Transition
from downside.environments.episodes import enough_steps
from downside.environments.python import HostEnvironment, HostTransition
from downside.evaluation.result import Evaluation
from downside.evaluation.running import N_PATHS, Judge, judged
from downside.signals import Constraint, as_target
from downside.training.host import HostAct

CHUNK = 2000
MOST_STEPS = 10_000


def evaluate_host(
    host: HostEnvironment,
    act: HostAct,
    target: Any,
    order: float = 1,
    *,
    n_eval_episodes: int = 1000,
    seed: int = 1,
    max_steps: int | None = None,
    constraints: Sequence[Constraint] = (),
    log_returns: bool | None = None,
    deterministic: bool = False,
    means: Callable[[Any, Any], Any] | None = None,
) -> Evaluation:
    """Run fresh episodes of ``act(obs, rng) -> action`` and put its risk into numbers.

    Episode i is reset with a seed of its own, and ``act`` gets a generator of its own, both from
    ``seed`` and i alone: two policies are compared on the same luck as far as the environment
    honours its seed. An episode is cut after ``max_steps``: by default at the horizon, or where the
    discount leaves next to nothing, else after 10,000 steps; the share of those that were cut is
    reported. ``log_returns`` says whether rewards are log-returns; by default the environment's
    attribute of that name does. `Centralised` needs ``info["mean_reward"]`` or, where there is
    none, ``means(obs, action)``; without both the proxy is left out.

    >>> from downside.environments.python import wrap
    >>> lake = wrap("FrozenLake-v1", discount=0.99)
    >>> found = evaluate_host(lake, lambda obs, rng: rng.integers(4), target=0.5,
    ...                       n_eval_episodes=50)
    >>> found.n_episodes, found.deterministic
    (50, False)
    """
    check_count("n_eval_episodes", n_eval_episodes, least=2)
    check_count("seed", seed, least=0)
    goal = as_target(target)
    limit = max_steps or host.horizon or enough_steps(host.discount) or MOST_STEPS
    recorder = _Recorder(goal, order, constraints, host, n_eval_episodes, means)
    for episode in range(n_eval_episodes):
        words = np.random.SeedSequence((seed, episode)).generate_state(2)
        rng = np.random.default_rng(words[1])
        obs = host.reset(seed=int(words[0]) & 0x7FFFFFFF)
        for _ in range(limit):
            step = host.step(act(obs, rng))
            recorder.add(episode, step)
            obs = step.next_obs
            if step.terminated or step.truncated:
                break
    recorder.flush()
    wealth = _says_log_returns(host) if log_returns is None else log_returns
    return judged(
        recorder.judge,
        recorder.sums,
        recorder.paths(n_eval_episodes if wealth else N_PATHS),
        recorder.ended,
        goal=goal,
        order=order,
        constraints=constraints,
        log_returns=wealth,
        deterministic=deterministic,
    )


class _Recorder:
    """Steps come in one by one and are measured in chunks of one size: one compiled program."""

    def __init__(
        self,
        goal: Any,
        order: float,
        constraints: Sequence[Constraint],
        host: HostEnvironment,
        n_episodes: int,
        means: Callable[[Any, Any], Any] | None,
    ) -> None:
        self._means = means if means is None or isinstance(means, Partial) else Partial(means)
        self._make = partial(Judge.of, goal, order, constraints, host.discount, host.horizon)
        self.judge: Any = None
        self.ended = np.zeros(n_episodes, bool)
        self.sums: Any = None
        self._steps: list[HostTransition] = []
        self._episodes: list[int] = []
        self._rewards: list[list[float]] = []

    def add(self, episode: int, step: HostTransition) -> None:
        if self.judge is None:
            told = step.mean_reward is not None
            self.judge = self._make(knows_means=told, means=None if told else self._means)
        if step.time == 0:
            self._rewards.append([])
        self._rewards[-1].append(step.reward)
        self._steps.append(step)
        self._episodes.append(episode)
        self.ended[episode] |= step.terminated
        if len(self._steps) == CHUNK:
            self.flush()

    def flush(self) -> None:
        n = len(self._steps)
        if n == 0:
            return
        filled = self._steps + [self._steps[-1]] * (CHUNK - n)
        stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *filled)
        measured = jax.tree.map(lambda x: np.asarray(x, float)[:n], _measure(self.judge, stacked))
        added = jax.tree.map(self._summed, measured)
        self.sums = added if self.sums is None else jax.tree.map(np.add, self.sums, added)
        self._steps, self._episodes = [], []

    def _summed(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._episodes, weights=values, minlength=len(self.ended))

    def paths(self, n: int) -> np.ndarray:
        kept = self._rewards[:n]
        rows = np.zeros((len(kept), max(map(len, kept))))
        for row, rewards in zip(rows, kept, strict=True):
            row[: len(rewards)] = rewards
        return rows


@jax.jit
def _measure(judge: Judge, steps: HostTransition) -> Any:
    def one(step: HostTransition) -> Any:
        return judge.measure(Transition(**vars(step), next_state=None))

    return jax.vmap(one)(steps)


def _says_log_returns(host: HostEnvironment) -> bool:
    try:
        return bool(host.env.get_wrapper_attr("log_returns"))
    except AttributeError:
        return False
