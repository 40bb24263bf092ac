"""The basis that is used where the user names none, from the space of the observations."""

from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from downside.arrays import array_module, as_floats
from downside.bases.base import Basis
from downside.bases.composite import Scaled
from downside.bases.fourier import Fourier
from downside.bases.one_hot import OneHot
from downside.bases.polynomial import Polynomial
from downside.bases.scaling import RunningMoments
from downside.records import record, static


CLIP = 10.0
"""Standard deviations from the mean at which inputs are clipped, where that is asked for."""


def basis_for(
    space: Space[Any], sample: Any = None, max_features: int = 256, *, clipped: bool = False
) -> "FromSpace":
    """One-hot for a Discrete space, Fourier for a bounded Box of few inputs, else polynomials.

    Any other space is laid out as one vector first. ``sample`` are observations that were seen,
    stacked: they bring the inputs of a polynomial to unit size. The polynomial has degree 2 where
    that makes at most ``max_features``, else 1. ``clipped`` keeps its inputs within `CLIP` units.

    >>> basis_for(spaces.Discrete(5)).n_features, basis_for(spaces.Box(0.0, 1.0, (2,))).n_features
    (5, 16)
    >>> basis_for(spaces.Tuple([spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (1,))])).names
    ('1', 'x1', 'x2', 'x3', 'x1^2', 'x1 x2', 'x1 x3', 'x2^2', 'x2 x3', 'x3^2')
    """
    layout = Layout.of(space)
    if isinstance(space, spaces.Discrete):
        return FromSpace(layout, OneHot(int(space.n)))
    if isinstance(space, spaces.Box) and np.all(np.isfinite([space.low, space.high])):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        for order in (3, 2):
            if (order + 1) ** low.size <= max_features and _fills(sample, low, high):
                return FromSpace(layout, Fourier(low, high, order=order))
    order = 2 if (layout.size + 1) * (layout.size + 2) // 2 <= max_features else 1
    limit = CLIP if clipped and sample is not None else np.inf
    basis: Basis = Polynomial(layout.size, order, -limit, limit)
    if sample is not None:
        basis = Scaled(basis, inputs=_moments(layout.vector(sample)).scaling())
    return FromSpace(layout, basis)


@final
@record
class Layout:
    """Where the numbers of a space stand in one vector; a choice of n takes n numbers.

    >>> space = spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3, 2])])
    >>> Layout.of(space).vector((1, np.array([2, 0]))).tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    """

    kind: str = static()
    sizes: tuple[int, ...] = static(default=())
    starts: tuple[int, ...] = static(default=())
    keys: tuple[Any, ...] = static(default=())
    parts: "tuple[Layout, ...]" = static(default=())

    @staticmethod
    def of(space: Space[Any]) -> "Layout":
        """The layout of a Gymnasium space."""
        if isinstance(space, spaces.Discrete):
            return Layout("choice", (int(space.n),), (int(space.start),))
        if isinstance(space, spaces.MultiDiscrete):
            starts = np.broadcast_to(space.start, space.nvec.shape)
            return Layout(
                "choices", tuple(space.nvec.ravel().tolist()), tuple(starts.ravel().tolist())
            )
        if isinstance(space, spaces.Dict | spaces.Tuple):
            pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space)
            keys, parts = zip(*((key, Layout.of(part)) for key, part in pairs), strict=True)
            return Layout("parts", keys=keys, parts=parts)
        if isinstance(space, spaces.Box | spaces.MultiBinary):
            return Layout("numbers", space.shape)
        raise ValueError(
            f"there is no default basis for the space {space}; wrap the environment so that it "
            "observes a Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict"
        )

    @property
    def size(self) -> int:
        """The length of the vector."""
        if self.kind == "parts":
            return sum(part.size for part in self.parts)
        return int(np.prod(self.sizes, dtype=int) if self.kind == "numbers" else sum(self.sizes))

    def vector(self, obs: Any) -> Any:
        """One observation, or a batch with a leading axis, as vectors (..., size)."""
        if self.kind == "parts":
            pieces = [
                part.vector(obs[key]) for key, part in zip(self.keys, self.parts, strict=True)
            ]
            return array_module(*pieces).concatenate(pieces, axis=-1)
        xp = array_module(obs)
        numbers = as_floats(obs, xp)
        if self.kind == "numbers":
            return numbers.reshape(*numbers.shape[: numbers.ndim - len(self.sizes)], self.size)
        if self.kind == "choice":
            return OneHot(self.sizes[0])(numbers - self.starts[0])
        flat = numbers.reshape(*numbers.shape[:-1], len(self.sizes))
        pairs = enumerate(zip(self.sizes, self.starts, strict=True))
        pieces = [OneHot(n)(flat[..., i] - start) for i, (n, start) in pairs]
        return xp.concatenate(pieces, axis=-1)


@final
@record
class FromSpace(Basis):
    """A basis of the observations of a Gymnasium space, whatever their structure.

    >>> states = FromSpace(Layout.of(spaces.Discrete(3, start=1)), OneHot(3))
    >>> states(np.array(1)).tolist()
    [1.0, 0.0, 0.0]
    """

    layout: Layout
    basis: Basis

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the basis."""
        return self.basis.names

    @property
    def constant(self) -> np.ndarray | None:
        """That of the basis."""
        return self.basis.constant

    def __call__(self, obs: Any) -> Any:
        """Lay out, then map."""
        return self.basis(self._inputs(obs))

    def outside(self, obs: Any) -> Any:
        """What the basis clips."""
        return self.basis.outside(self._inputs(obs))

    def _inputs(self, obs: Any) -> Any:
        if isinstance(self.basis, OneHot):
            return as_floats(obs, array_module(obs)) - self.layout.starts[0]
        return self.layout.vector(obs)


def _fills(sample: Any, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether what was seen fills a box; bounds far outside would make cosines constant."""
    if sample is None or not np.all(low < high):
        return bool(np.all(low < high))
    seen = np.asarray(sample, float).reshape(-1, low.size)
    return bool(np.all(np.ptp(seen, axis=0) > 0.05 * (high.astype(float) - low)))


def _moments(vectors: Any) -> RunningMoments:
    """Count, mean and squares of rows; float32, as observations are."""
    rows = np.asarray(vectors, float)
    squares = np.sum((rows - rows.mean(0)) ** 2, axis=0)
    return RunningMoments(*(np.asarray(x, np.float32) for x in (len(rows), rows.mean(0), squares)))
