"""Bytes that changed on the disk: refused, or an older checkpoint, never other numbers."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from downside.store import StoreError, read_checkpoint, read_newest
from store_samples import is_right, save_steps

FILES = ["manifest.json", "state.npz"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with the checkpoints 2 and 4, and the bytes of all its files."""
    folder = tmp_path_factory.mktemp("run")
    paths = [path / name for path in save_steps(folder, [2, 4]) for name in FILES]
    return folder, {path: path.read_bytes() for path in paths}


def check(run, changed):
    """Read with some files changed, then put them back."""
    folder, contents = run
    for path, data in changed.items():
        path.write_bytes(data)
    try:
        for path in {path.parent for path in contents}:
            try:
                assert is_right(read_checkpoint(path))
            except StoreError:
                assert any(path == file.parent for file in changed)
        try:
            newest = read_newest(folder)
        except StoreError:
            assert len({path.parent for path in changed}) == 2  # both were changed
        else:
            assert is_right(newest)
            assert newest.step == 4 or "000000000004" in newest.skipped[0]
    finally:
        for path in changed:
            path.write_bytes(contents[path])


def mutate(data, kind, at, other, value):
    """One change of some bytes; positions are fractions of the length."""
    i, j = int(at * (len(data) - 1)), int(other * (len(data) - 1))
    i, j = min(i, j), max(i, j)
    if kind == "flip":
        return data[:i] + bytes([data[i] ^ (value or 1)]) + data[i + 1 :]
    if kind == "truncate":
        return data[:i]
    if kind == "extend":
        return data + bytes([value]) * (1 + j)
    if kind == "swap":
        return data[:i] + data[j : j + 1] + data[i + 1 : j] + data[i : i + 1] + data[j + 1 :]
    if kind == "remove":
        return data[:i] + data[j + 1 :]
    return data[:i] + bytes([value]) * (j - i) + data[j:]  # fill


KINDS = ["flip", "truncate", "extend", "swap", "remove", "fill"]
FRACTION = st.floats(0, 1)
MUTATION = st.tuples(st.sampled_from(KINDS), FRACTION, FRACTION, st.integers(0, 255))


@settings(max_examples=100, deadline=None)
@given(changes=st.dictionaries(st.integers(0, 3), MUTATION, min_size=1))
def test_changed_bytes_never_give_other_numbers(run, changes):
    paths = list(run[1])
    check(run, {paths[i]: mutate(run[1][paths[i]], *change) for i, change in changes.items()})


def test_many_single_changes(run):
    rng = random.Random(7)
    for _ in range(300):
        path = rng.choice(list(run[1]))
        change = rng.choice(KINDS), rng.random(), rng.random(), rng.randrange(256)
        check(run, {path: mutate(run[1][path], *change)})


def test_every_digit_of_a_manifest_counts(run):
    [path] = [path for path in run[1] if path.match("*4/manifest.json")]
    data = run[1][path]
    for i in range(len(data)):
        if data[i : i + 1].isdigit():
            digit = b"%d" % ((int(data[i : i + 1]) + 3) % 10)
            check(run, {path: data[:i] + digit + data[i + 1 :]})


def test_files_of_other_checkpoints_are_not_taken(run):
    first_manifest, first_state, manifest, state = run[1]
    check(run, {manifest: run[1][first_manifest]})
    check(run, {state: run[1][first_state]})
    check(run, {manifest: run[1][first_manifest], state: run[1][first_state]})
