"""A policy step in batches: what a constant in the advantages does to it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import Polynomial
from downside.environments import Portfolio
from downside.policies import Gibbs
from downside.signals import Reward
from downside.training.batch_learner import start
from downside.training.batch_update import improve
from downside.training.batches import Batches, Steps
from downside.training.fisher import Scores


@pytest.mark.parametrize(("centred", "change"), [(True, -(0.02**0.5)), (False, 0.02**0.5)])
def test_centred_advantages_are_told_from_their_mean(centred, change):
    # Scores 1 and 3 with advantages 4 and 2: the gradient is (4 + 6) / 2 = 5, and (1 - 3) / 2 = -1
    # about their mean. A step of 0.05 nats where F = (1 + 9) / 2 = 5 is sqrt(2 * 0.05 / 5) long.
    agent = Batches(
        Portfolio(discount=0.97),
        Gibbs(Polynomial(6), 11),
        (Reward(0.97),),
        temperature=0.0,
        direction="plain",
        centred=centred,
    )
    learner = replace(start(agent, jax.random.key(0)), theta=jnp.zeros(1))
    none = jnp.zeros((2, 1))
    scores = Scores(jnp.array([[1.0], [3.0]]), jnp.ones((2, 1)))
    steps = Steps(none, none, scores, jnp.zeros(2), none, none, *[jnp.zeros(2)] * 3)
    found = improve(agent, learner, steps, jnp.array([[4.0], [2.0]]))
    np.testing.assert_allclose(found.theta, [change], rtol=1e-6)
