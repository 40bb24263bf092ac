"""Writing a formula once for NumPy and for JAX."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def array_module(*values: Any) -> Any:
    """The module to compute with: ``jax.numpy`` if any value is a JAX array, else ``numpy``.

    >>> array_module([1.0, 2.0]).__name__
    'numpy'
    """
    jax = sys.modules.get("jax")  # no JAX array can exist before JAX is imported
    if jax is not None and any(isinstance(value, jax.Array) for value in values):
        return jax.numpy
    return np


def is_traced(value: Any) -> bool:
    """Whether ``value`` stands for a number that is not known yet (inside ``jit`` or ``vmap``).

    >>> is_traced(0.5)
    False
    """
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def as_floats(values: Any, xp: Any) -> Any:
    """An array of floats: as it is if it has some, else in the default width.

    >>> as_floats([1, 2], np).tolist()
    [1.0, 2.0]
    """
    array = xp.asarray(values)
    return array if xp.issubdtype(array.dtype, xp.floating) else array.astype(float)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), which is positive: a smooth max(x, 0)."""
    xp = array_module(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def inverse_softplus(y: Any) -> Any:
    """The x with softplus(x) = y, for y above 0.

    >>> round(float(softplus(inverse_softplus(np.float64(0.3)))), 12)
    0.3
    """
    xp = array_module(y)
    return y + xp.log(-xp.expm1(-y))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    if array_module(x) is np:
        return np.exp(-softplus(-x))
    import jax

    return jax.nn.sigmoid(x)


def below_maximum(x: Any) -> Any:
    """x minus its largest number over the last axis, which derivatives take for a constant.

    >>> below_maximum(np.array([1.0, 3.0])).tolist()
    [-2.0, 0.0]
    """
    xp = array_module(x)
    if xp is np:
        return x - np.max(x, axis=-1, keepdims=True)
    import jax

    return x - jax.lax.stop_gradient(_largest(x, xp))


def _largest(x: Any, xp: Any) -> Any:
    """The maximum over the last axis, which stays; what is not a number may be passed over.

    Of a few by pairs: one after the other, each would wait for the one before, and be asked whether
    it is a number.
    """
    if not 1 < x.shape[-1] <= LONGEST_SUM:
        return xp.max(x, axis=-1, keepdims=True)
    found = [x[..., i : i + 1] for i in range(x.shape[-1])]
    while len(found) > 1:
        pairs = zip(found[:-1:2], found[1::2], strict=True)
        found = [*(xp.where(a > b, a, b) for a, b in pairs), *found[len(found) // 2 * 2 :]]
    return once(found[0])


def times_shared(matrix: np.ndarray, x: Any) -> Any:
    """The product of a matrix that all learners share with the vector of each, over the last axis.

    XLA would multiply it with all vectors at once, and rounds small and large batches differently.

    >>> times_shared(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 30.0]
    """
    xp = array_module(x)
    if xp is np:
        return x @ matrix.T.astype(x.dtype)
    return xp.sum(x[..., None, :] * xp.asarray(matrix, x.dtype), axis=-1)


def outer_product(rows: Any, columns: Any) -> Any:
    """All products of two vectors, row by row, as one vector.

    >>> outer_product(np.array([1, 2]), np.array([1, 10, 100])).tolist()
    [1, 10, 100, 2, 20, 200]
    """
    return _by_name(outer_product_for_lanes)(rows, columns)


def outer_product_for_lanes(rows: Any, columns: Any) -> Any:
    """`outer_product`."""
    return (rows[:, None] * columns).reshape(-1)


def sum_of_row(x: Any) -> Any:
    """``x.sum(-1)``: sums of a few numbers, the sums of pairs of these, and so on.

    A sum of up to 16 numbers XLA compiles without a loop, together with what makes them. Of a sum
    of sums it would make one long sum; of pairs in between it does not.

    >>> float(sum_of_row(np.arange(22.0)))
    231.0
    """
    return _by_name(sum_of_row_for_lanes)(x)


def sum_of_row_for_lanes(x: Any, axis: int = -1) -> Any:
    """`sum_of_row`, also along another axis."""
    xp, axis = array_module(x), range(x.ndim)[axis]
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if n <= LONGEST_SUM:
        return xp.sum(x, axis=axis)
    few = max(range(4, LONGEST_SUM + 1), key=lambda few: (n % few == 0, -abs(few - 8)))
    whole = n - n % few
    pieces = _at(slice(whole), x, axis).reshape(*before, whole // few, few, *after)
    total = sum_of_sums(xp.sum(pieces, axis=axis + 1), axis)
    if whole == n:
        return total
    return total + sum_of_row_for_lanes(_at(slice(whole, n), x, axis), axis)


def sum_of_sums(sums: Any, axis: int = -1) -> Any:
    """`sum_of_row`, by way of pairs."""
    half = sums.shape[axis] // 2
    pairs = _at(slice(half), sums, axis) + _at(slice(half, 2 * half), sums, axis)
    total = sum_of_row_for_lanes(pairs, axis)
    return total + _at(-1, sums, axis) if sums.shape[axis] % 2 else total


def _at(place: slice | int, x: Any, axis: int) -> Any:
    return x[(slice(None),) * range(x.ndim)[axis] + (place,)]


LONGEST_SUM = 16


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """In code that JAX traces a call with a name, by which `lanes` knows what is meant."""

    def call(*args: Any) -> Any:
        if not any(map(is_traced, args)):
            return function(*args)
        import jax

        return jax.jit(function)(*args)

    return call


def once(x: Any) -> Any:
    """``x`` itself, for several who need it: XLA makes a sum once, and cheaper things for each.

    It takes cosines and sums that are written out for cheap.

    >>> once(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if not is_traced(x):
        return x
    import jax.numpy as jnp

    nothing = jnp.zeros((), x.dtype)
    return jnp.sum(jnp.where(jnp.arange(2) == 0, x[..., None], nothing), axis=-1, dtype=x.dtype)


def log_softmax(x: Any) -> Any:
    """Logarithms of the probabilities that go with logits, over the last axis."""
    xp = array_module(x)
    shifted = below_maximum(x)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def sample_index(probabilities: Any, uniform: Any) -> Any:
    """Invert a distribution function over the last axis; what has probability 0 is never drawn.

    The weights are finite, and need not sum to 1. The index is how many running sums the level has
    reached.

    >>> int(sample_index(np.array([0.2, 0.0, 0.8]), np.float64(0.2)))
    2
    """
    xp = array_module(probabilities, uniform)
    probabilities = as_floats(probabilities, xp)
    running = [np.cumsum(probabilities, axis=-1)] if xp is np else _running_sums(probabilities, xp)
    total = running[-1][..., -1]
    level = xp.minimum(xp.asarray(uniform, total.dtype) * total, _number_below(total, xp))
    reached = xp.sum(sum(xp.where(sums <= level[..., None], 1, 0) for sums in running), axis=-1)
    return once(xp.minimum(reached, probabilities.shape[-1] - 1))


def _number_below(x: Any, xp: Any) -> Any:
    """The next number below a positive one. JAX's `nextafter` takes many operations."""
    if xp is np:
        return np.nextafter(x, np.zeros_like(x))
    return x * xp.asarray(1.0 - float(xp.finfo(x.dtype).epsneg), x.dtype)


def _running_sums(values: Any, xp: Any, block: int = 16) -> list[Any]:
    """Running sums over the last axis: entry [j][..., i] is the sum up to place i * block + j.

    Sums of columns cost less than `cumsum`, which adds up every row anew for each of its places.
    Where 0 is added, a sum stays the same to the last bit. Places past the end repeat the total.
    """
    n = values.shape[-1]
    block = min(n, block)
    n_blocks = -(-n // block)
    filled = xp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, n_blocks * block - n)])
    rows = filled.reshape(*values.shape[:-1], n_blocks, block)
    sums = [rows[..., 0]]
    for j in range(1, block):
        sums.append(sums[-1] + rows[..., j])
    if n_blocks == 1:  # no kernel that adds 0
        return sums
    before = [xp.zeros_like(sums[-1][..., 0])]
    for i in range(n_blocks - 1):
        before.append(before[-1] + sums[-1][..., i])
    offset = xp.stack(before, axis=-1)
    return [offset + column for column in sums]


def draw_in_a_row(draw: Callable[..., Any], key: Any, shape: tuple[int, ...]) -> Any:
    """What ``draw(key, shape)`` of `jax.random` gives, for less.

    JAX's generator counts its numbers along every axis of the shape; along one axis the counting
    is nearly free, and the numbers are the same.

    >>> import jax
    >>> key, shape = jax.random.key(5), (3, 4)
    >>> bool((draw_in_a_row(jax.random.normal, key, shape) == jax.random.normal(key, shape)).all())
    True
    """
    return draw(key, (math.prod(shape),)).reshape(shape)
