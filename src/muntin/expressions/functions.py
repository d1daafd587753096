"""The functions of SQL over Arrow values, arrays or scalars, with the types that SQL gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

INTERVALS = {  # in microseconds
    "MICROSECOND": 1,
    "MILLISECOND": 10**3,
    "SECOND": 10**6,
    "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
    "DAY": 86400 * 10**6,
    "WEEK": 7 * 86400 * 10**6,
}
TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_UNITS = ("s", "ms", "us", "ns")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def repeated(value: pa.Scalar, count: int) -> pa.Array:
    """Return a value as a column of that many rows."""
    return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)


# ---- types ----


def _common(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type that values of these types have together."""
    known = list(dict.fromkeys(kind for kind in kinds if not pa.types.is_null(kind)))
    if not known:
        return pa.null()
    if len(known) == 1:
        return known[0]
    if all(_is_number(kind) for kind in known):
        return _common_number(known)
    if all(_is_text(kind) for kind in known):
        return pa.large_string()
    if all(pa.types.is_duration(kind) for kind in known):
        return pa.duration(_finest(known))
    if all(pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in known):
        stamps = [kind for kind in known if pa.types.is_timestamp(kind)]
        zoned = any(kind.tz is not None for kind in stamps)  # a time without a zone is one of UTC
        return pa.timestamp(_finest(stamps) if stamps else "ms", "UTC" if zoned else None)
    raise TypeError(f"{known[0]} and {known[1]} do not go together")


def _common_number(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if any(pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    return pa.decimal128(38, max(scales)) if scales else pa.int64()


def _finest(kinds: Sequence[pa.DataType]) -> str:
    return _UNITS[max(_UNITS.index(kind.unit) for kind in kinds)]


def alike(values: Sequence[Any]) -> list[Any]:
    """Return values in the type that all can have."""
    kind = _common([value.type for value in values])
    return [value if value.type == kind else _as(value, kind) for value in values]


def _comparable(a: Any, b: Any) -> list[Any]:
    """Return values in the type that they are compared in."""
    kinds = (a.type, b.type)
    if pa.uint64() in kinds and a.type != b.type and all(pa.types.is_integer(kind) for kind in kinds):
        return [value.cast(pa.decimal128(20, 0)) for value in (a, b)]  # which holds integers of both kinds
    return alike([a, b])


def _as(value: Any, kind: pa.DataType) -> Any:
    """Return values in a type; a large integer may be rounded as a float."""
    return value.cast(kind, safe=not pa.types.is_floating(kind))


def number(value: Any) -> Any:
    """Return numbers in 64 bits, so that what is computed of small ones has room."""
    kind = value.type
    if pa.types.is_integer(kind) and kind != pa.int64():
        return value.cast(pa.int64())
    if pa.types.is_floating(kind) and kind != pa.float64():
        return value.cast(pa.float64())
    if not (_is_number(kind) or pa.types.is_null(kind) or pa.types.is_duration(kind)):
        raise TypeError(f"{kind} is no number")
    return value.cast(pa.int64()) if pa.types.is_null(kind) else value


def floating(value: Any) -> Any:
    """Return numbers as floats."""
    return number(value).cast(pa.float64(), safe=False)


def truth(value: Any) -> Any:
    """Return what is true, false or null; refuse anything else."""
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise TypeError(f"{value.type} is neither true nor false")
    return value


def text(value: Any) -> Any:
    """Return texts; refuse anything else."""
    if pa.types.is_null(value.type):
        return value.cast(pa.string())
    if not _is_text(value.type):
        raise TypeError(f"{value.type} is no text")
    return value


# ---- arithmetic ----


def _is_temporal(*values: Any) -> bool:
    return any(pa.types.is_temporal(value.type) for value in values)


def _same_unit(a: Any, b: Any) -> tuple[Any, Any]:
    """Return times and durations in one unit; a day is a timestamp."""
    values = [v.cast(pa.timestamp("ms")) if pa.types.is_date(v.type) else v for v in (a, b)]
    timed = [v.type for v in values if pa.types.is_timestamp(v.type) or pa.types.is_duration(v.type)]
    if not timed:
        raise TypeError(f"there is no arithmetic of {a.type} and {b.type}")
    if all(pa.types.is_timestamp(v.type) for v in values):
        values = alike(values)
        return values[0], values[1]
    unit = _finest(timed)
    for k, value in enumerate(values):
        if pa.types.is_timestamp(value.type):
            values[k] = value.cast(pa.timestamp(unit, value.type.tz))
        elif pa.types.is_duration(value.type):
            values[k] = value.cast(pa.duration(unit))
    return values[0], values[1]


def _arithmetic(function: Callable[[Any, Any], Any], done: str, a: Any, b: Any) -> Any:
    if _is_temporal(a, b):
        try:
            return function(*_same_unit(a, b))
        except pa.ArrowNotImplementedError:
            raise TypeError(f"{a.type} and {b.type} cannot be {done}") from None
    a, b = number(a), number(b)
    if pa.types.is_floating(a.type) or pa.types.is_floating(b.type):
        a, b = floating(a), floating(b)
    return function(a, b)


def add(a: Any, b: Any) -> Any:
    """Return a + b."""
    return _arithmetic(pc.add_checked, "added", a, b)


def subtract(a: Any, b: Any) -> Any:
    """Return a - b."""
    return _arithmetic(pc.subtract_checked, "subtracted", a, b)


def multiply(a: Any, b: Any) -> Any:
    """Return a * b."""
    return _arithmetic(pc.multiply_checked, "multiplied", number(a), number(b))


def negative(value: Any) -> Any:
    """Return -value."""
    return pc.negate_checked(number(value))


def _no_zero(divisor: Any) -> Any:
    """Return divisors, null where they are zero."""
    zero = pc.equal(divisor, pa.scalar(0).cast(divisor.type))
    return pc.if_else(zero, pa.scalar(None, divisor.type), divisor)


def divide(a: Any, b: Any) -> Any:
    """Return a / b as floats; null where b is zero."""
    return pc.divide(floating(a), _no_zero(floating(b)))


def remainder(a: Any, b: Any) -> Any:
    """Return what a division leaves, with the sign of a; null where b is zero."""
    a, b = number(a), number(b)
    kind = _common_number([a.type, b.type])
    if pa.types.is_decimal(kind):
        kind = pa.float64()
    columns = [_as(v, kind) for v in (a, _no_zero(b))]
    count = next((len(v) for v in columns if isinstance(v, pa.Array)), 1)
    left, right = (repeated(v, count) if isinstance(v, pa.Scalar) else v for v in columns)
    missing = np.asarray(pc.or_(left.is_null(), right.is_null()))
    left, right = (np.asarray(v.fill_null(1)) for v in (left, right))
    if kind == pa.int64():  # by -1 the quotient of the least integer would overflow
        left, right = np.where(right == -1, 0, left), np.where(right == -1, 1, right)
    found = pa.array(np.fmod(left, right), kind, mask=missing)
    return found if any(isinstance(v, pa.Array) for v in (a, b)) else found[0]


def rounded(value: Any, digits: int) -> Any:
    """Return numbers with that many digits behind the point; a half goes away from zero."""
    value = number(value)
    if pa.types.is_integer(value.type) and digits >= 0:
        return value
    return pc.round(value, ndigits=digits, round_mode="half_towards_infinity").cast(value.type)


def whole(function: Callable[[Any], Any], value: Any) -> Any:
    """Return numbers rounded by a function, in the type that they have."""
    value = number(value)
    return value if pa.types.is_integer(value.type) else function(value)


def logarithm(value: Any) -> Any:
    """Return natural logarithms; null for what has none."""
    value = floating(value)
    return pc.ln(pc.if_else(pc.less_equal(value, 0.0), pa.scalar(None, pa.float64()), value))


# ---- comparing and choosing ----


def compare(name: str, a: Any, b: Any) -> Any:
    """Return whether values compare in a way; null where one is null."""
    a, b = _comparable(a, b)
    if pa.types.is_null(a.type):
        a, b = a.cast(pa.bool_()), b.cast(pa.bool_())
    return pc.call_function(name, [a, b])


def is_boolean(value: Any, wanted: bool) -> Any:
    """Return whether values are true, or false, and not null."""
    return pc.coalesce(pc.equal(truth(value), wanted), pa.scalar(False))


def true(value: Any, count: int) -> NDArray[np.bool_]:
    """Return for which of that many rows a value is true, and neither false nor null."""
    column = repeated(truth(value), count) if isinstance(value, pa.Scalar) else truth(value)
    return np.asarray(column.fill_null(False))


def scattered(parts: Sequence[tuple[NDArray[np.int64], Any]]) -> pa.Array:
    """Return one column of values for some rows each; together they are all rows."""
    values = alike([value for _, value in parts])
    columns = [
        repeated(value, len(rows)) if isinstance(value, pa.Scalar) else value
        for (rows, _), value in zip(parts, values, strict=True)
    ]
    places = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return pa.concat_arrays(columns).take(pa.array(places))


def choose(tests: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the value that goes with the first test that is true; the last one if none is."""
    chosen, *rest = reversed(alike(values))
    for test, value in zip(reversed(tests), rest, strict=True):
        chosen = pc.if_else(pc.coalesce(truth(test), pa.scalar(False)), value, chosen)
    return chosen


def cast(value: Any, kind: pa.DataType) -> Any:
    """Return values in another type; a float that becomes an integer loses what is behind the point."""
    if pa.types.is_boolean(kind) and _is_number(value.type):
        return compare("not_equal", value, pa.scalar(0))
    if pa.types.is_integer(kind) and (pa.types.is_floating(value.type) or pa.types.is_decimal(value.type)):
        value = pc.trunc(value)
    if pa.types.is_timestamp(value.type) and pa.types.is_date(kind):
        return value.cast(kind, safe=False)
    if _is_temporal(value) and _is_number(kind):
        raise TypeError(
            f"{value.type} is not cast to {kind}, since its unit would be lost: make the number a column"
        )
    if _is_number(value.type) and pa.types.is_temporal(kind):
        raise TypeError(
            f"{value.type} is not cast to {kind}, since it has no unit: "
            "write TIMESTAMP '1970-01-01' + v * INTERVAL '1' SECOND"
        )
    try:
        return _as(value, kind)
    except pa.ArrowNotImplementedError:
        raise TypeError(f"{value.type} is not cast to {kind}") from None
