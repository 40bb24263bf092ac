"""A run whose numbers are known at every step, and the promise that its folder keeps."""

import numpy as np

from downside.store import RunFolder, StoreError, read_checkpoint, read_newest

IDENTITY = {"config": {"threshold": float("inf"), "sizes": [3, 5]}, "seed": 7}


def arrays_of(step):
    rng = np.random.default_rng(step)
    return {
        "critic/weights": rng.normal(size=(3, 5)),
        "critic/trace": rng.normal(size=4).astype(np.float32),
        "key": rng.integers(0, 2**32, size=2, dtype=np.uint32),
        "started": np.array(step % 2 == 1),
    }


def equal(a, b):
    """Whether two sets of arrays have the same names, dtypes, shapes and bits."""
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape, a[name].tobytes())
        == (b[name].dtype, b[name].shape, b[name].tobytes())
        for name in a
    )


def save_steps(path, steps, **options):
    with RunFolder.open(path, IDENTITY, **options) as run:
        return [run.save(step, arrays_of(step), {"seconds": step / 4}) for step in steps]


def is_right(checkpoint):
    return (
        equal(checkpoint.arrays, arrays_of(checkpoint.step))
        and checkpoint.facts == {"seconds": checkpoint.step / 4}
        and checkpoint.identity == IDENTITY
    )


def check_promise(path, acknowledged):
    """Nothing that was acknowledged is lost, nothing half is read, and the run can go on."""
    if acknowledged is None:
        try:
            newest = read_newest(path)
        except StoreError:  # nothing was promised yet
            newest = None
    else:
        newest = read_newest(path)
        assert newest.step >= acknowledged
    assert newest is None or (is_right(newest) and newest.skipped == ())
    step = None if newest is None else newest.step
    with RunFolder.open(path, IDENTITY) as run:
        assert list(path.glob("**/.*")) == []
        assert all(is_right(read_checkpoint(found)) for found in (path / "checkpoints").iterdir())
        reopened = run.newest()
        assert (None if reopened is None else reopened.step) == step
        following = 1 if step is None else step + 1
        run.save(following, arrays_of(following), {"seconds": following / 4})
    again = read_newest(path)
    assert again.step == following
    assert is_right(again)
