import numpy as np
import pytest

from downside.control import NAC, NRCPO
from downside.evaluation import compare
from downside.signals import Constraint, Penalty, TDError
from roads import two_roads

ROADS = two_roads(discount=0.9)


@pytest.fixture(scope="module")
def agent():
    return NRCPO(ROADS, target=1.0, threshold=[0.2, np.inf], n_seeds=2)


def test_evaluations_come_by_threshold_and_seed_with_their_bounds(agent):
    # Untrained, both roads are as likely: mean 1.25, shortfall below 1 of 2 with probability 1/4.
    # 4000 episodes, 4 standard errors are about 2.04 half-widths.
    found = agent.evaluate(4000)
    assert [one.bounds[0].threshold for one in found] == [0.2, 0.2, np.inf, np.inf]
    assert "0 of 2 seeds hold" in found.verdicts[0]
    assert "2 of 2 seeds hold" in found.verdicts[1]
    one = found[0]
    for measured, exact in ((one.mean, 1.25), (one.proxy, 0.5), (one["lpm0"], 0.25)):
        assert abs(measured.value - exact) < 2.04 * (measured.high - measured.low) / 2
    assert not one.deterministic


def test_episodes_depend_on_the_seed_of_the_evaluation_alone(agent):
    other = NRCPO(ROADS, target=1.0, threshold=[0.2, np.inf], n_seeds=2, seed=5)
    first, second = agent.evaluate(4000), other.evaluate(4000)
    np.testing.assert_array_equal(first[0].episodes.returns, second[3].episodes.returns)
    again = agent.evaluate(4000, seed=2)
    assert not np.array_equal(first[0].episodes.returns, again[0].episodes.returns)


def test_the_most_likely_actions_can_be_judged(agent):
    agent = NAC(ROADS, n_seeds=1).learn(40_000, progress_bar=False)
    found = agent.evaluate(4000, deterministic=True, target=1.0)
    assert set(found[0].episodes.returns.tolist()) == {4.0, -1.0}  # the better road on average
    assert "the deterministic policy" in str(found)
    assert found.verdicts == []


def test_agents_can_be_compared(agent):
    other = NRCPO(ROADS, target=1.0, threshold=0.3, n_seeds=2)
    found = compare(other, other, n_eval_episodes=100).differences[0]
    assert all((each.low, each.high) == (0.0, 0.0) for each in found.values())
    with pytest.raises(ValueError, match="several thresholds"):
        compare(agent, other, n_eval_episodes=100)


def test_a_bound_that_cannot_be_measured_is_said():
    constraints = [
        Constraint(TDError(), 0.5),
        Constraint(Penalty(lambda t: t.reward * 0.0 + 0.75, discount=1.0), 1.0),
    ]
    found = NRCPO(ROADS, constraints=constraints).evaluate(100)
    assert "proxy about the values <= 0.5; not measured" in str(found)
    assert "penalty <= 1; measured 0.75 [0.75, 0.75]: holds" in str(found)
