import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from downside.environments import Portfolio
from downside.environments.gymnasium import GymnasiumEnv
from downside.environments.python import HostEnvironment
from downside.evaluation import evaluate_host
from downside.signals import Centralised, Constraint, Penalty, TDError


class Ladder(gymnasium.Env):
    """Rewards 1, 2, 3 ... times the sign of the action, until a coin falls."""

    observation_space = spaces.Discrete(1000)
    action_space = spaces.Discrete(2)

    def __init__(self, end=0.3, log_returns=False):
        self.end, self.log_returns = end, log_returns

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return 0, {}

    def step(self, action):
        self.time += 1
        reward = 0.01 * self.time * (1 if action else -1)
        return self.time, reward, bool(self.np_random.random() < self.end), False, {}


def up_or_down(obs, rng):
    return int(rng.random() < 0.7)


def by_hand(n, discount, target, seed=1, max_steps=10_000):
    """Return, its plain sum, path target and proxy of each episode, step by step."""
    env = Ladder()
    rows = []
    for episode in range(n):
        words = np.random.SeedSequence((seed, episode)).generate_state(2)
        rng = np.random.default_rng(words[1])
        obs, _ = env.reset(seed=int(words[0]) & 0x7FFFFFFF)
        total = plain = path = proxy = 0.0
        for time in range(max_steps):
            obs, reward, over, _, _ = env.step(up_or_down(obs, rng))
            share = target if over else target * (1.0 - discount)  # an end is charged for the rest
            total += discount**time * reward
            plain += reward
            path += discount**time * share
            proxy += discount**time * max(share - reward, 0.0)
            if over:
                break
        rows.append((total, plain, path, proxy, over))
    return np.array(rows).T


@pytest.mark.parametrize("max_steps", [None, 3])
def test_sums_are_those_of_the_steps(max_steps):
    # Chunks of 2000 steps: 900 episodes of 3.3 steps on average need two.
    host = HostEnvironment(Ladder(), discount=0.9)
    found = evaluate_host(host, up_or_down, 0.05, n_eval_episodes=900, max_steps=max_steps, seed=4)
    returns, totals, targets, signals, ended = by_hand(900, 0.9, 0.05, 4, max_steps or 10_000)
    np.testing.assert_allclose(found.episodes.returns, returns, atol=1e-6)
    np.testing.assert_allclose(found.episodes.totals, totals, atol=1e-6)
    np.testing.assert_allclose(found.episodes.targets, targets, atol=1e-6)
    np.testing.assert_allclose(found.episodes.signals, signals, atol=1e-6)
    np.testing.assert_array_equal(found.episodes.ended, ended)
    assert found.cut == pytest.approx(1.0 - ended.mean())
    assert (found.cut > 0) == (max_steps is not None)


def test_log_returns_have_drawdowns_and_all_have_paths():
    host = HostEnvironment(Ladder(log_returns=True), discount=1.0)
    found = evaluate_host(host, lambda obs, rng: 0, 0.0, n_eval_episodes=40)
    # the wealth only falls, from 1 to exp(total)
    np.testing.assert_allclose(found.episodes.drawdowns, 1.0 - np.exp(found.episodes.totals))
    np.testing.assert_allclose(found.episodes.paths.sum(axis=1), found.episodes.totals, atol=1e-6)
    plain = evaluate_host(host, lambda obs, rng: 0, 0.0, n_eval_episodes=40, log_returns=False)
    assert plain.episodes.drawdowns is None


def test_constraints_of_every_kind_are_summed_with_their_own_discount():
    host = HostEnvironment(Ladder(), discount=0.5)
    constraints = [
        Constraint(Penalty(lambda t: t.reward * 0.0 + 1.0, discount=1.0), 3.0),
        Constraint(TDError(), 1.0),
        Constraint(Centralised(), 1.0),
        Constraint(0.1, 0.2, 2),
    ]
    found = evaluate_host(host, up_or_down, 0.1, 2, n_eval_episodes=60, constraints=constraints)
    lengths, unknown, no_means, proxy = found.bounds
    n_steps = np.count_nonzero(found.episodes.paths, axis=1)
    np.testing.assert_allclose(lengths.sums, n_steps)
    assert unknown.sums is None
    assert no_means.sums is None
    np.testing.assert_allclose(proxy.sums, found.episodes.signals)
    assert proxy.name == "proxy of order 2 about 0.1"
    assert str(found).count("not measured") == 2


def test_it_agrees_with_the_compiled_episodes_of_the_same_environment():
    # Constant order 5 of the portfolio: proxy 0.42224, discounted mean 0.59095. 60 episodes;
    # 4 standard errors are about 2.04 half-widths. Two numbers: fails once in 8,000 runs.
    env = Portfolio(discount=0.99)
    host = HostEnvironment(GymnasiumEnv(env), 0.99, env.horizon)
    found = evaluate_host(host, lambda obs, rng: 5, Centralised(), n_eval_episodes=60)
    for measured, exact in ((found.mean, 0.59095), (found.proxy, 0.42224)):
        assert abs(measured.value - exact) < 2.04 * (measured.high - measured.low) / 2
    assert "drawdown" in found.measures
    assert found.cut == 0.0


def test_the_same_seed_is_the_same_luck():
    host = HostEnvironment(Ladder(), discount=0.9)
    first, again = (evaluate_host(host, up_or_down, 0.1, n_eval_episodes=20) for _ in range(2))
    np.testing.assert_array_equal(first.episodes.returns, again.episodes.returns)
    other = evaluate_host(host, up_or_down, 0.1, n_eval_episodes=20, seed=2)
    assert not np.array_equal(first.episodes.returns, other.episodes.returns)
