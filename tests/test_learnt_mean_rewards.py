"""Mean rewards that a Python environment does not tell, and that training learns."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from downside import load
from downside.control import NAC, NRCPO
from downside.environments.gymnasium import GymnasiumEnv
from downside.signals import Centralised
from downside.studies.training import learner_rows
from downside.training.mean_reward import default_model
from drift_agents import PERIOD, QUIET
from host_environments import Drift, Spaces
from roads import two_roads

ROADS = two_roads()  # about the mean rewards the proxy is 1.25 times the probability of the second


class SilentRoads(gymnasium.Env):
    """The same in Python, and nothing is told beside the reward."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        reward = self.np_random.choice([4.0, -1.0]) if action == 1 else 1.0
        return 0, float(reward), True, False, {}


def test_mean_rewards_that_are_not_told_are_learnt_for_training_and_evaluation_alike():
    options = {"target": Centralised(), "threshold": 0.6, "horizon": 1, "period": 500}
    model = default_model(spaces.Discrete(1), spaces.Discrete(2), None, rate=1e-3)
    for rate, given in ((1e-2, {}), (1e-3, {"mean_reward": model})):  # the default is a hundredth
        agent = NRCPO(SilentRoads, **options, **given).learn(20_000, **QUIET)
        n = 2000
        found = agent.evaluate(n)
        (risky,) = risky_roads(agent)
        # The learnt mean of the second road is off by 2.5 sqrt(rate / 2), half of which counts;
        # 4 standard errors, with those of the episodes.
        error = risky * 1.25 * np.sqrt(rate / 2.0) + 1.25 / np.sqrt(n)
        assert abs(found[0].proxy.value - 1.25 * risky) < 4.0 * error
        assert found[0].bounds[0].value == found[0].proxy.value
        assert "mean rewards are those that training learnt" in str(found[0])
        (row,) = learner_rows(agent, {"n_eval_episodes": n, "settings": {}})
        assert row["risk"] == found[0].proxy.value
        assert row["meets"] == (row["risk"] <= 0.6)
        assert agent.suggest_threshold(n_eval_episodes=n) == 0.5 * row["risk"]
    told = NRCPO(lambda: GymnasiumEnv(ROADS), **options).evaluate(100)[0]
    assert not told.learnt_means
    assert set(told.episodes.signals) <= {0.0, 2.5}


class Certain(Drift):
    """Whoever drifts, each step pays 1: there is no luck in a reward."""

    def step(self, action):
        obs, _, over, cut, info = super().step(action)
        return obs, 1.0, over, cut, info


def test_what_the_learnt_mean_rewards_add_to_the_risk_is_said():
    options = {"target": Centralised(), "threshold": 0.5, "discount": 0.95, "period": 500}
    said = "all of this risk is their error"
    agent = NRCPO(Certain, **options)
    assert said in agent.learn(1000, **QUIET).summary()
    assert "their error" not in NRCPO(SilentRoads, **options).learn(5000, **QUIET).summary()


def risky_roads(agent):
    """The probability of the second road, of each learner."""
    return [float(np.exp(agent.policy.log_prob(theta, 0, 1))) for theta in agent.theta]


def test_without_a_bound_there_is_no_risk_about_mean_rewards_that_nobody_tells():
    agent = NAC(SilentRoads, horizon=1, period=100).learn(100, **QUIET)
    with pytest.raises(ValueError, match=r"ds\.NRCPO\(env, target=\.\.\., threshold=math\.inf"):
        agent.suggest_threshold(Centralised())


@pytest.mark.parametrize("way", ["batches", "online"])
def test_a_learnt_mean_reward_is_saved_with_the_agent(way, tmp_path):
    step = {"critic_step_size": 0.02} if way == "online" else {}
    options = {"target": Centralised(), "threshold": 0.3, "discount": 0.95, "period": PERIOD}
    agent = NRCPO(Drift, way=way, **options, **step).learn(2 * PERIOD, **QUIET)
    agent.save(tmp_path / "agent")
    again = load(tmp_path / "agent", env=Drift)
    first, second = (one.evaluate(20)[0].proxy.value for one in (agent, again))
    assert first == second > 0.0


@pytest.mark.parametrize(
    "actions", [spaces.Box(-1.0, 1.0, (2,)), spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0, 1))]
)
def test_mean_rewards_are_learnt_for_actions_of_any_kind(actions):
    make = lambda: Spaces(spaces.Box(-1.0, 1.0, (2,)), actions)  # noqa: E731
    agent = NRCPO(make, target=Centralised(), threshold=0.1, discount=0.9, period=PERIOD)
    assert np.isfinite(agent.learn(PERIOD, **QUIET).evaluate(10)[0].proxy.value)
