"""NAC, RCPO and NRCPO: learning a policy, under constraints on risk or without.

Three small constructors of one kind of agent. Each takes one of our environments; learners for
several thresholds and seeds are trained as one batch.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from downside.agent import Agent, Precision
from downside.agents.actor_critic import ActorCritic
from downside.bases.spaces import basis_for
from downside.checks import check_choice, check_count, check_names
from downside.environments.base import Environment
from downside.policies import Gibbs
from downside.policies.base import Policy
from downside.signals import Constraint, Reward
from downside.training.batches import Batches

Way = Literal["batches", "online"]

TABULAR = {"trace_decay": 0.9, "kl": 0.02}
"""Where states are numbered, values are exact and traces may be short: less noise, finer steps."""


def NAC(env: Environment[Any], **options: Any) -> Agent:  # noqa: N802
    """Natural actor-critic: the most reward, whatever the risk.

    >>> from downside.environments import Bandit
    >>> agent = NAC(Bandit(), n_seeds=2).learn(4000, progress_bar=False)
    >>> agent.theta.shape
    (2, 3)
    """
    return build(env, (), direction="natural", **options)


def NRCPO(env: Environment[Any], **options: Any) -> Agent:  # noqa: N802
    """Natural reward-constrained policy optimisation: the most reward with risk <= threshold.

    ``target`` (a number, a target or a function of the transition), ``threshold`` (one, or several
    for a learner each) and ``order``, or ``constraints`` for several at once. See `build` for the
    other options.

    >>> from downside.environments import Portfolio
    >>> from downside.signals import Centralised
    >>> agent = NRCPO(Portfolio(discount=0.99), target=Centralised(), threshold=[0.1, 0.5])
    >>> agent.learn(4000, progress_bar=False).steps
    4000
    """
    return build(env, _settle_constraints(options), direction="natural", **options)


def RCPO(env: Environment[Any], **options: Any) -> Agent:  # noqa: N802
    """Reward-constrained policy optimisation, along the plain gradient; options as for `NRCPO`.

    ``penalised=True`` (online only) learns one critic on reward - multiplier . constraints.
    """
    return build(env, _settle_constraints(options), direction="plain", **options)


def build(
    env: Environment[Any],
    constraints: Sequence[tuple[Constraint, ...]],
    *,
    policy: Policy | None = None,
    way: Way = "batches",
    precision: Precision = "float32",
    seed: int = 0,
    n_seeds: int = 1,
    folder: str | Path | None = None,
    keep: int = 3,
    **settings: Any,
) -> Agent:
    """An agent that learns in batches, or online as the paper does.

    ``constraints`` is a tuple of constraints for each learner of the batch. ``policy`` is a Gibbs
    policy on default features of the observations by default; on numbered states the default
    settings are then those of `TABULAR`. ``precision`` is that of all numbers
    of the run. In ``folder`` the run is saved while it learns, the last ``keep`` checkpoints of it;
    an agent that is made again with the same settings goes on from there. What is left are fields
    of `Batches` or, online, of `ActorCritic`.
    """
    check_choice("way", way, get_args(Way))
    check_choice("precision", precision, get_args(Precision))
    check_count("seed", seed, least=0)
    check_count("n_seeds", n_seeds, least=1)
    check_count("keep", keep, least=1)
    kind = Batches if way == "batches" else ActorCritic
    names = [field.name for field in fields(kind)]
    check_names("setting for this way to learn", settings, names)
    chosen = policy or _default_policy(env)
    if kind is Batches and policy is None and isinstance(env.observation_space, spaces.Discrete):
        settings = {**TABULAR, **settings}
    bounds = constraints or ((),)
    learners = [
        kind(
            env=env,
            policy=chosen,
            signals=(Reward(env.discount), *(c.signal(env.discount, env.horizon) for c in each)),
            thresholds=tuple(float(c.threshold) for c in each),
            **settings,
        )
        for each in bounds
    ]
    return Agent(learners, bounds, n_seeds, seed, precision, folder, keep)


def _settle_constraints(options: dict[str, Any]) -> list[tuple[Constraint, ...]]:
    """Take the constraints out of a constructor's options, one tuple per learner."""
    several = options.pop("constraints", None)
    target = options.pop("target", None)
    threshold = options.pop("threshold", None)
    order = options.pop("order", 1)
    if several is not None:
        if target is not None or threshold is not None:
            raise ValueError("give either constraints=[...], or target= and threshold=, not both")
        return [tuple(several)]
    if target is None or threshold is None:
        raise ValueError(
            "what is bounded? give target= and threshold=, such as target=100.0, threshold=5.0, "
            "or constraints=[ds.Constraint(...), ...]"
        )
    values = np.atleast_1d(np.asarray(threshold, float)).tolist()
    return [(Constraint(target, value, order),) for value in values]


def _default_policy(env: Environment[Any]) -> Policy:
    actions = env.action_space
    if not isinstance(actions, spaces.Discrete):
        raise ValueError(
            f"the actions are {actions}; give policy=, such as ds.Gaussian(...) or ds.Beta(...)"
        )
    return Gibbs(basis_for(env.observation_space), int(actions.n))
