"""The loop of a learner in batches: act for a period, remember the steps, learn from them."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.signals import Predictions
from downside.training.batch_update import (
    advantages,
    fit_values,
    improve,
    move_multipliers,
    returns_to_go,
)
from downside.training.batches import Batches, BatchLearner, Found, Steps
from downside.training.counting import visits_of
from downside.training.counting_update import (
    count_values,
    expected,
    improve_counted,
    nothing_counted,
)
from downside.training.cutting import cut_short, with_the_rest
from downside.training.fisher import Scores
from downside.training.learner import (
    Episode,
    Progress,
    discounts_of,
    first_failure,
    measured,
    where,
)
from downside.training.settling import begin_settling, settle
from downside.training.units import units_before


def start(agent: Batches, key: Array) -> BatchLearner:
    """Before the first step of the first episode."""
    env_key, policy_key = jax.random.split(key)
    env_state, obs = agent.env.reset(agent.env.draw(env_key))
    n, k = agent.features(obs, jnp.asarray(0)).shape[0], len(agent.signals)
    zero, count = jnp.zeros(()), jnp.asarray(0)
    theta = jnp.asarray(agent.policy.init(policy_key))
    return BatchLearner(
        theta=theta,
        gram=jnp.zeros((n, n)),
        moment=jnp.zeros((k, n)),
        weights=jnp.zeros((k, n)),
        scale=jnp.ones(n),
        units=units_before(agent, k),
        spread=zero,
        reach=zero,
        multipliers=tuple(agent.multiplier.init() for _ in agent.thresholds),
        mean_reward=None if agent.mean_reward is None else agent.mean_reward.init(),
        mean_return=zero,
        env_state=env_state,
        obs=obs,
        episode=Episode(jnp.ones(k), jnp.zeros(k), zero, count, None),
        steps=count,
        episodes=count,
        updates=count,
        failed=count,
        progress=Progress.none(k),
        settling=begin_settling(agent, theta),
        counts=nothing_counted(agent, n, theta.shape[0] // n),
    )


def run_period(agent: Batches, learner: BatchLearner, noise: Any) -> BatchLearner:
    """One batch and one policy step; a learner that went wrong stays as it was before."""

    def one(carry: Any, noise: Any) -> tuple[Any, Any]:
        learner, found = carry
        return step(agent, learner, found, noise)

    (after, found), seen = jax.lax.scan(one, (learner, nothing_found(agent)), noise)
    steps = jax.vmap(partial(remember, agent, learner.theta))(*seen)
    return learn_batch(agent, learner, after, found, steps)


def learn_batch(
    agent: Batches, before: BatchLearner, after: BatchLearner, found: Found, steps: Steps
) -> BatchLearner:
    """Values, multipliers and policy from a batch; ``before`` it, and ``after`` its last step."""
    returns = returns_to_go(steps, steps.next_x @ before.weights.T)
    if agent.counted:
        after, predicted = count_values(agent, after, steps, returns)
        after = move_multipliers(agent, after, expected(agent, found, predicted))
        after = improve_counted(agent, after, jnp.mean(steps.x, axis=0), predicted.advantages)
    else:
        after = fit_values(agent, after, steps.x, returns)
        after = move_multipliers(agent, after, found)
        after = improve(agent, after, steps, advantages(agent, after, steps))
    visits = visits_of(agent, before.theta, steps) if agent.counted else None
    after = settle(after, visits)
    wrong = first_failure(agent, after, (steps.cumulants,), after.weights)
    stopped = replace(before, failed=jnp.where(before.failed > 0, before.failed, wrong))
    return where((before.failed == 0) & (wrong == 0), after, stopped)


def nothing_found(agent: Batches) -> Found:
    """Before the first step of a batch."""
    return Found(jnp.zeros(()), jnp.zeros(agent.n_constraints))


def step(
    agent: Batches, learner: BatchLearner, found: Found, noise: Any
) -> tuple[tuple[BatchLearner, Found], tuple[Any, Any, Array]]:
    """Act, observe, count, and begin anew where the episode is over.

    Gives what `remember` is told: only then, when all steps are made, are their features and scores
    computed, all at once.
    """
    env_noise, action_noise = noise
    action = agent.policy.sample(learner.theta, learner.obs, action_noise)
    transition = cut_short(agent, agent.env.transition(learner.env_state, action, env_noise))
    mean_weights, transition = expect(agent, learner.mean_reward, transition)
    cumulants = cumulants_of(agent, learner.weights, transition)
    over = transition.terminated | transition.truncated
    onward = transition.next_state, transition.next_obs
    env_state, obs = where(over, agent.env.reset(env_noise), onward)
    learner, found = count(agent, learner, found, transition, cumulants)
    learner = replace(learner, env_state=env_state, obs=obs, mean_reward=mean_weights)
    return (learner, found), (action, replace(transition, next_state=None), cumulants)


def expect(agent: Batches, mean_weights: Any, transition: Any) -> tuple[Any, Any]:
    """With the learnt mean reward, where there is a model of it, and the model a step further."""
    model = agent.mean_reward
    if model is None:
        return mean_weights, transition
    seen = transition.obs, transition.action
    predicted = model.predict(mean_weights, *seen)
    learnt = model.update(mean_weights, *seen, transition.reward)
    return learnt, replace(transition, mean_reward=predicted)


def cumulants_of(agent: Batches, weights: Float[Array, "k n"], transition: Any) -> Array:
    """What each signal says of a step, before its values were learnt from it."""
    x, next_x = _features_of(agent, transition)
    before = Predictions(value=weights[0] @ x, next_value=weights[0] @ next_x)
    return jnp.stack([signal.cumulant(transition, before) for signal in agent.signals])


def remember(agent: Batches, theta: Array, action: Any, transition: Any, cumulants: Any) -> Steps:
    """What a batch needs of one step; ``action`` is what the policy said."""
    x, next_x = _features_of(agent, transition)
    return Steps(
        x=x,
        next_x=next_x,
        scores=Scores.of(agent.policy, theta, transition.obs, action),
        log_prob=agent.policy.log_prob(theta, transition.obs, action),
        cumulants=cumulants,
        discounts=jnp.where(transition.terminated, 0.0, discounts_of(agent)),
        over=transition.terminated | transition.truncated,
        action=action,
        time=transition.time,
    )


def _features_of(agent: Batches, transition: Any) -> tuple[Array, Array]:
    """Before and after a step."""
    return (
        agent.features(transition.obs, transition.time),
        agent.features(transition.next_obs, transition.time + 1),
    )


def count(
    agent: Batches, learner: BatchLearner, found: Found, transition: Any, cumulants: Any
) -> tuple[BatchLearner, Found]:
    """Add the step to its episode; at the end, the episode to what was found."""
    over = transition.terminated | transition.truncated
    episode = learner.episode.extended(agent, transition, cumulants)
    episode = with_the_rest(agent, learner, episode, transition)
    values, mean_return = measured(agent, learner, episode)
    done = replace(
        learner,
        mean_return=mean_return,
        episodes=learner.episodes + 1,
        episode=Episode.begin(agent, None),
        progress=learner.progress.after(episode),
    )
    learner = where(over, done, replace(learner, episode=episode))
    if agent.thresholds:
        counted = Found(found.episodes + 1.0, found.measured + jnp.stack(values))
        found = where(over, counted, found)
    return replace(learner, steps=learner.steps + 1), found
