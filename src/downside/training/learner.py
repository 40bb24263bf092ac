"""Algorithm 1, for one learner and one step: act, observe, learn, and now and then improve.

Natural Reward Constrained Policy Optimisation with compatible critics: every step updates the
critics of the reward and of what is constrained, every end of an episode the multipliers, every
``period`` steps (over all episodes) the policy, theta <- theta + eta (w_q - multiplier w_rho).
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from downside.agents.actor_critic import ActorCritic, Factors, lagrangian, policy_step
from downside.moments import lower_partial_moment
from downside.records import record
from downside.signals import Predictions


@record
class Episode:
    """Of the current episode: discount^t and sum of each signal, and the plain return."""

    weights: Float[Array, " k"]
    sums: Float[Array, " k"]
    total: Float[Array, ""]
    time: Int[Array, ""]
    start_x: Any

    @staticmethod
    def begin(agent: Any, start_x: Any) -> "Episode":
        """Before its first step."""
        k = len(agent.signals)
        kept = start_x if agent.measure == "critic" else None
        return Episode(jnp.ones(k), jnp.zeros(k), jnp.zeros(()), jnp.asarray(0), kept)

    def extended(self, agent: Any, transition: Any, cumulants: Any) -> "Episode":
        """With one more step."""
        return Episode(
            weights=self.weights * discounts_of(agent),
            sums=self.sums + self.weights * cumulants,
            total=self.total + transition.reward,
            time=transition.time + 1,
            start_x=self.start_x,
        )


@record
class Progress:
    """Sums over the episodes that ended since the last report."""

    episodes: Int[Array, ""]
    returns: Float[Array, ""]
    discounted: Float[Array, " k"]
    norm: Float[Array, ""]

    @staticmethod
    def none(n_signals: int) -> "Progress":
        """Nothing yet."""
        zero = jnp.zeros(())
        return Progress(jnp.asarray(0), zero, jnp.zeros(n_signals), zero)

    def after(self, episode: Episode) -> "Progress":
        """With one more episode."""
        return Progress(
            self.episodes + 1,
            self.returns + episode.total,
            self.discounted + episode.sums,
            self.norm,
        )


@record
class Learner:
    """What is carried from step to step. ``failed`` is 0, or what went wrong (see `FAILURES`)."""

    theta: Float[Array, " P"]
    critic: Any
    multipliers: tuple[Any, ...]
    mean_reward: Any
    mean_return: Float[Array, ""]
    env_state: Any
    obs: Any
    action: Any
    episode: Episode
    gradient: Any
    curvature: Float[Array, ""]
    steps: Int[Array, ""]
    episodes: Int[Array, ""]
    updates: Int[Array, ""]
    failed: Int[Array, ""]
    progress: Progress


FAILURES = ("", "a signal", "the critics' weights", "a multiplier", "the policy step", "the policy")


def start(agent: ActorCritic, key: Array) -> Learner:
    """Before the first step of the first episode."""
    env_key, policy_key, action_key = jax.random.split(key, 3)
    env_state, obs = agent.env.reset(agent.env.draw(env_key))
    theta = jnp.asarray(agent.policy.init(policy_key))
    action = agent.policy.sample(theta, obs, agent.policy.draw(action_key))
    x = agent.features(theta, obs, action, jnp.asarray(0))
    rows = 1 if agent.penalised else len(agent.signals)
    zero, count = jnp.zeros(()), jnp.asarray(0)
    return Learner(
        theta=theta,
        critic=agent.critic.init(x.shape[0], rows),
        multipliers=tuple(agent.multiplier.init() for _ in agent.thresholds),
        mean_reward=None if agent.mean_reward is None else agent.mean_reward.init(),
        mean_return=zero,
        env_state=env_state,
        obs=obs,
        action=action,
        episode=Episode.begin(agent, x),
        gradient=jnp.zeros_like(theta) if agent.direction == "plain" else None,
        curvature=zero,
        steps=count,
        episodes=count,
        updates=count,
        failed=count,
        progress=Progress.none(len(agent.signals)),
    )


def draw(agent: Any, key: Array, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The noise of the environment and of the policy, for ``shape`` steps in bulk."""
    env_key, action_key = jax.random.split(key)
    return agent.env.draw(env_key, shape), agent.policy.draw(action_key, shape)


def run_period(agent: ActorCritic, learner: Learner, noise: Any) -> Learner:
    """``period`` steps and one policy step; a learner that went wrong stays as it was before."""
    factors = agent.factors(learner.theta, learner.obs, learner.action, learner.episode.time)

    def one(carry: tuple[Learner, Factors], noise: Any) -> tuple[tuple[Learner, Factors], None]:
        return step(agent, *carry, noise), None

    (after, _), _ = jax.lax.scan(one, (learner, factors), noise)
    return finish(agent, learner, after)


def finish(agent: ActorCritic, before: Learner, after: Learner) -> Learner:
    """Count the period and make the policy step; ``before`` both where something went wrong."""
    after = replace(after, steps=before.steps + agent.period)
    improved = improve(agent, after)
    wrong = diagnose(agent, improved)
    stopped = replace(before, failed=jnp.where(before.failed > 0, before.failed, wrong))
    return where((before.failed == 0) & (wrong == 0), improved, stopped)


def step(
    agent: ActorCritic, learner: Learner, factors: Factors, noise: Any
) -> tuple[Learner, Factors]:
    """Act, observe, learn, begin anew where the episode is over; ``factors`` make the features."""
    env, policy, theta = agent.env, agent.policy, learner.theta
    env_noise, action_noise = noise
    transition = env.transition(learner.env_state, learner.action, env_noise)
    over = transition.terminated | transition.truncated
    env_state, obs, time = where(
        over,
        (*env.reset(env_noise), jnp.zeros_like(transition.time)),
        (transition.next_state, transition.next_obs, transition.time + 1),
    )
    action = policy.sample(theta, obs, action_noise)
    next_factors = agent.factors(theta, obs, action, time)
    x, next_x = factors.features, next_factors.features
    bootstrap_x = next_x
    if env.truncates:  # what would have followed the last step of an episode that is cut short
        last_action = policy.sample(theta, transition.next_obs, action_noise)
        last = transition.next_obs, last_action, transition.time + 1
        bootstrap_x = jnp.where(over, agent.features(theta, *last), next_x)

    learner, cumulants = learn(agent, learner, x, transition, bootstrap_x)
    learner = count(agent, learner, transition, cumulants, next_x)
    return replace(learner, env_state=env_state, obs=obs, action=action), next_factors


def learn(
    agent: ActorCritic, learner: Learner, x: Any, transition: Any, next_x: Any
) -> tuple[Learner, Float[Array, " k"]]:
    """The critics' update, and the sums that a plain or a KL-sized policy step needs."""
    critic, model, mean_weights = agent.critic, agent.mean_reward, learner.mean_reward
    if model is not None:
        seen = transition.obs, transition.action
        transition = replace(transition, mean_reward=model.predict(mean_weights, *seen))
        mean_weights = model.update(mean_weights, *seen, transition.reward)
    weights = critic.weights(learner.critic)
    before = Predictions(value=weights[0] @ x, next_value=weights[0] @ next_x)
    cumulants = jnp.stack([signal.cumulant(transition, before) for signal in agent.signals])
    discounts = jnp.where(transition.terminated, 0.0, discounts_of(agent))
    multipliers = current_multipliers(agent, learner)

    if agent.penalised:
        penalty = multipliers @ cumulants[1:]
        targets = (cumulants[:1] - penalty, discounts[:1])
    else:
        targets = (cumulants, discounts)
    learnt, _ = critic.update(learner.critic, x, *targets, next_x, agent.critic_step_size)
    if agent.env.truncates:
        cut = critic.cut(learnt, next_x, agent.critic_step_size)
        learnt = where(transition.truncated & ~transition.terminated, cut, learnt)

    gradient, curvature = learner.gradient, learner.curvature
    if agent.direction == "plain" or agent.step_rule == "kl":
        score = x[: learner.theta.shape[0]]
        advantage = score @ lagrangian(weights, multipliers)[: learner.theta.shape[0]]
        curvature = curvature + advantage**2
        if agent.direction == "plain":
            gradient = gradient + learner.episode.weights[0] * advantage * score
    learner = replace(
        learner, critic=learnt, mean_reward=mean_weights, gradient=gradient, curvature=curvature
    )
    return learner, cumulants


def count(
    agent: ActorCritic, learner: Learner, transition: Any, cumulants: Any, next_x: Any
) -> Learner:
    """Add the step to its episode; at the end move the multipliers and begin the next one."""
    over = transition.terminated | transition.truncated
    episode = learner.episode.extended(agent, transition, cumulants)
    found, mean_return = measured(agent, learner, episode)
    states = zip(learner.multipliers, found, agent.thresholds, strict=True)
    done = replace(
        learner,
        multipliers=tuple(agent.multiplier.update(*state) for state in states),
        mean_return=mean_return,
        episodes=learner.episodes + 1,
        episode=Episode.begin(agent, next_x),
        progress=learner.progress.after(episode),
    )
    onward = replace(learner, episode=episode)
    return where(over, done, onward)


def measured(agent: Any, learner: Any, episode: Episode) -> tuple[list[Array], Array]:
    """What each multiplier follows, from a complete episode, and the mean return where it counts.

    The running mean of the return is what "lpm" measures shortfalls from; no other needs it.
    """
    old, new = learner.mean_return, episode.sums[0]
    if agent.measure == "critic":
        values = agent.critic.weights(learner.critic) @ episode.start_x
        return list(values[1:]), old
    if agent.measure == "sampled":
        return list(episode.sums[1:]), old
    mean_return = jnp.where(learner.episodes == 0, new, old + agent.average_weight * (new - old))
    target = mean_return if agent.lpm_target is None else jnp.asarray(agent.lpm_target) * 1.0
    short = lower_partial_moment(new, target, agent.lpm_order)
    return [short] * len(agent.thresholds), mean_return


def improve(agent: ActorCritic, learner: Learner) -> Learner:
    """The policy step, along w_q - sum_i multiplier_i w_i or along the sampled plain gradient."""
    n_params = learner.theta.shape[0]
    weights = agent.critic.weights(learner.critic)
    direction = lagrangian(weights, current_multipliers(agent, learner))[:n_params]
    if agent.direction == "plain":
        direction = learner.gradient / agent.period
    size = agent.step_size(learner.updates) if callable(agent.step_size) else agent.step_size
    change = policy_step(agent.step_rule, size, direction, learner.curvature / agent.period)
    pretrained = learner.episodes >= agent.pretraining
    return replace(
        learner,
        theta=learner.theta + jnp.where(pretrained, change, 0.0),
        updates=learner.updates + pretrained.astype(learner.updates.dtype),
        gradient=None if learner.gradient is None else jnp.zeros_like(learner.gradient),
        curvature=jnp.zeros_like(learner.curvature),
        progress=replace(learner.progress, norm=jnp.sum(direction**2)),
    )


def current_multipliers(agent: Any, learner: Any) -> Float[Array, " c"]:
    """One number per constraint."""
    values = [agent.multiplier.value(state) for state in learner.multipliers]
    return jnp.stack(values) if values else jnp.zeros(0)


def clear_progress(learner: Any) -> Any:
    """Before a chunk."""
    return replace(learner, progress=Progress.none(learner.progress.discounted.shape[0]))


def discounts_of(agent: Any) -> Float[Array, " k"]:
    """The discount of each signal."""
    return jnp.stack([jnp.asarray(signal.discount) * 1.0 for signal in agent.signals])


def diagnose(agent: ActorCritic, learner: Learner) -> Int[Array, ""]:
    """What went wrong in a period, as a place in `FAILURES`."""
    signals = learner.episode.sums, learner.progress.discounted
    weights = agent.critic.weights(learner.critic)
    return first_failure(agent, learner, signals, weights)


def first_failure(agent: Any, learner: Any, signals: Any, weights: Any) -> Int[Array, ""]:
    """0 where all is finite, else the place in `FAILURES` of the first quantity that is not.

    The squared length of the policy step is among them: where it overflows, a normalised step
    would be 0 and the policy would stand still without a word.
    """
    multipliers = current_multipliers(agent, learner)
    quantities = (signals, weights, multipliers, learner.progress.norm, learner.theta)
    wrong = jnp.asarray(0)
    for code in range(len(quantities), 0, -1):
        leaves = jax.tree.leaves(quantities[code - 1])
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves])
        wrong = jnp.where(jnp.all(finite), wrong, code)
    return wrong


def where(condition: Array, first: Any, second: Any) -> Any:
    """Choose between two states as a whole."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)
