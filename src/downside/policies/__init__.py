"""Policies: distributions over actions with one vector of parameters."""

from downside.policies.base import Policy
from downside.policies.beta import Beta
from downside.policies.gaussian import Gaussian
from downside.policies.gibbs import Gibbs
from downside.policies.product import Product
from downside.policies.squashed import SquashedGaussian

__all__ = ["Beta", "Gaussian", "Gibbs", "Policy", "Product", "SquashedGaussian"]
