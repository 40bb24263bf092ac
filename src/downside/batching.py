"""One function of one thing, applied to many: tiles that stay in the cache, on every device.

How a batch is laid out is known here and in `lanes` alone. A tile is always filled up to its size.
Tiles differ in size only where all sizes round alike (`lanes.layout_of`). So the last bit of what
one learner computes does not depend on how many there are.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

Y = TypeVar("Y")

_MANY = (8, 32, 64, 128)  # 16 cost more than 32; in larger ones XLA splits operations
_CACHE = 2**18  # bytes; tiles above 32 that are larger wait for memory
_OVERHEAD = 100_000  # of a step of a tile, in bytes that its learners carry

# Tiles that are one kernel. A step costs (tile + _UNFILLED) * bytes + _OVERHEAD_OF_KERNEL, as short
# loops do not fill vectors; of one alone _TIMES_ALONE * bytes + _OVERHEAD_ALONE, as none does.
_MANY_IN_KERNEL = (16, 32, 48, 64)  # 8 cost as much as 16, and larger ones more for each
_OVERHEAD_OF_KERNEL = 10_000
_UNFILLED = 15
_OVERHEAD_ALONE = 1500
_TIMES_ALONE = 4
_LARGEST_KERNEL = 2**22  # bytes; nothing is gained by more than one that carry so much


def fitting_tile(size: int, n_devices: int, n_bytes: int, *, kernel: bool = False) -> int:
    """The tile with which a device's share of ``size`` costs least, each of so many bytes.

    ``kernel``: the loop of a tile is compiled as one kernel.

    >>> [fitting_tile(size, n_devices=2, n_bytes=1600) for size in (1, 20, 100, 5000)]
    [1, 32, 64, 128]
    >>> [fitting_tile(5000, n_devices=2, n_bytes=n_bytes) for n_bytes in (3200, 100_000)]
    [64, 32]
    >>> [fitting_tile(size, 2, 1600, kernel=True) for size in (1, 10, 20, 100, 5000)]
    [1, 1, 16, 64, 64]
    >>> [fitting_tile(100, 2, n_bytes, kernel=True) for n_bytes in (3200, 50_000, 400_000)]
    [64, 32, 1]
    """
    share = -(-size // n_devices)
    many = _MANY_IN_KERNEL if kernel else _MANY
    fitting = [tile for tile in many if tile <= 32 or tile * n_bytes <= _CACHE]
    if kernel:
        fitting = [tile for tile in fitting if tile * n_bytes <= _LARGEST_KERNEL]
        of_tile = {tile: (tile + _UNFILLED) * n_bytes + _OVERHEAD_OF_KERNEL for tile in fitting}
        of_tile[1] = _TIMES_ALONE * n_bytes + _OVERHEAD_ALONE
    else:
        of_tile = {tile: tile * n_bytes + _OVERHEAD for tile in (1, *fitting)}
    return min(of_tile, key=lambda tile: -(-share // tile) * of_tile[tile])


def full_tile(tile: int) -> int:
    """The tile that is made where ``tile`` is asked for: the next multiple of 8, or 1.

    Vectors that are not filled are rounded otherwise.

    >>> [full_tile(tile) for tile in (1, 8, 50)]
    [1, 8, 56]
    """
    return 1 if tile == 1 else -(-tile // 8) * 8


def steady_tile(batch: Any) -> int:
    """A tile that depends on what one carries and not on how many there are.

    >>> import numpy as np
    >>> [steady_tile(np.zeros((5, n), np.float32)) for n in (400, 10_000)]
    [64, 8]
    """
    fitting = [tile for tile in _MANY if tile <= 64 and tile * bytes_of_one(batch) <= _CACHE]
    return max(fitting, default=_MANY[0])


def map_tiles(
    function: Callable[[Any], Y],
    batch: Any,
    *,
    tile: int | None = None,
    vmap: Callable[[Callable[[Any], Y]], Callable[[Any], Y]] = jax.vmap,
) -> Y:
    """Apply ``function`` along the first axis of ``batch``, ``tile`` at a time, on one device.

    Without a ``tile``, one that fits is chosen. The batch is filled up to whole tiles with copies
    of its first entry, so that ``function`` is compiled once; their results are dropped. Within a
    tile, ``vmap`` lays out the many: `lanes.vmap_last` for long loops of small steps.

    >>> import jax.numpy as jnp
    >>> map_tiles(lambda x: x**2, jnp.arange(5), tile=2).tolist()
    [0, 1, 4, 9, 16]
    """
    size = _size(batch)
    tile = tile or fitting_tile(size, 1, bytes_of_one(batch))
    n_tiles = -(-size // tile)
    full = _filled(batch, tile)
    tiles = jax.tree.map(lambda x: x.reshape(n_tiles, tile, *x.shape[1:]), full)
    mapped = jax.lax.map(vmap(function), tiles)
    return jax.tree.map(lambda y: y.reshape(n_tiles * tile, *y.shape[2:])[:size], mapped)


def map_batch(function: Callable[[Any], Y], batch: Any, *, tile: int) -> Y:
    """`map_tiles` over all devices, in one program."""
    devices = np.array(jax.devices())
    if len(devices) == 1:
        return map_tiles(function, batch, tile=tile)
    over_devices = PartitionSpec("devices")
    in_tiles = jax.shard_map(
        lambda part: map_tiles(function, part, tile=tile),
        mesh=Mesh(devices, ("devices",)),
        in_specs=over_devices,
        out_specs=over_devices,
        check_vma=False,
    )
    mapped = in_tiles(_filled(batch, tile * len(devices)))
    return jax.tree.map(lambda y: y[: _size(batch)], mapped)


def spread(function: Callable[..., Y], batch: Any, *rest: Any, tile: int | None = None) -> Y:
    """``function(part, *rest)``, a compiled one, of each device's share of a batch; joined.

    Devices with a program each do not hinder one another, as they do in one program (`map_batch`).
    It is for long work: the program is compiled for each device.

    >>> import jax.numpy as jnp
    >>> spread(lambda part, y: map_tiles(lambda x: x + y, part), jnp.arange(3), 1).tolist()
    [1, 2, 3]
    """
    devices, size = jax.devices(), _size(batch)
    tile = tile or fitting_tile(size, len(devices), bytes_of_one(batch))
    n_tiles = -(-size // tile)
    n_parts = min(n_tiles, len(devices))
    share = tile * -(-n_tiles // n_parts)
    if size == share:
        return function(batch, *rest)
    # Before it is compiled, which would know what has been filled up and make another program.
    full = _filled(jax.tree.map(_on_host, batch), share)
    if n_parts == 1:
        return jax.tree.map(lambda y: _on_host(y)[:size], function(full, *rest))

    is_double = jnp.result_type(float) == np.float64  # a new thread would not know

    def one(i: int) -> Y:
        part = jax.tree.map(lambda x: x[i * share : (i + 1) * share], full)
        with jax.enable_x64(is_double), jax.default_device(devices[i]):
            return jax.tree.map(_on_host, function(part, *rest))

    found = list(_threads(len(devices)).map(one, range(_size(full) // share)))
    return jax.tree.map(lambda *ys: np.concatenate(ys)[:size], *found)


@cache
def _threads(n: int) -> ThreadPoolExecutor:
    """Kept, since a thread starts slowly while another one is at work."""
    return ThreadPoolExecutor(n)


def _on_host(leaf: Any) -> Any:
    """For NumPy slices and joins in no time; keys stay as they are."""
    return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


def _size(batch: Any) -> int:
    return len(jax.tree.leaves(batch)[0])


def bytes_of_one(batch: Any) -> int:
    """How much one of a batch carries."""
    return sum(x.size * x.dtype.itemsize // len(x) for x in jax.tree.leaves(batch))


def _filled(batch: Any, multiple: int) -> Any:
    """With copies of the first entry up to a multiple."""
    size = _size(batch)
    places = np.arange(size + -size % multiple)
    if len(places) == size:
        return batch
    return jax.tree.map(lambda x: x[np.where(places < size, places, 0)], batch)
