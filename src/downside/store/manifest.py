"""The manifest of a checkpoint: what it is, and the hashes through which it is read."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, cast

from downside.store.errors import DamagedError, StoreError
from downside.store.plain import canonical, decode, parse

SCHEMA = 1
MAX_MANIFEST = 1_000_000
STATE = "state.npz"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """What manifest.json says; ``identity`` and ``facts`` as JSON."""

    step: int
    identity: dict[str, Any]
    facts: dict[str, Any]
    state_sha256: str
    state_bytes: int

    def to_bytes(self) -> bytes:
        """The file's content; its last entry is the SHA-256 of all the others."""
        files = {STATE: {"sha256": self.state_sha256, "bytes": self.state_bytes}}
        body: dict[str, Any] = {
            "schema": SCHEMA,
            "step": self.step,
            "identity": self.identity,
            "facts": self.facts,
            "files": files,
        }
        return json.dumps({**body, "sha256": _sha256(body)}, indent=2).encode() + b"\n"

    @staticmethod
    def from_bytes(data: bytes) -> "Manifest":
        """Read the file's content, believing nothing before its own hash is right.

        In every schema, "schema" and "sha256" mean what they mean here, so that a manifest of
        another version is told from a damaged one.
        """
        try:
            document = parse(data)
            body = _mapping(document)
            claimed = body.pop("sha256", None)
            if claimed != _sha256(body):
                raise ValueError("its content does not have the SHA-256 that it names")
            if type(body.get("schema")) is not int:
                raise ValueError("it names no schema")
            if body["schema"] != SCHEMA:
                raise StoreError(
                    f"it was written by another version of downside (schema {body['schema']}; "
                    f"this version reads {SCHEMA}): read it with that version"
                )
            return _manifest(body)
        except RecursionError:
            raise DamagedError("manifest.json is nested too deeply") from None
        except ValueError as error:
            raise DamagedError(f"manifest.json cannot be believed: {error}") from error


def _manifest(body: dict[str, Any]) -> Manifest:
    if set(body) != {"schema", "step", "identity", "facts", "files"}:
        raise ValueError(f"its entries are {', '.join(sorted(body))}")
    files = _mapping(body["files"])
    state = _mapping(files.get(STATE))
    sha256, size = state.get("sha256"), state.get("bytes")
    if set(files) != {STATE} or set(state) != {"sha256", "bytes"}:
        raise ValueError(f"it should name {STATE} alone, with its SHA-256 and bytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError(f"the SHA-256 of {STATE} is not one")
    identity, facts = _mapping(body["identity"]), _mapping(body["facts"])
    for plain in (identity, facts):
        decode(plain)  # what cannot be decoded is refused here
    return Manifest(_count(body["step"]), identity, facts, sha256, _count(size))


def _sha256(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(body)).hexdigest()


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("something else stands where a mapping should be")
    return cast("dict[str, Any]", value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("something else stands where a count should be")
    return value
