"""What a policy is worth and what it risks, from fresh episodes: always three numbers of risk."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array
from scipy.special import stdtrit

from downside.environments.base import Environment, Transition
from downside.environments.episodes import Act, rollout
from downside.moments import lower_partial_moment
from downside.signals import Fixed, Predictions, Proxy, Target, TDError, as_target


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval.

    >>> print(Interval(0.5, 0.46, 0.54))
    0.5000 [0.4600, 0.5400]
    """

    value: float
    low: float
    high: float

    @staticmethod
    def of_mean(samples: Any) -> "Interval":
        """The mean of independent samples; the interval is Student's."""
        numbers = np.asarray(samples, float)
        mean = float(numbers.mean())
        standard_error = float(numbers.std(ddof=1)) / float(np.sqrt(numbers.size))
        reach = float(stdtrit(numbers.size - 1, 0.975)) * standard_error
        return Interval(mean, mean - reach, mean + reach)

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class RiskNumbers:
    """Mean return and risk of a policy over fresh episodes, all discounted as the problem is.

    ``proxy`` is what is constrained, ``path_shortfall`` what it bounds, ``lpm`` what users mean:
    the lower partial moment about ``about``, the fixed target or else the mean return. ``cut`` is
    the share of episodes that were cut short, by a time limit for example.
    """

    mean: Interval
    proxy: Interval
    path_shortfall: Interval
    lpm: Interval
    about: float
    order: float
    guarantee: str
    n_episodes: int
    cut: float = 0.0

    @staticmethod
    def of_episodes(
        returns: np.ndarray,
        targets: np.ndarray,
        signals: np.ndarray,
        goal: Target,
        order: float,
        cut: float,
    ) -> "RiskNumbers":
        """From the discounted sums of rewards, step targets and signals of each episode."""
        about = float(np.asarray(goal.value)) if isinstance(goal, Fixed) else float(returns.mean())
        return RiskNumbers(
            mean=Interval.of_mean(returns),
            proxy=Interval.of_mean(signals),
            path_shortfall=Interval.of_mean(_shortfalls(targets, returns, order)),
            lpm=Interval.of_mean(_shortfalls(np.full_like(returns, about), returns, order)),
            about=about,
            order=order,
            guarantee=goal.guarantee,
            n_episodes=len(returns),
            cut=cut,
        )

    def __str__(self) -> str:
        rows = [
            ("mean return", self.mean),
            ("proxy (what is constrained)", self.proxy),
            ("path shortfall (what it bounds)", self.path_shortfall),
            (f"LPM about {self.about:.4g} (what is meant)", self.lpm),
        ]
        lines = [f"{name:<34} {interval}" for name, interval in rows]
        words = f"order {self.order:g}, {self.n_episodes} episodes, 95% intervals; {self.guarantee}"
        if self.cut > 0:
            words += (
                f"\n{self.cut:.0%} of the episodes were cut short: what would follow is missing"
            )
        return "\n".join([*lines, words])


def evaluate_risk(
    env: Environment[Any],
    act: Act,
    target: Any,
    order: float = 1,
    *,
    key: Array,
    n_episodes: int = 10_000,
    max_steps: int | None = None,
) -> RiskNumbers:
    """Run fresh episodes of a policy and put the three numbers of risk side by side.

    ``target`` is a number, a target such as `Centralised`, or a function of the transition.

    >>> import jax, jax.numpy as jnp
    >>> from downside.environments import Portfolio
    >>> from downside.signals import Centralised
    >>> never = lambda obs, key: jnp.asarray(0)
    >>> numbers = evaluate_risk(Portfolio(), never, Centralised(), key=jax.random.key(0),
    ...                         n_episodes=50)
    >>> print(numbers.mean, "|", numbers.proxy)
    0.1970 [0.1970, 0.1970] | 0.0000 [0.0000, 0.0000]
    """
    goal = as_target(target)
    if isinstance(goal, TDError):
        raise ValueError(
            "TDError() needs the value function of the policy; learn one, or evaluate with "
            "Centralised() or a number"
        )
    signal = Proxy(goal, env.discount, env.horizon, order)
    measure = Partial(_measure, signal)
    sums = rollout(env, act, key, n_episodes, measure=measure, max_steps=max_steps)
    returns, targets, signals = (np.asarray(x, float) for x in sums.discounted)
    return RiskNumbers.of_episodes(
        returns, targets, signals, goal, order, cut=float(1.0 - np.mean(sums.ended))
    )


def _measure(signal: Proxy, transition: Transition[Any]) -> tuple[Array, Array, Array]:
    """Reward, target and signal of one step."""
    nothing = Predictions()
    step_target = signal.target.step_target(transition, nothing, signal.discount, signal.horizon)
    return transition.reward, jnp.asarray(step_target), signal.cumulant(transition, nothing)


def _shortfalls(targets: np.ndarray, returns: np.ndarray, order: float) -> np.ndarray:
    """((target - G)+)^order, episode by episode."""
    return lower_partial_moment(returns[:, None], targets[:, None], order, axis=1)
