"""What fixed policies of consumption are worth."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from consumption_markets import EVEN, LINEAR_TARGETS, STEPS, other_market
from downside.environments import Consumption
from downside.environments.episodes import rollout
from downside.exact.consumption import evaluate_fixed, optimum

AT_THE_END = np.where(STEPS == 199, 1.0, 0.0)
FRACTIONS = np.array([0.1, 0.25, 0.02, 0.4, 0.3, 0.7])
SHARES = np.array([0.9, 0.2, 0.55, 1.0, 0.35, 0.6])


@pytest.mark.parametrize(
    ("fractions", "share", "mean", "std", "risk"),
    [
        (EVEN, 0.0, 1.022908, 0.00563, 0.0),
        (EVEN, 1.0, 1.443506, 0.57173, 0.0),
        (0.01, 0.0, 0.915377, 0.05826, 0.508029),
        (0.01, 1.0, 1.117216, 0.33714, 1.224952),
        (AT_THE_END, 1.0, 2.001299, 1.31803, 8.614846),
        (np.where(STEPS < 10, 0.0, EVEN), 1.0, 1.466013, 0.60074, 0.051981),
    ],
)
def test_known_values_of_fixed_policies(fractions, share, mean, std, risk):
    answer = evaluate_fixed(Consumption(), fractions, share)

    assert answer.mean == pytest.approx(mean, abs=1e-6)
    assert answer.std == pytest.approx(std, abs=1e-5)
    assert answer.risk == pytest.approx(risk, abs=1e-6)


def test_two_steps_by_hand():
    # 2.5 of wealth; fractions 0.1, 0.25; shares 0.9, 0.2; growth 1.135 risky and 1.045 liquid.
    # step 0: 0.25 consumed, 0.225 liquid, 2.025 risky; target 1.25
    # default (0.2):  G = 0.475, signal 0.775
    # otherwise:      W' = 2.025 (1.135 + 0.4 sqrt(0.15) Z) + 0.225 * 1.045 = 2.5335 + spread Z
    #   step 1: 0.25 W' consumed, 0.6 W' liquid; target W'
    #   default (0.2): reward 0.85 W', signal 0.15 W';  otherwise 0.25 W', signal 0.75 W'
    #   so on average 0.37 W' and 0.63 W'; the second moment of the factor is 0.1945
    wealth, spread = 2.5335, 2.025 * 0.4 * np.sqrt(0.15)
    mean = 0.2 * 0.475 + 0.8 * (0.25 + 0.9 * 0.37 * wealth)
    risk = 0.2 * 0.775 + 0.8 * (1.0 + 0.9 * 0.63 * wealth)
    second = 0.2 * 0.475**2 + 0.8 * (
        0.25**2 + 2 * 0.25 * 0.9 * 0.37 * wealth + 0.81 * 0.1945 * (wealth**2 + spread**2)
    )

    answer = evaluate_fixed(other_market(horizon=2), FRACTIONS[:2], SHARES[:2])

    assert answer.mean == pytest.approx(mean, rel=1e-12)
    assert answer.risk == pytest.approx(risk, rel=1e-12)
    assert answer.std == pytest.approx(np.sqrt(second - mean**2), rel=1e-12)


@pytest.mark.parametrize("target", LINEAR_TARGETS)
def test_all_paths_give_the_same_moments(target):
    """Three nodes integrate the normal price exactly, as the return is linear in each price."""
    env = other_market(target=target, horizon=4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    outcomes = [
        (None, 0.2),
        *((z, 0.8 * w) for z, w in zip(nodes, weights / weights.sum(), strict=True)),
    ]
    rates = {
        "fixed-rate": [1 / 4, 1 / 3, 1 / 2, 1.0],
        "printed-steps": [0.6, 0.45, 0.3, 0.15],
        "printed-time": [0.15 * (1 - 0.15 * t) for t in range(4)],
    }[target]
    moments = np.zeros(3)
    for path in product(outcomes, repeat=4):
        wealth, total, risk, probability = 2.5, 0.0, 0.0, 1.0
        for t, (z, weight) in enumerate(path):
            probability *= weight
            consumed = FRACTIONS[t] * wealth
            rest = wealth - consumed
            liquid, risky = (1 - SHARES[t]) * rest, SHARES[t] * rest
            reward = consumed + (liquid if z is None else 0.0)
            total += 0.9**t * reward
            risk += 0.9**t * max(rates[t] * wealth - reward, 0.0)
            if z is None:
                wealth = 0.0
            else:
                wealth = 1.045 * liquid + (1.135 + 0.4 * np.sqrt(0.15) * z) * risky
        moments += probability * np.array([total, total**2, risk])

    answer = evaluate_fixed(env, FRACTIONS[:4], SHARES[:4])

    assert answer.mean == pytest.approx(moments[0], rel=1e-10)
    assert answer.std == pytest.approx(np.sqrt(moments[1] - moments[0] ** 2), rel=1e-10)
    assert answer.risk == pytest.approx(moments[2], rel=1e-10)


@pytest.mark.slow
def test_simulation_agrees():
    envs = [other_market(target=target) for target in LINEAR_TARGETS]

    def act(plan, obs, key):
        return plan[obs[0].astype(int)]

    def measure(step):
        gaps = [jnp.maximum(env.step_target(step) - step.reward, 0.0) for env in envs]
        return step.reward, *gaps

    plan = jnp.asarray(np.stack([SHARES, FRACTIONS], axis=1))
    sums = rollout(envs[0], Partial(act, plan), jax.random.key(11), 100_000, measure=measure)
    returns, *risks = (np.asarray(x, float) for x in sums.discounted)
    answers = [evaluate_fixed(env, FRACTIONS, SHARES) for env in envs]

    squares = (returns - answers[0].mean) ** 2
    for samples, exact in (
        (returns, answers[0].mean),
        (squares, answers[0].std ** 2),
        *((samples, answer.risk) for samples, answer in zip(risks, answers, strict=True)),
    ):
        error = samples.std() / np.sqrt(len(samples))
        assert abs(samples.mean() - exact) < 4 * error


def test_a_sure_thing_has_no_deviation():
    sure = other_market(default_probability=0.0)
    answer = evaluate_fixed(sure, FRACTIONS, 0.0)

    wealth = 2.5 * 1.045 ** np.arange(6) * np.cumprod([1.0, *(1 - FRACTIONS[:-1])])
    assert answer.std == 0.0
    assert answer.mean == pytest.approx(np.sum(0.9 ** np.arange(6) * FRACTIONS * wealth))


def test_every_answer_scales_with_the_initial_wealth():
    one = evaluate_fixed(other_market(initial_wealth=1.0), FRACTIONS, SHARES)
    three = evaluate_fixed(other_market(initial_wealth=3.0), FRACTIONS, SHARES)

    assert three.mean == pytest.approx(3 * one.mean)
    assert three.std == pytest.approx(3 * one.std)
    assert three.risk == pytest.approx(3 * one.risk)


def test_a_target_that_is_not_linear_in_wealth_is_refused():
    env = Consumption(target="capital")
    with pytest.raises(ValueError, match=r"'capital'.*simulate with .*rollout"):
        evaluate_fixed(env, 0.1, 0.5)
    with pytest.raises(ValueError, match="'capital'"):
        optimum(env, 0.1)


def test_policies_of_the_wrong_shape_or_range_are_refused():
    with pytest.raises(ValueError, match=r"fractions has the shape \(3,\).*\(200,\)"):
        evaluate_fixed(Consumption(), [0.1, 0.2, 0.3], 0.5)
    with pytest.raises(ValueError, match=r"shares is 1\.5; .*\[0, 1\]"):
        evaluate_fixed(Consumption(), 0.1, 1.5)


def test_a_certain_default_leaves_one_step():
    # 0.02 of the wealth is consumed, 0.05 of the other 0.98 is liquid; the target is a sixth
    env = other_market(default_probability=1.0)
    answer = evaluate_fixed(env, 0.02, 0.95)

    assert answer.mean == pytest.approx(2.5 * 0.069)
    assert answer.std == 0.0
    assert answer.risk == pytest.approx(2.5 * (1 / 6 - 0.069))
    assert optimum(env, np.inf).mean == pytest.approx(2.5)
