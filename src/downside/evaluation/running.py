"""Fresh episodes of a policy in one of our environments."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.environments.base import Environment
from downside.environments.episodes import Act, enough_steps, rollout_paths
from downside.evaluation.result import Bound, Evaluation, name_of
from downside.moments import maximum_drawdown
from downside.records import record
from downside.signals import (
    Centralised,
    Constraint,
    Predictions,
    Proxy,
    Signal,
    Target,
    TDError,
    as_target,
)

N_PATHS = 1000


@record
class Judge:
    """What is measured at every step: the proxy of a target, and the signals of constraints.

    None stands for what cannot be measured without values that only training knows. ``means`` is
    r(s, a) as it was learnt, for environments that do not tell it.
    """

    proxy: Proxy | None
    signals: tuple[Signal | None, ...]
    discount: Any
    means: Any = None

    @staticmethod
    def of(
        target: Target,
        order: float,
        constraints: Sequence[Constraint],
        discount: Any,
        horizon: int | None,
        knows_means: bool,
        means: Any = None,
    ) -> "Judge":
        """For a problem with this discount and horizon."""
        knows_means = knows_means or means is not None
        proxy = Proxy(target, discount, horizon, order)
        signals = [constraint.signal(discount, horizon) for constraint in constraints]
        return Judge(
            proxy if _can_measure(proxy, knows_means) else None,
            tuple(signal if _can_measure(signal, knows_means) else None for signal in signals),
            discount,
            means,
        )

    def measure(self, transition: Any) -> Any:
        """Reward; discounted reward, step target and signal; each constraint's signal."""
        known = Predictions()
        if transition.mean_reward is None and self.means is not None:
            learnt = self.means(transition.obs, transition.action)
            transition = replace(transition, mean_reward=learnt)
        reward, zero = transition.reward, jnp.zeros_like(transition.reward)
        weight = self._weight(self.discount, transition)
        target, signal = zero, zero
        if self.proxy is not None:
            target = self.proxy.target.step_target(
                transition, known, self.proxy.discount, self.proxy.horizon
            )
            signal = self.proxy.cumulant(transition, known)
        others = tuple(
            zero
            if each is None
            else self._weight(each.discount, transition) * each.cumulant(transition, known)
            for each in self.signals
        )
        return reward, (weight * reward, weight * target, weight * signal), others

    def _weight(self, discount: Any, transition: Any) -> Array:
        dtype = transition.reward.dtype
        return jnp.asarray(discount, dtype) ** jnp.asarray(transition.time).astype(dtype)


def evaluate_risk(
    env: Environment[Any],
    act: Act,
    target: Any,
    order: float = 1,
    *,
    key: Array,
    n_episodes: int = 10_000,
    max_steps: int | None = None,
    constraints: Sequence[Constraint] = (),
    log_returns: bool | None = None,
    deterministic: bool = False,
    means: Callable[[Any, Any], Any] | None = None,
) -> Evaluation:
    """Run fresh episodes of a policy and put its risk into numbers, side by side.

    ``target`` is a number, a target such as `Centralised`, or a function of the transition. Episode
    i depends on the key and i alone, so that policies meet the same noise. The steps are those of
    the horizon, or as many as the discount lets count, or ``max_steps``. ``log_returns`` says
    whether rewards are log-returns, where the environment does not. ``deterministic`` is only
    reported. ``means(obs, action)`` is what `Centralised` takes where the environment does not know
    its mean rewards.

    >>> import jax, jax.numpy as jnp
    >>> from downside.environments import Portfolio
    >>> never = lambda obs, key: jnp.asarray(0)
    >>> found = evaluate_risk(Portfolio(), never, Centralised(), key=jax.random.key(0),
    ...                       n_episodes=50)
    >>> print(found.mean, "|", found.proxy)
    0.1970 [0.1970, 0.1970] | 0.0000 [0.0000, 0.0000]
    """
    goal = as_target(target)
    if isinstance(goal, TDError) and not constraints:
        raise ValueError(
            "TDError() needs the value function of the policy; learn one, or evaluate with "
            "Centralised() or a number"
        )
    judge = Judge.of(
        goal, order, constraints, env.discount, env.horizon, knows_means=True, means=means
    )
    sums, paths, ended = rollout_paths(
        env,
        act,
        key,
        n_episodes,
        measure=Partial(_measure, judge),
        max_steps=max_steps or env.horizon or enough_steps(float(env.discount)),
    )
    wealth = env.log_returns if log_returns is None else log_returns
    return judged(
        judge,
        sums,
        paths,
        ended,
        goal=goal,
        order=order,
        constraints=constraints,
        log_returns=wealth,
        deterministic=deterministic,
    )


def judged(
    judge: Judge,
    sums: Any,
    paths: np.ndarray,
    ended: np.ndarray,
    *,
    goal: Target,
    order: float,
    constraints: Sequence[Constraint],
    log_returns: bool,
    deterministic: bool,
) -> Evaluation:
    """The evaluation of what a judge measured, summed over each episode."""
    totals, (returns, targets, signals), others = sums
    known = judge.proxy is not None
    return Evaluation.of_episodes(
        returns,
        target=goal,
        order=order,
        targets=targets if known else None,
        signals=signals if known else None,
        totals=totals,
        ended=ended,
        drawdowns=maximum_drawdown(paths) if log_returns else None,
        paths=paths[:N_PATHS],
        discount=float(judge.discount),
        deterministic=deterministic,
        learnt_means=judge.means is not None,
        bounds=tuple(
            Bound(
                name_of(constraint.target, constraint.order),
                float(constraint.threshold),
                None if each is None else got,
            )
            for constraint, each, got in zip(constraints, judge.signals, others, strict=True)
        ),
    )


def _can_measure(signal: Signal, knows_means: bool) -> bool:
    if not isinstance(signal, Proxy):
        return True
    if isinstance(signal.target, TDError):
        return False
    return knows_means or not isinstance(signal.target, Centralised)


def _measure(judge: Judge, transition: Any) -> Any:
    return judge.measure(transition)
