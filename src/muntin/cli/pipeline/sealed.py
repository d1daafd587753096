"""Small JSON files of a checkpoint that tell whether they are as they were written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.files import write_whole

VERSION = 1


class UnsealedError(ValueError):
    """A file that is not as it was written; its text goes on from the name of the file."""


def write_sealed(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts with their version and checksum, in one step."""
    content = json.dumps({"version": VERSION, "checksum": _checksum(facts), "facts": facts}).encode()
    write_whole(path, lambda file: file.write(content))


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the facts of a file, if it is whole; FileNotFoundError if there is none."""
    try:
        read = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UnsealedError("is cut off or no JSON") from error
    if not isinstance(read, dict) or not isinstance(read.get("version"), int):
        raise UnsealedError("does not say which version of muntin wrote it")
    if read["version"] != VERSION:
        raise UnsealedError(
            f"has format {read['version']}, which another version of muntin wrote (this one reads {VERSION})"
        )
    facts = read.get("facts")
    if not isinstance(facts, dict) or read.get("checksum") != _checksum(facts):
        raise UnsealedError("has a content that does not match its checksum")
    return facts


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
