import jax.numpy as jnp
import pytest

from downside.critics import Sarsa


def test_a_replacing_trace_refuses_features_that_are_not_binary():
    critic = Sarsa(0.5, trace="replacing")
    step = (jnp.ones(1), jnp.ones(1), jnp.ones(2), 0.1)
    critic.update(critic.init(2, 1), jnp.array([1.0, 0.0]), *step)
    with pytest.raises(ValueError, match=r"needs features of 0 and 1.*accumulating"):
        critic.update(critic.init(2, 1), jnp.array([0.5, 0.0]), *step)
