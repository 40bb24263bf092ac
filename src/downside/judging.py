"""Fresh episodes of one learner's policy, in one of our environments or in a Python one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from downside.evaluation import Evaluation, evaluate_host, evaluate_risk
from downside.policies.base import Policy
from downside.signals import Constraint, Fixed, Target
from downside.training.hosting import Hosting, acting

FRESH = 0x66726573
"""Keeps the noise of evaluations apart from that of any training."""


def evaluate_ours(
    env: Any, policy: Policy, theta: Any, goal: tuple[Any, float], seed: int, **options: Any
) -> Evaluation:
    """In compiled episodes; ``goal`` is target and order."""
    if options.get("means") is not None and _knows_means(env, policy, theta):
        options["means"] = None
    choose = _most_likely if options["deterministic"] else _act
    return evaluate_risk(
        env,
        Partial(choose, policy, jnp.asarray(theta)),
        *goal,
        key=jax.random.fold_in(jax.random.key(seed), FRESH),
        **options,
    )


def evaluate_hosted(
    hosting: Hosting, policy: Policy, theta: Any, goal: tuple[Any, float], **options: Any
) -> Evaluation:
    """On the host; ``goal`` is target and order."""
    host, is_spare = hosting.for_evaluation()
    act = acting(policy, theta, host.action_space, deterministic=options["deterministic"])
    try:
        return evaluate_host(host, act, *goal, **options)
    finally:
        if is_spare:
            host.close()


def judged_by(constraints: tuple[Constraint, ...]) -> tuple[Target, float]:
    """Target and order of the first constraint that has them; a fixed target of 0 if none."""
    for constraint in constraints:
        if isinstance(constraint.target, Target):
            return constraint.target, constraint.order
    return Fixed(0.0), 1


def _knows_means(env: Any, policy: Policy, theta: Any) -> bool:
    state, obs = env.reset(env.draw(jax.random.key(0)))
    action = _act(policy, jnp.asarray(theta), obs, jax.random.key(0))
    return env.mean_reward(state, action) is not None


def _act(policy: Policy, theta: Any, obs: Any, key: Any) -> Any:
    return policy.sample(theta, obs, policy.draw(key))


def _most_likely(policy: Policy, theta: Any, obs: Any, key: Any) -> Any:
    return policy.mode(theta, obs)
