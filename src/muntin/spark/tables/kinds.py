"""Kinds of values in a stored table, and which of them a column takes without changing a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

_Test = Callable[[pa.DataType], bool]
_KINDS: tuple[tuple[str, tuple[_Test, ...]], ...] = (
    ("null", (pa.types.is_null,)),
    ("boolean", (pa.types.is_boolean,)),
    ("integer", (pa.types.is_integer,)),
    ("double", (pa.types.is_floating,)),
    ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (
        "binary",
        (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        ),
    ),
    ("date", (pa.types.is_date,)),
    ("time", (pa.types.is_time,)),
    ("duration", (pa.types.is_duration,)),
    ("map", (pa.types.is_map,)),
    ("list", (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)),
    ("struct", (pa.types.is_struct,)),
)


def kind_of(given: pa.DataType) -> str:
    """Return what kind of values a type holds, whatever their width.

    >>> kind_of(pa.int32()), kind_of(pa.timestamp("us", "UTC")), kind_of(pa.decimal128(10, 2))
    ('integer', 'timestamp with time zone', 'decimal(10, 2)')
    """
    if pa.types.is_dictionary(given):
        return kind_of(given.value_type)
    if pa.types.is_timestamp(given):
        return "timestamp" if given.tz is None else "timestamp with time zone"
    if pa.types.is_decimal(given):
        return f"decimal({given.precision}, {given.scale})"
    return next((name for name, tests in _KINDS if any(test(given) for test in tests)), str(given))


def sort_of(kind: str) -> str:
    """Return a kind without its digits: decimals of any number of digits are of one sort.

    >>> sort_of("decimal(10, 2)")
    'decimal'
    """
    return kind.partition("(")[0]


def of_one_sort(stored: pa.DataType, coming: pa.DataType) -> bool:
    """Tell whether one type may hold values of both; integers and floats have floats in common.

    >>> of_one_sort(pa.int64(), pa.float64()), of_one_sort(pa.decimal128(5, 1), pa.float64())
    (True, False)
    """
    if pa.types.is_list(stored) and pa.types.is_list(coming):
        return of_one_sort(stored.value_type, coming.value_type)
    if pa.types.is_struct(stored) and pa.types.is_struct(coming):
        shared = {field.name for field in stored} & {field.name for field in coming}
        return all(of_one_sort(stored.field(name).type, coming.field(name).type) for name in shared)
    sorts = {sort_of(kind_of(stored)), sort_of(kind_of(coming))}
    return len(sorts) == 1 or sorts == {"integer", "double"} or "null" in sorts


def check_names(names: Iterable[str], where: str) -> None:
    """Refuse columns whose names differ only in case: Spark and some databases take them for one."""
    alike: dict[str, str] = {}
    for name in names:
        other = alike.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"{where} would have the columns {other!r} and {name!r}, whose names differ only in case: "
                "rename one."
            )


def mismatch(column: str, where: str, stored: str, coming: str, advice: str) -> str:
    """Return the sentence with which a micro-batch is refused."""
    return f"the column {column!r} of {where} holds {stored}, and now comes as {coming}: {advice}."
