"""NAC, RCPO and NRCPO: learning a policy, under constraints on risk or without.

Three small constructors of one kind of agent. Learners for several thresholds, seeds and values of
other settings are trained as one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
from gymnasium import spaces

from downside.agent import Agent, Precision
from downside.agents.actor_critic import ActorCritic
from downside.agents.multiplier import PID
from downside.arrays import is_traced
from downside.asking import (
    NOT_COUNTED,
    Way,
    check_counting,
    check_first,
    check_habits,
    check_ours,
    check_shortfalls,
    check_size,
    check_way,
    combinations,
)
from downside.bases import Basis
from downside.bases.layout import Layout
from downside.bases.spaces import basis_for
from downside.checks import check_choice, check_count, check_names
from downside.defaults import (
    HIDDEN,
    Clock,
    PolicyName,
    default_policy,
    hosting_for,
    limit_on_host,
    mean_reward_for,
    problem_of,
)
from downside.environments.base import Environment
from downside.environments.gymnasium import GymnasiumEnv
from downside.environments.python import wrap
from downside.policies import Gibbs
from downside.policies.actions import ActionMap
from downside.policies.base import Policy
from downside.recipes import write_recipe
from downside.signals import Centralised, Constraint, Reward, TDError
from downside.training.batches import Batches
from downside.training.counting import MOST_MOVES
from downside.training.cutting import usual_limit
from downside.training.fisher import states_of
from downside.training.hosting import Hosting

SPREAD: dict[str, Any] = {
    "risk_unit": "spread",
    "multiplier": PID(rate=0.2, gain=4.0, weight=0.5, growing=True),
}
"""Risks measured in their spread: where all policies have much risk in common, little of a
difference would be left in units of its size, and the multiplier would come too late."""

HOST = {"period": 2000, "trace_decay": 0.95, "damping": 0.5, "centred": True} | SPREAD
"""Default settings on Python environments, beside those of `Batches`."""

TABULAR = {"trace_decay": 0.9, "kl": 0.02, "damping": 0.1, "centred": False}
"""Where states are numbered, values are exact and traces may be short: less noise, finer steps.
Each state has its own values, and what they lack is not the same in all of them."""

SEVERAL_STATES = {
    "temperature": 0.5,
    "kl": 0.03,
    "damping": 0.6,
    "annealed": True,
    "gain_unit": "batch",
    "risk_unit": "spread",
    "multiplier": PID(rate=0.4, gain=4.0, weight=0.5, growing=True),
}
"""Every state learns for itself: each needs entropy, lest it settle on what it tried first, or
on what was best before the multiplier had found its value. It fades, since it costs reward."""

COUNTED = {
    "period": 1000,
    "kl_steps": 2e4,
    "step_limit": 16.0,
    "memory": 1.0,
}
"""Where steps can be counted, too: what is learnt from a batch is known better, so batches may be
shorter and entropy fade sooner; and no step is forgotten."""


def NAC(env: Any, *args: Any, **options: Any) -> Agent:  # noqa: N802
    """Natural actor-critic: the most reward, whatever the risk.

    >>> from downside.environments import Bandit
    >>> agent = NAC(Bandit(), n_seeds=2).learn(4000, progress_bar=False)
    >>> agent.theta.shape
    (2, 3)
    """
    check_first(env, args)
    return build(env, (), direction="natural", **options)


def NRCPO(env: Any, *args: Any, **options: Any) -> Agent:  # noqa: N802
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
    check_first(env, args)
    return build(env, _settle_constraints(options), direction="natural", **options)


def RCPO(env: Any, *args: Any, **options: Any) -> Agent:  # noqa: N802
    """Reward-constrained policy optimisation, along the plain gradient; options as for `NRCPO`.

    ``penalised=True`` (online only) learns one critic on reward - multiplier . constraints.
    """
    check_first(env, args)
    return build(env, _settle_constraints(options), direction="plain", **options)


def build(
    env: Any,
    constraints: Sequence[tuple[Constraint, ...]],
    *,
    policy: Any = None,
    basis: Basis | None = None,
    way: Way = "batches",
    precision: Precision = "float32",
    seed: int = 0,
    n_seeds: int = 1,
    num_envs: int = 1,
    discount: float | None = None,
    horizon: int | None = None,
    env_options: dict[str, Any] | None = None,
    folder: str | Path | None = None,
    keep: int = 3,
    **settings: Any,
) -> Agent:
    """An agent that learns in batches, or online as the paper does.

    ``env`` is one of our environments, or a Gymnasium id (with ``env_options``), a function that
    makes an environment, an instance, or a vector environment. ``constraints`` is a tuple of
    constraints for each learner of the batch. ``policy`` is one of ours, "linear" or "mlp"; by
    default, and on which ``basis`` of the observations, the spaces say; on numbered states the
    default settings are then those of `TABULAR` and `SEVERAL_STATES`, and of `COUNTED` where the
    problem is discounted or has a horizon. A discounted problem
    without a horizon or a time limit is begun anew after 3 / (1 - discount) steps
    (``episode_limit``), unless it is a vector environment without resets of single copies.
    Where a bound is about mean rewards that the environment does not tell, a model of
    them is learnt in the same pass (``mean_reward``).
    ``num_envs`` copies of a Python environment make one batch together, as those of a vector
    environment do.

    In a Gymnasium environment the return is not discounted by default and its time limit belongs to
    the problem; with a ``discount`` below 1 the limit only cuts the experience short, unless
    ``horizon`` is given. ``precision`` is that of all numbers of the run. In ``folder`` the run is
    saved while it learns, the last ``keep`` checkpoints of it; an agent that is made again with the
    same settings goes on from there. What is left are fields of `Batches` or, online, of
    `ActorCritic`; where a number has several values, each combination of them has learners of its
    own.
    """
    check_choice("way", way, get_args(Way))
    check_choice("precision", precision, get_args(Precision))
    check_count("seed", seed, least=0)
    check_count("n_seeds", n_seeds, least=1)
    check_count("num_envs", num_envs, least=1)
    check_count("keep", keep, least=1)
    kind, other = (Batches, ActorCritic) if way == "batches" else (ActorCritic, Batches)
    known = [field.name for field in fields(kind)]
    check_habits(settings, known)
    check_way(way, settings, known, [field.name for field in fields(other)])
    check_names("setting for this way to learn", settings, known)
    defaults: dict[str, Any] = {}
    if isinstance(env, Environment):
        check_ours(discount=discount, horizon=horizon, env_options=env_options, num_envs=num_envs)
        check_shortfalls(env, [one.target for some in constraints for one in some])
        hosting, observations = None, env.observation_space
        chosen = policy if isinstance(policy, Policy) else _policy_of_ours(env, policy, basis)
        limit = None if is_traced(env.discount) else usual_limit(float(env.discount), env.horizon)
        ending, lasting = env.horizon, limit is not None
    else:
        hosting = hosting_for(env, env_options, discount, horizon)
        host, observations = hosting.first, hosting.first.observation_space
        num_envs = _copies_of(hosting, num_envs)
        if isinstance(policy, Policy):
            chosen = policy
        else:
            chosen = default_policy(host, basis, _named(policy))
        if host.horizon is not None and kind is Batches:
            defaults["value_features"] = Clock(host.horizon)
        if _needs_means(constraints) and not hosting.means and "mean_reward" not in settings:
            defaults["mean_reward"] = mean_reward_for(host)
        limit = limit_on_host(host)
        ending, lasting = host.horizon, usual_limit(host.discount, host.horizon) is not None
        defaults |= _on_host(kind, num_envs, settings)
    if kind is Batches and limit is not None:
        defaults["episode_limit"] = limit
    if kind is Batches and policy is None and isinstance(observations, spaces.Discrete):
        defaults |= TABULAR | (SEVERAL_STATES if observations.n > 1 else {})
        if (lasting or ending is not None) and "counted" not in settings:
            learnt = "mean_reward" in settings | defaults
            settings |= _counting(chosen, constraints, settings, learnt, ending)
    if settings.get("counted"):
        check_counting(settings)
        defaults.pop("value_features", None)
        period = COUNTED["period"] if COUNTED["period"] % num_envs == 0 else HOST["period"]
        defaults |= COUNTED | {"period": period}
    settings |= {name: value for name, value in defaults.items() if name not in settings}
    if kind is Batches:
        check_size(chosen, observations)
    made = Made(
        way, chosen, list(constraints or ((),)), settings, precision, seed, n_seeds, num_envs
    )
    return assemble(env, hosting, made, folder, keep)


@dataclass(frozen=True)
class Made:
    """All that makes an agent but its environment, with every default settled."""

    way: Way
    policy: Policy
    bounds: Sequence[tuple[Constraint, ...]]
    settings: dict[str, Any]
    precision: Precision
    seed: int
    n_seeds: int
    num_envs: int


def assemble(
    env: Any,
    hosting: Hosting | None,
    made: Made,
    folder: str | Path | None = None,
    keep: int = 3,
) -> Agent:
    """The agent; ``hosting`` is for environments that are not ours."""
    kind = Batches if made.way == "batches" else ActorCritic
    problem = env if hosting is None else problem_of(hosting.first, made.num_envs)
    reward = Reward(problem.discount)
    variants = combinations(kind, made.settings)
    learners = [
        kind(
            env=problem,
            policy=made.policy,
            signals=(reward, *(c.signal(problem.discount, problem.horizon) for c in each)),
            thresholds=tuple(float(c.threshold) for c in each),
            **made.settings | variant,
        )
        for variant in variants
        for each in made.bounds
    ]
    return Agent(
        learners,
        [each for _ in variants for each in made.bounds],
        made.n_seeds,
        made.seed,
        made.precision,
        folder,
        keep,
        hosting,
        write_recipe({"env": {"ours": env} if hosting is None else _told(hosting), **vars(made)}),
        [variant for variant in variants for _ in made.bounds],
    )


def spaces_of(hosting: Hosting) -> dict[str, Any]:
    """What a policy can see of the spaces of an environment."""
    first = hosting.first
    return {
        "observations": Layout.of(first.observation_space),
        "actions": ActionMap.of(first.action_space),
    }


def _told(hosting: Hosting) -> dict[str, Any]:
    return hosting.named | {"spaces": spaces_of(hosting)}


def _on_host(kind: type[Any], num_envs: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Default settings on Python environments."""
    if kind is ActorCritic and num_envs > 1:
        raise ValueError(
            f"num_envs is {num_envs}, and online learning follows one stream; leave way= out to "
            "learn in batches, or give n_seeds= for more agents"
        )
    period = settings.get("period", HOST["period"] if kind is Batches else 200)
    if period % num_envs:
        raise ValueError(
            f"the period of {period} steps cannot be split over num_envs={num_envs}; "
            f"give period={-(-period // num_envs) * num_envs}"
        )
    return HOST if kind is Batches else {}


def _counting(
    policy: Policy,
    constraints: Sequence[tuple[Constraint, ...]],
    settings: dict[str, Any],
    learnt: bool,
    horizon: int | None,
) -> dict[str, Any]:
    """Settings that count the steps of a problem with a horizon or a discount, where that is apt.

    Older steps fade soon where signals depend on what was learnt, as on mean rewards that are.
    """
    n_states = states_of(policy)
    targets = [one.target for each in constraints for one in each]
    has_td_errors = any(isinstance(target, TDError) for target in targets)
    if horizon is None:
        unfit = any(getattr(target, "discount", 0.0) >= 1.0 for target in targets)
    else:
        unfit = has_td_errors  # of values that do not know the time
    if n_states is None or unfit or NOT_COUNTED & set(settings):
        return {}
    if n_states == 1 or (horizon or 1) * n_states * policy.n_params > MOST_MOVES:
        return {}
    signals_change = learnt or has_td_errors
    return {"counted": True} | (
        {"memory": 0.98} if signals_change and "memory" not in settings else {}
    )


def _copies_of(hosting: Hosting, num_envs: int) -> int:
    """How many streams one agent has."""
    there = hosting.num_envs
    if there is not None and num_envs not in (1, there):
        raise ValueError(
            f"num_envs is {num_envs}, and the vector environment has {there} copies; "
            "leave num_envs= out"
        )
    return there or num_envs


def _needs_means(constraints: Sequence[tuple[Constraint, ...]]) -> bool:
    """Whether a bound is about the mean rewards."""
    return any(isinstance(one.target, Centralised) for each in constraints for one in each)


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
    values = np.atleast_1d(np.asarray(threshold, float))
    if values.ndim > 1 or not values.size:
        raise ValueError(f"threshold is {threshold!r}; give a number, or a list of numbers")
    return [(Constraint(target, value, order),) for value in values.tolist()]


def _policy_of_ours(env: Environment[Any], name: Any, basis: Basis | None) -> Policy:
    actions, named = env.action_space, _named(name)
    if not isinstance(actions, spaces.Discrete):
        return default_policy(wrap(GymnasiumEnv(env)), basis, named)
    hidden = HIDDEN if named == "mlp" else ()
    return Gibbs(basis or basis_for(env.observation_space), int(actions.n), hidden=hidden)


def _named(policy: Any) -> PolicyName:
    if policy is None:
        return "linear"
    if policy not in get_args(PolicyName):
        raise ValueError(
            f"policy is {policy!r}; give 'linear', 'mlp', or a policy such as ds.Gibbs(basis, 4)"
        )
    return policy
