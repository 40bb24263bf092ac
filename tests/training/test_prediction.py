import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.critics import LSTD, Sarsa
from downside.environments import Bandit, Tabular
from downside.exact.bandit import bandit_arm_lpms
from downside.signals import Centralised, Fixed, Proxy, Reward
from downside.training.mean_reward import MeanReward
from downside.training.prediction import (
    Prediction,
    run_prediction,
    start_prediction,
    start_predictions,
)


def small(steps):
    return jnp.asarray(0.01)


def one_hot_arm(obs, action):
    return jax.nn.one_hot(action, 3)


def arm_features(obs, action, time):
    return jax.nn.one_hot(action, 3)


def any_arm(obs, key):
    return jax.random.randint(key, (), 0, 3)


def learn_weights(problem, n_seeds, n_steps):
    @jax.jit
    @jax.vmap
    def run(key):
        start = start_prediction(problem, key)
        state = run_prediction(problem, start, jax.random.fold_in(key, 1), n_steps)
        return problem.critic.weights(state.critic), state.mean_reward

    return run(jax.random.split(jax.random.key(3), n_seeds))


@pytest.mark.slow
def test_a_learnt_mean_reward_gives_the_risk_of_each_arm():
    # The mean is learnt at a small rate and used before its update, so it is slightly noisy; the
    # risk of a normal arm grows by a factor sqrt(1 + rate / 2), which is 1.003 here.
    bandit = Bandit(pareto_shape=6.0)  # a tail light enough for a test with standard errors
    problem = Prediction(
        env=bandit,
        act=Partial(any_arm),
        features=Partial(arm_features),
        signals=(Reward(1.0), Proxy(Centralised(), 1.0, horizon=1)),
        critic=LSTD(ridge=1e-3, forgetting=0.9995),  # forgets the steps with an unlearnt mean
        step_size=Partial(small),
        n_features=3,
        mean_reward=MeanReward(Partial(one_hot_arm), n_features=3, rate=0.01),
    )

    weights, means = learn_weights(problem, n_seeds=24, n_steps=20_000)

    for measured, exact in (
        (weights[:, 1], bandit_arm_lpms(bandit)),
        (means, np.asarray(bandit.arm_means())),
    ):
        numbers = np.asarray(measured, float)
        error = numbers.std(0, ddof=1) / np.sqrt(24)
        assert np.all(np.abs(numbers.mean(0) - exact) < 4 * error + 0.005 * np.abs(exact))


def test_the_first_signal_must_be_the_reward():
    with pytest.raises(ValueError, match="the first signal is the reward"):
        Prediction(
            env=Bandit(),
            act=any_arm,
            features=arm_features,
            signals=(Proxy(Centralised(), 1.0),),
            critic=Sarsa(),
            step_size=small,
            n_features=3,
        )


@pytest.mark.slow
def test_predictions_at_the_start_are_averaged_over_start_states():
    # Two start states with probabilities 0.25 and 0.75 and certain rewards 1 and 3, then the end:
    # J = 2.5; against a fixed target of 2 the shortfalls are 1 and 0, so J_C = 0.25.
    mdp = Tabular(
        [[[1.0]], [[1.0]]], [[[1.0]], [[3.0]]], next_states=0, start=[0.25, 0.75], horizon=1
    )
    problem = Prediction(
        env=mdp,
        act=Partial(lambda obs, key: jnp.asarray(0)),
        features=Partial(lambda obs, action, time: jax.nn.one_hot(obs, 2)),
        signals=(Reward(1.0), Proxy(Fixed(2.0), 1.0, horizon=1)),
        critic=LSTD(ridge=1e-4),
        step_size=Partial(small),
        n_features=2,
    )
    state = run_prediction(
        problem, start_prediction(problem, jax.random.key(0)), jax.random.key(1), 400
    )

    at_start = start_predictions(problem, state, jax.random.key(2), n_starts=4000)

    # 4 standard errors of the share of start states
    assert float(at_start[0]) == pytest.approx(2.5, abs=4 * 2 * np.sqrt(0.1875 / 4000) + 1e-3)
    assert float(at_start[1]) == pytest.approx(0.25, abs=4 * np.sqrt(0.1875 / 4000) + 1e-3)
