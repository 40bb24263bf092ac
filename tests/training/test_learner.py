from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from downside.agents import ActorCritic, FixedMultiplier
from downside.bases import OneHot
from downside.control import NAC, NRCPO
from downside.critics.sarsa import TraceState
from downside.environments import Bandit, Portfolio, Tabular
from downside.policies import Gibbs
from downside.signals import Centralised, Penalty, Reward
from downside.training import learner as online

REWARDS = np.array([[1.0, 3.0], [0.5, -2.0], [2.0, 1.0]])
COSTS = np.array([[0.2, 1.5], [0.1, 0.9], [1.1, 0.3]])
START = np.array([0.5, 0.2, 0.3])
MULTIPLIER = 0.7


def cost(transition):
    return jnp.asarray(COSTS, jnp.float32)[transition.obs, transition.action]


@pytest.mark.slow
def test_the_sampled_plain_gradient_is_unbiased():
    """4 standard errors in each of 6 parameters: wrong by chance once in 2,600 seeds."""
    env = Tabular(np.ones((3, 2, 1)), REWARDS[:, :, None], next_states=0, start=START, horizon=1)
    policy = Gibbs(OneHot(3), 2)
    agent = ActorCritic(
        env,
        policy,
        (Reward(1.0), Penalty(cost, 1.0)),
        (0.4,),
        critic_step_size=0.0,
        multiplier=FixedMultiplier(MULTIPLIER),
        direction="plain",
        period=100,
    )
    theta = jnp.array([0.3, -0.2, 0.5, -0.4, 0.1, 0.6])
    states, actions = (grid.ravel() for grid in np.meshgrid(range(3), range(2), indexing="ij"))

    def objective(theta):
        chances = jax.vmap(lambda s: policy.probabilities(theta, s))(jnp.arange(3))
        gains = jnp.asarray(REWARDS - MULTIPLIER * COSTS, jnp.float32)
        return jnp.sum(jnp.asarray(START, jnp.float32)[:, None] * chances * gains)

    expected = jax.grad(objective)(theta)

    # Compatible weights of the true advantages: least squares over all states and actions.
    scores = np.array([policy.score(theta, s, a) for s, a in zip(states, actions, strict=True)])
    chances = np.array([policy.probabilities(theta, s) for s in range(3)])
    rows = []
    for table in (REWARDS, COSTS):
        advantages = table - np.sum(chances * table, axis=1, keepdims=True)
        rows.append(np.linalg.lstsq(scores, advantages[states, actions], rcond=None)[0])

    def sampled(key):
        learner = online.start(agent, key)
        width = learner.critic.weights.shape[1]
        weights = jnp.zeros((2, width)).at[:, :6].set(jnp.asarray(np.array(rows), jnp.float32))
        learner = replace(learner, theta=theta, critic=TraceState(weights, weights * 0.0))
        action = policy.sample(theta, learner.obs, policy.draw(jax.random.fold_in(key, 1)))
        learner = replace(learner, action=action)
        factors = agent.factors(theta, learner.obs, action, jnp.asarray(0))
        noise = online.draw(agent, jax.random.fold_in(key, 2), (100,))
        step = lambda carry, noise: (online.step(agent, *carry, noise), None)  # noqa: E731
        return jax.lax.scan(step, (learner, factors), noise)[0][0].gradient / 100

    found = np.asarray(jax.jit(jax.vmap(sampled))(jax.random.split(jax.random.key(4), 400)))
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * errors)
    assert np.all(errors < 0.2 * np.abs(expected).max())  # sharp enough to see a mistake


def test_pretraining_learns_critics_and_multipliers_before_the_policy_moves():
    env = Portfolio(discount=0.99)
    agent = NRCPO(
        env, target=Centralised(), threshold=0.1, way="online", pretraining=30, period=100
    )
    start = agent.theta
    agent.learn(1_000, progress_bar=False)  # 20 episodes of 50 steps
    learners = agent._state.learners
    np.testing.assert_array_equal(agent.theta, start)
    assert float(jnp.abs(learners.critic.weights).max()) > 0
    assert agent.records.multipliers[-1, 0, 0] > 0
    assert np.any(agent.learn(1_000, progress_bar=False).theta != start)


@pytest.mark.parametrize("way", ["online", "batches"])
def test_value_features_may_be_a_plain_function(way):
    features = lambda obs, time: jnp.stack([obs[0], time.astype(obs.dtype) / 50.0])  # noqa: E731
    env = Portfolio(discount=0.99)
    agent = NAC(env, way=way, value_features=features).learn(2_000, progress_bar=False)
    weights = agent._state.learners.weights if way == "batches" else agent._state.learners.critic
    assert np.any(np.asarray(getattr(weights, "weights", weights))[..., -1] != 0)


def test_a_schedule_of_steps_is_followed():
    schedule = optax.linear_schedule(0.05, 0.0, 4)
    agent = NAC(Bandit(), way="online", period=50, step_size=schedule, critic_step_size=0.1)
    lengths, before = [], agent.theta
    for _ in range(6):
        after = agent.learn(50, progress_bar=False).theta
        lengths.append(float(np.linalg.norm(after - before)))
        before = after
    np.testing.assert_allclose(lengths, [0.05, 0.0375, 0.025, 0.0125, 0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize(("discount", "n_traces"), [(0.9, 1), (0.8, 2)])
def test_signals_share_a_trace_only_where_they_share_the_discount(discount, n_traces):
    policy = Gibbs(OneHot(3), 2)
    agent = ActorCritic(Bandit(), policy, (Reward(0.9), Penalty(cost, discount)), (0.4,))
    assert agent.critic.init(5, 2).trace.shape == (n_traces, 5)
