"""A run in a folder: what is saved, when, and how it is found again.

A checkpoint holds all learners and the records so far, so that a run that goes on from it ends
with the same bits. The table of records is a view of it, for people.
"""

import importlib
import os
import platform
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final
from warnings import warn

import jax
import jax.numpy as jnp
import numpy as np

from downside.records import record
from downside.store import Checkpoint, RunFolder, StoreError
from downside.training.pacing import Pace
from downside.training.run import Report


@record
class Saved:
    """All learners after so many periods, the records so far, and whether the last is complete.

    ``streams`` is where the streams of Python environments stand, by names.
    """

    learners: Any
    reports: list[Report]
    periods: int
    complete: bool
    seconds: float
    streams: Any = None


@final
class Keeper(AbstractContextManager["Keeper"]):
    """Saves a run in its folder now and then; within ``with``, no other process may."""

    def __init__(self, folder: str | Path, identity: dict[str, Any], *, keep: int) -> None:
        self.path, self._identity, self._keep = Path(folder).absolute(), identity, keep
        self._facts: dict[str, Any] = {}
        self._open: RunFolder | None = None
        self.pace = Pace()

    def find(self, learners: Any) -> Saved | None:
        """The newest intact checkpoint, if the folder holds one of this run; learners as given."""
        if not os.path.lexists(self.path):
            return None
        with RunFolder.open(self.path, self._identity, keep=self._keep) as folder:
            found = folder.newest()
        if found is None:
            return None
        self._facts = found.facts
        return saved_in(found, learners)

    def __enter__(self) -> "Keeper":
        importlib.import_module("polars")  # now, so that no save waits for it

        self._open = RunFolder.open(self.path, self._identity, keep=self._keep)
        self.pace = Pace()
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def check(self, steps: int) -> None:
        """Refuse to go on where another process has gone further meanwhile."""
        assert self._open is not None, "check() works within `with keeper:`"
        found = self._open.newest()
        if found is not None and found.step > steps:
            raise StoreError(
                f"{self.path} has gone on to step {found.step} since this agent was made at step "
                f"{steps}; make the agent anew to go on from there"
            )

    def save(self, steps: int, saved: Saved, facts: dict[str, Any]) -> None:
        """Write a checkpoint and the table of records."""
        assert self._open is not None, "save() works within `with keeper:`"
        began = time.monotonic()
        records = stacked(saved.reports)
        arrays = {**named(saved.learners, "learners"), **named(records, "records")}
        arrays |= {f"streams/{name}": array for name, array in (saved.streams or {}).items()}
        facts = self._facts = {
            **self._facts,
            **facts,
            "periods": saved.periods,
            "complete": saved.complete,
            "seconds": saved.seconds,
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "threads": os.environ.get("PJRT_NPROC", str(os.cpu_count())),
        }
        if saved.reports:  # first, so that the table of a run that has ended is never behind
            self._open.write_records(table(records))
        self._open.save(steps, arrays, facts)
        self.pace.saved(time.monotonic() - began)


def saved_in(found: Checkpoint, learners: Any) -> Saved:
    """What a checkpoint holds, learners as given."""
    _warn_of_damage(found)
    _warn_of_versions(found)
    empty = Report(*(np.zeros(0) for _ in range(7)))
    records = restored(empty, found.arrays, "records", shaped=False)
    n_records = len(records.steps)
    arrays = with_settling(found.arrays)
    return Saved(
        learners=restored(learners, arrays, "learners"),
        reports=[jax.tree.map(lambda x, i=i: x[i], records) for i in range(n_records)],
        periods=int(found.facts["periods"]),
        complete=bool(found.facts["complete"]),
        seconds=float(found.facts["seconds"]),
        streams=streams_of(found.arrays),
    )


def with_settling(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checkpoints from before `Settling`, or a part of it, have its beginning.

    All time counts, the last policy is the average, and no bound has bound.
    """
    theta, steps = arrays["learners/theta"], arrays["learners/steps"]
    begun = {
        "learners/settling/clock": steps.astype(theta.dtype),
        "learners/settling/theta": theta,
        "learners/settling/bound_at": np.zeros_like(steps),
    }
    return begun | arrays


def named(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """The leaves of a tree, by names such as learners/critic/weights.

    >>> named({"a": (jnp.ones(2), jnp.zeros(()))}, "tree")
    {'tree/a/0': array([1., 1.], dtype=float32), 'tree/a/1': array(0., dtype=float32)}
    """
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {_name(prefix, path): np.asarray(_plain(leaf)) for path, leaf in leaves}


def restored(like: Any, arrays: dict[str, np.ndarray], prefix: str, *, shaped: bool = True) -> Any:
    """The tree ``like``, with its leaves taken from ``arrays``.

    >>> restored({"a": jnp.zeros(2)}, {"tree/a": np.array([1.5, 2.5], np.float32)}, "tree")
    {'a': Array([1.5, 2.5], dtype=float32)}
    """

    def take(path: Any, leaf: Any) -> Any:
        name, expected = _name(prefix, path), np.asarray(_plain(leaf))
        found = arrays.get(name)
        if found is None:
            raise StoreError(f"the checkpoint has no array {name}; it is of another kind of run")
        if not shaped:
            return found
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise StoreError(
                f"{name} is {found.dtype}{list(found.shape)} in the checkpoint and "
                f"{expected.dtype}{list(expected.shape)} here; it is of another kind of run"
            )
        return jax.random.wrap_key_data(jnp.asarray(found)) if _is_key(leaf) else jnp.asarray(found)

    return jax.tree_util.tree_map_with_path(take, like)


def streams_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Where the streams stand, out of a checkpoint."""
    prefix = "streams/"
    return {name[len(prefix) :]: x for name, x in arrays.items() if name.startswith(prefix)}


def versions() -> dict[str, str]:
    """Of all that may change the last bit."""
    from downside import __version__

    return {
        "downside": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def table(records: Report) -> Any:
    """One row for each record and learner."""
    import polars as pl

    n_records, n_learners = records.steps.shape
    columns: dict[str, Any] = {
        "record": np.repeat(np.arange(n_records), n_learners),
        "learner": np.tile(np.arange(n_learners), n_records),
        "steps": records.steps.ravel(),
        "episodes": records.episodes.ravel(),
        "mean_return": records.returns.ravel(),
        "mean_discounted_return": records.discounted.ravel(),
        "failed": records.failed.ravel(),
    }
    for j in range(records.risks.shape[-1]):
        columns[f"risk_{j}"] = records.risks[..., j].ravel()
        columns[f"multiplier_{j}"] = records.multipliers[..., j].ravel()
    return pl.DataFrame(columns)


def stacked(reports: list[Report]) -> Report:
    """All records, one after the other."""
    if not reports:
        return Report(*(np.zeros(0) for _ in range(7)))
    return jax.tree.map(lambda *rows: np.stack(rows), *reports)


def thinned(reports: list[Report], most: int = 1000) -> list[Report]:
    """Every second report dropped until there are few: memory stays flat."""
    while len(reports) > most:
        reports = reports[1::2]
    return reports


def _name(prefix: str, path: Any) -> str:
    parts = [
        str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path
    ]
    return "/".join([prefix, *parts])


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _warn_of_damage(found: Checkpoint) -> None:
    if found.skipped:
        warn(
            f"going on from step {found.step}, because newer checkpoints are damaged: "
            + "; ".join(found.skipped),
            stacklevel=6,
        )


def _warn_of_versions(found: Checkpoint) -> None:
    then, now = found.facts["versions"], versions()
    changed = [
        f"{name} {then.get(name)} then, {now[name]} now"
        for name in now
        if then.get(name) != now[name]
    ]
    if changed:
        warn(
            f"{found.path} was written with other versions ({'; '.join(changed)}); "
            "the run goes on, but its last bits may differ",
            stacklevel=6,
        )
