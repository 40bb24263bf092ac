"""Learning from steps that a Python environment made: one compiled call per policy period.

The policy changes at the end of a period only, so the host acts for a whole period, records, and
hands the record over. What is learnt from it is what the compiled engine learns.
"""

from dataclasses import replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from downside.agents.actor_critic import ActorCritic
from downside.batching import map_batch
from downside.environments.base import Transition
from downside.records import record, static
from downside.training import batch_learner, learner
from downside.training.batches import Batches
from downside.training.learner import clear_progress, where
from downside.training.run import Report, Settings, report_of, typed

TILE = 1
"""Learners one after the other: so their bits depend on nobody, and none is there to fill up."""


@final
@record
class Hosted:
    """In the place of an environment, where the host acts: what a learner must know of it.

    ``example`` is an observation; ``n_streams`` copies of the environment make one batch.
    """

    truncates = True

    discount: Any
    example: Any
    horizon: int | None = static(default=None)
    n_streams: int = static(default=1)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> None:
        """The host draws."""

    def reset(self, noise: None) -> tuple[None, Any]:
        """An observation, so that sizes are known."""
        return None, self.example


@record
class Recorded:
    """A period of one learner: arrays (streams, steps, ...).

    ``action`` is what the policy said, ``done`` what the environment was told. Online,
    ``next_action`` goes with ``next_obs``, and ``last`` is the observation and the action with
    which the next period begins.
    """

    obs: Any
    action: Any
    done: Any
    reward: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    time: Any
    mean_reward: Any = None
    next_action: Any = None
    last: Any = None


def start_recorded(settings: Settings, keys: Array) -> Any:
    """Every learner before its first period, with an episode for each stream."""
    return _start_all(settings, keys)


def learn_recorded(
    settings: Settings, learners: Any, recorded: Recorded, *, fresh: bool = True
) -> tuple[Any, Report]:
    """One period of every learner; the report counts from here on, or from where the last began."""
    return _learn_all(settings, learners, recorded, fresh)


def learn_batches(agent: Batches, before: Any, recorded: Recorded) -> Any:
    """A batch from the streams, one after the other; nothing is summed across them."""
    one = partial(transition_of, agent.env.discount)
    transitions = jax.vmap(jax.vmap(one))(recorded)
    first = replace(before, episode=jax.tree.map(lambda x: x[0], before.episode))

    def expect(weights: Any, transition: Any) -> tuple[Any, Any]:
        return batch_learner.expect(agent, weights, transition)

    flat, mean_weights = _flat(transitions), before.mean_reward
    if agent.mean_reward is not None:
        mean_weights, flat = jax.lax.scan(expect, mean_weights, flat)
    cumulants = jax.vmap(partial(batch_learner.cumulants_of, agent, before.weights))(flat)
    remember = partial(batch_learner.remember, agent, before.theta)
    steps = jax.vmap(remember)(_flat(recorded.action), flat, cumulants)
    transitions, cumulants = _like(transitions, flat), _like(transitions, cumulants)

    def count(carry: Any, row: Any) -> tuple[Any, None]:
        state, found = carry
        return batch_learner.count(agent, state, found, *row), None

    def stream(carry: Any, one: Any) -> tuple[Any, Any]:
        (state, found), (episode, *rows) = carry, one
        begun = replace(state, episode=episode), found
        (state, found), _ = jax.lax.scan(count, begun, tuple(rows))
        return (state, found), state.episode

    rows = before.episode, transitions, cumulants
    (after, found), episodes = jax.lax.scan(
        stream, (first, batch_learner.nothing_found(agent)), rows
    )
    after = replace(after, episode=episodes, mean_reward=mean_weights)
    ends = jnp.zeros_like(recorded.terminated).at[:, -1].set(True)
    steps = replace(steps, over=steps.over | ends.reshape(-1))
    return batch_learner.learn_batch(agent, before, after, found, steps)


def learn_online(agent: ActorCritic, before: Any, recorded: Recorded) -> Any:
    """Step by step, as Algorithm 1 does; there is one stream."""
    mine = jax.tree.map(lambda x: x[0], recorded)
    episode = jax.tree.map(lambda x: x[0], before.episode)
    steps = replace(mine, last=None)
    transitions = jax.vmap(partial(transition_of, agent.env.discount))(steps)
    features = partial(agent.features, before.theta)
    x = jax.vmap(features)(mine.obs, mine.action, mine.time)
    next_x = jax.vmap(features)(mine.next_obs, mine.next_action, mine.time + 1)
    over = mine.terminated[-1] | mine.truncated[-1]
    last_obs, last_action = mine.last
    last_x = features(last_obs, last_action, jnp.where(over, 0, mine.time[-1] + 1))
    following_x = jnp.concatenate([x[1:], last_x[None]])

    def one(state: Any, row: Any) -> tuple[Any, None]:
        transition, x, next_x, following_x = row
        state, cumulants = learner.learn(agent, state, x, transition, next_x)
        return learner.count(agent, state, transition, cumulants, following_x), None

    begun = replace(before, episode=episode)
    after, _ = jax.lax.scan(one, begun, (transitions, x, next_x, following_x))
    found = learner.finish(agent, begun, after)
    return replace(found, episode=jax.tree.map(lambda x: x[None], found.episode))


def transition_of(discount: Any, recorded: Recorded) -> Transition[Any]:
    """One step."""
    return Transition(
        obs=recorded.obs,
        action=recorded.done,
        reward=recorded.reward,
        mean_reward=recorded.mean_reward,
        next_obs=recorded.next_obs,
        next_state=None,
        discount=jnp.where(recorded.terminated, 0.0, jnp.asarray(discount) * 1.0),
        terminated=recorded.terminated,
        truncated=recorded.truncated,
        time=recorded.time,
    )


def _flat(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _like(shaped: Any, flat: Any) -> Any:
    n_streams, n_steps = shaped.reward.shape
    return jax.tree.map(lambda x: x.reshape(n_streams, n_steps, *x.shape[1:]), flat)


def _floats(tree: Any) -> Any:
    """Fractions in the width of the run."""
    return jax.tree.map(
        lambda x: x.astype(float) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


@jax.jit
def _start_all(settings: Settings, keys: Array) -> Any:
    way = batch_learner if isinstance(settings, Batches) else learner

    def one(pair: tuple[Any, Array]) -> Any:
        agent, key = pair
        state = way.start(agent, key)
        repeat = lambda x: jnp.repeat(x[None], agent.env.n_streams, axis=0)  # noqa: E731
        state = replace(state, obs=None, episode=jax.tree.map(repeat, state.episode))
        return typed(state if way is batch_learner else replace(state, action=None))

    return map_batch(one, (settings, keys), tile=TILE)


@jax.jit
def _learn_all(
    settings: Settings, learners: Any, recorded: Recorded, fresh: Any
) -> tuple[Any, Report]:
    learn = learn_batches if isinstance(settings, Batches) else learn_online

    def one(batch: tuple[Any, Any, Recorded]) -> tuple[Any, Report]:
        agent, state, steps = batch
        state = where(fresh, clear_progress(state), state)
        state = learn(agent, state, _floats(steps))
        return typed(state), report_of(agent, state)

    return map_batch(one, (settings, learners, recorded), tile=TILE)
