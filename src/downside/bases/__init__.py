"""Bases: features of an observation, with names."""

from downside.bases.base import Basis, Box
from downside.bases.composite import Concatenation, Custom, Scaled
from downside.bases.fourier import Fourier
from downside.bases.one_hot import OneHot
from downside.bases.polynomial import Polynomial
from downside.bases.radial import Radial
from downside.bases.scaling import RunningMoments, Scaling
from downside.bases.tiles import TileCoding

__all__ = [
    "Basis",
    "Box",
    "Concatenation",
    "Custom",
    "Fourier",
    "OneHot",
    "Polynomial",
    "Radial",
    "RunningMoments",
    "Scaled",
    "Scaling",
    "TileCoding",
]
