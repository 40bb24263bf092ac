"""What stopped a learner: its last period is run again, step by step."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import jax
from jaxtyping import Array

from downside.agents.actor_critic import ActorCritic
from downside.training import learner as online
from downside.training.learner import FAILURES, Learner, diagnose, draw
from downside.training.recorded import Hosted
from downside.training.run import block_periods

CAUSES = {
    "a signal": "the environment gave a reward or a target that is not finite",
    "the critics' weights": "the critics' step size is too large for these features",
    "a multiplier": "the multiplier's rate is too large",
    "the policy step": "the weights have overflowed; the critics' step size is too large",
    "the policy": "the policy's step size is too large",
}


@contextmanager
def told_of_functions() -> Generator[None]:
    """A function of the user that cannot be compiled, in words."""
    try:
        yield
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            "a function of yours (a target, a basis, features) cannot be compiled: "
            f"{str(error).splitlines()[0]}; write it with jax.numpy, and jnp.where in the place "
            "of if"
        ) from error


def explain(agent: Any, learner: Any, key: Array) -> str:
    """In words: which quantity, at which step, and the likely cause."""
    quantity = FAILURES[int(learner.failed)]
    steps = int(learner.steps)
    where = f"between steps {steps + 1} and {steps + agent.period}"
    if isinstance(agent, ActorCritic) and not isinstance(agent.env, Hosted):
        found = _replay(agent, learner, key)
        quantity, where = FAILURES[found[1]] or quantity, f"at step {found[0]}"
    return f"{quantity} became non-finite {where}; likely cause: {CAUSES[quantity]}"


def _replay(agent: ActorCritic, learner: Learner, key: Array) -> tuple[int, int]:
    """The step at which something first went wrong, and what, by repeating the period."""
    n_periods = block_periods(agent.period)
    begun = int(learner.steps)
    block, place = divmod(begun, n_periods * agent.period)
    noise = draw(agent, jax.random.fold_in(key, block), (n_periods, agent.period))
    x = agent.features(learner.theta, learner.obs, learner.action, learner.episode.time)
    advance = jax.jit(online.step)
    check = jax.jit(diagnose)
    for i in range(agent.period):
        mine = jax.tree.map(lambda leaf, i=i: leaf[place // agent.period, i], noise)
        learner, x = advance(agent, learner, x, mine)
        wrong = int(check(agent, learner))
        if wrong:
            return begun + i + 1, wrong
    improved = jax.jit(online.improve)(agent, learner)
    return begun + agent.period, int(check(agent, improved))
