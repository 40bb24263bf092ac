import subprocess
import sys

import numpy as np
import pytest

from downside.store import (
    RunFolder,
    StoreError,
    checkpoints,
    read_checkpoint,
    read_newest,
)
from store_samples import IDENTITY, arrays_of, equal, is_right, save_steps

WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
DTYPES = ["bool", *(f"{kind}{width}" for kind in WIDTHS for width in WIDTHS[kind])]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (4, 3, 2)])
def test_arrays_come_back_bit_by_bit(tmp_path, dtype, shape):
    numbers = np.random.default_rng(5).integers(0, 2, shape) * 37 - 3.5
    saved = {"a": np.array(np.array(numbers, np.int64), dtype)}
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(2, saved)
        assert equal(run.newest().arrays, saved)


def test_infinities_nans_and_views_come_back_too(tmp_path):
    odd = np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324]).view(np.uint64)
    odd[2] |= 12345  # a NaN with a payload
    table = np.arange(12.0).reshape(3, 4)
    saved = {"odd": odd.view(np.float64), "transposed": table.T, "strided": table[::2, ::-1]}
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(2, saved)
        assert equal(run.newest().arrays, saved)


def test_other_programs_can_read_the_arrays(tmp_path):
    [path] = save_steps(tmp_path, [2])
    with np.load(path / "state.npz", allow_pickle=False) as file:
        assert equal(dict(file), arrays_of(2))


def test_a_large_array_is_written_in_parts(tmp_path):
    saved = {"a": np.random.default_rng(5).normal(size=400_000), "b": np.ones(3)}
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(2, saved)
        assert equal(run.newest().arrays, saved)


def test_facts_and_identity_come_back(tmp_path):
    facts = {"seconds": 8.25, "worst": float("-inf"), "names": ["a", "b"], "stopped": None}
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(2, {}, facts)
    found = read_newest(tmp_path)
    assert (found.step, found.facts, found.identity) == (2, facts, IDENTITY)


@pytest.mark.parametrize(
    ("arrays", "advice"),
    [
        ({"../weights": np.ones(3)}, "names are words such as"),
        ({"/weights": np.ones(3)}, "names are words such as"),
        ({"": np.ones(3)}, "names are words such as"),
        ({"a" * 201: np.ones(3)}, "names are words such as"),
        ({"a": np.array([None])}, "allowed are |b1"),
        ({"a": np.ones(3, ">f8")}, "dtype >f8"),
        ({"a": np.ones(3, complex)}, "dtype <c16"),
        ({f"a{i}": np.ones(1) for i in range(10_001)}, "10000 are allowed"),
    ],
)
def test_arrays_that_could_not_be_read_are_not_written(tmp_path, arrays, advice):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        with pytest.raises(ValueError, match=advice):
            run.save(2, arrays)
        assert run.newest() is None


def test_sizes_have_limits(tmp_path):
    with RunFolder.open(tmp_path, IDENTITY, max_bytes=50_000) as run:
        run.save(2, {"a": np.ones(5000)})
        assert run.newest().step == 2
        with pytest.raises(ValueError, match="allow it with max_bytes="):
            run.save(3, {"a": np.ones(6250)})
        with pytest.raises(ValueError, match="put long lists of numbers into arrays"):
            run.save(3, {}, {"text": "long" * 300_000})
    with pytest.raises(StoreError, match="allow it with max_bytes=40"):
        read_newest(tmp_path, max_bytes=40_000)


def test_the_last_few_checkpoints_stay(tmp_path):
    save_steps(tmp_path / "a", [1, 2, 5, 9, 30])
    assert checkpoints(tmp_path / "a") == [5, 9, 30]
    save_steps(tmp_path / "b", [1, 2, 5], keep=1)
    assert checkpoints(tmp_path / "b") == [5]
    assert [entry.name for entry in (tmp_path / "b/checkpoints").iterdir()] == ["000000000005"]


def test_the_last_step_can_be_saved_again_and_earlier_ones_cannot(tmp_path):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(4, arrays_of(3))
        path = run.save(4, arrays_of(4), {"finished": True})
        with pytest.raises(ValueError, match="step is 3, and step 4 is saved already"):
            run.save(3, arrays_of(3))
        with pytest.raises(ValueError, match="step is -1; it must be a whole number"):
            run.save(-1, arrays_of(3))
    found = read_checkpoint(path)
    assert found.facts == {"finished": True}
    assert equal(found.arrays, arrays_of(4))
    assert [entry.name for entry in path.parent.iterdir()] == ["000000000004"]


def test_a_damaged_newest_is_skipped_named_and_written_over(tmp_path):
    *_, damaged = save_steps(tmp_path, [2, 4, 8])
    (damaged / "state.npz").write_bytes(b"short")
    found = read_newest(tmp_path)
    assert found.step == 4
    assert is_right(found)
    with RunFolder.open(tmp_path, IDENTITY, keep=1) as run:
        assert run.newest().step == 4
        assert "000000000008 is damaged: state.npz is 5 bytes long" in run.damage[0]
        run.save(8, arrays_of(8), {"seconds": 2.0})
    assert is_right(read_newest(tmp_path))
    assert checkpoints(tmp_path) == [8]


def test_damaged_checkpoints_do_not_push_out_intact_ones(tmp_path):
    *_, damaged = save_steps(tmp_path, [2, 8])
    (damaged / "manifest.json").unlink()
    with RunFolder.open(tmp_path, IDENTITY, keep=2) as run:
        run.save(4, arrays_of(4))
        assert run.newest().step == 4
        run.save(9, arrays_of(9))
        assert run.newest().step == 9
        run.save(9, arrays_of(9))
        assert checkpoints(tmp_path) == [4, 8, 9]
        run.save(10, arrays_of(10))
    assert checkpoints(tmp_path) == [9, 10]


def test_a_folder_with_damage_only_is_refused(tmp_path):
    for path in save_steps(tmp_path, [2, 4]):
        (path / "manifest.json").write_bytes(b"{}")
    with pytest.raises(StoreError, match=r"every checkpoint(.|\n)*0004 is(.|\n)*0002 is damaged"):
        RunFolder.open(tmp_path, IDENTITY)


def test_reading_where_there_is_nothing(tmp_path):
    with pytest.raises(StoreError, match="nowhere does not exist"):
        read_newest(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="holds no run"):
        checkpoints(tmp_path)
    with RunFolder.open(tmp_path / "new", IDENTITY) as run:
        assert run.newest() is None
        with pytest.raises(StoreError, match="holds no checkpoint yet"):
            read_newest(tmp_path / "new")


class Table:
    def __init__(self, content):
        self.content = content

    def write_parquet(self, file):
        file.write(self.content)


def test_records_are_replaced_as_a_whole(tmp_path):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.write_records(Table(b"first"))
        path = run.write_records(Table(b"second"))
    assert path == tmp_path / "records.parquet"
    assert path.read_bytes() == b"second"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "checkpoints",
        "lock",
        "records.parquet",
    ]


def test_records_of_polars(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"step": [200, 400], "reward": [1.5, float("nan")]})
    with RunFolder.open(tmp_path, IDENTITY) as run:
        assert polars.read_parquet(run.write_records(frame)).equals(frame)


def test_the_store_needs_no_jax():
    script = "import sys, downside.store; print({'jax', 'polars', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
