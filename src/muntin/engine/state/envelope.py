"""Snapshots as bytes: Arrow tables and a description, in an envelope that tells version and damage."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.engine.partials.base import ABSENT
from muntin.engine.state.description import Described, SnapshotError, inconsistent
from muntin.expressions.expression import Expression
from muntin.windows.base import Query

__all__ = [
    "LATE",
    "MAGIC",
    "VERSION",
    "SnapshotError",
    "decode",
    "decode_text",
    "encode",
    "pack",
    "unpack",
    "version_of",
]
LATE = "late "  # how names of tables begin that hold late records, as users gave them
MAGIC = b"MUNTIN\x00\x01"
VERSION = 1
WITH_EARLY = 2  # the same, and early results, which older versions of muntin would leave out unsaid
_HEAD = struct.Struct("<8sIQ32s")  # magic, version, length of what follows, and its digest


def pack(description: Mapping[str, Any], tables: Mapping[str, pa.Table], version: int = VERSION) -> bytes:
    """Return a description and named tables as one blob, of a format that readers must know."""
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
    return _HEAD.pack(MAGIC, version, len(body), hashlib.sha256(body).digest()) + body


def version_of(queries: Iterable[Query]) -> int:
    """Return the format in which the state of queries is written: the oldest that can hold it."""
    return WITH_EARLY if any(query.early is not None for query in queries) else VERSION


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return the description and the tables of a blob, if it is whole and of a version that can be read."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(f"a snapshot is bytes, not {type(blob).__name__}.")
    blob = bytes(blob)
    if len(blob) < _HEAD.size or not blob.startswith(MAGIC):
        raise SnapshotError("this is no snapshot of an operator: it does not begin like one.")
    _, version, length, digest = _HEAD.unpack_from(blob)
    if version not in (VERSION, WITH_EARLY):
        raise SnapshotError(
            f"this snapshot has format {version}, and this muntin reads format {VERSION} or {WITH_EARLY}: "
            "restore it with the version of muntin that wrote it."
        )
    body = blob[_HEAD.size :]
    if len(body) != length or hashlib.sha256(body).digest() != digest:
        raise SnapshotError("this snapshot is damaged: its content does not match its checksum.")
    return _parts(body)


def _parts(body: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return the description and the tables that lie behind each other, each in as many bytes as it has."""
    size = int.from_bytes(body[:8], "little")
    if not 8 <= 8 + size <= len(body):
        raise inconsistent(f"its description has {size} bytes, more than there are")
    try:
        head = Described(json.loads(body[8 : 8 + size]), "the snapshot")
    except (ValueError, RecursionError) as error:
        raise inconsistent("its description is no JSON") from error
    tables, at = {}, 8 + size
    for name, count in (told.each(2) for told in head["tables"].each()):
        end = at + count.whole(0, len(body) - at)
        tables[name.text()] = _table(body[at:end], name.text())
        at = end
    if at != len(body):
        raise inconsistent(f"{len(body) - at} bytes follow its tables")
    return head["description"].table(), tables


def _table(content: bytes, name: str) -> pa.Table:
    """Return a table, if it is whole: Arrow itself looks at offsets and indices only when it is asked to."""
    try:
        with pa.ipc.open_stream(content) as stream:
            table = stream.read_all()
        for chunk in (chunk for column in table.columns for chunk in column.chunks):
            bare = _bare(chunk.type)
            (chunk if bare == chunk.type else chunk.view(bare)).validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise inconsistent(f"table {name!r} is no Arrow table ({said})") from error
    # A column of nulls takes no room: as many rows as one likes could be said to be there. Nothing is made of
    # late records, whose columns may well be such.
    if table.num_rows > 8 * len(content) and not name.startswith(LATE):
        raise inconsistent(f"table {name!r} has more rows than bytes can tell")
    return table


def _bare(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same layout that every value fits: columns of users may hold some that are none.

    >>> _bare(pa.struct([("word", pa.string()), ("day", pa.list_(pa.date64()))]))
    StructType(struct<word: binary, day: list<item: int64>>)
    """
    types = pa.types
    for holds, made in _BARE:
        if holds(kind):
            return made
    if types.is_decimal(kind):
        return pa.binary(kind.byte_width)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_bare(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_bare(kind.value_type)), kind.list_size)
    for holds, make in _LISTS:
        if holds(kind):
            return make(kind.value_field.with_type(_bare(kind.value_type)))
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _bare(kind.value_type), kind.ordered)
    if types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, _bare(kind.value_type))
    return _bare(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


_BARE: list[tuple[Any, pa.DataType]] = [
    (pa.types.is_string, pa.binary()),
    (pa.types.is_large_string, pa.large_binary()),
    (pa.types.is_string_view, pa.binary_view()),
    (pa.types.is_date64, pa.int64()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
]
_LISTS: list[tuple[Any, Any]] = [
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
]
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
    """Return the value that was encoded; SnapshotError if there is none."""
    try:
        return _decoded(value)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        shown = "nested too deeply" if isinstance(error, RecursionError) else repr(value)[:60]
        raise inconsistent(f"a value is said to be {shown}, which is none") from error


def decode_text(text: str) -> Any:
    """Return the value that was encoded into a text of JSON."""
    try:
        return decode(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise inconsistent(f"a value is said to be {text!r:.60}, which is no JSON") from error


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        if value is None or type(value) in (bool, int, str):
            return value
        raise TypeError(value)
    ((name, content),) = value.items()
    if name in _SEQUENCES:
        return _SEQUENCES[name](_decoded(item) for item in _list(content))
    return _DECODERS[name](content)


def _list(content: Any) -> list[Any]:
    if type(content) is not list:
        raise TypeError(content)
    return content


def _array(content: Any) -> Any:
    kind, shape, data = _list(content)
    made = np.dtype(str(kind))
    if made.kind not in "biufc":
        raise TypeError(kind)
    return np.frombuffer(base64.b64decode(data), made).reshape(shape).copy()


def _decimal(content: Any) -> decimal.Decimal:
    made = decimal.Decimal(content)
    if made.is_snan():  # cannot even be compared
        raise ValueError(content)
    return made


_DECODERS: dict[str, Any] = {
    "array": _array,
    "float": float.fromhex,
    "absent": lambda _: ABSENT,
    "expression": Expression,
    "dict": lambda pairs: {_decoded(k): _decoded(v) for k, v in _list(pairs)},
    "bytes": base64.b64decode,
    "decimal": _decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
}
