"""Stable-Baselines3's own tools on our agents."""

import gymnasium
import numpy as np
import pytest

from downside.control import NAC
from downside.training.callbacks import check_callback

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore"),  # those of the other library
]

sb3 = pytest.importorskip("stable_baselines3")
evaluation = pytest.importorskip("stable_baselines3.common.evaluation")

QUIET = {"progress_bar": False}


@pytest.fixture(scope="module")
def agent():
    return NAC("CartPole-v1", seed=5).learn(40_000, **QUIET)


def returns(agent, env, **options):
    """Of each episode, as its `evaluate_policy` finds them."""
    return evaluation.evaluate_policy(agent, env, return_episode_rewards=True, **options)[0]


def monitored(**options):
    from stable_baselines3.common.monitor import Monitor

    return Monitor(gymnasium.make("CartPole-v1", **options))


def test_evaluate_policy_takes_an_agent_and_an_environment(agent):
    found = returns(agent, monitored(), n_eval_episodes=5)
    assert np.mean(found) > 400.0


def test_it_takes_several_copies_at_once(agent):
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env("CartPole-v1", n_envs=3, seed=1)
    assert np.mean(returns(agent, envs, n_eval_episodes=6)) > 400.0


def test_sampled_actions_are_those_that_the_agent_itself_is_judged_by(agent):
    # 40 episodes each; 4 standard errors of the difference of two means, 1 in 16,000.
    theirs = np.array(returns(agent, monitored(), n_eval_episodes=40, deterministic=False))
    (ours,) = agent.evaluate(40)
    spread = np.hypot(theirs.std(ddof=1), ours.episodes.returns.std(ddof=1)) / np.sqrt(40)
    assert abs(theirs.mean() - ours.mean.value) <= 4.0 * spread + 1e-9


def test_continuous_actions_fit_too():
    agent = NAC("Pendulum-v1").learn(4000, **QUIET)
    found = returns(agent, gymnasium.make("Pendulum-v1"), n_eval_episodes=2)
    assert np.all(np.isfinite(found))


def test_its_callbacks_are_answered_with_the_replacement():
    from stable_baselines3.common.callbacks import CheckpointCallback, StopTrainingOnMaxEpisodes

    for callback in (
        CheckpointCallback(10, "x"),
        StopTrainingOnMaxEpisodes,
        [StopTrainingOnMaxEpisodes(3)],
    ):
        with pytest.raises(ValueError, match=r"for Stable-Baselines3; .*callback=lambda record"):
            check_callback(callback)
