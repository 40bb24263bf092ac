import re

import pytest
from gymnasium import spaces

from downside.agents import PID, FixedMultiplier
from downside.environments import Portfolio
from downside.signals import Centralised, Fixed, TDError
from downside.specification import completed, load, make_agent, make_environment
from downside.training.mean_reward import default_model

PORTFOLIO = {
    "env": "downside/Portfolio-v0",
    "settings": {"target": "centralised", "threshold": 0.3},
    "total_timesteps": 4000,
}


def settings(**changed):
    return {**PORTFOLIO, "settings": {**PORTFOLIO["settings"], **changed}}


def make_portfolio(fee):
    return Portfolio(unit_cost=fee)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("centralised", Centralised()),
        ("td_error", TDError()),
        (2, Fixed(2.0)),
        ({"fixed": 1.5}, Fixed(1.5)),
    ],
)
def test_targets_in_words(target, expected):
    agent = make_agent(settings(target=target, order=2))
    (constraint,) = agent.constraints[0]
    assert type(constraint.target) is type(expected)
    assert (constraint.target, constraint.threshold, constraint.order) == (expected, 0.3, 2)


def test_what_goes_to_the_agent():
    agent = make_agent({**settings(kl=0.01, threshold="inf"), "seed": 4, "n_seeds": 3})
    assert (agent.seed, agent.n_seeds, agent.theta.shape[0]) == (4, 3, 3)
    assert agent.constraints[0][0].threshold == float("inf")
    assert agent._settings.kl.tolist() == pytest.approx([0.01] * 3)
    both = [{"target": 1.0, "threshold": 0.5}, {"target": "centralised", "threshold": 0.1}]
    several = make_agent({**PORTFOLIO, "settings": {"constraints": both}})
    assert [c.threshold for c in several.constraints[0]] == [0.5, 0.1]
    assert make_agent({**PORTFOLIO, "algorithm": "nac", "settings": {}}).constraints == [()]


def test_rules_for_the_multiplier():
    rules = [
        make_agent(settings(multiplier=rule))._settings.multiplier
        for rule in ({"pid": {"rate": 0.7}}, {"fixed": 2.5})
    ]
    assert isinstance(rules[0], PID)
    assert isinstance(rules[1], FixedMultiplier)
    assert float(rules[0].rate[0]) == pytest.approx(0.7)


def make_mean_reward():
    return default_model(spaces.Discrete(2), spaces.Discrete(3), None, rate=0.07)


def test_a_model_of_the_mean_rewards_comes_from_a_function_that_makes_it():
    found = make_agent(settings(mean_reward="test_specification:make_mean_reward"))
    assert found._settings.mean_reward.n_features == 6
    assert float(found._settings.mean_reward.rate[0]) == pytest.approx(0.07)


def test_a_factory_of_ones_own():
    own = {"env": "test_specification:make_portfolio", "env_arguments": {"fee": 0.03}}
    assert float(make_environment(own).unit_cost) == pytest.approx(0.03)
    assert make_environment({**PORTFOLIO, "env_arguments": {"maturity": 3}}).maturity == 3


@pytest.mark.parametrize(
    ("specification", "words"),
    [
        ({**PORTFOLIO, "n_seed": 2}, "no key 'n_seed'; did you mean n_seeds?"),
        ({**PORTFOLIO, "env": "downside/Portfolio-v1"}, "did you mean downside/Portfolio-v0?"),
        ({**PORTFOLIO, "env_arguments": {"maturty": 3}}, "did you mean maturity?"),
        ({**PORTFOLIO, "env_arguments": {"maturity": 0}}, "maturity is 0"),
        ({**PORTFOLIO, "algorithm": "ppo"}, "choose one of 'nac', 'rcpo', 'nrcpo'"),
        ({**PORTFOLIO, "seed": -1}, "seed is -1"),
        ({**PORTFOLIO, "total_timesteps": 1.5}, "total_timesteps is 1.5"),
        ({**PORTFOLIO, "settings": 3}, "settings is 3; give a table"),
        ({**PORTFOLIO, "settings": {"target": 1.0}}, "settings have no threshold"),
        ({"env": "downside/Tree-v0"}, "no total_timesteps"),
        (settings(treshold=0.1), "no setting 'treshold'; did you mean threshold?"),
        (settings(threshold="low"), "threshold is 'low'"),
        (settings(target="centralized"), '"centralised", "td_error" or'),
        (settings(multiplier={"pidd": {}}), "did you mean pid?"),
        (settings(multiplier={"pid": {"rat": 1}}), "did you mean rate?"),
        ({**PORTFOLIO, "env": "nowhere:make"}, "cannot be imported"),
        ({**PORTFOLIO, "env": "math:pi"}, "not a function"),
        ({**PORTFOLIO, "settings": {"constraints": [{"target": 1.0}]}}, "no threshold"),
    ],
)
def test_what_is_wrong_is_named(specification, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        completed(specification)


def test_a_function_in_a_class():
    assert load("function", "pathlib:Path.home")()
