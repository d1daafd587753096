"""Snapshots as bytes: Arrow tables and a description, in an envelope that tells version and damage."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.expressions import Expression
from muntin.slicing.described import SnapshotError
from muntin.slicing.fields import ABSENT

__all__ = ["MAGIC", "VERSION", "SnapshotError", "decode", "encode", "pack", "unpack"]

MAGIC = b"MUNTIN\x00\x01"
VERSION = 1
_HEAD = struct.Struct("<8sIQ32s")  # magic, version, length of what follows, and its digest


def pack(description: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> bytes:
    """Return a description and named tables as one blob."""
    parts, index = [], []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        part = sink.getvalue().to_pybytes()
        parts.append(part)
        index.append([name, len(part)])
    text = json.dumps({"description": description, "tables": index}).encode()
    body = struct.pack("<Q", len(text)) + text + b"".join(parts)
    return _HEAD.pack(MAGIC, VERSION, len(body), hashlib.sha256(body).digest()) + body


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return the description and the tables of a blob, if it is whole and of a version that can be read."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(f"a snapshot is bytes, not {type(blob).__name__}.")
    blob = bytes(blob)
    if len(blob) < _HEAD.size or not blob.startswith(MAGIC):
        raise SnapshotError("this is no snapshot of an operator: it does not begin like one.")
    _, version, length, digest = _HEAD.unpack_from(blob)
    if version != VERSION:
        raise SnapshotError(
            f"this snapshot has format {version}, and this muntin reads format {VERSION}: restore it with "
            "the version of muntin that wrote it."
        )
    body = blob[_HEAD.size :]
    if len(body) != length or hashlib.sha256(body).digest() != digest:
        raise SnapshotError("this snapshot is damaged: its content does not match its checksum.")
    (size,) = struct.unpack_from("<Q", body)
    head = json.loads(body[8 : 8 + size])
    tables, at = {}, 8 + size
    for name, count in head["tables"]:
        tables[name] = pa.ipc.open_stream(body[at : at + count]).read_all()
        at += count
    return head["description"], tables


# ---- Python values in JSON, each with its type where JSON has none of its own ----

_SEQUENCES: dict[str, Any] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}


def encode(value: Any) -> Any:
    """Return a value as JSON can hold it.

    >>> decode(encode((1, {2.5, None}, b"x")))[0]
    1
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if value is ABSENT:
        return {"absent": True}
    if type(value) is Expression:
        return {"expression": str(value)}
    for name, kind in _SEQUENCES.items():
        if type(value) is kind:
            return {name: [encode(item) for item in value]}
    if type(value) is dict:
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is decimal.Decimal:
        return {"decimal": str(value)}
    if type(value) in (datetime.datetime, datetime.date, datetime.time):
        return {type(value).__name__: value.isoformat()}
    if type(value) is datetime.timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy scalar
        return encode(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return {"array": [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}
    refused = SnapshotError(
        f"a state holds a {type(value).__name__}, which a snapshot cannot keep; it keeps numbers, texts, "
        "bytes, decimals, dates and times, arrays of numbers, and tuples, lists, sets and dicts of them."
    )
    refused.found = type(value).__name__
    raise refused


def decode(value: Any) -> Any:
    """Return the value that was encoded."""
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name in _SEQUENCES:
        return _SEQUENCES[name](decode(item) for item in content)
    return _DECODERS[name](content)


def _array(content: tuple[str, list[int], str]) -> Any:
    kind, shape, data = content
    return np.frombuffer(base64.b64decode(data), kind).reshape(shape).copy()


_DECODERS: dict[str, Any] = {
    "array": _array,
    "float": float.fromhex,
    "absent": lambda _: ABSENT,
    "expression": Expression,
    "dict": lambda pairs: {decode(k): decode(v) for k, v in pairs},
    "bytes": base64.b64decode,
    "decimal": decimal.Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
}
