"""What a policy promises: a distribution over actions, with parameters in one flat vector.

Everything but `score` is one formula for NumPy and JAX and keeps leading axes, so a trained policy
acts with NumPy alone. Randomness comes from outside: `draw` gives it, `sample` is a pure function.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

import numpy as np

from downside.arrays import array_module, as_floats, draw_in_a_row, outer_product


class Policy(ABC):
    """A distribution over actions that depends on the observation and on a vector of parameters."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """The length of the parameter vector."""

    @property
    @abstractmethod
    def action_shape(self) -> tuple[int, ...]:
        """() for an action that is an index, (n,) for one of n numbers."""

    @abstractmethod
    def init(self, key: Any) -> Any:
        """Initial parameters (P,), from a JAX key or from a NumPy Generator."""

    @abstractmethod
    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """The noise of ``shape`` actions, from a JAX key or from a NumPy Generator."""

    @abstractmethod
    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """An action, given the noise."""

    @abstractmethod
    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """log pi(action | obs): of a probability or of a density."""

    @abstractmethod
    def mode(self, params: Any, obs: Any) -> Any:
        """The most likely action."""

    @abstractmethod
    def entropy(self, params: Any, obs: Any) -> Any:
        """-E[log pi(A | obs)]."""

    @abstractmethod
    def baseline(self, obs: Any) -> Any:
        """Features of the observation alone, for the state's part of a value."""

    def score(self, params: Any, obs: Any, action: Any, **options: Any) -> Any:
        """The gradient of log pi(action | obs) in the parameters [score]; for one observation."""
        import jax

        return jax.grad(lambda p: self.log_prob(p, obs, action, **options))(params)

    @abstractmethod
    def factors(self, params: Any, obs: Any, action: Any, **options: Any) -> tuple[Any, Any]:
        """Two vectors, whose outer product row by row is `compatible`: less to carry in a loop.

        The score is made of whole rows, the baseline of the others. Where nothing is known about
        the score, `one_factor` gives them.
        """

    def compatible(self, params: Any, obs: Any, action: Any, **options: Any) -> Any:
        """The features of a compatible critic: [score | baseline] (Theorem 1)."""
        return outer_product(*self.factors(params, obs, action, **options))


def one_factor(policy: Policy, params: Any, obs: Any, action: Any, **options: Any) -> Any:
    """`Policy.factors` where nothing is known about the score: all features, and 1."""
    import jax.numpy as jnp

    score = policy.score(params, obs, action, **options)
    x = jnp.concatenate([score, jnp.asarray(policy.baseline(obs), score.dtype)])
    return x, jnp.ones(1, x.dtype)


def score_factors(
    policy: Policy, params: Any, obs: Any, action: Any, **options: Any
) -> tuple[Any, Any]:
    """`Policy.factors` of the score alone, without the rows of the baseline."""
    rows, columns = policy.factors(params, obs, action, **options)
    return rows[: policy.n_params // columns.shape[0]], columns


def draw_uniform(key: Any, shape: tuple[int, ...]) -> Any:
    """Uniform numbers on [0, 1) from a JAX key or a NumPy Generator."""
    if isinstance(key, np.random.Generator):
        return key.random(shape)
    import jax

    return draw_in_a_row(jax.random.uniform, key, shape)


def draw_normal(key: Any, shape: tuple[int, ...]) -> Any:
    """Standard normal numbers from a JAX key or a NumPy Generator."""
    if isinstance(key, np.random.Generator):
        return key.standard_normal(shape)
    import jax

    return draw_in_a_row(jax.random.normal, key, shape)


def as_params(params: Any, n_params: int) -> Any:
    """The parameters as floats, if there are as many as there must be."""
    params = as_floats(params, array_module(params))
    if params.shape != (n_params,):
        raise ValueError(
            f"the parameters have the shape {params.shape}; this policy has {n_params} of them in "
            "one vector, such as init returns"
        )
    return params


def cast(x: Any, like: Any) -> Any:
    """An array of the width of ``like``; of JAX if one of them is."""
    xp = array_module(x, like)
    return xp.asarray(x, xp.asarray(like).dtype)


def as_action(action: Any, size: int, like: Any) -> Any:
    """An action of ``size`` numbers, of the width of ``like``."""
    action = cast(action, like)
    if action.shape[-1:] != (size,):
        raise ValueError(
            f"the action has the shape {action.shape}; its last axis must hold {size} numbers"
        )
    return action


def settle_start(policy: Any, size: int) -> None:
    """Keep a start in words, ``start`` and ``width``, as tuples of ``size`` numbers."""
    for name in ("start", "width"):
        value = getattr(policy, name)
        if value is None:
            continue
        numbers = np.asarray(value, float)
        if numbers.shape not in ((), (size,)):
            raise ValueError(f"{name} is {value}; give one number, or one for each of {size}")
        object.__setattr__(policy, name, tuple(np.broadcast_to(numbers, (size,)).tolist()))


def special_functions(x: Any) -> Any:
    """SciPy's special functions, or JAX's copies of them."""
    return import_module("scipy.special" if array_module(x) is np else "jax.scipy.special")


def away_from_zero(x: Any) -> Any:
    """A positive number that was rounded to 0, moved to where it can be divided by."""
    xp = array_module(x)
    info = xp.finfo(x.dtype)
    return xp.maximum(x, float(info.tiny / info.eps))
