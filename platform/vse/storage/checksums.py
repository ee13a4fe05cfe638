"""Checksums of files, and JSON objects that carry their own, so that damage shows when they are read."""

import hashlib
import json
from pathlib import Path
from typing import Any

CHECKSUM = "checksum"  # the key under which a JSON object keeps the SHA-256 of all its other content


def sha256_of(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a local file, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def entry_of(data: bytes) -> dict[str, Any]:
    """What a manifest says about a file with this content: its bytes and its SHA-256."""
    return {"bytes": len(data), "sha256": sha256_of(data)}


def as_json(value: Any) -> bytes:
    """As `Folder.write_json` writes it: no NaN or infinity, which are not JSON; lone surrogates (of names) escaped."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="backslashreplace")


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The object with a checksum of its own as the last key."""
    return {**value, CHECKSUM: sha256_of(as_json(value))}


def without_checksum(value: Any) -> Any:
    """What `with_checksum` was given; other values as they are. Raises ValueError if the checksum does not fit."""
    if not isinstance(value, dict) or CHECKSUM not in value:
        return value
    content = {key: each for key, each in value.items() if key != CHECKSUM}
    if sha256_of(as_json(content)) != value[CHECKSUM]:
        raise ValueError("its checksum differs from its content")
    return content
