"""Named arrays as one .npz file: uncompressed, without pickle, read with suspicion.

Any program that reads .npz can read it. The reader takes only what the writer here writes:
a hash says that bytes are the ones that were saved, not that who saved them meant well.
"""

import io
import math
import re
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.lib import format as npy

from downside.store.errors import DamagedError, StoreError

MOST_ARRAYS = 10_000
_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
_LONGEST_NAME = 200
_DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
_MOST_DIMENSIONS = 32
_HEADER = re.compile(
    rb"\{'descr': '([^']{3})', 'fortran_order': False, 'shape': \(([0-9, ]{0,700})\), \} *\n"
)
_LONGEST_HEADER = 1000
_LONGEST_TABLE = 4 * 2**20  # bytes; 10,000 entries with the longest names take less
_CHUNK = 2**20


def check_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that could not be read back.

    >>> check_arrays({"../weights": np.ones(3)})
    Traceback (most recent call last):
    ValueError: an array is called '../weights'; names are words such as 'critic/0/weights'
    """
    if len(arrays) > MOST_ARRAYS:
        raise ValueError(f"{len(arrays)} arrays came; {MOST_ARRAYS} are allowed, join some")
    for name, array in arrays.items():
        if not _is_name(name):
            raise ValueError(
                f"an array is called {name!r}; names are words such as 'critic/0/weights'"
            )
        if array.dtype.str not in _DTYPES:
            raise ValueError(
                f"{name} has the dtype {array.dtype.str}; allowed are {', '.join(_DTYPES)}"
            )
        if array.ndim > _MOST_DIMENSIONS:
            raise ValueError(f"{name} has {array.ndim} dimensions; at most {_MOST_DIMENSIONS}")


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> int:
    """The most bytes that the file of these arrays can take."""
    return 100 + sum(array.nbytes + _LONGEST_HEADER + 1000 for array in arrays.values())


def write_npz(stream: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a stream that need not be able to go back; equal arrays, equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
            flat = np.asarray(array, order="C").reshape(-1).view(np.uint8)
            # no file date, so that the bytes depend on the arrays alone
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header)
                for start in range(0, flat.size, _CHUNK):
                    member.write(flat[start : start + _CHUNK].data)


def read_npz(file: BinaryIO, size: int) -> dict[str, np.ndarray]:
    """Read the arrays of a file of ``size`` bytes; memory stays within that size."""
    try:
        with zipfile.ZipFile(_Capped(file)) as archive:  # type: ignore[arg-type]
            members = archive.infolist()
            _check_members(members, size)
            return {info.filename[: -len(".npy")]: _read(archive, info) for info in members}
    except (StoreError, OSError):
        raise
    except MemoryError:
        raise StoreError(f"it needs {size} bytes of memory, which are not to be had") from None
    except Exception as error:  # a crafted archive makes zipfile raise almost anything
        raise DamagedError(f"it is not an archive of arrays ({error})") from error


def _is_name(name: str) -> bool:
    fine = _NAME.fullmatch(name) is not None and ".." not in name
    return fine and len(name) <= _LONGEST_NAME


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = {info.filename for info in members}
    if len(members) > MOST_ARRAYS:
        raise DamagedError(f"it holds {len(members)} arrays; {MOST_ARRAYS} are allowed")
    if len(names) < len(members):
        raise DamagedError("it holds two arrays of the same name")
    if sum(info.file_size for info in members) > size:
        raise DamagedError("its arrays are larger than the file")
    for info in members:
        name = info.filename
        if not (name.endswith(".npy") and _is_name(name[: -len(".npy")])):
            raise DamagedError(f"it holds {name[:_LONGEST_NAME]!r}, which is not an array's name")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise DamagedError(f"{name} is compressed")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with cast("zipfile.ZipExtFile", archive.open(info)) as member:
        dtype, shape = _read_header(info.filename, member)
        n_bytes = math.prod(shape) * dtype.itemsize  # exact, in Python's integers
        if n_bytes != info.file_size - member.tell():
            raise DamagedError(f"{info.filename} has another length than its shape {shape} says")
        array = np.empty(shape, dtype)
        view = array.reshape(-1).view(np.uint8).data
        for start in range(0, n_bytes, _CHUNK):
            part = view[start : start + _CHUNK]
            if member.readinto(part) != len(part):
                raise DamagedError(f"{info.filename} ends too early")
    if dtype == np.bool_ and n_bytes and array.view(np.uint8).max() > 1:
        raise DamagedError(f"{info.filename} holds a truth value that is neither 0 nor 1")
    return array


def _read_header(name: str, member: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype and shape before an array, by pattern: nothing of it is ever evaluated."""
    start = member.read(npy.MAGIC_LEN + 2)
    length = int.from_bytes(start[npy.MAGIC_LEN :], "little")
    if start[: npy.MAGIC_LEN] != npy.magic(1, 0) or length > _LONGEST_HEADER:
        raise DamagedError(f"{name} does not start as an array does")
    found = _HEADER.fullmatch(member.read(length))
    if found is None or found[1].decode("ascii", "replace") not in _DTYPES:
        raise DamagedError(f"{name} has a header, or a dtype, that is not one of ours")
    shape = tuple(int(word) for word in found[2].split(b",") if word.strip())
    if len(shape) > _MOST_DIMENSIONS:
        raise DamagedError(f"{name} has {len(shape)} dimensions; at most {_MOST_DIMENSIONS}")
    return np.dtype(found[1].decode()), shape


class _Capped(io.RawIOBase):
    """A file of which no single read may be large: zipfile takes the table at one gulp."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(_LONGEST_TABLE + 1 if size < 0 else min(size, _LONGEST_TABLE + 1))
        if len(data) > _LONGEST_TABLE:
            raise DamagedError("its table of contents is too long")
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()
