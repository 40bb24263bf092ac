"""What XLA must be told where many learners are stepped."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr

from downside.jaxprs import inside

P = ParamSpec("P")
Y = TypeVar("Y")

_OPTIONS = {
    # Sums by a library that is used for large arrays only, and adds up in another order.
    (_OTHER_SUMS := "xla_cpu_experimental_ynn_fusion_type"): "",
    # The widest vectors that the processor has; the compiler's own choice is half of them.
    (_WIDTH := "xla_cpu_prefer_vector_width"): 512,
}
_MOST_KINDS = 100
_NARROW = {"atan", "atan2"}  # XLA's arctangent of its widest vectors returns other numbers


def compiled(function: Callable[P, Y]) -> Callable[P, Y]:
    """`jax.jit` for functions that step many learners: wider vectors, steadier bits.

    >>> import jax.numpy as jnp
    >>> float(compiled(lambda x: x + 1.0)(jnp.asarray(2.0)))
    3.0
    """
    kinds = dict[Any, bool]()

    @cache
    def program(is_wide: bool) -> Any:  # not before the first call: it starts JAX
        options = _known_options() if is_wide else _known_options() - {_WIDTH}
        return jax.jit(function, compiler_options={name: _OPTIONS[name] for name in options})

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Y:
        leaves, structure = jax.tree.flatten((args, kwargs))
        kind = structure, jnp.result_type(float), *map(jax.typeof, leaves)
        if len(kinds) > _MOST_KINDS:
            kinds.clear()
        if kind not in kinds:
            kinds[kind] = not _calls(program(True).trace(*args, **kwargs).jaxpr.jaxpr, _NARROW)
        return program(kinds[kind])(*args, **kwargs)

    return call


def _calls(jaxpr: Jaxpr, names: set[str]) -> bool:
    return any(
        e.primitive.name in names or any(_calls(i, names) for i in inside(e)) for e in jaxpr.eqns
    )


def can_have_kernels() -> bool:
    """Whether a loop may be marked as one kernel in a `compiled` program.

    That is a feature of XLA on CPUs, which fails where long sums are another library's.
    """
    return jax.default_backend() == "cpu" and _OTHER_SUMS in _known_options()


@cache
def _known_options() -> set[str]:
    """Those of `_OPTIONS` that this version of XLA understands."""

    def is_known(name: str) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options={name: _OPTIONS[name]}).lower().compile()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return set(filter(is_known, _OPTIONS))
