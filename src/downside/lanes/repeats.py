"""Operations of a loop that are asked for again."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from downside.arrays import is_traced
from downside.lanes.values import Value


class Repeats:
    """The operations of a loop so far: one that is asked for again is not made again.

    XLA does the same, but not for what contains arrays of constants (the frequencies of a basis,
    say), as each place where they are used has its own.
    """

    def __init__(self) -> None:
        self._found = dict[Any, list[Value]]()
        self._kept = list[list[Value]]()  # what results are known by must live as long as they do

    def results(
        self, eqn: JaxprEqn, values: list[Value], make: Callable[[], list[Value]]
    ) -> list[Value]:
        """Of an operation: those from before, or new ones."""
        if eqn.effects:
            return make()
        names = tuple((_name(value.array), value.many) for value in values)
        kinds = tuple(variable.aval for variable in eqn.invars)
        key = (eqn.primitive, eqn.ctx, names, kinds, *eqn.params.items())
        try:
            hash(key)
        except TypeError:  # nobody can tell whether it is the same
            return make()
        if key not in self._found:
            self._kept.append(values)
            self._found[key] = make()
        return self._found[key]


def _name(array: Any) -> Any:
    """What is the same for the same array, and for small ones of the same numbers."""
    if is_traced(array) or np.size(array) > _SMALL:
        return id(array)
    if jnp.issubdtype(jnp.result_type(array), jax.dtypes.prng_key):
        return id(array)
    return np.asarray(array).tobytes()


_SMALL = 1000
