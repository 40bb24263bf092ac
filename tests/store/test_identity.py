import hashlib
import json
import math
import shutil
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from downside.store import RunFolder, StoreError, read_newest
from downside.store.plain import canonical, decode, encode, parse
from store_samples import IDENTITY, arrays_of, save_steps

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_survive_json(value):
    written = canonical(encode("facts", value))
    read = decode(parse(written))
    assert canonical(encode("facts", read)) == written
    as_text = partial(json.dumps, sort_keys=True)  # because NaN differs from itself
    assert as_text(read) == as_text(value)


def test_numpy_numbers_and_tuples_are_plain():
    value = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": (1, np.inf)}
    assert decode(encode("facts", value)) == {"a": 0.5, "b": 3, "c": True, "d": [1, math.inf]}


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({"env": object()}, "identity.env is <object"),
        ({"env": {"a": [1, np.ones(2)]}}, "identity.env.a.1 is array"),
        ({3: 1}, "identity has the key 3"),
        ({"$float": "inf"}, "does not start with"),
    ],
)
def test_what_is_not_plain_is_refused(tmp_path, value, advice):
    with pytest.raises(ValueError, match=advice):
        encode("identity", value)
    assert list(tmp_path.iterdir()) == []


def test_deep_nesting_is_refused():
    value = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(ValueError, match="levels deep; flatten it"):
        encode("facts", value)


def changed(**changes):
    return {**IDENTITY, "config": {**IDENTITY["config"], **changes}}


@pytest.mark.parametrize(
    ("identity", "difference"),
    [
        (changed(threshold=0.5), "config.threshold is inf there and 0.5 here"),
        (changed(sizes=(3, 6)), "config.sizes.1 is 5 there and 6 here"),
        (changed(sizes=[3]), "config.sizes.1 is 5 there and missing here"),
        (changed(order=2), "config.order is missing there and 2 here"),
        ({**IDENTITY, "seed": 7.0}, "seed is 7 there and 7.0 here"),
        ({**IDENTITY, "seed": True}, "seed is 7 there and True here"),
        ({"seed": 8}, "config is .*missing here; seed is 7 there and 8 here; give another"),
    ],
)
def test_another_run_is_refused_with_every_difference(tmp_path, identity, difference):
    save_steps(tmp_path / "a", [2])
    with pytest.raises(StoreError, match=rf"a holds another run: .*{difference}"):
        RunFolder.open(tmp_path / "a", identity)
    assert read_newest(tmp_path / "a").identity == IDENTITY
    save_steps(tmp_path / "a", [3])  # the refusal has left the lock free


def test_an_equal_identity_is_accepted(tmp_path):
    save_steps(tmp_path, [2])
    same = {"seed": np.int32(7), "config": {"sizes": (3, 5), "threshold": np.float32(np.inf)}}
    with RunFolder.open(tmp_path, same) as run:
        assert run.newest().step == 2


def test_nan_equals_nan_in_an_identity(tmp_path):
    with RunFolder.open(tmp_path, {"target": math.nan}) as run:
        run.save(2, arrays_of(2))
    with RunFolder.open(tmp_path, {"target": math.nan}) as run:
        assert math.isnan(run.newest().identity["target"])


def test_another_schema_is_refused_and_not_taken_for_damage(tmp_path):
    _, path = save_steps(tmp_path, [2, 3])
    document = json.loads((path / "manifest.json").read_bytes())
    del document["sha256"]
    body = {**document, "schema": 2, "news": "unknown to this version"}
    (path / "manifest.json").write_bytes(sealed(body))
    for reading in (read_newest, lambda path: RunFolder.open(path, IDENTITY)):
        with pytest.raises(StoreError, match=r"schema 2; this version reads 1\): read it with"):
            reading(tmp_path)


def sealed(body):
    sha256 = hashlib.sha256(canonical(body)).hexdigest()
    return json.dumps({**body, "sha256": sha256}).encode()


@pytest.mark.parametrize(
    "name", ["notes.txt", "checkpoints/epoch_1.pt", "checkpoints/000000000002.txt", "lock"]
)
def test_the_folder_of_something_else_is_refused(tmp_path, name):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / name).write_text("mine")
    if "/" not in name:
        shutil.rmtree(tmp_path / "checkpoints")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="is not empty and holds no run; give a new folder"):
        RunFolder.open(tmp_path, IDENTITY)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / name).read_text() == "mine"


def test_other_files_beside_a_run_are_left_alone(tmp_path):
    save_steps(tmp_path, [2])
    ours = [tmp_path / "figure.png", tmp_path / "checkpoints/.DS_Store", tmp_path / ".hidden"]
    for path in ours:
        path.write_text("mine")
    save_steps(tmp_path, [3, 4, 5, 6])
    assert [path.read_text() for path in ours] == ["mine"] * 3


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(StoreError, match="a is not a folder; give another name"):
        RunFolder.open(tmp_path / "a", IDENTITY)
    with pytest.raises(StoreError, match="Not a directory"):
        RunFolder.open(tmp_path / "a/b", IDENTITY)
    with pytest.raises(StoreError, match="a is not a folder"):
        read_newest(tmp_path / "a")


def test_keep_is_at_least_one(tmp_path):
    with pytest.raises(ValueError, match="keep is 0; at least 1"):
        RunFolder.open(tmp_path, IDENTITY, keep=0)
