"""Smallest and largest values, how often they occur, what came with them; first and last ones, and rates.

NaN is the largest value, as in Spark; of equal values the first is taken. Comparisons are written so
that they hold for NaN, numbers, strings and anything else that can be ordered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from muntin.algebra.aggregate import NO_IDENTITY, TIME, Aggregate, Function, Kinds
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part
from muntin.algebra.sums import same

if TYPE_CHECKING:
    import pyarrow as pa


def larger(a: Any, b: Any) -> Any:
    return a if (a >= b) | (a != a) else b


def smaller(a: Any, b: Any) -> Any:
    return a if (a <= b) | (b != b) else b


def with_count(v: Any) -> Any:
    return v, 1


def larger_counted(a: Any, b: Any) -> Any:
    if b[0] > a[0] or (b[0] != b[0] and a[0] == a[0]):
        return b
    if a[0] == b[0] or (a[0] != a[0] and b[0] != b[0]):
        return a[0], a[1] + b[1]
    return a


def smaller_counted(a: Any, b: Any) -> Any:
    if b[0] < a[0] or (a[0] != a[0] and b[0] == b[0]):
        return b
    if a[0] == b[0] or (a[0] != a[0] and b[0] != b[0]):
        return a[0], a[1] + b[1]
    return a


def with_argument(v: Any, argument: Any) -> Any:
    return v, argument


def argument_of_larger(a: Any, b: Any) -> Any:
    return a if (a[0] >= b[0]) | (a[0] != a[0]) else b


def argument_of_smaller(a: Any, b: Any) -> Any:
    return a if (a[0] <= b[0]) | (b[0] != b[0]) else b


def older(a: Any, b: Any) -> Any:
    return a


def newer(a: Any, b: Any) -> Any:
    return b


def at_all_ends(v: Any, t: Any) -> Any:
    return v, t, v, t, v, t, v, t


def ends_of_both(a: Any, b: Any) -> Any:
    low = (a[0] <= b[0]) | (b[0] != b[0])
    high = (a[2] >= b[2]) | (a[2] != a[2])
    return (
        a[0] if low else b[0],
        a[1] if low else b[1],
        a[2] if high else b[2],
        a[3] if high else b[3],
        a[4],
        a[5],
        b[6],
        b[7],
    )


def by_name(*ends: Any) -> dict[str, Any]:
    return dict(zip(M4_FIELDS, ends, strict=True))


def of_counter(v: Any, t: Any) -> Any:
    return v, t, v, t, 0.0


def increase_between(old: Any, new: Any) -> float:
    if new < old:  # a reset: counted from zero
        return float(new)
    if (new < 0) == (old < 0):  # integers are exact, and do not leave their range
        return float(new - old)
    return float(new) - float(old)


def join_counters(a: Any, b: Any) -> Any:
    return a[0], a[1], b[2], b[3], a[4] + b[4] + increase_between(a[2], b[0])


@lru_cache
def _rate(per_second: float) -> Function:
    def rate_of(increase: float, begin: int, end: int) -> float | None:
        return None if end == begin else increase * per_second / (end - begin)

    return rate_of


def span_over_largest(smallest: Any, largest: Any) -> Any:
    high = float(largest)  # the difference of two 64-bit integers may need more
    return None if high == 0.0 else (high - float(smallest)) / high


def _lowest(kinds: Kinds | None) -> Any:
    return NO_IDENTITY if kinds is None else {"f8": -math.inf, "i8": -(2**63)}[kinds[0]]


def _highest(kinds: Kinds | None) -> Any:
    return NO_IDENTITY if kinds is None else {"f8": math.nan, "i8": 2**63 - 1}[kinds[0]]


M4_FIELDS = ("min", "min_time", "max", "max_time", "first", "first_time", "last", "last_time")

register("max", (("max", 1),), Part(("v",), same, larger, identity=_lowest))
register("min", (("min", 1),), Part(("v",), same, smaller, identity=_highest))
register("max_count", (("max", 1), ("max_n", 1)), Part(("v", "i8"), with_count, larger_counted))
register("min_count", (("min", 1), ("min_n", 1)), Part(("v", "i8"), with_count, smaller_counted))
register(
    "argmax",
    (("max", 1), ("argmax", 2)),
    Part(("v", "a"), with_argument, argument_of_larger, commutative=False),
)
register(
    "argmin",
    (("min", 1), ("argmin", 2)),
    Part(("v", "a"), with_argument, argument_of_smaller, commutative=False),
)
register("first", (("first", 1),), Part(("v",), same, older, commutative=False))
register("last", (("last", 1),), Part(("v",), same, newer, commutative=False))
register(
    "m4",
    tuple((name, 1 + name.endswith("_time")) for name in M4_FIELDS),
    Part(("v", "a") * 4, at_all_ends, ends_of_both, commutative=False),
)


register(
    "counter",
    (("counter_first", 1), ("counter_from", 2), ("counter_last", 1), ("counter_to", 2), ("increase", 2)),
    Part(("v", "a", "v", "a", "f8"), of_counter, join_counters, commutative=False),
)


class Min(BuiltIn):
    """The smallest value."""

    needs = ("min",)
    finish = same
    result = "v"
    commutative = selective = ordered = True
    kind = "distributive"


class Max(BuiltIn):
    """The largest value."""

    needs = ("max",)
    finish = same
    result = "v"
    commutative = selective = ordered = True
    kind = "distributive"


class MinCount(BuiltIn):
    """How often the smallest value occurs."""

    needs = ("min_n",)
    finish = same
    result = "i8"
    commutative = ordered = True


class MaxCount(BuiltIn):
    """How often the largest value occurs."""

    needs = ("max_n",)
    finish = same
    result = "i8"
    commutative = ordered = True


class RelativeVariation(BuiltIn):
    """The span of the values over the largest one."""

    needs = ("min", "max")
    finish = span_over_largest
    commutative = numeric = misses = ordered = True


class Argmin(BuiltIn):
    """What came with the smallest value."""

    needs = ("argmin",)
    finish = same
    result = "a"
    values = 2
    required = 1  # what comes with the value may be null
    selective = ordered = True


class Argmax(BuiltIn):
    """What came with the largest value."""

    needs = ("argmax",)
    finish = same
    result = "a"
    values = 2
    required = 1  # what comes with the value may be null
    selective = ordered = True


class First(BuiltIn):
    """The first value."""

    needs = ("first",)
    finish = same
    result = "v"
    selective = True
    kind = "distributive"


class Last(BuiltIn):
    """The last value."""

    needs = ("last",)
    finish = same
    result = "v"
    selective = True
    kind = "distributive"


class M4(BuiltIn):
    """The smallest, largest, first and last value, each with its time."""

    needs = M4_FIELDS
    finish = by_name
    result = "struct"
    values = 2
    required = 1
    timed = ordered = True

    @property
    def value_column(self) -> str:
        """The column of the values."""
        return self.columns[0]

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of structs of values and times."""
        import pyarrow as pa

        value, time = types[self.columns[0]], types[TIME]
        return pa.struct([(name, time if name.endswith("_time") else value) for name in M4_FIELDS])


class Rate(BuiltIn):
    """What a counter went up by, over the time that it took."""

    needs = ("increase", "counter_from", "counter_to")
    values = 2
    required = 1
    timed = numeric = misses = True

    def __init__(self, *columns: str, per_second: float = 1.0) -> None:
        self._per_second = per_second  # ticks in a second; 1 where times are integers
        super().__init__(*columns)

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return _rate(self._per_second)

    def in_ticks(self, per_second: float | None) -> Aggregate:
        """Return the rate over times with so many ticks a second."""
        return self if per_second is None else Rate(*self.columns, per_second=per_second)


def min(v: str | None = None) -> BuiltIn:
    """Take the smallest value; NaN only if there is nothing else.

    >>> m = min("v")
    >>> m.lower(m.combine(m.lift(2), m.lift(5)))
    2
    """
    return Min(*columns_of(v))


def max(v: str | None = None) -> BuiltIn:
    """Take the largest value; NaN counts as the largest.

    >>> m = max("v")
    >>> m.lower(m.combine(m.lift("ash"), m.lift("oak")))
    'oak'
    """
    return Max(*columns_of(v))


def min_count(v: str | None = None) -> BuiltIn:
    """Count how often the smallest value occurs; null over no value.

    >>> m = min_count("v")
    >>> m.lower(m.combine(m.lift(2), m.lift(2)))
    2
    """
    return MinCount(*columns_of(v))


def max_count(v: str | None = None) -> BuiltIn:
    """Count how often the largest value occurs; null over no value.

    >>> m = max_count("v")
    >>> m.lower(m.combine(m.lift(2), m.lift(5)))
    1
    """
    return MaxCount(*columns_of(v))


def relative_variation(v: str | None = None) -> BuiltIn:
    """Take (max - min) / max, as in the DEBS 2012 challenge; null where max is 0.

    >>> r = relative_variation("v")
    >>> r.lower(r.combine(r.lift(2), r.lift(8)))
    0.75
    """
    return RelativeVariation(*columns_of(v))


def argmin(v: str | None = None, arg: str | None = None) -> BuiltIn:
    """Take what column `arg` holds where `v` is smallest, the first of several.

    >>> a = argmin("price", "shop")
    >>> a.lower(a.combine(a.lift(2, "here"), a.lift(5, "there")))
    'here'
    """
    return Argmin(*columns_of(v, arg))


def argmax(v: str | None = None, arg: str | None = None) -> BuiltIn:
    """Take what column `arg` holds where `v` is largest, the first of several.

    >>> a = argmax("len", "caller")
    >>> a.lower(a.combine(a.lift(2, "Ann"), a.lift(5, "Bob")))
    'Bob'
    """
    return Argmax(*columns_of(v, arg))


def first(v: str | None = None) -> BuiltIn:
    """Take the first non-null value.

    >>> f = first("v")
    >>> f.lower(f.combine(f.lift(2), f.lift(5)))
    2
    """
    return First(*columns_of(v))


def last(v: str | None = None) -> BuiltIn:
    """Take the last non-null value.

    >>> f = last("v")
    >>> f.lower(f.combine(f.lift(2), f.lift(5)))
    5
    """
    return Last(*columns_of(v))


def m4(v: str | None = None) -> BuiltIn:
    """Take the smallest, largest, first and last value, each with its time: what a line chart needs.

    The answer is a struct of min, min_time, max, max_time, first, first_time, last and last_time; null over
    no value. Of equal values the first counts; NaN is the largest. Times have the type of the time column.
    Without a column it takes tuples of a value and its time.

    >>> m = m4()
    >>> m.lower(m.combine(m.lift(2, 10), m.lift(5, 11)))["max_time"]
    11
    """
    return M4(*columns_of(v))


def rate(counter: str | None = None) -> BuiltIn:
    """Take what a counter went up by, per second; per unit where the time column holds integers.

    A fall is a reset: the new value counts from zero. Null below two distinct times. Without a column it
    takes tuples of a value and its time.

    >>> r = rate()
    >>> r.lower(r.combine(r.combine(r.lift(5, 10), r.lift(9, 11)), r.lift(2, 14)))
    1.5
    """
    return Rate(*columns_of(counter))
