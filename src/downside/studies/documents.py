"""JSON files that are written in one step and believed only through their own SHA-256."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

from downside.store.errors import DamagedError, explaining
from downside.store.plain import canonical, decode, encode, parse
from downside.store.writing import replace_file

SCHEMA = 1


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Put a document in the place of another; when this returns, it is on the disk."""
    body = encode(path.name, {"schema": SCHEMA, **document})
    sealed = {**body, "sha256": hashlib.sha256(canonical(body)).hexdigest()}
    with explaining(f"{path} could not be written"):
        replace_file(path, json.dumps(sealed, indent=2).encode() + b"\n")


def read_document(path: Path) -> dict[str, Any] | None:
    """What `write_document` wrote; None if there is nothing, an error if it is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_document(Path(folder) / "a.json", {"threshold": float("inf")})
    ...     read_document(Path(folder) / "a.json"), read_document(Path(folder) / "b.json")
    ({'threshold': inf}, None)
    """
    with explaining(f"{path} could not be read"):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        body = parse(data)
        if not isinstance(body, dict):
            raise ValueError("it is no mapping")
        document = cast("dict[str, Any]", body)
        if document.pop("sha256", None) != hashlib.sha256(canonical(document)).hexdigest():
            raise ValueError("its content does not have the SHA-256 that it names")
        if document.pop("schema", None) != SCHEMA:
            raise ValueError(f"it was written by another version; this one reads schema {SCHEMA}")
        return decode(document)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error
