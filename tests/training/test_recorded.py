"""What the host path learns from recorded steps is what the compiled engine learns."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.agents import ActorCritic
from downside.bases import OneHot, Polynomial
from downside.critics import LSTD
from downside.environments import Portfolio
from downside.policies import Gibbs
from downside.signals import Centralised, Proxy, Reward, TDError
from downside.training import batch_learner, learner
from downside.training.batches import Batches
from downside.training.mean_reward import MeanReward
from downside.training.recorded import Hosted, Recorded, learn_recorded, start_recorded
from downside.training.run import stack
from random_mdps import random_mdp

ENV = Portfolio(discount=0.97)
MDP = random_mdp(np.random.default_rng(3), horizon=None, discount=0.97, n_states=6)
GIBBS = Gibbs(Polynomial(6), 11)
PERIODS = 3


def signals(target, env=ENV):
    return Reward(env.discount), Proxy(target, env.discount, env.horizon)


def model():
    return MeanReward(lambda obs, action: jnp.concatenate([jnp.ones(1), obs]), 7, rate=0.1)


def settings(case):
    options = {"env": ENV, "policy": GIBBS, "thresholds": (0.05,), "period": 120}
    if case == "batches":
        return Batches(signals=signals(Centralised()), **options)
    if case == "counted":
        table = {"env": MDP, "policy": Gibbs(OneHot(6), 2), "thresholds": (0.05,), "period": 120}
        return Batches(signals=signals(Centralised(), MDP), annealed=True, counted=True, **table)
    if case == "td error, learnt mean":
        return Batches(signals=signals(TDError()), mean_reward=model(), **options)
    online = {"signals": signals(Centralised()), "critic_step_size": 0.02, **options}
    if case == "online":
        return ActorCritic(**online)
    if case == "plain gradient":
        return ActorCritic(**online, direction="plain", measure="critic")
    assert case == "least squares"
    return ActorCritic(**{**online, "critic": LSTD(0.7, ridge=1.0)}, step_rule="kl")


def acted(agent, state, noise):
    """The steps that the compiled engine makes in a period, and what it begins the next with."""
    env, policy, theta = agent.env, agent.policy, state.theta
    online = isinstance(agent, ActorCritic)

    def one(carry, noise):
        (env_state, obs, action), (env_noise, action_noise) = carry, noise
        action = action if online else policy.sample(theta, obs, action_noise)
        done = env.transition(env_state, action, env_noise)
        over = done.terminated | done.truncated
        begun = learner.where(over, env.reset(env_noise), (done.next_state, done.next_obs))
        last = policy.sample(theta, done.next_obs, action_noise)
        carry = (*begun, policy.sample(theta, begun[1], action_noise))
        return carry, (replace(done, next_state=None), action, last)

    first = state.action if online else policy.sample(theta, state.obs, noise[1][0])
    (_, *last), (steps, actions, next_actions) = jax.lax.scan(
        one, (state.env_state, state.obs, first), noise
    )
    return Recorded(
        obs=steps.obs,
        action=actions,
        done=actions,
        reward=steps.reward,
        next_obs=steps.next_obs,
        terminated=steps.terminated,
        truncated=steps.truncated,
        time=steps.time,
        mean_reward=steps.mean_reward if agent.mean_reward is None else None,
        next_action=next_actions if online else None,
        last=tuple(last) if online else None,
    )


def compiled_periods(agent, key):
    """Period by period: the learner after it, and the steps of it as one stream."""
    way = batch_learner if isinstance(agent, Batches) else learner
    state = way.start(agent, key)

    @jax.jit
    def run(state, noise):
        return way.run_period(agent, state, noise), acted(agent, state, noise)

    for period in range(PERIODS):
        noise = learner.draw(agent, jax.random.fold_in(key, period), (agent.period,))
        state, recorded = run(state, noise)
        yield state, jax.tree.map(lambda x: np.asarray(x)[None], recorded)


@pytest.mark.parametrize(
    "case",
    ["batches", "td error, learnt mean", "counted", "online", "plain gradient", "least squares"],
)
def test_it_learns_the_same_from_the_same_steps(case):
    agent, key = settings(case), jax.random.key(8)
    env, space = agent.env, agent.env.observation_space
    example = np.zeros(space.shape, np.int32 if case == "counted" else np.float32)
    hosted = replace(agent, env=Hosted(env.discount, example, env.horizon))
    many, keys = stack([hosted]), key[None]
    found = start_recorded(many, keys)
    begun = found.theta
    for expected, recorded in compiled_periods(agent, key):
        found, report = learn_recorded(many, found, jax.tree.map(lambda x: x[None], recorded))
        for name in ("theta", "multipliers", "mean_return", "steps", "episodes", "mean_reward"):
            pairs = zip(
                jax.tree.leaves(getattr(found, name)),
                jax.tree.leaves(getattr(expected, name)),
                strict=True,
            )
            for mine, theirs in pairs:
                np.testing.assert_allclose(mine[0], theirs, rtol=1e-3, atol=2e-4, err_msg=name)
        np.testing.assert_allclose(found.episode.sums[0, 0], expected.episode.sums, rtol=1e-4)
        assert report.episodes[0] == expected.episodes
    assert np.abs(found.theta - begun).max() > 5e-3
    if env.horizon is not None:
        assert int(found.episodes[0]) == PERIODS * 120 // env.horizon


def test_streams_are_learnt_from_apart():
    # Two streams of 120 steps are one batch of 240: nothing is summed across their border, so each
    # stream's returns are those that it has alone.
    agent = settings("batches")
    ((_, first),) = [next(iter(compiled_periods(agent, jax.random.key(1))))]
    ((_, second),) = [next(iter(compiled_periods(agent, jax.random.key(2))))]
    both = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    example = np.zeros(ENV.observation_space.shape, np.float32)
    hosted = replace(agent, env=Hosted(ENV.discount, example, ENV.horizon, 2), period=240)
    many = stack([hosted])
    start = start_recorded(many, jax.random.key(1)[None])
    either = [
        learn_recorded(many, start, jax.tree.map(lambda x: x[None], streams))[0]
        for streams in (both, jax.tree.map(lambda x: x[::-1], both))
    ]
    np.testing.assert_allclose(either[0].theta, either[1].theta, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(either[0].episode.sums[0], either[1].episode.sums[0, ::-1])
    assert int(either[0].episodes[0]) == 4  # of 50 steps; 20 more are in progress in each
    assert either[0].episode.time.tolist() == [[20, 20]]
