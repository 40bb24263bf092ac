"""Bases made by the user: a function, several bases side by side, a basis that is rescaled."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.bases.base import Basis
from downside.bases.scaling import Scaling
from downside.records import record, static


@final
@record
class Custom(Basis):
    """A function of observations (leading axes kept), with the names of the features it returns.

    A feature named "1" is taken to be the constant. To serve NumPy and JAX, the function uses
    operators, or takes the array module from the observation as here.

    >>> def powers(obs):
    ...     xp = obs.__array_namespace__()
    ...     return xp.stack([obs[..., 0], obs[..., 0] ** 2], axis=-1)
    >>> Custom(powers, ["x", "x^2"])(np.array([[2.0], [3.0]])).tolist()
    [[2.0, 4.0], [3.0, 9.0]]
    """

    function: Callable[[Any], Any] = static()
    feature_names: Sequence[str] = static()

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", tuple(self.feature_names))
        if not self.feature_names or len(set(self.feature_names)) < len(self.feature_names):
            raise ValueError(
                f"the feature names are {self.feature_names}; give one per feature, no two alike"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """As given."""
        return tuple(self.feature_names)

    @property
    def constant(self) -> np.ndarray | None:
        """The feature that is named 1, if there is one."""
        return np.eye(self.n_features)[self.names.index("1")] if "1" in self.names else None

    def __call__(self, obs: Any) -> Any:
        """What the function returns, if it has the promised size."""
        obs = array_module(obs).asarray(obs)
        features = self.function(obs)
        features = as_floats(features, array_module(features))
        of_numbers, of_vectors = ((*s, self.n_features) for s in (obs.shape, obs.shape[:-1]))
        if features.shape not in (of_numbers, of_vectors):
            raise ValueError(
                f"the basis function returned the shape {features.shape} for observations of "
                f"shape {obs.shape}; it must keep the leading axes, and return "
                f"{self.n_features} numbers for {self.n_features} feature names in the last"
            )
        return features

    def outside(self, obs: Any) -> Any:
        """None: a function knows no box."""
        features = self(obs)
        return array_module(features).zeros(features.shape[:-1], int)


@final
@record
class Concatenation(Basis):
    """The features of several bases, one after the other.

    >>> from downside.bases import Fourier, Polynomial
    >>> Concatenation([Polynomial(1), Fourier([0.0], [1.0], order=1)]).names
    ('1', 'x1', 'cos(0)', 'cos(pi x1)')
    """

    bases: Sequence[Basis]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bases", tuple(self.bases))
        if not self.bases:
            raise ValueError("a concatenation of no bases has no features; give at least one")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all."""
        return tuple(name for basis in self.bases for name in basis.names)

    @property
    def constant(self) -> np.ndarray | None:
        """That of the first basis that has one."""
        parts = [np.zeros(basis.n_features) for basis in self.bases]
        for part, basis in zip(parts, self.bases, strict=True):
            if basis.constant is not None:
                part[:] = basis.constant
                return np.concatenate(parts)
        return None

    def __call__(self, obs: Any) -> Any:
        """All features, in order."""
        parts = [basis(obs) for basis in self.bases]
        return array_module(*parts).concatenate(parts, axis=-1)

    def outside(self, obs: Any) -> Any:
        """The largest count of the bases."""
        counts = [basis.outside(obs) for basis in self.bases]
        return array_module(*counts).stack(counts).max(axis=0)


@final
@record
class Scaled(Basis):
    """A basis of rescaled inputs, or with rescaled features, or both.

    >>> from downside.bases import Polynomial
    >>> features = Scaled(Polynomial(2), features=Scaling(shift=0.0, scale=[1.0, 2.0, 10.0]))
    >>> features(np.array([4.0, 5.0])).tolist()
    [1.0, 2.0, 0.5]
    """

    basis: Basis
    inputs: Scaling | None = None
    features: Scaling | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the basis: a scale changes no meaning."""
        return self.basis.names

    @property
    def constant(self) -> np.ndarray | None:
        """That of the basis, if the features' scaling leaves it a constant."""
        weights = self.basis.constant
        if weights is None or self.features is None:
            return weights
        shift, scale = (np.asarray(x, float) for x in (self.features.shift, self.features.divisor))
        level = 1.0 - np.sum(weights * shift)
        centred_away = abs(level) < 1e-3  # running means add up to 1 up to their rounding only
        return None if centred_away else weights * scale / level

    def __call__(self, obs: Any) -> Any:
        """Rescale, map, rescale."""
        features = self.basis(self._inputs(obs))
        return features if self.features is None else self.features(features)

    def outside(self, obs: Any) -> Any:
        """What the basis clips of the rescaled inputs."""
        return self.basis.outside(self._inputs(obs))

    def _inputs(self, obs: Any) -> Any:
        return obs if self.inputs is None else self.inputs(obs)
