"""What the peers are trained on is our problem: step by step, with the same noise."""

import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.peers import problems

from downside.environments import Consumption, Portfolio
from downside.environments.base import Noise
from downside.signals import Centralised, Constraint, Predictions


def noise_of(uniform, normal):
    return Noise(jnp.asarray(uniform, jnp.float32), jnp.asarray(normal, jnp.float32))


@pytest.mark.parametrize("box", [False, True])
def test_the_portfolio_is_ours(box):
    """Rare events of the noise, defaults and high rates, are among 4 x 50 steps."""
    env, peer, rng = Portfolio(discount=0.99), problems.Portfolio(box=box), np.random.default_rng(3)
    signal = Constraint(Centralised(), 0.3).signal(env.discount, env.horizon)
    defaults = 0
    for episode in range(4):
        state, obs = env.reset(noise_of([0.5, 0.5], []))
        np.testing.assert_allclose(peer.reset(seed=episode)[0], obs, rtol=1e-5)
        for time in range(env.horizon):
            order, uniform = int(rng.integers(11)), rng.random(2)
            step = env.transition(state, jnp.asarray(order), noise_of(uniform, []))
            action = np.array([order / 5.0 - 1.0 + 0.04]) if box else order
            next_obs, reward, ended, cut, info = peer.move(action, *uniform)
            np.testing.assert_allclose(next_obs, step.next_obs, rtol=2e-5, atol=1e-6)
            assert reward == pytest.approx(float(step.reward), rel=1e-4, abs=1e-6)
            known = signal.cumulant(step, Predictions())
            assert info["signal"] == pytest.approx(float(known), rel=1e-3, abs=1e-6)
            assert info["cost"] == pytest.approx(0.99**time * info["signal"])
            assert ended == bool(step.terminated)
            assert not cut
            defaults += info["signal"] > 0
            state = step.next_state
    assert defaults > 5


@pytest.mark.parametrize("box", [False, True])
def test_the_consumption_problem_is_ours(box):
    env, peer, rng = Consumption(), problems.Consumption(box=box), np.random.default_rng(4)
    for episode, default_at in enumerate([None, 7]):
        state, _ = env.reset(noise_of([0.5], [0.0]))
        peer.reset(seed=episode)
        for time in range(env.horizon):
            action = rng.uniform([-1.2, -1.0], [1.2, -0.97])
            uniform = 0.001 if time == default_at else 0.01
            normal = rng.normal()
            ours = 0.5 * (action + 1.0)
            noise = noise_of([uniform], [normal])
            step = env.transition(state, jnp.asarray(ours, jnp.float32), noise)
            given = action if box else ours
            obs, reward, ended, _, info = peer.move(given, uniform, normal)
            wealth = float(step.next_obs[1])
            np.testing.assert_allclose(obs, [(time + 1) / 200, wealth / (1 + wealth)], rtol=1e-4)
            assert reward == pytest.approx(float(step.reward), rel=1e-4, abs=1e-7)
            cost = max(float(env.step_target(step)) - float(step.reward), 0.0)
            assert info["cost"] == pytest.approx(cost, rel=1e-3, abs=1e-6)
            assert info["signal"] == info["cost"]  # there is no discount
            assert ended == bool(step.terminated)
            if ended:
                break
            state = step.next_state
        assert time == (env.horizon - 1 if default_at is None else default_at)


def test_the_arms_of_the_bandit():
    """Means 1, 4 and 3; the median of the Pareto, which has no variance, is 2^(2/3).

    4 standard errors of 4,000 pulls: 1 seed in 8,000 fails by chance.
    """
    env = problems.Bandit()
    env.reset(seed=5)
    told = [[env.step(arm) for _ in range(4000)] for arm in range(3)]
    pulls = np.array([[reward for _, reward, *_ in arm] for arm in told])
    signals = np.array([[info["signal"] for *_, info in arm] for arm in told])
    np.testing.assert_allclose(signals, np.maximum([[1.0], [4.0], [3.0]] - pulls, 0.0))
    assert pulls[0].mean() == pytest.approx(1.0, abs=4 / 4000**0.5)
    assert pulls[1].mean() == pytest.approx(4.0, abs=24 / 4000**0.5)
    below = np.mean(pulls[2] < 2 ** (2 / 3))
    assert below == pytest.approx(0.5, abs=4 * 0.5 / 4000**0.5)
