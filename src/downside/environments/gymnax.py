"""Environments of gymnax 1.0 as ours, and ours in the style of gymnax; it need not be installed."""

from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Array, Bool, Float, Int

from downside.checks import check_probability
from downside.environments.base import Environment, Real, Transition, cut_discount
from downside.records import record, static


@record
class FromGymnaxState:
    """The state of the gymnax environment, what it showed last, and the steps that are done."""

    inner: Any
    obs: Array
    time: Int[Array, ""]


@final
@record
class FromGymnax(Environment[FromGymnaxState]):
    """An environment of gymnax 1.0, without its automatic reset.

    Its parameters are leaves, so that it can be vmapped over them; its time limit is a truncation.
    Its noise is a key: gymnax draws its numbers itself, and mixes types as JAX does by default.

    >>> import gymnax
    >>> env = FromGymnax(gymnax.make("CartPole-v1")[0], discount=0.99)
    >>> state, obs = env.reset(env.draw(jax.random.key(0)))
    >>> step = env.step(jax.random.key(1), state, jnp.asarray(1))
    >>> float(step.reward), bool(step.terminated), int(step.next_state.time)
    (1.0, False, 1)
    """

    truncates = True

    env: Any = static()
    params: Any = None
    discount: Real = 1.0
    horizon: None = static(default=None, init=False)

    def __post_init__(self) -> None:
        if not hasattr(self.env, "is_truncated"):
            raise ValueError(
                f"{self.env!r} is no environment of gymnax 1.0; "
                "give the first of the two values of gymnax.make(id)"
            )
        check_probability("discount", self.discount)
        if self.params is None:
            object.__setattr__(self, "params", self.env.default_params)

    @property
    def observation_space(self) -> Space[Any]:
        """The space that gymnax declares, as Gymnasium's."""
        return _gymnasium_space(self.env.observation_space(self.params))

    @property
    def action_space(self) -> Space[Any]:
        """The space that gymnax declares, as Gymnasium's."""
        return _gymnasium_space(self.env.action_space(self.params))

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Keys, one for each step."""
        return jax.random.split(key, shape)

    def reset(self, noise: Array) -> tuple[FromGymnaxState, Array]:
        """Start an episode, with another key than `transition` takes from the same noise."""
        with jax.numpy_dtype_promotion("standard"):
            obs, inner = self.env.reset_env(jax.random.fold_in(noise, 0), self.params)
        inner = jax.tree.map(jnp.asarray, inner)
        state = FromGymnaxState(inner, jnp.asarray(obs), jnp.asarray(0))
        return state, state.obs

    def mean_reward(self, state: FromGymnaxState, action: Array) -> None:
        """Not known."""

    def transition(
        self, state: FromGymnaxState, action: Array, noise: Array
    ) -> Transition[FromGymnaxState]:
        """Make one step of the gymnax environment."""
        action = jnp.asarray(action)
        with jax.numpy_dtype_promotion("standard"):
            typed = action.astype(self.env.action_space(self.params).dtype)
            obs, inner, reward, terminated, _ = self.env.step_env(
                jax.random.fold_in(noise, 1), state.inner, typed, self.params
            )
            truncated = self.env.is_truncated(inner, self.params)
        terminated = jnp.asarray(terminated, bool)
        next_state = FromGymnaxState(inner, jnp.asarray(obs), state.time + 1)
        return Transition(
            obs=state.obs,
            action=action,
            reward=jnp.asarray(reward, float),
            mean_reward=None,
            next_obs=next_state.obs,
            next_state=next_state,
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(truncated, bool),
            time=state.time,
        )

    def render(self, state: FromGymnaxState) -> str:
        """Every entry of the state with its name."""
        entries = jax.tree_util.tree_leaves_with_path(state.inner)
        return "  ".join(
            f"{jax.tree_util.keystr(path, simple=True, separator='.')} "
            f"{np.array2string(np.asarray(value), precision=4, threshold=6)}"
            for path, value in entries
        )


@final
class ToGymnax:
    """One of our environments with the methods of gymnax 1.0; its parameters are the record itself.

    >>> from downside.environments.tree import Tree
    >>> env = ToGymnax(Tree())
    >>> obs, state = env.reset(jax.random.key(0), env.default_params)
    >>> step = env.step(jax.random.key(1), state, jnp.asarray(1), env.default_params)
    >>> obs, state, reward, terminated, truncated, info = step
    >>> int(obs), float(reward), bool(terminated)
    (2, 1.0, False)
    """

    def __init__(self, environment: Environment[Any]) -> None:
        self.default_params = environment

    @property
    def name(self) -> str:
        """The name of the environment."""
        return type(self.default_params).__name__

    @property
    def num_actions(self) -> int:
        """The number of discrete actions, or the length of a continuous one."""
        space = self.default_params.action_space
        if isinstance(space, spaces.Discrete):
            return int(space.n)
        return int(np.prod(space.shape or ()))

    def action_space(self, params: Environment[Any] | None = None) -> Any:
        """What can be done, as a space of gymnax."""
        return _gymnax_space((params or self.default_params).action_space)

    def observation_space(self, params: Environment[Any] | None = None) -> Any:
        """What is observed, as a space of gymnax."""
        return _gymnax_space((params or self.default_params).observation_space)

    def reset(self, key: Array, params: Environment[Any] | None = None) -> tuple[Array, Any]:
        """Start an episode: its first observation, then its state."""
        return _reset(params or self.default_params, key)

    def step(
        self, key: Array, state: Any, action: Any, params: Environment[Any] | None = None
    ) -> tuple[Array, Any, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Any]]:
        """Make one step, and reset at its end; ``final_observation`` is what was seen before that.

        ``info`` also has the ``discount`` of the transition and, where it is known, r(s, a).
        """
        return _step(params or self.default_params, key, state, action)


@jax.jit
def _reset(env: Environment[Any], key: Array) -> tuple[Array, Any]:
    state, obs = env.reset(env.draw(key))
    return obs, state


@jax.jit
def _step(env: Environment[Any], key: Array, state: Any, action: Array) -> tuple[Any, ...]:
    step_key, reset_key = jax.random.split(key)
    transition = env.step(step_key, state, action)
    is_over = transition.terminated | transition.truncated
    following = jax.tree.map(
        partial(jnp.where, is_over),
        _reset(env, reset_key),
        (transition.next_obs, transition.next_state),
    )
    info = {
        "terminated": transition.terminated,
        "truncated": transition.truncated,
        "discount": transition.discount,
        "final_observation": transition.next_obs,
    }
    if transition.mean_reward is not None:
        info["mean_reward"] = transition.mean_reward
    ended = transition.terminated, transition.truncated
    return *following, transition.reward, *ended, info


def _gymnasium_space(space: Any) -> Space[Any]:
    from gymnax.environments.spaces import gymnax_space_to_gym_space

    return gymnax_space_to_gym_space(space)


def _gymnax_space(space: Space[Any]) -> Any:
    from gymnax.environments import spaces as gymnax_spaces

    if isinstance(space, spaces.Discrete) and space.start == 0:
        return gymnax_spaces.Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        low, high = jnp.asarray(space.low), jnp.asarray(space.high)
        return gymnax_spaces.Box(low, high, space.shape, space.dtype)
    raise ValueError(f"gymnax has no space like {space}; it has Discrete from 0, and Box")
