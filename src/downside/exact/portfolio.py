"""The portfolio's two-number policies: one order while the rate is low, another while it is high.

There is no closed form here; the policies are few enough to simulate them all on the same noise,
and their concave hull is the frontier that a learner is measured against.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from downside.batching import map_batch
from downside.environments.base import Transition
from downside.environments.episodes import run_episode
from downside.environments.portfolio import Portfolio
from downside.moments import lower_partial_moment
from downside.signals import shortfall

_TILE = 64  # episodes of all 121 policies that fit the cache together

PerPolicy = Float[np.ndarray, " policies"]


@dataclass(frozen=True)
class TwoNumberPolicies:
    """One entry per policy; ``orders`` are its orders at the low and at the high rate.

    ``mean``, ``std``, ``lpm1``, ``lpm2`` (about the policy's own mean) and ``minimum`` are of the
    undiscounted return; ``discounted_mean`` and ``proxy`` (target r(s, a), order 1) are
    discounted. The errors are standard errors.
    """

    orders: Int[np.ndarray, "policies 2"]
    mean: PerPolicy
    mean_error: PerPolicy
    discounted_mean: PerPolicy
    discounted_mean_error: PerPolicy
    std: PerPolicy
    lpm1: PerPolicy
    lpm2: PerPolicy
    proxy: PerPolicy
    proxy_error: PerPolicy
    minimum: PerPolicy


@dataclass(frozen=True)
class Hull:
    """The corners of a concave frontier by rising risk; ``indices`` name their policies."""

    indices: Int[np.ndarray, " corners"]
    risk: Float[np.ndarray, " corners"]
    mean: Float[np.ndarray, " corners"]


def two_number_policies(env: Portfolio, key: Array, n_episodes: int = 10_000) -> TwoNumberPolicies:
    """Simulate every (order at the low rate, order at the high rate), all in one compiled call.

    The (max_order + 1)^2 policies meet the same noise, so that their differences are sharper than
    their errors say.

    >>> env = Portfolio(max_order=2)
    >>> policies = two_number_policies(env, jax.random.key(0), n_episodes=100)
    >>> policies.orders[5].tolist(), bool(policies.mean[5] > policies.mean[0])
    ([1, 2], True)
    """
    if not np.all(np.asarray(env.high_rate) > np.asarray(env.low_rate)):
        raise ValueError(
            f"high_rate is {env.high_rate} and low_rate {env.low_rate}; an observation tells the "
            "rates apart only if high_rate is above low_rate"
        )
    choices = np.arange(env.max_order + 1)
    orders = np.stack(np.meshgrid(choices, choices, indexing="ij"), axis=-1).reshape(-1, 2)
    returns, discounted, proxies = (
        np.asarray(x, float) for x in _simulate(env, jnp.asarray(orders), key, n_episodes)
    )
    mean = returns.mean(axis=0)
    return TwoNumberPolicies(
        orders=orders,
        mean=mean,
        mean_error=_standard_error(returns),
        discounted_mean=discounted.mean(axis=0),
        discounted_mean_error=_standard_error(discounted),
        std=returns.std(axis=0),
        lpm1=lower_partial_moment(returns, mean, 1, axis=0),
        lpm2=lower_partial_moment(returns, mean, 2, axis=0),
        proxy=proxies.mean(axis=0),
        proxy_error=_standard_error(proxies),
        minimum=returns.min(axis=0),
    )


def two_number_action(orders: Int[Array, "2"], obs: Float[Array, " n"], key: Array) -> Array:
    """The order of a two-number policy, a function of the observation alone.

    The last entry of the observation is the rate less the mean of the past rates. Every episode
    starts at the low rate, so that mean is below the high rate and never below the low one: the
    rate is high exactly when the entry is above 0.

    >>> obs = jnp.asarray([1.0, 0.0, 0.0, 0.0, 0.0, 0.15])
    >>> int(two_number_action(jnp.asarray([3, 8]), obs, jax.random.key(0)))
    8
    """
    return jnp.where(obs[-1] > 0, orders[1], orders[0])


def concave_hull(risk: ArrayLike, mean: ArrayLike) -> Hull:
    """The upper concave hull, from the least risk (the best mean there) up to the best mean.

    A mixture of two policies lies on the line between them, so the hull is what can be had.

    >>> concave_hull(risk=[0.0, 1.0, 2.0, 4.0], mean=[1.0, 1.2, 3.0, 3.5]).indices.tolist()
    [0, 2, 3]
    """
    risks, means = np.asarray(risk, float), np.asarray(mean, float)
    corners: list[int] = []
    for i in np.lexsort((-means, risks)):
        if corners and means[i] <= means[corners[-1]]:
            continue
        while len(corners) > 1 and _below(risks, means, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(int(i))
    return Hull(np.array(corners), risks[corners], means[corners])


def hull_value(hull: Hull, thresholds: ArrayLike) -> Float[np.ndarray, "..."]:
    """The best mean at a risk of at most each threshold; -inf where no policy is so careful.

    >>> hull = concave_hull(risk=[0.5, 1.0, 2.0], mean=[1.0, 2.0, 2.5])
    >>> hull_value(hull, [0.1, 0.75, 1.2, 9.0]).tolist()
    [-inf, 1.5, 2.1, 2.5]
    """
    return np.asarray(np.interp(np.asarray(thresholds, float), hull.risk, hull.mean, left=-np.inf))


@partial(jax.jit, static_argnames="n_episodes")
def _simulate(env: Portfolio, orders: Array, key: Array, n_episodes: int) -> tuple[Any, Any, Any]:
    """Return, discounted return and discounted proxy: (episodes, policies) each."""

    def episode(key: Array) -> tuple[Array, Array, Array]:
        def of(orders: Array) -> tuple[Array, Array, Array]:
            act = Partial(two_number_action, orders)
            sums = run_episode(env, act, key, _reward_and_shortfall, env.horizon)
            return sums.total[0], *sums.discounted

        return jax.vmap(of)(orders)

    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(n_episodes))
    return map_batch(episode, keys, tile=_TILE)


def _reward_and_shortfall(transition: Transition[Any], next_action: Any) -> tuple[Array, Array]:
    assert transition.mean_reward is not None
    return transition.reward, shortfall(transition.mean_reward, transition.reward, 1)


def _standard_error(samples: Float[np.ndarray, "episodes policies"]) -> PerPolicy:
    return samples.std(axis=0, ddof=1) / np.sqrt(len(samples))


def _below(risks: np.ndarray, means: np.ndarray, left: int, middle: int, right: Any) -> bool:
    """Whether ``middle`` is on or below the line from ``left`` to ``right``."""
    rise = (means[right] - means[left]) * (risks[middle] - risks[left])
    return bool((means[middle] - means[left]) * (risks[right] - risks[left]) <= rise)
