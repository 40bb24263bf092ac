"""One function of one thing, applied to many: tiles that stay in the cache, on every device.

The only place that knows how a batch is laid out and what the compiler must be told about it. A
tile is always filled up to its size. Tiles of 8 learners and more round alike, so the last bit of
what one learner computes does not depend on how many share the batch.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

P = ParamSpec("P")
Y = TypeVar("Y")

SMALLEST, LARGEST = 8, 128  # below, XLA rounds differently; above, it splits operations

_OPTIONS = {
    # Copies of what a loop carries, such as the critics' traces: a fifth of an online step.
    "xla_cpu_copy_insertion_use_region_analysis": True,
    # Sums by a library that is used for large arrays only, and adds up in another order.
    "xla_cpu_experimental_ynn_fusion_type": "",
}


def compiled(function: Callable[P, Y]) -> Callable[P, Y]:
    """`jax.jit` for functions that step many learners: fewer copies, the same bits in any tile.

    >>> import jax.numpy as jnp
    >>> float(compiled(lambda x: x + 1.0)(jnp.asarray(2.0)))
    3.0
    """

    @cache
    def program() -> Any:  # not before the first call: it starts JAX
        return jax.jit(function, compiler_options=_known_options())

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Y:
        return program()(*args, **kwargs)

    return call


@cache
def _known_options() -> dict[str, Any]:
    """Those of `_OPTIONS` that this version of XLA understands."""

    def is_known(name: str) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options={name: _OPTIONS[name]}).lower().compile()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return {name: value for name, value in _OPTIONS.items() if is_known(name)}


def fitting_tile(size: int, n_devices: int) -> int:
    """The smallest tile that holds a device's share of ``size``, as far as tiles go.

    >>> [fitting_tile(size, n_devices=2) for size in (1, 20, 64, 5000)]
    [8, 16, 32, 128]
    """
    tile = SMALLEST
    while tile < LARGEST and tile * n_devices < size:
        tile *= 2
    return tile


def map_batch(function: Callable[[Any], Y], batch: Any, *, tile: int | None = None) -> Y:
    """Apply ``function`` along the first axis of ``batch``, ``tile`` at a time, over all devices.

    Without a ``tile``, one that fits is chosen. The batch is filled up to whole tiles with copies
    of its first entry, so that ``function`` is compiled once; their results are dropped.

    >>> import jax.numpy as jnp
    >>> map_batch(lambda x: x**2, jnp.arange(5), tile=2).tolist()
    [0, 1, 4, 9, 16]
    """
    devices = np.array(jax.devices())
    size = len(jax.tree.leaves(batch)[0])
    tile = tile or fitting_tile(size, len(devices))
    n_tiles = -(-size // tile)
    n_tiles += -n_tiles % len(devices)
    filled = np.where(np.arange(n_tiles * tile) < size, np.arange(n_tiles * tile), 0)

    def in_tiles(part: Any) -> Y:
        return jax.lax.map(jax.vmap(function), part)

    tiles = jax.tree.map(lambda x: x[filled.reshape(n_tiles, tile)], batch)
    if len(devices) > 1:
        over_devices = PartitionSpec("devices")
        in_tiles = jax.shard_map(
            in_tiles,
            mesh=Mesh(devices, ("devices",)),
            in_specs=over_devices,
            out_specs=over_devices,
            check_vma=False,
        )
    return jax.tree.map(lambda y: y.reshape(n_tiles * tile, *y.shape[2:])[:size], in_tiles(tiles))
