"""Files made to do harm, with every hash right: refused in words, in little memory."""

import hashlib
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from downside.store import RunFolder, StoreError, read_checkpoint, read_newest
from downside.store.manifest import Manifest
from downside.store.plain import canonical, encode
from store_samples import IDENTITY, is_right, save_steps


def craft(path, state):
    """Make a checkpoint of step 9 with any bytes as its arrays, and the right hashes."""
    path.mkdir()
    sha256 = hashlib.sha256(state).hexdigest()
    manifest = Manifest(9, encode("identity", IDENTITY), {}, sha256, len(state))
    (path / "manifest.json").write_bytes(manifest.to_bytes())
    (path / "state.npz").write_bytes(state)


def archive(*members, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, data in members:
            file.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return stream.getvalue()


def npy(header, data=b"", length=None, version=b"\x01\x00"):
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + version + size + header + data


def header(descr="'<f8'", order="False", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


def one(data, name="a.npy"):
    return archive((name, data))


def npy_of(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def twice(name):
    """The same name twice, which zipfile would only warn of."""
    return archive((name, GOOD), (name.replace("a", "b"), GOOD)).replace(b"b.npy", b"a.npy")


def overlapping(n):
    """One member of 8 kB, listed n times under other names."""
    data = archive(("a000.npy", npy(header(shape="(1000,)"), bytes(8000))))
    at = data.index(b"PK\x01\x02")
    entry, end = data[at : data.index(b"PK\x05\x06")], data[data.index(b"PK\x05\x06") :]
    table = b"".join(entry.replace(b"a000", b"a%03d" % i) for i in range(n))
    counts = struct.pack("<HHLL", n, n, len(table), at)
    return data[:at] + table + end[:8] + counts + end[20:]


class Shout:
    def __reduce__(self):
        return print, ("unpickled",)


TWO = struct.pack("<2d", 1.5, -2.5)
NOISE = np.random.default_rng(5).bytes(400)  # which becomes longer when it is deflated
GOOD = npy(header(), TWO)
CRAFTED = {
    "a pickle": pickle.dumps(Shout()),
    "nothing": b"",
    "a lone array": GOOD,
    "objects": one(npy_of(np.array([Shout()], dtype=object))),
    "a deflated bomb": archive(("a.npy", bytes(10**8)), method=zipfile.ZIP_DEFLATED),
    "a deflated array": archive(("a.npy", npy(header(shape="(50,)"), NOISE)), method=8),
    "a name that climbs": one(GOOD, "../a.npy"),
    "a name that climbs later": one(GOOD, "a/../../a.npy"),
    "an absolute name": one(GOOD, "/tmp/a.npy"),
    "a name with a backslash": one(GOOD, "a\\b.npy"),
    "a name without .npy": one(GOOD, "a.txt"),
    "no name": one(GOOD, ".npy"),
    "a name with two dots": one(GOOD, "a..b.npy"),
    "a long name": one(GOOD, "a" * 300 + ".npy"),
    "a name twice": twice("a.npy"),
    "overlapping members": overlapping(900),
    "a shape of 2**63": one(npy(header(shape=f"({2**63},)"), TWO)),
    "a shape that wraps to 16 bytes": one(npy(header(shape=f"({2**61 + 2},)"), TWO)),
    "a negative shape": one(npy(header(shape="(-2,)"), TWO)),
    "two negatives": one(npy(header(shape="(-1, -2)"), TWO)),
    "nothing of a huge shape": one(npy(header(shape=f"(0, {2**63})"))),
    "too many dimensions": one(npy(header(shape=f"({'1, ' * 60}2)"), TWO)),
    "too few bytes": one(npy(header(shape="(3,)"), TWO)),
    "too many bytes": one(npy(header(shape="(1,)"), TWO)),
    "a header of megabytes": one(npy(header() * 50_000, TWO, version=b"\x02\x00")),
    "a header of 60 kB": one(npy(header().replace(b"\n", b" " * 60_000 + b"\n"), TWO)),
    "a header longer than the file": one(npy(header(), TWO, length=999)),
    "a header that is code": one(npy(header(shape="print('run')"), TWO)),
    "a deep header": one(npy(header(shape="(" * 300), TWO)),
    "big-endian": one(npy(header("'>f8'"), TWO)),
    "Fortran order": one(npy(header(order="True"), TWO)),
    "a structured dtype": one(npy(header("[('x', '<f8')]"), TWO)),
    "complex numbers": one(npy(header("'<c16'", shape="(1,)"), TWO)),
    "text": one(npy(header("'<U2'"), TWO)),
    "times": one(npy(header("'<M8'"), TWO)),
    "long doubles": one(npy(header("'<f16'", shape="(1,)"), TWO)),
    "a third truth": one(npy(header("'|b1'"), b"\x01\x02")),
    "10,001 arrays": archive(*((f"{i}.npy", GOOD) for i in range(10_001))),
}


@pytest.fixture
def checkpoint(tmp_path):
    save_steps(tmp_path, [2])
    return tmp_path / "checkpoints/000000000009"


def check_refused(checkpoint, words="is damaged"):
    with pytest.raises(StoreError, match=words):
        read_checkpoint(checkpoint)
    newest = read_newest(checkpoint.parents[1])
    assert newest.step == 2
    assert is_right(newest)
    with RunFolder.open(checkpoint.parents[1], IDENTITY) as run:
        assert str(checkpoint) in run.damage[0]


def test_the_crafting_itself_does_no_harm(checkpoint):
    craft(checkpoint, one(GOOD, "a/b.npy"))
    assert read_checkpoint(checkpoint).arrays["a/b"].tolist() == [1.5, -2.5]


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_arrays_are_refused(checkpoint, kind, capfd):
    craft(checkpoint, CRAFTED[kind])
    check_refused(checkpoint, "is damaged: state.npz is refused: ")
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ["manifest.json", "state.npz"])
def test_links_pipes_and_folders_as_files_are_refused(checkpoint, tmp_path, name):
    craft(checkpoint, one(GOOD))
    elsewhere = tmp_path / "elsewhere"
    (checkpoint / name).rename(elsewhere)
    (checkpoint / name).symlink_to(elsewhere)
    check_refused(checkpoint, f"{name} is a symbolic link")
    (checkpoint / name).unlink()
    os.mkfifo(checkpoint / name)
    check_refused(checkpoint, f"{name} is not a file")
    (checkpoint / name).unlink()
    (checkpoint / name).mkdir()
    check_refused(checkpoint, f"{name} is not a file")


def test_links_as_folders_are_refused(checkpoint, tmp_path):
    craft(tmp_path / "elsewhere", one(GOOD))
    checkpoint.symlink_to(tmp_path / "elsewhere")
    check_refused(checkpoint, "000000000009 is a symbolic link")
    checkpoint.unlink()
    (tmp_path / "checkpoints").rename(tmp_path / "moved")
    (tmp_path / "checkpoints").symlink_to(tmp_path / "moved")
    for use in (read_newest, lambda path: RunFolder.open(path, IDENTITY)):
        with pytest.raises(StoreError, match=r"is a symbolic link|holds no run"):
            use(tmp_path)


def test_the_run_folder_itself_may_be_a_link(tmp_path):
    save_steps(tmp_path / "a", [2])
    (tmp_path / "b").symlink_to(tmp_path / "a")
    save_steps(tmp_path / "b", [4])
    assert is_right(read_newest(tmp_path / "b"))


def sealed(**changes):
    state = {"sha256": hashlib.sha256(one(GOOD)).hexdigest(), "bytes": len(one(GOOD))}
    body = {"schema": 1, "step": 9, "identity": {}, "facts": {}, "files": {"state.npz": state}}
    body.update(changes)
    return json.dumps({**body, "sha256": hashlib.sha256(canonical(body)).hexdigest()}).encode()


def nested(n):
    value = 1
    for _ in range(n):
        value = [value]
    return value


SHA = "0" * 64
MANIFESTS = {
    "nothing": b"",
    "not JSON": b"{'schema': 1}",
    "not text": b"\xff\xfe{}",
    "a list": b"[]",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep mappings": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep, with a right hash": sealed(facts={"a": nested(60)}),
    "a megabyte": sealed(facts={"a": "x" * 10**6}),
    "a number of 5000 digits": sealed().replace(b'"step": 9', b'"step": ' + b"9" * 5000),
    "NaN": sealed().replace(b'"step": 9', b'"step": NaN'),
    "a number beyond floats": sealed().replace(b'"step": 9', b'"step": 9e999'),
    "a key twice": sealed().replace(b'"step": 9', b'"step": 9, "step": 9'),
    "no schema": sealed(schema=None),
    "schema true": sealed(schema=True),
    "step of text": sealed(step="9"),
    "step 9.0": sealed(step=9.0),
    "step -9": sealed(step=-9),
    "another step": sealed(step=8),
    "a list as identity": sealed(identity=[]),
    "an unknown float": sealed(facts={"a": {"$float": "1e5"}}),
    "a float of a list": sealed(facts={"a": {"$float": []}}),
    "a fact that is no mapping": sealed(facts=3),
    "another entry": sealed(more=1),
    "no files": sealed(files={}),
    "a file elsewhere": sealed(files={"../2/state.npz": {"sha256": SHA, "bytes": 3}}),
    "a second file": sealed(files={n: {"sha256": SHA, "bytes": 3} for n in ("state.npz", "b")}),
    "a negative size": sealed(files={"state.npz": {"sha256": SHA, "bytes": -1}}),
    "a size of text": sealed(files={"state.npz": {"sha256": SHA, "bytes": "3"}}),
    "a hash of numbers": sealed(files={"state.npz": {"sha256": 3, "bytes": len(one(GOOD))}}),
    "another hash": sealed(files={"state.npz": {"sha256": SHA, "bytes": len(one(GOOD))}}),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_crafted_manifests_are_refused(checkpoint, kind):
    craft(checkpoint, one(GOOD))
    (checkpoint / "manifest.json").write_bytes(sealed())
    assert read_checkpoint(checkpoint).step == 9
    (checkpoint / "manifest.json").write_bytes(MANIFESTS[kind])
    words = {"a megabyte": "longer than 1000000", "deep": "too deeply"}
    check_refused(checkpoint, words.get(kind, "is damaged"))


READ = """
import resource, sys
from downside.store import StoreError, read_checkpoint
import zipfile, numpy.lib.format
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 40 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    read_checkpoint(sys.argv[1])
except StoreError as error:
    print(error)
"""


def long_table():
    """An archive whose table of contents alone takes 100 MB."""
    data = one(b"")
    at, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry = data[at:end]
    n = 10**8 // len(entry)
    counts = struct.pack("<HHLL", n % 2**16, n % 2**16, n * len(entry), at)
    return data[:at] + entry * n + data[end : end + 8] + counts + data[end + 20 :]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (long_table, "table of contents is too long"),
        (lambda: CRAFTED["a deflated bomb"], "larger than the file"),
        (lambda: one(npy(header(), length=2**32 - 1, version=b"\x02\x00")), "does not start"),
        (lambda: one(npy(header(shape=f"({10**11},)"), TWO)), "another length"),
        (lambda: one(npy(header(shape=f"({10**7},)"), bytes(8 * 10**7))), "80000[0-9]{3} bytes of"),
    ],
)
def test_reading_stays_in_little_memory(tmp_path, make, words):
    craft(tmp_path / "crafted", make())
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "crafted")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    assert line.startswith(str(tmp_path))
    assert re.search(words, line), line
