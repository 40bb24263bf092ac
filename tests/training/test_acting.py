import random

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from downside.training.acting import compiled_act

STATES, ACTIONS = spaces.Discrete(9), spaces.Discrete(3)
rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    "policy",
    [
        lambda obs: int(rng.integers(3)) if rng.random() < 1e-6 else 0,
        lambda obs: 1 if np.random.random() < 1e-6 else 0,  # noqa: NPY002
        lambda obs: 1 if random.random() < 1e-6 else 0,
        lambda obs: 1 if obs > 3 else 0,
        lambda obs: {3: 1}.get(obs, 0),
    ],
)
def test_what_is_python_is_not_compiled(policy):
    assert compiled_act(policy, STATES, ACTIONS) is None


@pytest.mark.parametrize("policy", [lambda obs: obs % 3, lambda obs: jnp.minimum(obs, 2)])
def test_arrays_are(policy):
    assert compiled_act(policy, STATES, ACTIONS) is not None
