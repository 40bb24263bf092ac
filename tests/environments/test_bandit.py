import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.environments import Bandit
from downside.environments.episodes import rollout
from downside.exact.bandit import bandit_arm_lpms, bandit_arm_means
from simulation_checks import (
    AS_ARRAY,
    agrees,
    draw_action,
    is_refused,
    noise,
    sample_rewards,
    start,
    walk,
)


def test_pulls_by_hand():
    # arms at Z = -0.5 and U = 0.875: 2 - 0.5 * 3, 5 - 0.5 * 4, and 1.5 * 0.125^(-1/3) = 3
    env = Bandit(mean_a=2.0, std_a=3.0, mean_b=5.0, std_b=4.0, pareto_scale=1.5, pareto_shape=3.0)
    pulls = [walk(env, [arm], [noise([0.875], [-0.5])])[0] for arm in range(3)]

    assert [float(pull.reward) for pull in pulls] == pytest.approx([0.5, 3.0, 3.0])
    assert [float(pull.mean_reward) for pull in pulls] == pytest.approx([2.0, 5.0, 2.25])
    assert all(bool(pull.terminated) and float(pull.discount) == 0.0 for pull in pulls)


@pytest.mark.slow
@pytest.mark.parametrize("arm", [0, 1, 2])
def test_arms_have_their_moments(arm):
    env = Bandit(mean_a=0.5, std_a=1.5, mean_b=3.0, std_b=2.0, pareto_scale=0.7, pareto_shape=3.5)
    act = Partial(draw_action, jnp.asarray(np.eye(3)[arm]))
    rewards = np.asarray(rollout(env, act, jax.random.key(8), 200_000).total, float)
    mean = bandit_arm_means(env)[arm]
    below = np.maximum(mean - rewards, 0.0)

    agrees(rewards, mean)
    agrees(below, bandit_arm_lpms(env)[arm])
    agrees(below**2, bandit_arm_lpms(env, order=2)[arm])


def test_the_pareto_arm_is_finite_at_the_ends_of_its_noise():
    ends = [0.0, np.nextafter(np.float32(1.0), np.float32(0.0))]
    rewards = [float(walk(Bandit(), [2], [noise([u], [0.0])])[0].reward) for u in ends]

    assert rewards[0] == pytest.approx(1.0)  # the scale: nothing lies below it
    assert np.isfinite(rewards[1])


@pytest.mark.slow
def test_mean_reward_is_the_average_of_the_rewards():
    env, pareto = Bandit(mean_b=2.5, pareto_shape=3.2), jnp.asarray(2)

    rewards = sample_rewards(env, start(env), pareto)

    agrees(rewards, float(env.mean_reward(start(env), pareto)))


@AS_ARRAY
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("std_a", 0.0, r"std_a is 0\.0; .*above 0"),
        ("std_b", -1.0, r"std_b is -1\.0; .*above 0"),
        ("mean_a", np.inf, r"mean_a is inf; .*finite"),
        ("mean_b", np.nan, r"mean_b is nan; .*finite"),
        ("pareto_scale", 0.0, r"pareto_scale is 0\.0; .*above 0"),
        ("pareto_shape", 1.0, r"pareto_shape is 1\.0; .*above 1"),
    ],
)
def test_bad_parameters_are_refused(name, value, advice, as_array):
    is_refused(Bandit, name, value, advice, as_array)
