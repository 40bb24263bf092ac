"""Learning what a fixed policy is worth and what it risks, online: one learner, one step."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from downside.critics import Critic
from downside.environments.base import Environment
from downside.environments.episodes import Act
from downside.records import record, static
from downside.signals import Predictions, Reward, Signal


@record
class Prediction:
    """What is predicted, of whom, and how.

    The first signal is the reward, whose predictions a target may use; ``features`` maps an
    observation and an action to the critic's x.
    """

    env: Environment[Any]
    act: Act
    features: Callable[[Any, Any], Float[Array, " n"]]
    signals: tuple[Signal, ...]
    critic: Critic[Any]
    step_size: Callable[[Array], Any]
    n_features: int = static()

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
    steps: Array


def start_prediction(problem: Prediction, key: Array) -> PredictionState:
    """Before the first step of the first episode."""
    noise_key, act_key = jax.random.split(key)
    env_state, obs = problem.env.reset(problem.env.draw(noise_key))
    critic = problem.critic.init(problem.n_features, len(problem.signals))
    return PredictionState(env_state, obs, problem.act(obs, act_key), critic, jnp.asarray(0))


def step_prediction(problem: Prediction, state: PredictionState, key: Array) -> PredictionState:
    """One step: act, observe, update the critic, begin anew where the episode is over."""
    noise_key, reset_key, act_key, first_key = jax.random.split(key, 4)
    env, critic = problem.env, problem.critic
    transition = env.transition(state.env_state, state.action, env.draw(noise_key))
    next_action = problem.act(transition.next_obs, act_key)

    x = problem.features(state.obs, state.action)
    next_x = problem.features(transition.next_obs, next_action)
    before = Predictions(
        value=critic.predict(state.critic, x)[0], next_value=critic.predict(state.critic, next_x)[0]
    )
    cumulants = jnp.stack([signal.cumulant(transition, before) for signal in problem.signals])
    discounts = jnp.stack(
        [jnp.where(transition.terminated, 0.0, signal.discount) for signal in problem.signals]
    )
    step_size = problem.step_size(state.steps)
    learnt, _ = critic.update(state.critic, x, cumulants, discounts, next_x, step_size)
    cut = critic.cut(learnt, next_x, step_size)
    learnt = _where(transition.truncated & ~transition.terminated, cut, learnt)

    env_state, obs = env.reset(env.draw(reset_key))
    afresh = (env_state, obs, problem.act(obs, first_key))
    onward = (transition.next_state, transition.next_obs, next_action)
    over = transition.terminated | transition.truncated
    env_state, obs, action = _where(over, afresh, onward)
    return PredictionState(env_state, obs, action, learnt, state.steps + 1)


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

    def one(key: Array) -> Float[Array, " k"]:
        noise_key, act_key = jax.random.split(key)
        _, obs = problem.env.reset(problem.env.draw(noise_key))
        x = problem.features(obs, problem.act(obs, act_key))
        return problem.critic.predict(state.critic, x)

    return jnp.mean(jax.vmap(one)(jax.random.split(key, n_starts)), axis=0)


def _where(condition: Array, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), first, second)
