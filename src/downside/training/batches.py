"""The same method in batches: fewer samples, and no dependence on the reward's scale.

Every ``period`` steps: values of reward and risk by ridge regression over the recent batches,
advantages with a trace, a multiplier with a proportional part, and a natural step of a given size
in nats. All signals are divided by their own size in the first batch, so that the settings mean
the same whatever the units of the reward.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, final, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from downside.agents.actor_critic import Direction, lagrangian, policy_step
from downside.agents.multiplier import PID, MultiplierRule, relative_excess
from downside.checks import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
)
from downside.linear import products, solve_positive
from downside.policies.base import Policy
from downside.records import carry_functions, record, static
from downside.signals import Predictions, Signal
from downside.training.cutting import cut_short, with_the_rest
from downside.training.fisher import fisher_of
from downside.training.learner import (
    Episode,
    Progress,
    current_multipliers,
    discounts_of,
    first_failure,
    measured,
    where,
)
from downside.training.units import RiskUnit, positive, units_after, units_before

BatchMeasure = Literal["sampled", "lpm"]


@final
@record
class Batches:
    """The settings of one learner in batches; numbers are leaves, to be vmapped over.

    ``signals`` and ``thresholds`` as for `ActorCritic`. ``period`` steps make a batch. Values are
    linear in [baseline of the policy | ``value_features(obs, time)``]; older batches count
    ``memory`` as much. ``trace_decay`` is that of the advantages: below 1 with good value features.
    A policy step changes the policy by at most kl / (1 + steps / ``kl_steps``) nats, and its length
    is at most ``step_limit`` times that of the first one for the same gradient: near an optimum
    the gradient vanishes, and the steps with it. ``damping`` is added to the Fisher matrix, in
    units of its mean diagonal in the first batch. ``temperature`` rewards entropy, in units of the
    return's spread in the first batch. The last three keep a policy from becoming deterministic
    before the multiplier has found its value, from where no sample would bring it back. Where
    ``annealed``, nats and temperature fall with the square of (1 + steps / ``kl_steps``): much
    entropy while the multiplier looks for its value and little in the end, and steps whose lengths
    fall as 1 / n, so that the policy settles instead of swinging about a bound. Where ``centred``,
    advantages are told from their mean in the batch: values that lag behind a policy that improves
    leave one, which says nothing of an action and adds noise to the direction. ``risk_unit`` is
    what a multiplier of 1 weighs against the spread of the return: the first batch's "size" of what
    is bounded, or its "spread", in which excesses then count too. After ``episode_limit`` steps an
    episode is cut short and begun anew (see `cutting`). ``tile`` learners are stepped together:
    few, so that their batches stay in the cache.
    """

    env: Any
    policy: Policy
    signals: tuple[Signal, ...]
    thresholds: tuple[Any, ...] = ()
    multiplier: MultiplierRule = PID(rate=0.3, gain=2.0, weight=0.5, growing=True)
    kl: Any = 0.05
    kl_steps: Any = 5e4
    trace_decay: Any = 1.0
    memory: Any = 0.9
    ridge: Any = 1e-4
    damping: Any = 0.1
    step_limit: Any = 2.0
    temperature: Any = 1e-3
    pretraining: Any = 0
    value_features: Callable[[Any, Any], Any] | None = None
    mean_reward: Any = None
    lpm_target: Any = None
    lpm_order: float = static(default=1)
    average_weight: Any = 3e-3
    period: int = static(default=2000)
    direction: Direction = static(default="natural")
    risk_unit: RiskUnit = static(default="size", later=True)
    episode_limit: int | None = static(default=None, later=True)
    annealed: bool = static(default=False, later=True)
    centred: bool = static(default=False, later=True)
    measure: BatchMeasure = static(default="sampled")
    tile: int = static(default=8, later=True)

    def __post_init__(self) -> None:
        carry_functions(self, "value_features")
        check_count("period", self.period, least=2)
        check_count("tile", self.tile, least=1)
        if self.episode_limit is not None:
            check_count("episode_limit", self.episode_limit, least=1)
        check_choice("direction", self.direction, get_args(Direction))
        check_choice("measure", self.measure, get_args(BatchMeasure))
        check_choice("risk_unit", self.risk_unit, get_args(RiskUnit))
        for name in ("kl", "kl_steps", "ridge", "step_limit"):
            check_positive(name, getattr(self, name))
        for name in ("damping", "pretraining", "temperature"):
            check_not_negative(name, getattr(self, name))
        for name in ("trace_decay", "memory"):
            check_probability(name, getattr(self, name))

    @property
    def n_constraints(self) -> int:
        """How many quantities are bounded."""
        return len(self.thresholds)

    def features(self, obs: Any, time: Any) -> Float[Array, " n"]:
        """Features of a state's value."""
        x = jnp.asarray(self.policy.baseline(obs))
        if self.value_features is None:
            return x
        return jnp.concatenate([x, jnp.asarray(self.value_features(obs, time), x.dtype)])


@record
class BatchLearner:
    """What is carried from batch to batch.

    From the first batch: ``scale``, the size of the features; ``units``, that of the signals, which
    the multipliers refer to; ``spread``, the mean diagonal of the Fisher matrix; ``reach``, how far
    the first step went along its direction.
    """

    theta: Float[Array, " P"]
    gram: Float[Array, "n n"]
    moment: Float[Array, "k n"]
    weights: Float[Array, "k n"]
    scale: Float[Array, " n"]
    units: Float[Array, " k"]
    spread: Float[Array, ""]
    reach: Float[Array, ""]
    multipliers: tuple[Any, ...]
    mean_reward: Any
    mean_return: Float[Array, ""]
    env_state: Any
    obs: Any
    episode: Episode
    steps: Int[Array, ""]
    episodes: Int[Array, ""]
    updates: Int[Array, ""]
    failed: Int[Array, ""]
    progress: Progress


@record
class Steps:
    """A batch of steps: features of the values, scores, signals, and where sums end (``over``)."""

    x: Float[Array, "*t n"]
    next_x: Float[Array, "*t n"]
    score: Float[Array, "*t P"]
    log_prob: Float[Array, "*t"]
    cumulants: Float[Array, "*t k"]
    discounts: Float[Array, "*t k"]
    over: Any


def start(agent: Batches, key: Array) -> BatchLearner:
    """Before the first step of the first episode."""
    env_key, policy_key = jax.random.split(key)
    env_state, obs = agent.env.reset(agent.env.draw(env_key))
    n, k = agent.features(obs, jnp.asarray(0)).shape[0], len(agent.signals)
    zero, count = jnp.zeros(()), jnp.asarray(0)
    return BatchLearner(
        theta=jnp.asarray(agent.policy.init(policy_key)),
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
    agent: Batches, before: BatchLearner, after: BatchLearner, found: "Found", steps: Steps
) -> BatchLearner:
    """Values, multipliers and policy from a batch; ``before`` it, and ``after`` its last step."""
    returns = returns_to_go(steps, steps.next_x @ before.weights.T)
    after = fit_values(agent, after, steps.x, returns)
    after = move_multipliers(agent, after, found)
    gains = advantages(agent, after, steps)
    after = improve(agent, after, steps, gains)
    wrong = first_failure(agent, after, (steps.cumulants,), after.weights)
    stopped = replace(before, failed=jnp.where(before.failed > 0, before.failed, wrong))
    return where((before.failed == 0) & (wrong == 0), after, stopped)


@record
class Found:
    """Over the episodes that ended in this batch: their number, and sums of what is bounded."""

    episodes: Float[Array, ""]
    measured: Float[Array, " c"]


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
        score=agent.policy.score(theta, transition.obs, action),
        log_prob=agent.policy.log_prob(theta, transition.obs, action),
        cumulants=cumulants,
        discounts=jnp.where(transition.terminated, 0.0, discounts_of(agent)),
        over=transition.terminated | transition.truncated,
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


def returns_to_go(steps: Steps, next_values: Float[Array, "t k"]) -> Float[Array, "t k"]:
    """y_t = c_t + discount y_{t+1}; the prediction stands in where the batch or an episode is cut.

    After a termination the discount is 0, so nothing stands in.
    """

    def back(following: Array, row: Any) -> tuple[Array, Array]:
        cumulant, discount, over, predicted = row
        y = cumulant + discount * jnp.where(over, predicted, following)
        return y, y

    rows = steps.cumulants, steps.discounts, steps.over, next_values
    return jax.lax.scan(back, next_values[-1], rows, reverse=True)[1]


def fit_values(
    agent: Batches, learner: BatchLearner, x: Float[Array, "t n"], returns: Float[Array, "t k"]
) -> BatchLearner:
    """Ridge regression of the returns to go on the features, older batches fading.

    The first batch fixes the size of the features and of the signals.
    """
    first = learner.steps == agent.period
    squares = products(x, x)
    scale = jnp.where(first, positive(jnp.sqrt(jnp.diag(squares) / len(x))), learner.scale)
    units = units_after(agent, learner, returns)
    to_unit = 1.0 / scale  # multiplied, since compilers differ in how they divide by a row
    gram = agent.memory * learner.gram + squares * to_unit[:, None] * to_unit
    moment = agent.memory * learner.moment + products(returns, x) * to_unit
    diagonal = jnp.diag(gram)
    floor = 1e-6 * jnp.max(diagonal)  # a feature that was always 0 gets the weight 0
    damped = gram + jnp.diag(agent.ridge * diagonal + floor)
    weights = solve_positive(damped, moment.T).T * to_unit
    return replace(learner, gram=gram, moment=moment, weights=weights, scale=scale, units=units)


def advantages(agent: Batches, learner: BatchLearner, steps: Steps) -> Float[Array, "t k"]:
    """A_t = c_t + g V_{t+1} - V_t + g trace_decay A_{t+1}, for each signal, in its unit."""

    def back(following: Array, row: Any) -> tuple[Array, Array]:
        cumulant, discount, over, value, next_value = row
        error = cumulant + discount * next_value - value
        gain = error + agent.trace_decay * discount * jnp.where(over, 0.0, following)
        return gain, gain / units

    units = positive(learner.units) if agent.risk_unit == "spread" else learner.units
    values, next_values = steps.x @ learner.weights.T, steps.next_x @ learner.weights.T
    rows = steps.cumulants, steps.discounts, steps.over, values, next_values
    return jax.lax.scan(back, jnp.zeros_like(learner.units), rows, reverse=True)[1]


def move_multipliers(agent: Batches, learner: BatchLearner, found: Found) -> BatchLearner:
    """One step of each multiplier from the mean over the episodes that ended, if any did."""
    if not agent.thresholds:
        return learner
    means = found.measured / jnp.maximum(found.episodes, 1.0)
    spreads = learner.units[1:] if agent.risk_unit == "spread" else [None] * agent.n_constraints
    rows = zip(learner.multipliers, means, agent.thresholds, spreads, strict=True)
    moved = tuple(agent.multiplier.update(row[0], relative_excess(*row[1:]), 0.0) for row in rows)
    kept = where(found.episodes > 0, moved, learner.multipliers)
    return replace(learner, multipliers=kept)


def improve(
    agent: Batches, learner: BatchLearner, steps: Steps, gains: Float[Array, "t k"]
) -> BatchLearner:
    """theta <- theta + sqrt(2 kl / w'Fw) w, with w = (F + damping)^-1 mean[score A].

    A = (A_q - sum_i multiplier_i A_i) / (1 + sum_i multiplier_i) - temperature log pi, less its
    mean where ``centred``. Along the plain gradient, w = mean[score A].
    """
    score = steps.score
    n_steps = len(score)
    slower = 1.0 + learner.steps.astype(score.dtype) / agent.kl_steps
    kl = agent.kl / (slower**2 if agent.annealed else slower)
    multipliers = current_multipliers(agent, learner)
    gain = lagrangian(gains.T, multipliers) / (1.0 + jnp.sum(multipliers))
    temperature = agent.temperature / slower**2 if agent.annealed else agent.temperature
    gain = gain - temperature * steps.log_prob
    gain = gain - jnp.mean(gain) if agent.centred else gain
    gradient = products(gain[:, None], score)[0] / n_steps
    fisher = fisher_of(score)
    spread = jnp.where(learner.spread > 0, learner.spread, fisher.size)
    damping = agent.damping * spread + jnp.finfo(spread.dtype).tiny
    direction = fisher.invert(damping, gradient) if agent.direction == "natural" else gradient
    curvature = direction @ fisher.apply(direction)
    first = jnp.sqrt(2.0 * kl / jnp.where(curvature > 0, curvature, 1.0))
    reach = jnp.where(learner.reach > 0, learner.reach, first)
    nats = jnp.minimum(kl, 0.5 * (agent.step_limit * reach) ** 2 * curvature)
    change = policy_step("kl", nats, direction, curvature)
    pretrained = learner.episodes >= agent.pretraining
    return replace(
        learner,
        theta=learner.theta + jnp.where(pretrained, change, 0.0),
        updates=learner.updates + pretrained.astype(learner.updates.dtype),
        spread=spread,
        reach=reach,
        progress=replace(learner.progress, norm=jnp.sum(direction**2)),
    )
