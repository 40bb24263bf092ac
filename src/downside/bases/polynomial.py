"""The polynomial basis; of order 1 it is the affine one."""

from collections import Counter
from itertools import accumulate, combinations_with_replacement
from typing import Any, final

import numpy as np

from downside.arrays import array_module
from downside.bases.base import BoxBasis, settle_box
from downside.checks import check_count
from downside.records import record, static


@final
@record
class Polynomial(BoxBasis):
    """All products of the inputs up to the total degree ``order``; order 1 is [1, x1, ..., xd].

    >>> Polynomial(2, order=2).names
    ('1', 'x1', 'x2', 'x1^2', 'x1 x2', 'x2^2')
    """

    n_inputs: int = static()
    order: int = static(default=1)
    low: Any = static(default=-np.inf)
    high: Any = static(default=np.inf)

    def __post_init__(self) -> None:
        check_count("n_inputs", self.n_inputs, least=1)
        check_count("order", self.order, least=1)
        settle_box(self, self.n_inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """The products, such as x1^2 x3, by rising degree."""
        inputs = range(self.n_inputs)
        degrees = range(self.order + 1)
        products = (p for n in degrees for p in combinations_with_replacement(inputs, n))
        return tuple(_product_name(factors) for factors in products)

    @property
    def constant(self) -> np.ndarray:
        """The first feature is 1."""
        return np.eye(self.n_features)[0]

    def __call__(self, obs: Any) -> Any:
        """The features (..., n)."""
        x = self.box.clip(obs)
        xp = array_module(x)
        degrees = [xp.ones_like(x[..., :1]), x]
        firsts = list(range(self.n_inputs))
        for _ in range(self.order - 1):
            # x_i times what begins with x_i or a later input: the rest of the degree before
            parts = [x[..., i : i + 1] * degrees[-1][..., first:] for i, first in enumerate(firsts)]
            firsts = [0, *accumulate(part.shape[-1] for part in parts[:-1])]
            degrees.append(xp.concatenate(parts, axis=-1))
        return xp.concatenate(degrees, axis=-1)


def _product_name(factors: tuple[int, ...]) -> str:
    powers = Counter(factors).items()
    return " ".join(f"x{i + 1}" + (f"^{n}" if n > 1 else "") for i, n in powers) or "1"
