"""Bases made by the user: a function, several bases side by side, a basis that is rescaled."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases.base import Basis
from downside.bases.scaling import Scaling
from downside.records import record, static


@final
@record
class Custom(Basis):
    """A function of the observation, with the names of the features that it returns.

    A feature named "1" is taken to be the constant.

    >>> Custom(lambda obs: np.stack([obs[..., 0], obs[..., 0] ** 2]), ["x", "x^2"]).n_features
    2
    """

    function: Callable[[Any], Any] = static()
    feature_names: Sequence[str] = static()

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", tuple(self.feature_names))
        if not self.feature_names:
            raise ValueError("the basis has no feature names; give one per feature")

    @property
    def names(self) -> tuple[str, ...]:
        """As given."""
        return tuple(self.feature_names)

    @property
    def constant(self) -> np.ndarray | None:
        """The feature that is named 1, if there is one."""
        is_one = np.array([name == "1" for name in self.names], float)
        return is_one / is_one.sum() if is_one.any() else None

    def __call__(self, obs: Any) -> Any:
        """What the function returns, if it has the promised size."""
        features = self.function(obs)
        if features.shape[-1:] != (self.n_features,):
            raise ValueError(
                f"the basis function returned the shape {features.shape}; "
                f"with {self.n_features} feature names its last axis must be {self.n_features}"
            )
        return features

    def outside(self, obs: Any) -> Any:
        """None: a function knows no box."""
        xp = array_module(obs)
        return xp.zeros(xp.asarray(obs).shape[:-1], int)


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
        scaling = self.features
        shift, scale = (np.asarray(x, float) for x in (scaling.shift, scaling.scale))
        level = 1.0 - np.sum(weights * shift)
        return weights * scale / level if level != 0.0 else None

    def __call__(self, obs: Any) -> Any:
        """Rescale, map, rescale."""
        features = self.basis(obs if self.inputs is None else self.inputs(obs))
        return features if self.features is None else self.features(features)

    def outside(self, obs: Any) -> Any:
        """What the basis clips of the rescaled inputs."""
        return self.basis.outside(obs if self.inputs is None else self.inputs(obs))
