"""What a policy promises: a distribution over actions, with parameters in one flat vector.

Everything but `score` is one formula for NumPy and JAX and keeps leading axes, so a trained policy
acts with NumPy alone. Randomness comes from outside: `draw` gives it, `sample` is a pure function.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from downside.bases import Basis


class Policy(ABC):
    """A distribution over actions that depends on the observation and on a vector of parameters."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """The length of the parameter vector."""

    @property
    @abstractmethod
    def action_size(self) -> int:
        """How many numbers an action has; 1 for a discrete one."""

    @abstractmethod
    def init(self, key: Any) -> Any:
        """Initial parameters (P,); the key matters for networks only."""

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

    @abstractmethod
    def to_vector(self, action: Any) -> Any:
        """The action as a vector of ``action_size`` floats."""

    @abstractmethod
    def from_vector(self, vector: Any) -> Any:
        """The action that a vector stands for."""

    def score(self, params: Any, obs: Any, action: Any, **options: Any) -> Any:
        """The gradient of log pi(action | obs) in the parameters [score]."""
        import jax

        return jax.grad(lambda p: self.log_prob(p, obs, action, **options))(params)

    def compatible(self, params: Any, obs: Any, action: Any, **options: Any) -> Any:
        """The features of a compatible critic: [score | baseline] (Theorem 1)."""
        import jax.numpy as jnp

        return jnp.concatenate([self.score(params, obs, action, **options), self.baseline(obs)])


def draw_uniform(key: Any, shape: tuple[int, ...]) -> Any:
    """Uniform numbers on [0, 1) from a JAX key or a NumPy Generator."""
    if isinstance(key, np.random.Generator):
        return key.random(shape)
    import jax

    return jax.random.uniform(key, shape)


def draw_normal(key: Any, shape: tuple[int, ...]) -> Any:
    """Standard normal numbers from a JAX key or a NumPy Generator."""
    if isinstance(key, np.random.Generator):
        return key.standard_normal(shape)
    import jax

    return jax.random.normal(key, shape)


def constant_weights(basis: Basis) -> np.ndarray:
    """The weights of a constant, which a start in words needs."""
    weights = basis.constant
    if weights is None:
        raise ValueError(
            "a start near an action needs a constant feature, and this basis has none; "
            "add one, such as Concatenation([Polynomial(n), basis]), or a feature named '1'"
        )
    return weights


def settle_start(policy: Any) -> None:
    """Keep a start in words as numbers that can be hashed: floats, or tuples of them."""
    for name in ("start", "width"):
        value = getattr(policy, name)
        if value is not None:
            numbers = np.asarray(value, float).tolist()
            object.__setattr__(policy, name, tuple(numbers) if np.ndim(value) else numbers)
