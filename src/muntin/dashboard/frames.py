"""Frames: what goes over the socket to a page, a JSON header and typed arrays behind it.

A frame is the length of the header (4 bytes, little endian), the header in UTF-8, zeros up to a multiple of
8 bytes, and the arrays one after the other, each from a multiple of 8 bytes on. The header says under
`arrays` which there are: name, type ("f8", "i4" or "u1") and length. Times are float64, in ticks
since a `base` that the page is told once: exact for spans below 2^53 ticks.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES: dict[str, np.dtype[Any]] = {"f8": np.dtype("<f8"), "i4": np.dtype("<i4"), "u1": np.dtype("u1")}


def encode(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """Return a frame.

    >>> header, arrays = decode(encode({"type": "view"}, {"t": np.array([1.0, 2.5])}))
    >>> header["type"], arrays["t"].tolist()
    ('view', [1.0, 2.5])
    """
    laid = {name: _plain(array) for name, array in (arrays or {}).items()}
    listed = [[name, _name(array), len(array)] for name, array in laid.items()]
    text = json.dumps(_finite({**header, "arrays": listed}), separators=(",", ":"), allow_nan=False).encode()
    parts = [struct.pack("<I", len(text)), text, bytes(-(4 + len(text)) % 8)]
    for array in laid.values():
        parts += [array.tobytes(), bytes(-array.nbytes % 8)]
    return b"".join(parts)


def decode(frame: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a frame."""
    (length,) = struct.unpack_from("<I", frame)
    header = json.loads(frame[4 : 4 + length])
    at = 4 + length + -(4 + length) % 8
    arrays = {}
    for name, kind, count in header.pop("arrays"):
        dtype = _TYPES[kind]
        arrays[name] = np.frombuffer(frame, dtype, count, at)
        at += arrays[name].nbytes + -arrays[name].nbytes % 8
    return header, arrays


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in one of the types that pages read."""
    if array.dtype == np.uint8 or array.dtype == np.bool_:
        return array.astype(np.uint8)
    if array.dtype == np.int32:
        return array.astype("<i4")
    return array.astype("<f8")


def _name(array: NDArray[Any]) -> str:
    return next(name for name, dtype in _TYPES.items() if dtype == array.dtype)


def _finite(value: Any) -> Any:
    """Return a value as JSON can hold it: there is no NaN and no infinity in it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


__all__ = ["decode", "encode"]
