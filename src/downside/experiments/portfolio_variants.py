"""Other ways to the portfolio's frontier: other methods, and the presets with one thing changed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array

from downside.agents import FixedMultiplier
from downside.bases import Custom
from downside.environments import WithReturn
from downside.environments.base import Transition
from downside.experiments.portfolio_runs import (
    CASH,
    ENV,
    N_ORDERS,
    PRESETS,
    SCALED,
    SIZES,
    InBatches,
    Settings,
    settings_of,
)
from downside.policies import Gibbs
from downside.signals import Penalty, Reward, Shortfall, shortfall
from downside.training.mean_reward import MeanReward

INF = float("inf")
NUS = (0.1, 0.3, 0.5, 0.8, INF)  # bounds on the proxy, as in Fig. 4 but fewer
MULTIPLIERS = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0, 10.0)
LPMS = (0.03, 0.05, 0.07, 0.09, INF)  # bounds on the discounted LPM
SHORTFALLS = (0.002, 0.004, 0.006, 0.008, INF)  # the same about the constant `CASH`
TENFOLD = 10.0


@dataclass(frozen=True)
class Variant:
    """What is swept (bounds, or multipliers), and the learner at one of its values.

    ``like`` is what it is compared with, at ``share`` of its steps. ``measure`` is what the bounds
    are on, "" where nothing is bounded. Variants of the same ``batch`` are trained as one.
    """

    sweep: tuple[float, ...]
    learner: Callable[[float], Settings]
    like: str = "recommended"
    measure: str = "proxy"
    share: float = 1.0
    batch: str = ""


def _batches(
    nu: float, direction: Any = "natural", trace_decay: float = 0.9, **changes: Any
) -> Any:
    return replace(settings_of(InBatches(direction, trace_decay), nu), **changes)


def _monte_carlo(nu: float) -> Settings:
    """REINFORCE: whole returns less a baseline that is linear in the policy's features."""
    return _batches(nu, "plain", 1.0, value_features=None, kl=0.05)


def _fixed(multiplier: float) -> Settings:
    return _batches(INF, multiplier=FixedMultiplier(multiplier))


def _scaled(settings: Settings, scale: float) -> Settings:
    """All that the learner sees of the rewards times a number; so must be its bound."""
    paid, short = (Penalty(Partial(each, scale), ENV.discount) for each in (_reward, _short))
    return replace(settings, signals=(paid, short))


def _reward(scale: Any, transition: Transition[Any]) -> Array:
    return scale * transition.reward


def _short(scale: Any, transition: Transition[Any]) -> Array:
    assert transition.mean_reward is not None
    return scale * shortfall(transition.mean_reward, transition.reward, 1)


def _learnt_mean(nu: float) -> Settings:
    """Products of two observations, each brought to unit size, with weights for every order."""
    n_features = N_ORDERS * len(_products(jnp.ones(len(SIZES))))
    return _batches(nu, mean_reward=MeanReward(Partial(_of_order), n_features, rate=0.01))


def _products(obs: Array) -> Array:
    x = jnp.concatenate([jnp.ones(1, obs.dtype), obs / jnp.asarray(SIZES, obs.dtype)])
    rows, columns = np.triu_indices(len(SIZES) + 1)
    return x[rows] * x[columns]


def _of_order(obs: Array, action: Array) -> Array:
    x = _products(obs)
    return jnp.outer(jnp.where(jnp.arange(N_ORDERS) == action, 1.0, 0.0).astype(x.dtype), x).ravel()


def _lpm_measured(nu: float) -> Settings:
    """The multiplier follows the sampled LPM; the direction is still that of the proxy."""
    return _batches(nu, measure="lpm")


def _lpm_itself(nu: float) -> Settings:
    """The shortfall of the whole return; the policies are the same, blind to the return so far."""
    return _batches(
        nu,
        env=WithReturn(ENV),
        policy=Gibbs(_WITHOUT_RETURN, N_ORDERS),
        signals=(Reward(ENV.discount), Shortfall(CASH, env_discount=ENV.discount)),
        value_features=Partial(_features_with_return),
    )


def _paper_features(obs: Any) -> Any:
    return SCALED.basis(obs[..., : len(SIZES)])


_WITHOUT_RETURN = Custom(_paper_features, SCALED.basis.names)


def _features_with_return(obs: Array, time: Array) -> Array:
    """What was earned and what is missing, beside the rest, and all products of two of them."""
    missing = jnp.maximum(CASH - obs[-2:-1], 0.0)
    x = jnp.concatenate([obs, missing, 1.0 / obs[:1]])
    rows, columns = np.triu_indices(len(SIZES) + 4)
    return jnp.concatenate([x, x[rows] * x[columns]])


def _online(nu: float, scale: float = 1.0, **changes: Any) -> Settings:
    return _scaled(replace(settings_of(PRESETS["figure"], scale * nu), **changes), scale)


SHORTER = "figure, shorter"
VARIANTS: dict[str, Variant] = {
    "Monte-Carlo": Variant(NUS, _monte_carlo),
    "fixed multipliers": Variant(MULTIPLIERS, _fixed, measure=""),
    "learnt mean reward": Variant(NUS, _learnt_mean),
    "rewards x 10": Variant(NUS, lambda nu: _scaled(_batches(TENFOLD * nu), TENFOLD)),
    "LPM measured": Variant(LPMS, _lpm_measured, measure="discounted lpm"),
    "LPM itself": Variant(SHORTFALLS, _lpm_itself, measure="shortfall"),
    SHORTER: Variant(NUS, _online, "figure", share=0.4, batch="online"),
    "figure, rewards x 10": Variant(NUS, lambda nu: _online(nu, TENFOLD), SHORTER, batch="online"),
    "figure, no pre-training": Variant(
        NUS, lambda nu: _online(nu, pretraining=0), SHORTER, batch="online"
    ),
    "figure, not normalised": Variant(
        NUS, lambda nu: _online(nu, step_rule="fixed", step_size=0.5, tile=16), SHORTER
    ),
}
