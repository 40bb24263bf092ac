from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import OneHot
from downside.environments import Bandit
from downside.policies import Gibbs
from downside.signals import Reward
from downside.training.batch_learner import start
from downside.training.batch_update import improve
from downside.training.batches import Batches, Steps

N_STEPS = 50


def step_of(unit, scale, before=1.0):
    """The policy step from gains times ``scale``, where the first batch had them times ``before``.

    The policy is not uniform, so that entropy has a gradient too.
    """
    policy = Gibbs(OneHot(1), 3)
    settings = {"temperature": 0.2, "kl": 1e-3, "gain_unit": unit}
    agent = Batches(Bandit(), policy, (Reward(1.0),), **settings)
    learner = start(agent, jax.random.key(3))
    theta = jnp.array([0.4, -0.3, 0.1])
    obs = jnp.asarray(0)
    rng = np.random.default_rng(4)
    actions = jnp.asarray(rng.integers(0, 3, N_STEPS))
    steps = Steps(
        x=jnp.ones((N_STEPS, 1)),
        next_x=jnp.ones((N_STEPS, 1)),
        score=jax.vmap(lambda a: policy.score(theta, obs, a))(actions),
        log_prob=jax.vmap(lambda a: policy.log_prob(theta, obs, a))(actions),
        cumulants=jnp.zeros((N_STEPS, 1)),
        discounts=jnp.ones((N_STEPS, 1)),
        over=jnp.zeros(N_STEPS, bool),
    )
    gains = jnp.asarray(rng.normal(0.3, 1.0, (N_STEPS, 1)), jnp.float32)
    first = improve(agent, replace(learner, theta=theta), steps, before * gains)
    second = improve(agent, replace(first, theta=theta), steps, scale * gains)
    return np.asarray(second.theta - theta)


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_in_units_of_the_batch_a_step_does_not_depend_on_how_large_gains_have_become(scale):
    expected = step_of("batch", 1.0)
    assert np.linalg.norm(expected) > 1e-3
    np.testing.assert_allclose(step_of("batch", scale), expected, rtol=1e-3, atol=1e-6)


def test_in_units_of_the_first_batch_it_does():
    # Of gains a thousandth as large, entropy is all that is left: towards the uniform policy.
    away = jnp.array([0.4, -0.3, 0.1])
    assert step_of("first", 1e-3) @ away < 0.0
    assert np.linalg.norm(step_of("first", 1e-3) - step_of("first", 1.0)) > 1e-2


def test_gains_of_nothing_leave_entropy_alone():
    for unit in ("first", "batch"):
        found = step_of(unit, 0.0)
        assert np.all(np.isfinite(found))
        assert found @ jnp.array([0.4, -0.3, 0.1]) < 0.0
