"""A model of the mean reward r(s, a), learnt in the same pass as the critics."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space
from jax.tree_util import Partial
from jaxtyping import Array, Float

from downside.bases.layout import Layout
from downside.checks import check_positive
from downside.records import record, static
from downside.training.features import features_for


@final
@record
class MeanReward:
    """r(s, a) = w . m(s, a), by normalised least mean squares at a small constant rate.

        w <- w + rate (R - w . m) m / |m|^2

    A running sample mean would do worse: one heavy-tailed reward would move it too far.

    >>> model = MeanReward(lambda obs, action: jnp.ones(1), n_features=1, rate=0.5)
    >>> weights = model.init()
    >>> for reward in (4.0, 4.0):
    ...     weights = model.update(weights, None, None, jnp.asarray(reward))
    >>> float(model.predict(weights, None, None))   # 2, then halfway to 4 again
    3.0
    """

    features: Callable[[Any, Any], Float[Array, " n"]]
    n_features: int = static()
    rate: float | Array = 1e-3

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        if not (isinstance(self.features, Partial) or is_dataclass(self.features)):
            # a pytree, so that it can pass through jit
            object.__setattr__(self, "features", Partial(self.features))

    def init(self) -> Float[Array, " n"]:
        """Nothing learnt: a mean of 0."""
        return jnp.zeros(self.n_features)

    def predict(self, weights: Any, obs: Any, action: Any) -> Float[Array, ""]:
        """The mean reward of an observation and an action."""
        return weights @ self.features(obs, action)

    def update(self, weights: Any, obs: Any, action: Any, reward: Any) -> Float[Array, " n"]:
        """Learn from one reward."""
        m = self.features(obs, action)
        size = jnp.maximum(m @ m, jnp.finfo(m.dtype).tiny)
        return weights + self.rate * (reward - weights @ m) * m / size


def predicted(model: MeanReward, weights: Any, obs: Any, action: Any) -> Float[Array, ""]:
    """`MeanReward.predict` as a function, for programs that are compiled once for all weights."""
    return model.predict(weights, obs, action)


def default_model(
    observations: Space[Any], actions: Space[Any], sample: Any, rate: float
) -> MeanReward:
    """On features of its own; ``sample`` is a pair of stacked observations and actions.

    >>> from gymnasium import spaces
    >>> default_model(spaces.Discrete(3), spaces.Discrete(2), None, rate=0.01).n_features
    6
    """
    features = features_for(observations, actions, None, sample)
    return MeanReward(features, features.n_features, rate)


@dataclass(frozen=True)
class Misfit:
    """What a richer model of the mean reward explains of the learnt one's errors.

    ``share`` is the part of the squared errors that it takes away, with one standard error;
    ``ratio`` is E[(m - R)+] with the learnt model over that with the richer one.
    """

    share: float
    standard_error: float
    ratio: float

    @property
    def is_large(self) -> bool:
        """More than a twentieth, beyond chance."""
        return self.share > max(0.05, 4.0 * self.standard_error)

    @property
    def note(self) -> str | None:
        """For a risk that was measured with the learnt model: how much of it is misfit, if any."""
        part = 1.0 - 1.0 / max(self.ratio, 1.0)
        if not self.is_large or part < 0.1:
            return None
        words = "all" if part > 0.99 else f"{part:.0%} or more"
        return (
            f"the learnt mean rewards do not fit: {words} of this risk is their "
            'error, not luck; give mean_reward=, or info["mean_reward"] in the environment'
        )

    def __str__(self) -> str:
        return (
            f"the learnt mean reward does not fit: a richer model takes away {self.share:.0%} of "
            f"its squared errors, and the misfit counts as risk (shortfalls below the learnt mean "
            f"are {self.ratio:.2f} times those below the richer model's); "
            "more steps, a larger rate or other features of MeanReward(...) would help"
        )


N_COSINES = 300


def misfit(
    model: MeanReward,
    weights: Any,
    sample: tuple[Any, Any, Any],
    observations: Space[Any],
    actions: Space[Any],
) -> Misfit:
    """Compare a learnt model with a richer one: its features and cosines of random directions.

    The richer model is fitted by ridge regression on one half of a sample (observations, actions,
    rewards) and judged on the other.
    """
    obs, acted, rewards = jax.tree.map(np.asarray, sample)
    parts = Layout.of(observations).vector(obs), Layout.of(actions).vector(acted)
    inputs = np.concatenate(parts, axis=-1)
    base = np.asarray(jax.vmap(model.features)(obs, acted), float)
    numbers = np.asarray(rewards, float)
    learnt = base @ np.asarray(weights, float)
    rng = np.random.default_rng(0)
    spread = inputs.std(axis=0)
    standard = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    directions = rng.normal(size=(inputs.shape[1], N_COSINES)) / np.sqrt(inputs.shape[1])
    cosines = np.cos(standard @ directions + rng.uniform(0.0, 2 * np.pi, N_COSINES))
    rich = np.concatenate([base, cosines], axis=1)
    half = len(rich) // 2
    gram = rich[:half].T @ rich[:half]
    ridge = 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram))
    level = numbers[:half].mean()  # left out of the ridge: rewards may be all alike
    moment = rich[:half].T @ (numbers[:half] - level)
    better = level + rich @ np.linalg.solve(gram + ridge, moment)
    errors, fewer = ((m - numbers)[half:] ** 2 for m in (learnt, better))
    total = max(float(errors.mean()), np.finfo(float).tiny)
    short, less = (np.maximum(m - numbers, 0.0)[half:].mean() for m in (learnt, better))
    return Misfit(
        share=float((errors - fewer).mean()) / total,
        standard_error=float((errors - fewer).std() / np.sqrt(len(errors))) / total,
        ratio=float(short / less) if less > 0 else np.inf,
    )
