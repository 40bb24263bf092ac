"""Many learners in one compiled call, driven from the host chunk by chunk.

A run is a pure function of settings and seed. Learners are stacked along a first axis and laid out
in tiles over the devices (`batching`); noise is drawn in blocks of fixed size, so that what a
learner meets depends on its own key and step alone, and the last bit of every number is the same
whoever shares the batch and however many devices there are.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from downside.agents.actor_critic import ActorCritic
from downside.batching import (
    bytes_of_one,
    fitting_tile,
    full_tile,
    map_tiles,
    spread,
    steady_tile,
)
from downside.compiling import compiled
from downside.lanes import layout_of, vmap_last
from downside.records import record
from downside.training import batch_learner, learner
from downside.training.batches import Batches
from downside.training.learner import clear_progress, current_multipliers, draw, where
from downside.training.pacing import CHUNK_SECONDS
from downside.training.units import positive

BLOCK_STEPS = 2000
N_RECORDS = 50

Settings = ActorCritic | Batches


@record
class Report:
    """What each learner did in one chunk: arrays over learners, and over constraints last.

    ``returns`` and ``risks`` are means over the episodes that ended in the chunk (NaN where none
    did); ``returns`` is not discounted, ``discounted`` is. ``failed`` is a place in `FAILURES`.
    """

    steps: Any
    episodes: Any
    returns: Any
    discounted: Any
    risks: Any
    multipliers: Any
    failed: Any


def stack(settings: Sequence[Settings]) -> Settings:
    """One batch of settings that differ in their numbers only.

    >>> from downside.environments import Bandit
    >>> from downside.bases import Polynomial
    >>> from downside.policies import Gibbs
    >>> from downside.signals import Reward
    >>> policy = Gibbs(Polynomial(1), 3)
    >>> slow, fast = (ActorCritic(Bandit(), policy, (Reward(1.0),), step_size=s) for s in (1., 2.))
    >>> stack([slow, fast]).step_size.tolist()
    [1.0, 2.0]
    """
    structures = {str(jax.tree.structure(one)) for one in settings}
    if len(structures) > 1:
        raise ValueError(
            "learners of one batch may differ in numbers, not in sizes, policies or rules; "
            "train them one after the other"
        )
    return jax.tree.map(lambda *leaves: jnp.stack([_number(leaf) for leaf in leaves]), *settings)


def start_all(settings: Settings, keys: Array) -> Any:
    """Every learner before its first step."""
    batch = settings, keys
    return spread(_start_all, batch, tile=tile_of(start_one, batch, n_devices=len(jax.devices())))


def block_periods(period: int) -> int:
    """How many policy periods one block of noise covers."""
    return max(1, BLOCK_STEPS // period)


def advance(
    settings: Settings, learners: Any, keys: Array, first: int, last: int, *, fresh: bool = True
) -> tuple[Any, Report]:
    """Periods ``first`` to ``last`` of every learner, in one compiled call.

    The report counts from here on, or, unless ``fresh``, from where the last one began.
    """
    batch, rest = (settings, learners, keys), (first, last, fresh)
    tile = tile_of(advance_one, batch, *rest, n_devices=len(jax.devices()))
    return spread(_advance, batch, *rest, tile=tile)


@record
class Chunk:
    """All learners after ``period`` periods; ``complete`` at the edge of a record."""

    learners: Any
    report: Report
    period: int
    complete: bool
    seconds: float


def drive(
    settings: Settings,
    learners: Any,
    keys: Array,
    begin: int,
    end: int,
    *,
    at: int,
    fresh: bool = True,
    one_by_one: bool = False,
    in_blocks: bool = True,
    chunk_seconds: Callable[[], float] = lambda: CHUNK_SECONDS,
    advance: Callable[..., tuple[Any, Report]] = advance,
) -> Iterator[Chunk]:
    """Advance from period ``at`` to ``end``, in chunks of about ``chunk_seconds()``.

    Records end at fixed periods between ``begin`` and ``end``, however fast the machine is and
    wherever ``at`` lies, so that a run that was interrupted leaves the same ones. ``fresh``: a
    record was complete at ``at``. ``one_by_one``: a chunk is a period. ``in_blocks``: it is made of
    whole blocks, since a part of one draws the noise of it all. ``advance`` is another way to make
    the steps, such as a host's.
    """
    per_block = block_periods(settings.period)
    blocks = begin // per_block, -(-end // per_block)
    marks = np.linspace(*blocks, min(N_RECORDS, blocks[1] - blocks[0]) + 1).round().astype(int)
    edges = np.unique(np.clip(marks * per_block, begin, end))
    unit = per_block if in_blocks and not one_by_one else 1
    length = unit
    while at < end:
        edge = int(edges[np.searchsorted(edges, at, side="right")])
        last = min(edge, at + length - at % unit)
        began = time.perf_counter()
        learners, report = advance(settings, learners, keys, at, last, fresh=fresh)
        report = jax.tree.map(np.asarray, report)
        seconds = time.perf_counter() - began
        if last - at == length and not one_by_one:
            length = unit * max(1, round(length / unit * min(2.0, chunk_seconds() / seconds)))
        at, fresh = last, last == edge
        yield Chunk(learners, report, at, fresh, seconds)


@compiled
def _start_all(batch: tuple[Settings, Array]) -> Any:
    return _map(start_one, batch)


@compiled
def _advance(
    batch: tuple[Settings, Any, Array], first: Any, last: Any, fresh: Any
) -> tuple[Any, Report]:
    return _map(advance_one, batch, first, last, fresh)


def start_one(one: tuple[Settings, Array]) -> Any:
    """One learner before its first step."""
    return typed(_way(one[0]).start(*one))


def advance_one(
    one: tuple[Settings, Any, Array], first: Any, last: Any, fresh: Any
) -> tuple[Any, Report]:
    """`advance` of one learner."""
    agent, state, key = one
    n_periods = block_periods(agent.period)

    def block(i: Array, state: Any) -> Any:
        noise = draw(agent, jax.random.fold_in(key, i), (n_periods, agent.period))

        def period(j: Array, state: Any) -> Any:
            return _way(agent).run_period(agent, state, jax.tree.map(lambda x: x[j], noise))

        begin, end = (jnp.clip(at - i * n_periods, 0, n_periods) for at in (first, last))
        return jax.lax.fori_loop(begin, end, period, state)

    state = where(fresh, clear_progress(state), state)
    state = jax.lax.fori_loop(first // n_periods, -(-last // n_periods), block, state)
    return typed(state), report_of(agent, state)


def report_of(agent: Settings, state: Any) -> Report:
    """What one learner did since its progress was cleared."""
    progress = state.progress
    n = jnp.maximum(progress.episodes, 1).astype(progress.returns.dtype)
    found = progress.episodes > 0
    return Report(
        steps=state.steps,
        episodes=state.episodes,
        returns=jnp.where(found, progress.returns / n, jnp.nan),
        discounted=jnp.where(found, progress.discounted[0] / n, jnp.nan),
        risks=jnp.where(found, progress.discounted[1:] / n, jnp.nan),
        multipliers=_in_users_units(agent, state),
        failed=state.failed,
    )


def _in_users_units(agent: Settings, state: Any) -> Array:
    multipliers = current_multipliers(agent, state)
    if isinstance(agent, Batches):
        units = positive(state.units)
        return multipliers * units[0] / units[1:]
    return multipliers


def typed(state: Any) -> Any:
    """Every number with its own type, so that a state fits the same program wherever it is from."""

    def one(x: Any) -> Any:
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return x if is_key else jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(one, state)


def _map(function: Callable[..., Any], batch: tuple[Any, ...], *rest: Any) -> Any:
    vmap = vmap_last if _in_lanes(batch[0]) else jax.vmap
    tile = tile_of(function, batch, *rest)
    return map_tiles(lambda one: function(one, *rest), batch, tile=tile, vmap=vmap)


def tile_of(
    function: Callable[..., Any], batch: tuple[Any, ...], *rest: Any, n_devices: int = 1
) -> int:
    """As fits their number; of one size where the last bits of one could depend on it."""
    settings: Settings = batch[0]
    if isinstance(settings, Batches):
        return settings.tile
    layout = layout_of(function, batch, *rest)
    if not (_in_lanes(settings) and layout.alike):
        return steady_tile(batch)
    if settings.tile is not None:
        return full_tile(settings.tile)
    size, n_bytes = len(jax.tree.leaves(batch)[0]), bytes_of_one(batch)
    return fitting_tile(size, n_devices, n_bytes, kernel=layout.kernel)


def _in_lanes(settings: Settings) -> bool:
    return not isinstance(settings, Batches) and not settings.critic.has_matrix


def _way(settings: Settings) -> Any:
    return batch_learner if isinstance(settings, Batches) else learner


def _number(leaf: Any) -> Array:
    array = jnp.asarray(leaf)
    return array.astype(float) if isinstance(leaf, float) else array
