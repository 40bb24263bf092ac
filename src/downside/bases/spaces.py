"""The basis that is used where the user names none, from the space of the observations."""

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from downside.bases.base import Basis
from downside.bases.composite import Scaled
from downside.bases.fourier import Fourier
from downside.bases.layout import FromSpace, Layout
from downside.bases.one_hot import OneHot
from downside.bases.polynomial import Polynomial
from downside.bases.scaling import RunningMoments

CLIP = 10.0
"""Standard deviations from the mean at which inputs are clipped, where that is asked for."""


def basis_for(
    space: Space[Any], sample: Any = None, max_features: int = 256, *, clipped: bool = False
) -> FromSpace:
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
