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
from downside.training.fisher import Scores

N_STEPS = 50
POLICY = Gibbs(OneHot(1), 3)
THETA = jnp.array([0.4, -0.3, 0.1])  # not uniform, so that entropy has a gradient too


def batch():
    """Steps of the policy, and their gains."""
    obs = jnp.asarray(0)
    rng = np.random.default_rng(4)
    actions = jnp.asarray(rng.integers(0, 3, N_STEPS))
    steps = Steps(
        x=jnp.ones((N_STEPS, 1)),
        next_x=jnp.ones((N_STEPS, 1)),
        scores=jax.vmap(lambda a: Scores.of(POLICY, THETA, obs, a))(actions),
        log_prob=jax.vmap(lambda a: POLICY.log_prob(THETA, obs, a))(actions),
        cumulants=jnp.zeros((N_STEPS, 1)),
        discounts=jnp.ones((N_STEPS, 1)),
        over=jnp.zeros(N_STEPS, bool),
        action=actions,
        time=jnp.zeros(N_STEPS, int),
    )
    return steps, jnp.asarray(rng.normal(0.3, 1.0, (N_STEPS, 1)), jnp.float32)


def step_of(unit, scale, before=1.0):
    """The policy step from gains times ``scale``; those of the first batch times ``before``."""
    settings = {"temperature": 0.2, "kl": 1e-3, "gain_unit": unit}
    agent = Batches(Bandit(), POLICY, (Reward(1.0),), **settings)
    learner = start(agent, jax.random.key(3))
    steps, gains = batch()
    first = improve(agent, replace(learner, theta=THETA), steps, before * gains)
    second = improve(agent, replace(first, theta=THETA), steps, scale * gains)
    return np.asarray(second.theta - THETA)


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_in_units_of_the_batch_a_step_does_not_depend_on_how_large_gains_have_become(scale):
    expected = step_of("batch", 1.0)
    assert np.linalg.norm(expected) > 1e-3
    np.testing.assert_allclose(step_of("batch", scale), expected, rtol=1e-3, atol=1e-6)


def test_in_units_of_the_first_batch_it_does():
    # Of gains a thousandth as large, entropy is all that is left: towards the uniform policy.
    assert step_of("first", 1e-3) @ THETA < 0.0
    assert np.linalg.norm(step_of("first", 1e-3) - step_of("first", 1.0)) > 1e-2


@pytest.mark.parametrize("annealed", [False, True])
def test_damping_fades_with_the_root_of_time_where_it_is_annealed(annealed):
    # After three times kl_steps, that is to half: w is along (F + damping)^-1 mean[score A].
    steps, gains = batch()
    settings = {"temperature": 0.0, "damping": 0.5, "kl_steps": 1e4, "annealed": annealed}
    agent = Batches(Bandit(), POLICY, (Reward(1.0),), **settings)
    learner = start(agent, jax.random.key(3))
    late = replace(learner, theta=THETA, steps=jnp.asarray(30_000), spread=jnp.asarray(2.0))
    moved = np.asarray(improve(agent, late, steps, gains).theta - THETA, float)
    score = np.asarray(steps.scores.whole, float)
    damped = score.T @ score / N_STEPS + (0.5 if annealed else 1.0) * np.eye(3)
    expected = np.linalg.solve(damped, score.T @ np.asarray(gains, float)[:, 0] / N_STEPS)
    np.testing.assert_allclose(
        moved / np.linalg.norm(moved), expected / np.linalg.norm(expected), atol=1e-5
    )


def test_gains_of_nothing_leave_entropy_alone():
    for unit in ("first", "batch"):
        found = step_of(unit, 0.0)
        assert np.all(np.isfinite(found))
        assert found @ THETA < 0.0
