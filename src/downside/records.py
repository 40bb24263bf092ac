"""Frozen dataclasses that JAX can look into: numbers are leaves, sizes are static.

Construction checks its arguments (``__post_init__``); what JAX rebuilds from leaves
is not checked again, because those leaves may be tracers or whole batches.
"""

import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


def static(*, later: bool = False, **options: Any) -> Any:
    """Declare a field that is part of the structure: a size or a name, not a number.

    A field that came ``later`` is left out of a run's description while it has its default, with
    which everything is as it was before: so runs that were kept before it came can go on.

    >>> static(default=3).metadata["static"]
    True
    """
    return dataclasses.field(metadata={"static": True, "later": later}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static))
def record(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen dataclass and, where JAX is installed, a pytree.

    >>> import jax
    >>> @record
    ... class Coin:
    ...     probability: float
    ...     sides: int = static(default=2)
    >>> jax.tree.leaves(Coin(0.25))
    [0.25]
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    try:
        from jax.tree_util import GetAttrKey, register_pytree_with_keys
    except ImportError:  # acting with a trained policy needs NumPy alone
        return cls

    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    leaves = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(self, n) for n in leaves), tuple(getattr(self, n) for n in statics)

    def flatten_with_keys(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values, sizes = flatten(self)
        return tuple((GetAttrKey(n), v) for n, v in zip(leaves, values, strict=True)), sizes

    def unflatten(sizes: tuple[Any, ...], values: Iterable[Any]) -> T:
        self = object.__new__(cls)
        for name, value in zip((*statics, *leaves), (*sizes, *values), strict=True):
            object.__setattr__(self, name, value)
        return self

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def carry_functions(self: Any, *names: str) -> None:
    """Wrap the plain functions among these fields, so that JAX can carry them in a record.

    >>> @record
    ... class Step:
    ...     size: object
    ...     def __post_init__(self):
    ...         carry_functions(self, "size")
    >>> import jax
    >>> jax.tree.leaves(Step(lambda count: 0.1))
    []
    """
    from jax.tree_util import Partial

    for name in names:
        if inspect.isfunction(getattr(self, name)):
            object.__setattr__(self, name, Partial(getattr(self, name)))
