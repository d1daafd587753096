"""Types of columns: what aggregates refuse to be computed of, and types that several of them give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin import columnar

if TYPE_CHECKING:
    from muntin.algebra.aggregate import Aggregate

_HASHED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
)


def check_values(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse a column whose values are given as answers, if Arrow makes no column of single ones."""
    column = aggregate.value_column
    if column is not None and not columnar.holds_values(types[column]):
        raise TypeError(
            f"{aggregate!r} gives values of column {column!r}, but Arrow makes no column of {types[column]} "
            "out of single values."
        )


def check_numbers(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse columns of anything but numbers."""
    for name in aggregate.columns:
        kind = types[name]
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not (number or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
            raise TypeError(f"{aggregate!r} needs numbers, but column {name!r} holds {kind}.")


def check_order(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse a column of values without an order."""
    kind = types[aggregate.columns[0]]
    if pa.types.is_nested(kind):
        raise TypeError(
            f"{aggregate!r} needs values with an order, but column {aggregate.columns[0]!r} holds {kind}."
        )


def check_texts(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse a column of anything but texts."""
    kind = types[aggregate.columns[0]]
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise TypeError(f"{aggregate!r} needs texts, but column {aggregate.columns[0]!r} holds {kind}.")


def check_hashed(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse a column of a type whose values a sketch has no key for."""
    kind = types[aggregate.columns[0]]
    ticks = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    if not ticks and not any(test(kind) for test in _HASHED):
        raise TypeError(
            f"{aggregate!r} needs plain values such as numbers, texts or times, but column "
            f"{aggregate.columns[0]!r} holds {kind}."
        )


def number_type(result: str) -> pa.DataType:
    """Return the type of answers that are numbers, by their type code."""
    return pa.int64() if result == "i8" else pa.float64()


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of sums of values of a type."""
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else pa.int64()


def share_type(several: bool) -> pa.DataType:
    """Return the type of quantiles: of one, or of a list of them."""
    return pa.list_(pa.float64()) if several else pa.float64()


def pairs_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists of values with their counts."""
    return pa.list_(pa.struct([("value", kind), ("count", pa.int64())]))
