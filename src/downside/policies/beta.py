"""Bounded actions: independent Beta distributions on a box."""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Literal, final, get_args

import numpy as np

from downside.arrays import array_module, inverse_softplus, sigmoid, softplus
from downside.bases import Basis, Box
from downside.bases.base import settle_box
from downside.checks import check_choice
from downside.policies.base import (
    away_from_zero,
    cast,
    draw_normal,
    draw_uniform,
    settle_start,
    special_functions,
)
from downside.policies.box import from_unit, log_volume, to_fractions, unit_start
from downside.policies.network import OutputPolicy, settle_outputs
from downside.records import record, static

Parameters = Literal["shapes", "mean"]
_TRIES = 4


@final
@record
class Beta(OutputPolicy):
    """low + (high - low) X, X Beta distributed with parameters that depend on the observation.

    ``parameters="shapes"``: both shapes are softplus(...) + 1, so there is one peak (the paper's).
    ``parameters="mean"``: the mean is sigmoid(...), the concentration (the sum of the shapes)
    softplus(...) + 2. ``start`` and ``width``: begin with this mean and standard deviation (the
    box's centre, and nine tenths of the widest, if only one is given).

    >>> from downside.bases import Polynomial
    >>> policy = Beta(Polynomial(1), start=0.25, width=0.1)
    >>> a, b = policy.shapes(policy.init(np.random.default_rng(0)), np.array([0.4]))
    >>> a.round(4).tolist(), b.round(4).tolist()   # a / (a + b) = 0.25
    ([4.4375], [13.3125])
    """

    basis: Basis
    low: Any = static(default=0.0)
    high: Any = static(default=1.0)
    hidden: Sequence[int] = static(default=())
    parameters: Parameters = static(default="shapes")
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        check_choice("parameters", self.parameters, get_args(Parameters))
        settle_box(self)
        self.box.require_finite("Beta")
        settle_start(self, self.box.size)
        settle_outputs(self)

    @cached_property
    def box(self) -> Box:
        """Where the actions lie."""
        return Box(self.low, self.high)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """A point of the box."""
        return (self.box.size,)

    @property
    def n_outputs(self) -> int:
        """Two per action number."""
        return 2 * self.box.size

    @property
    def start_outputs(self) -> np.ndarray | None:
        """The outputs for a mean and a width: V[X] = m (1 - m) / (a + b + 1)."""
        if self.start is None and self.width is None:
            return None
        mean = unit_start(self.box, self.start)
        lengths = np.subtract(self.high, self.low)
        least_concentration = (
            2.0 if self.parameters == "mean" else 1.0 / np.minimum(mean, 1.0 - mean)
        )
        widest = np.sqrt(mean * (1.0 - mean) / (least_concentration + 1.0))
        width = 0.9 * widest if self.width is None else self.width / lengths
        if not np.all((width > 0) & (width < widest)):
            raise ValueError(
                f"width is {self.width}; a Beta policy with parameters={self.parameters!r} about "
                f"this start must be wider than 0 and narrower than {(widest * lengths).tolist()}"
            )
        concentration = mean * (1.0 - mean) / width**2 - 1.0
        if self.parameters == "mean":
            logits = np.log(mean / (1.0 - mean))
            return np.concatenate([logits, inverse_softplus(concentration - 2.0)])
        shapes = np.concatenate([mean * concentration, (1.0 - mean) * concentration])
        return inverse_softplus(shapes - 1.0)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Normal and uniform numbers for two Gamma variables; under NumPy one uniform number."""
        if isinstance(key, np.random.Generator):
            return draw_uniform(key, (*shape, self.box.size))
        import jax

        normal_key, uniform_key = jax.random.split(key)
        each = (*shape, self.box.size, 2)
        uniforms = draw_uniform(uniform_key, (*each, _TRIES + 1))
        return draw_normal(normal_key, (*each, _TRIES)), uniforms

    def shapes(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """The two shapes, (..., size) each."""
        outputs = self.outputs(params, obs)
        first, second = array_module(outputs).split(outputs, 2, axis=-1)
        if self.parameters == "shapes":
            return softplus(first) + 1.0, softplus(second) + 1.0
        concentration = softplus(second) + 2.0
        mean, rest = away_from_zero(sigmoid(first)), away_from_zero(sigmoid(-first))
        return mean * concentration, rest * concentration

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """X / (X + Y) of two Gamma variables; under NumPy, invert the distribution function."""
        a, b = self.shapes(params, obs)
        xp = array_module(a, noise if isinstance(noise, np.ndarray) else noise[0])
        if xp is np:
            unit = special_functions(a).betaincinv(a, b, np.asarray(noise, a.dtype))
        else:
            normals, uniforms = (cast(part, a) for part in noise)
            logs = _log_gamma_variables(xp.stack([a, b], axis=-1), normals, uniforms)
            unit = sigmoid(logs[..., 0] - logs[..., 1])
        return from_unit(self.box, unit)

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The density on the box; finite at the edges, too."""
        a, b = self.shapes(params, obs)
        below, above = to_fractions(self.box, action, a)
        xp = array_module(below)
        density = (a - 1.0) * xp.log(below) + (b - 1.0) * xp.log(above)
        density = density - _log_beta(a, b)
        return xp.sum(density, axis=-1) - log_volume(self.box)

    def mode(self, params: Any, obs: Any) -> Any:
        """(a - 1) / (a + b - 2); an end of the box where a shape is below 1."""
        a, b = self.shapes(params, obs)
        xp = array_module(a)
        above_a, above_b = xp.maximum(a - 1.0, 0.0), xp.maximum(b - 1.0, 0.0)
        flat = above_a + above_b == 0.0
        peak = above_a / xp.where(flat, 1.0, above_a + above_b)
        return from_unit(self.box, xp.where(flat, 0.5, peak))

    def entropy(self, params: Any, obs: Any) -> Any:
        """log B(a, b) - (a-1) psi(a) - (b-1) psi(b) + (a+b-2) psi(a+b), and the box's length."""
        a, b = self.shapes(params, obs)
        special = special_functions(a)
        unit = _log_beta(a, b) + (a + b - 2.0) * special.digamma(a + b)
        unit = unit - (a - 1.0) * special.digamma(a) - (b - 1.0) * special.digamma(b)
        return array_module(a).sum(unit, axis=-1) + log_volume(self.box)


def _log_beta(a: Any, b: Any) -> Any:
    """log B(a, b), whose derivative in a is psi(a) - psi(a + b)."""
    if array_module(a, b) is np:
        return special_functions(a).betaln(a, b)
    return _jax_log_beta()(a, b)


@cache
def _jax_log_beta() -> Any:
    """JAX would differentiate the many terms of its approximation instead."""
    import jax
    from jax.scipy.special import betaln, digamma

    def slopes(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (a, b), (da, db) = primals, tangents
        both = digamma(a + b)
        return log_beta(a, b), (digamma(a) - both) * da + (digamma(b) - both) * db

    log_beta = jax.custom_jvp(betaln)
    log_beta.defjvp(slopes)
    return log_beta


def _log_gamma_variables(shapes: Any, normals: Any, uniforms: Any) -> Any:
    """Logarithms of Gamma variables of these shapes, from noise that was drawn before.

    Marsaglia and Tsang's method for shape + 1, brought down by U^(1 / shape): of `_TRIES`
    proposals d v, v = (1 + z / (3 sqrt(d)))^3, the first that is accepted counts. Each is accepted
    with a probability above 0.98, so none is in fewer than 2 of 10^7 cases; the last counts then.
    """
    xp = array_module(shapes)
    d = shapes[..., None] + 2.0 / 3.0
    log_v = 3.0 * xp.log(xp.maximum(1.0 + normals / (3.0 * xp.sqrt(d)), 1e-6))
    height = 0.5 * normals**2 + d * (1.0 - xp.exp(log_v) + log_v)
    accepted = xp.log(1.0 - uniforms[..., :-1]) < height
    chosen = log_v[..., -1]
    for i in reversed(range(_TRIES - 1)):
        chosen = xp.where(accepted[..., i], log_v[..., i], chosen)
    return xp.log(d[..., 0]) + chosen + xp.log(1.0 - uniforms[..., -1]) / shapes
