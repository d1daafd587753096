"""Values as 64-bit keys that depend on the value alone: the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import numbers
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
_LOW, _HIGH = -(2**63), 2**63


def keys_of(values: NDArray[Any]) -> Keys:
    """Return the keys of numbers or objects: whole numbers are their own, all else is hashed.

    Equal numbers have equal keys, whatever their type; -0.0 is 0.0, and each NaN is the same.

    >>> keys_of(np.array([3, -1])).tolist(), keys_of(np.array([3.0, -1.0])).tolist()
    ([3, -1], [3, -1])
    >>> nan, other = keys_of(np.array([float("nan"), -float("nan")])).tolist()
    >>> nan == other
    True
    """
    if values.dtype == object:
        known = _Memo()
        return np.fromiter(map(known.__getitem__, values), np.int64, len(values))
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    floats = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    floats[np.isnan(floats)] = np.nan
    whole = (floats == np.floor(floats)) & (np.abs(floats) < _HIGH)
    keys: Keys = mixed(floats.view(np.uint64)).view(np.int64)
    keys[whole] = floats[whole].astype(np.int64)
    return keys


class _Memo(dict[Any, int]):
    """The keys of values seen before: texts repeat, and hashing them takes a while."""

    def __missing__(self, value: Any) -> int:
        key = self[value] = key_of(value)
        return key


def key_of(value: Any) -> int:
    """Return the key of one value; a date or time comes as an Arrow scalar, which knows its unit.

    >>> key_of(7), key_of(7.0), key_of(True), key_of(Decimal("7.00"))
    (7, 7, 1, 7)
    >>> key_of("7") == key_of(b"7")
    False
    """
    if hasattr(type(value), "as_py"):
        value = _of_scalar(value)
    if isinstance(value, str):
        return _digest(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (numbers.Integral, np.bool_)):
        whole = int(value)
        return whole if _LOW <= whole < _HIGH else _key_of_decimal(Decimal(whole))
    if isinstance(value, numbers.Real):
        return _key_of_float(float(value))
    if isinstance(value, bytes):
        return _digest(b"b", value)
    if isinstance(value, Decimal):
        return _key_of_decimal(value)
    raise unfit(value)


def _key_of_float(value: float) -> int:
    return int(keys_of(np.array([value]))[0])


def _key_of_decimal(value: Decimal) -> int:
    """Return the key of the integer or float that equals it, if there is one."""
    text = decimal_text(value)
    whole = int(text) if text.lstrip("-").isdigit() else _HIGH
    if _LOW <= whole < _HIGH:
        return whole
    near = float(value)
    return _key_of_float(near) if near == value else _digest(b"d", text.encode())


def unfit(value: Any) -> TypeError:
    """Return the error for a value of a type that no sketch takes."""
    return TypeError(
        f"a sketch takes numbers, decimals, text, bytes and booleans, not {value!r}; give a date or time as "
        "an Arrow scalar of its column's type."
    )


def _of_scalar(scalar: Any) -> Any:
    """Return what the engine reads of a column with this Arrow scalar in it."""
    import pyarrow as pa

    return scalar.value if pa.types.is_temporal(scalar.type) and scalar.is_valid else scalar.as_py()


def decimal_text(value: Decimal) -> str:
    """Return a decimal as a text that is the same for all that equal it.

    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal("15E2")), decimal_text(Decimal("-0.0"))
    ('1.5', '1500', '0')
    """
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _digest(sort: bytes, content: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=8, person=sort).digest(), "little", signed=True
    )


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit numbers stirred so that each bit depends on all others (the end of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    stirred: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return stirred
