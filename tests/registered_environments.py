"""What the tests of the Gymnasium wrappers share: our registered environments, with parameters."""

import pickle
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from downside.environments import Bandit, Consumption, Environment, Portfolio, Transition, Tree
from downside.records import record
from downside.registration import register_environments

register_environments()

KINDS = {f"downside/{kind.__name__}-v0": kind for kind in (Tree, Bandit, Portfolio, Consumption)}
PARAMETERS = {
    "downside/Tree-v0": {"discount": 0.9},
    "downside/Bandit-v0": {"std_b": 3.0, "pareto_shape": 2.5},
    "downside/Portfolio-v0": {"default_probability": 0.3, "horizon": 7},
    "downside/Consumption-v0": {"default_probability": 0.2, "horizon": 9},
}
every_id = pytest.mark.parametrize("env_id", list(KINDS))

N_COPIES = 5  # in most tests, which then share what is compiled


def make(env_id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(env_id, **PARAMETERS[env_id], **kwargs)


def make_vec(env_id: str, **kwargs: Any) -> Any:
    return gymnasium.make_vec(env_id, num_envs=N_COPIES, **PARAMETERS[env_id], **kwargs)


def actions_for(env: Any, n_steps: int, seed: int = 5) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(n_steps)]


def goes_on_when_pickled(env: Any) -> None:
    env.reset(seed=21)
    env.step(env.action_space.sample())
    env.reset()
    twin = pickle.loads(pickle.dumps(env))
    action = env.action_space.sample()
    assert data_equivalence(env.step(action), twin.step(action), exact=True)


@record
class Drift(Environment[Any]):
    """A walk with no mean reward, which counts how often it is compiled."""

    drift: float
    discount: float = 0.9
    horizon = None
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(3)
    n_compiled = 0

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        return jax.random.normal(key, shape)

    def reset(self, noise: Any) -> Any:
        return jnp.asarray(0.0), jnp.zeros(1)

    def mean_reward(self, state: Any, action: Any) -> None:
        return None

    def transition(self, state: Any, action: Any, noise: Any) -> Transition[Any]:
        Drift.n_compiled += 1
        place = state + self.drift + noise
        return Transition(
            obs=state[None],
            action=action,
            reward=place,
            mean_reward=None,
            next_obs=place[None],
            next_state=place,
            discount=jnp.asarray(self.discount),
            terminated=jnp.asarray(False),
            truncated=place > 2.0,
            time=jnp.asarray(0),
        )

    def render(self, state: Any) -> str:
        return f"{float(state):.2f}"
