"""Bounded actions: independent Beta distributions on a box."""

from importlib import import_module
from typing import Any, Literal, final, get_args

import numpy as np

from downside.arrays import array_module, inverse_softplus, sigmoid, softplus
from downside.bases import Basis, Box
from downside.bases.base import settle_box
from downside.checks import check_choice
from downside.policies.base import Policy, settle_start
from downside.policies.network import Outputs
from downside.policies.squashed import check_start, inside, scale_of
from downside.records import record, static

Parameters = Literal["shapes", "mean"]


@final
@record
class Beta(Policy):
    """low + (high - low) X, X Beta distributed with parameters that depend on the observation.

    ``parameters="shapes"``: both shapes are softplus(...) + 1, so there is one peak (the paper's).
    ``parameters="mean"``: the mean is sigmoid(...), the concentration (the sum of the shapes)
    softplus(...) + 2. ``start`` and ``width``: begin with this mean and standard deviation.

    >>> from downside.bases import Polynomial
    >>> policy = Beta(Polynomial(1), start=0.25, width=0.1)
    >>> a, b = policy.shapes(policy.init(np.random.default_rng(0)), np.array([0.4]))
    >>> a.round(4).tolist(), b.round(4).tolist()   # a / (a + b) = 0.25
    ([4.4375], [13.3125])
    """

    basis: Basis
    low: Any = static(default=0.0)
    high: Any = static(default=1.0)
    hidden: tuple[int, ...] = static(default=())
    parameters: Parameters = static(default="shapes")
    start: Any = static(default=None)
    width: Any = static(default=None)

    def __post_init__(self) -> None:
        check_choice("parameters", self.parameters, get_args(Parameters))
        settle_box(self)
        settle_start(self)
        self.box.require_finite("Beta")
        check_start(self.start, self.box)
        _ = self._start

    @property
    def box(self) -> Box:
        """Where the actions lie."""
        return Box(self.low, self.high)

    @property
    def n_params(self) -> int:
        """Two outputs per action number."""
        return self._outputs.n_params

    @property
    def action_size(self) -> int:
        """That of the box."""
        return self.box.size

    def init(self, key: Any) -> Any:
        """Near ``start``, as wide as ``width``."""
        return self._outputs.init(key, self._start)

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """A key per action, since the Beta has no closed inverse; whole numbers under NumPy."""
        if isinstance(key, np.random.Generator):
            return key.integers(2**63, size=shape)
        import jax

        return jax.random.split(key, shape)

    def shapes(self, params: Any, obs: Any) -> tuple[Any, Any]:
        """The two shapes, (..., size) each."""
        outputs, size = self._outputs(params, obs), self.box.size
        first, second = outputs[..., :size], outputs[..., size:]
        if self.parameters == "shapes":
            return softplus(first) + 1.0, softplus(second) + 1.0
        concentration = softplus(second) + 2.0
        return sigmoid(first) * concentration, sigmoid(-first) * concentration

    def sample(self, params: Any, obs: Any, noise: Any) -> Any:
        """A draw from the key that the noise is; under NumPy, from a generator seeded with it."""
        a, b = self.shapes(params, obs)
        if array_module(a) is np:
            unit = np.random.default_rng(np.ravel(noise).tolist()).beta(a, b).astype(a.dtype)
        else:
            import jax

            unit = jax.random.beta(noise, a, b, dtype=a.dtype)
        low, scale = scale_of(self.box, unit)
        return low + scale * unit

    def log_prob(self, params: Any, obs: Any, action: Any) -> Any:
        """The density on the box; the very edges count as inside."""
        a, b = self.shapes(params, obs)
        xp = array_module(a)
        x = inside(self.box.unit(xp.asarray(action, a.dtype)))
        _, scale = scale_of(self.box, x)
        density = (a - 1.0) * xp.log(x) + (b - 1.0) * xp.log1p(-x) - _special(xp).betaln(a, b)
        return xp.sum(density - xp.log(scale), axis=-1)

    def mode(self, params: Any, obs: Any) -> Any:
        """(a - 1) / (a + b - 2); an end of the box where a shape is below 1."""
        a, b = self.shapes(params, obs)
        xp = array_module(a)
        above_a, above_b = xp.maximum(a - 1.0, 0.0), xp.maximum(b - 1.0, 0.0)
        flat = above_a + above_b == 0.0
        peak = above_a / xp.where(flat, 1.0, above_a + above_b)
        unit = xp.where(flat, xp.where(a < b, 0.0, xp.where(a > b, 1.0, 0.5)), peak)
        low, scale = scale_of(self.box, unit)
        return low + scale * unit

    def entropy(self, params: Any, obs: Any) -> Any:
        """log B(a, b) - (a-1) psi(a) - (b-1) psi(b) + (a+b-2) psi(a+b), and the box's length."""
        a, b = self.shapes(params, obs)
        xp = array_module(a)
        special = _special(xp)
        digamma = special.digamma
        unit = special.betaln(a, b) - (a - 1.0) * digamma(a) - (b - 1.0) * digamma(b)
        unit = unit + (a + b - 2.0) * digamma(a + b)
        return xp.sum(unit + xp.log(scale_of(self.box, a)[1]), axis=-1)

    def baseline(self, obs: Any) -> Any:
        """The features of the basis."""
        return self.basis(obs)

    def to_vector(self, action: Any) -> Any:
        """It is one."""
        return action

    def from_vector(self, vector: Any) -> Any:
        """It is one."""
        return vector

    @property
    def _start(self) -> np.ndarray | None:
        """The outputs for a mean and a width: V[X] = m (1 - m) / (a + b + 1)."""
        if self.start is None and self.width is None:
            return None
        low, scale = np.array(self.low), np.subtract(self.high, self.low)
        start = low + scale / 2 if self.start is None else self.start
        mean = (np.asarray(start, float) - low) / scale
        widest = np.sqrt(mean * (1.0 - mean) / (self._least_concentration(mean) + 1.0))
        width = 0.9 * widest if self.width is None else np.asarray(self.width, float) / scale
        if not np.all((width > 0) & (width < widest)):
            raise ValueError(
                f"width is {self.width}; a Beta policy with parameters={self.parameters!r} about "
                f"{start} must be narrower than {(widest * scale).tolist()} and wider than 0"
            )
        concentration = mean * (1.0 - mean) / width**2 - 1.0
        if self.parameters == "mean":
            return np.concatenate(
                [np.log(mean / (1.0 - mean)), inverse_softplus(concentration - 2.0)]
            )
        shapes = np.concatenate([mean * concentration, (1.0 - mean) * concentration])
        return inverse_softplus(shapes - 1.0)

    def _least_concentration(self, mean: np.ndarray) -> np.ndarray:
        """Both shapes are above 1, or their sum above 2."""
        if self.parameters == "mean":
            return np.full_like(mean, 2.0)
        return 1.0 / np.minimum(mean, 1.0 - mean)

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.basis, 2 * self.box.size, self.hidden)


def _special(xp: Any) -> Any:
    """SciPy's special functions, or JAX's copies of them."""
    return import_module("scipy.special" if xp is np else "jax.scipy.special")
