"""What an agent is asked for, and what it cannot be: refused in a sentence, with the remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any, Literal, get_args

import jax
import numpy as np
from gymnasium import spaces

from downside.environments.accumulating import WithReturn
from downside.environments.base import Environment
from downside.policies.base import Policy
from downside.signals import Shortfall
from downside.training.trees import empty

Way = Literal["batches", "online"]

MOST_FEATURES = 5_000
"""Of an observation, where values are fitted by solving for all of them at once."""


def check_first(env: Any, others: tuple[Any, ...]) -> None:
    """Refuse what follows the environment without a name, and habits of another library."""
    if isinstance(env, str) and env.endswith("Policy"):
        raise ValueError(
            f"the first argument is {env!r}, as in Stable-Baselines3; here the environment comes "
            "first and the policy has a default: ds.NRCPO(env, target=..., threshold=...), or "
            "policy='mlp' for a network"
        )
    if others:
        raise ValueError(
            f"{others[0]!r} came after the environment; name the options, such as target="
        )


def check_shortfalls(env: Environment[Any], targets: Sequence[Any]) -> None:
    """A `Shortfall` reads the return so far from the observation."""
    for target in targets:
        if not isinstance(target, Shortfall):
            continue
        if not isinstance(env, WithReturn):
            raise ValueError(
                "ds.Shortfall needs the return so far in the observation; learn in "
                "ds.WithReturn(env)"
            )
        if target.env_discount != env.discount:
            raise ValueError(
                f"env_discount of the Shortfall is {target.env_discount}, and the discount of the "
                f"environment is {env.discount}; give it as env_discount="
            )


HABITS = {
    "gamma": "discount=",
    "learning_rate": "kl=, the size of a policy step in nats, or way='online' with step_size=",
    "n_steps": "period=, the steps of a batch",
    "n_envs": "num_envs=",
    "gae_lambda": "trace_decay=, or online critic=ds.Sarsa(trace_decay)",
    "ent_coef": "temperature=, of learning in batches",
    "policy_kwargs": "policy=, such as ds.Gibbs(basis, 4, hidden=(32, 32))",
    "verbose": "learn(..., progress_bar=)",
    "tensorboard_log": "learn(..., callback=ds.TensorBoard(folder))",
}
"""What settings of Stable-Baselines3 are called here."""


def check_habits(settings: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse names of another library."""
    for name in settings:
        if name in HABITS and name not in known:
            raise ValueError(f"{name}= is of Stable-Baselines3; here it is {HABITS[name]}")


def check_way(
    way: Way, settings: Mapping[str, Any], known: Sequence[str], others: Sequence[str]
) -> None:
    """Refuse what only the other way to learn has."""
    for name in settings:
        if name in others and name not in known:
            there = next(other for other in get_args(Way) if other != way)
            raise ValueError(f"{name}= is a setting of way={there!r}, and this is way={way!r}")


NOT_COUNTED = {"ridge", "trace_decay", "damping", "gain_unit", "centred", "value_features"}
"""Settings that have no part in counting: who gives one of them wants values by regression."""


def check_counting(settings: Mapping[str, Any]) -> None:
    """Refuse what has no part in counting."""
    for name in sorted(NOT_COUNTED & set(settings)):
        raise ValueError(f"{name}= has no part in counted=True; leave one of them out")


def combinations(kind: type[Any], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each block of learners has of its own: every combination of what has several values.

    Numbers may differ between the learners of a batch; what shapes its program may not.

    >>> from downside.training.batches import Batches
    >>> combinations(Batches, {"kl": [0.01, 0.1], "damping": 0.1})
    [{'kl': 0.01}, {'kl': 0.1}]
    """
    several = {name: _listed(name, value) for name, value in settings.items() if _is_many(value)}
    for field in fields(kind):
        if field.name in several and field.metadata.get("static"):
            raise ValueError(
                f"{field.name} is {settings[field.name]!r}, and the learners of a batch share one; "
                "train an agent for each value, as a study does"
            )
    return [dict(zip(several, row, strict=True)) for row in product(*several.values())]


def _is_many(value: Any) -> bool:
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def _listed(name: str, value: Any) -> list[Any]:
    """Several numbers, or rules of one kind."""
    values = list(value) if isinstance(value, list | tuple) else np.asarray(value).tolist()
    numbers = all(isinstance(one, int | float | np.number) for one in values)
    rules = all(is_dataclass(one) and type(one) is type(values[0]) for one in values)
    if not values or not (numbers or rules):
        raise ValueError(
            f"{name} is {value!r}; give one value, a list of numbers, or a list of rules of one "
            "kind, such as [ds.PID(rate=0.1), ds.PID(rate=0.3)]"
        )
    return values


def check_ours(**options: Any) -> None:
    """Refuse what an environment of ours does not take."""
    for name, value in options.items():
        if value not in (None, 1):
            raise ValueError(
                f"{name} is {value!r}, which is for Gymnasium environments; ours have their own "
                "discount and horizon, such as ds.Portfolio(discount=0.99)"
            )


def check_size(policy: Policy, observations: spaces.Space[Any]) -> None:
    """Refuse features whose products, a matrix, would not fit the memory, such as of pictures."""
    example = jax.tree.map(lambda x: x[0], empty(observations, 1))
    n = int(jax.eval_shape(policy.baseline, example).shape[-1])
    if n > MOST_FEATURES:
        raise ValueError(
            f"there are {n:,} features of an observation, and learning in batches solves a system "
            f"of {n:,} equations at every update; at most {MOST_FEATURES:,} are allowed. Show what "
            "matters as fewer numbers (gymnasium.wrappers.TransformObservation; ResizeObservation "
            'for pictures), give basis= with fewer features, or way="online"'
        )
