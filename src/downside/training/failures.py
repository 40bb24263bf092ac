"""What stopped a learner: its last period is run again, step by step."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from downside.agents.actor_critic import ActorCritic
from downside.training import batch_learner
from downside.training import learner as online
from downside.training.batches import Batches, BatchLearner
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
BATCH_CAUSES = CAUSES | {
    "the critics' weights": "features or rewards are too large for these numbers; try "
    "precision='float64'",
    "the policy step": "the scores or gains have overflowed; try precision='float64'",
    "the policy": "kl is too large",
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
    quantity, steps = FAILURES[int(learner.failed)], int(learner.steps)
    last = steps + agent.period
    where = f"between steps {steps + 1} and {last}"
    is_hosted = isinstance(agent.env, Hosted)
    if isinstance(agent, Batches):
        causes = BATCH_CAUSES
        if quantity != "a signal":
            where = f"in the update after step {last}"
        elif not is_hosted:
            where = f"at step {_first_bad_signal(agent, learner, key)}"
    else:
        causes = CAUSES
        if not is_hosted:
            found = _replay(agent, learner, key)
            quantity, where = FAILURES[found[1]] or quantity, f"at step {found[0]}"
    return f"{quantity} became non-finite {where}; likely cause: {causes[quantity]}"


def _first_bad_signal(agent: Batches, learner: BatchLearner, key: Array) -> int:
    """The step of a batch at which a signal was not finite, by repeating the period."""
    found, advance = batch_learner.nothing_found(agent), jax.jit(batch_learner.step)
    for mine in _noise(agent, learner, key):
        (learner, found), (_, _, cumulants) = advance(agent, learner, found, mine)
        if not jnp.all(jnp.isfinite(cumulants)):
            break
    return int(learner.steps)


def _noise(agent: Any, learner: Any, key: Array) -> Iterator[Any]:
    """What the steps of the next period draw."""
    n_periods = block_periods(agent.period)
    block, place = divmod(int(learner.steps), n_periods * agent.period)
    noise = draw(agent, jax.random.fold_in(key, block), (n_periods, agent.period))
    for i in range(agent.period):
        yield jax.tree.map(lambda leaf, i=i: leaf[place // agent.period, i], noise)


def _replay(agent: ActorCritic, learner: Learner, key: Array) -> tuple[int, int]:
    """The step at which something first went wrong, and what, by repeating the period."""
    begun = int(learner.steps)
    factors = agent.factors(learner.theta, learner.obs, learner.action, learner.episode.time)
    advance = jax.jit(online.step)
    check = jax.jit(diagnose)
    for i, mine in enumerate(_noise(agent, learner, key)):
        learner, factors = advance(agent, learner, factors, mine)
        wrong = int(check(agent, learner))
        if wrong:
            return begun + i + 1, wrong
    improved = jax.jit(online.improve)(agent, learner)
    return begun + agent.period, int(check(agent, improved))
