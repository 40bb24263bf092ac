"""Learning what a fixed policy is worth and what it risks, online: one learner, one step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.critics import Critic, expected_features
from downside.environments.base import Environment
from downside.environments.episodes import Act
from downside.records import record, static
from downside.signals import Predictions, Reward, Signal
from downside.training.mean_reward import MeanReward


@record
class Prediction:
    """What is predicted, of whom, and how.

    The first signal is the reward, whose predictions a target may use; ``features`` maps an
    observation, an action and the time in the episode to the critic's x. Without a ``mean_reward``
    model the environment's own mean reward is used. ``probabilities`` of all actions, given an
    observation, average the next features over the next action: SARSA becomes expected SARSA.
    ``env`` is an `Environment`, or None where `learn` is given recorded transitions alone.
    """

    env: Any
    act: Act
    features: Callable[[Any, Any, Any], Float[Array, " n"]]
    signals: tuple[Signal, ...]
    critic: Critic[Any]
    step_size: Callable[[Array], Any]
    n_features: int = static()
    mean_reward: MeanReward | None = None
    probabilities: Callable[[Any], Float[Array, " actions"]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.signals[0], Reward):
            raise ValueError("the first signal is the reward, which targets may refer to")


@record
class PredictionState:
    """What is carried from step to step."""

    env_state: Any
    obs: Any
    action: Any
    critic: Any
    mean_reward: Any
    steps: Array


def start_prediction(problem: Prediction, key: Array) -> PredictionState:
    """Before the first step of the first episode."""
    noise_key, act_key = jax.random.split(key)
    env_state, obs = problem.env.reset(problem.env.draw(noise_key))
    model = problem.mean_reward
    return PredictionState(
        env_state=env_state,
        obs=obs,
        action=problem.act(obs, act_key),
        critic=problem.critic.init(problem.n_features, len(problem.signals)),
        mean_reward=None if model is None else model.init(),
        steps=jnp.asarray(0),
    )


def step_prediction(problem: Prediction, state: PredictionState, key: Array) -> PredictionState:
    """One step: act, observe, learn, begin anew where the episode is over."""
    noise_key, reset_key, act_key, first_key = jax.random.split(key, 4)
    env = problem.env
    transition = env.transition(state.env_state, state.action, env.draw(noise_key))
    next_action = problem.act(transition.next_obs, act_key)
    learnt = learn(problem, state, transition, next_action)

    env_state, obs = env.reset(env.draw(reset_key))
    afresh = (env_state, obs, problem.act(obs, first_key))
    onward = (transition.next_state, transition.next_obs, next_action)
    over = transition.terminated | transition.truncated
    env_state, obs, action = _where(over, afresh, onward)
    return replace(learnt, env_state=env_state, obs=obs, action=action)


def learn(
    problem: Prediction, state: PredictionState, transition: Any, next_action: Any
) -> PredictionState:
    """Update the critic, and the model of the mean reward if there is one, with one transition.

    All predictions, the mean reward's too, are those from before the update.
    """
    critic, model = problem.critic, problem.mean_reward
    weights = critic.weights(state.critic)
    transition, before = judge(problem, weights, state.mean_reward, transition, next_action)
    x = problem.features(transition.obs, transition.action, transition.time)
    next_x = _next_features(problem, transition, next_action)
    cumulants = jnp.stack([signal.cumulant(transition, before) for signal in problem.signals])
    discounts = jnp.stack(
        [jnp.where(transition.terminated, 0.0, signal.discount) for signal in problem.signals]
    )
    step_size = problem.step_size(state.steps)
    learnt, _ = critic.update(state.critic, x, cumulants, discounts, next_x, step_size)
    cut = critic.cut(learnt, next_x, step_size)
    mean_weights = state.mean_reward
    if model is not None:
        experience = transition.obs, transition.action, transition.reward
        mean_weights = model.update(mean_weights, *experience)
    return replace(
        state,
        critic=_where(transition.truncated & ~transition.terminated, cut, learnt),
        mean_reward=mean_weights,
        steps=state.steps + 1,
    )


def judge(
    problem: Prediction, weights: Any, mean_weights: Any, transition: Any, next_action: Any
) -> tuple[Any, Predictions]:
    """The transition with the mean reward that targets use, and the predictions that they may."""
    model = problem.mean_reward
    if model is not None:
        predicted = model.predict(mean_weights, transition.obs, transition.action)
        transition = replace(transition, mean_reward=predicted)
    x = problem.features(transition.obs, transition.action, transition.time)
    next_x = problem.features(transition.next_obs, next_action, transition.time + 1)
    return transition, Predictions(value=weights[0] @ x, next_value=weights[0] @ next_x)


def _next_features(problem: Prediction, transition: Any, next_action: Any) -> Float[Array, " n"]:
    obs, time = transition.next_obs, transition.time + 1
    if problem.probabilities is None:
        return problem.features(obs, next_action, time)
    at_this_time = lambda obs, action: problem.features(obs, action, time)  # noqa: E731
    return expected_features(at_this_time, obs, problem.probabilities(obs))


def run_prediction(
    problem: Prediction, state: PredictionState, key: Array, n_steps: int
) -> PredictionState:
    """``n_steps`` steps in a row."""

    def step(state: PredictionState, key: Array) -> tuple[PredictionState, None]:
        return step_prediction(problem, state, key), None

    return jax.lax.scan(step, state, jax.random.split(key, n_steps))[0]


def start_predictions(
    problem: Prediction, state: PredictionState, key: Array, n_starts: int
) -> Float[Array, " k"]:
    """The predictions at the start states, averaged over ``n_starts`` draws of state and action."""
    starts = draw_starts(problem.env, problem.act, key, n_starts)
    return predict_starts(problem, state, starts)


def draw_starts(env: Environment[Any], act: Act, key: Array, n_starts: int) -> tuple[Any, Any]:
    """First observations and actions of ``n_starts`` episodes, stacked."""

    def one(key: Array) -> tuple[Any, Any]:
        noise_key, act_key = jax.random.split(key)
        _, obs = env.reset(env.draw(noise_key))
        return obs, act(obs, act_key)

    return jax.vmap(one)(jax.random.split(key, n_starts))


def predict_starts(
    problem: Prediction, state: PredictionState, starts: tuple[Any, Any]
) -> Float[Array, " k"]:
    """The predictions at first observations and actions, averaged."""
    at_start = lambda obs, action: problem.features(obs, action, jnp.asarray(0))  # noqa: E731
    return problem.critic.predict(state.critic, jnp.mean(jax.vmap(at_start)(*starts), axis=0))


def _where(condition: Array, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)
