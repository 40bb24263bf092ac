"""Many learners in one compiled call, driven from the host chunk by chunk.

A run is a pure function of settings and seed. Learners are stacked along a first axis and laid out
in tiles over the devices (`batching`); noise is drawn in blocks of fixed size, so that what a
learner meets depends on its own key and step alone, not on chunks, tiles or neighbours. Between
tiles of different size the last bits of its arithmetic can differ.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from downside.agents.actor_critic import ActorCritic
from downside.batching import map_batch
from downside.records import record
from downside.training import batches, learner
from downside.training.learner import clear_progress, current_multipliers, draw

BLOCK_STEPS = 2000
TILE = 64
N_CHUNKS = 50

Settings = ActorCritic | batches.Batches


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
    return _start_all(settings, keys)


def block_periods(period: int) -> int:
    """How many policy periods one block of noise covers."""
    return max(1, BLOCK_STEPS // period)


def advance(settings: Settings, learners: Any, keys: Array, first: int, n_blocks: int) -> Any:
    """Blocks ``first`` to ``first + n_blocks`` of every learner, in one compiled call."""
    return _advance(settings, learners, keys, first, n_blocks)


def drive(
    settings: Settings, learners: Any, keys: Array, first: int, n_blocks: int
) -> Iterator[tuple[Any, Report, float]]:
    """Advance in at most `N_CHUNKS` chunks; yields learners, report and seconds after each."""
    edges = np.unique(np.linspace(0, n_blocks, min(N_CHUNKS, n_blocks) + 1).round().astype(int))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        began = time.perf_counter()
        learners, report = _advance(settings, learners, keys, first + begin, end - begin)
        report = jax.tree.map(np.asarray, report)
        yield learners, report, time.perf_counter() - began


@jax.jit
def _start_all(settings: Settings, keys: Array) -> Any:
    begin = partial(_way(settings).start)
    return map_batch(lambda pair: begin(*pair), (settings, keys), tile=TILE)


@jax.jit
def _advance(
    settings: Settings, learners: Any, keys: Array, first: Any, n_blocks: Any
) -> tuple[Any, Report]:
    way = _way(settings)
    n_periods = block_periods(settings.period)

    def one(batch: tuple[Settings, Any, Array]) -> tuple[Any, Report]:
        agent, state, key = batch

        def block(i: Array, state: Any) -> Any:
            noise = draw(agent, jax.random.fold_in(key, i), (n_periods, agent.period))

            def period(state: Any, noise: Any) -> tuple[Any, None]:
                return way.run_period(agent, state, noise), None

            return jax.lax.scan(period, state, noise)[0]

        state = clear_progress(state)
        state = jax.lax.fori_loop(first, first + n_blocks, block, state)
        return state, _report(agent, state)

    return map_batch(one, (settings, learners, keys), tile=TILE)


def _report(agent: Settings, state: Any) -> Report:
    progress = state.progress
    n = jnp.where(progress.episodes > 0, progress.episodes, 1) * jnp.ones(())
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
    if isinstance(agent, batches.Batches):
        return multipliers * state.units[0] / state.units[1:]
    return multipliers


def _way(settings: Settings) -> Any:
    return batches if isinstance(settings, batches.Batches) else learner


def _number(leaf: Any) -> Array:
    array = jnp.asarray(leaf)
    return array.astype(float) if isinstance(leaf, float) else array
