"""Holistic aggregates: quantiles, the mode, distinct values and lists, whose states grow with the records.

Two parts serve them all. `runs` holds the distinct values, ascending, each with how often it occurs: NaN is
the largest and equals NaN, -0.0 equals 0.0. `list` holds the values in canonical order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from muntin.algebra.aggregate import Algebra, Function, Kinds
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part

if TYPE_CHECKING:
    import pyarrow as pa

Run = tuple[tuple[Any, int], ...]


def one_run(v: Any) -> Run:
    return ((v + 0.0 if type(v) is float else v, 1),)


def merged_runs(a: Run, b: Run) -> Run:
    out: list[tuple[Any, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        x, y = a[i][0], b[j][0]
        if x == y or (x != x and y != y):
            out.append((x, a[i][1] + b[j][1]))
            i, j = i + 1, j + 1
        elif x < y or y != y:
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    return (*out, *a[i:], *b[j:])


def one_listed(v: Any) -> tuple[Any, ...]:
    return (v,)


def listed_after(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return a + b


register("runs", (("runs", 1),), Part(("o",), one_run, merged_runs))
register("list", (("list", 1),), Part(("o",), one_listed, listed_after, commutative=False))


def between(low: Any, high: Any, share: float) -> float:
    """Return the value so far on the way from one to another."""
    if share == 0 or low == high:
        return float(low)
    return min(max(float(low) * (1 - share) + float(high) * share, float(low)), float(high))


def quantile_of(run: Run, q: float) -> float:
    upto = list(itertools.accumulate(count for _, count in run))
    rank = (upto[-1] - 1) * q
    k = math.floor(rank)
    low = next(v for (v, _), n in zip(run, upto, strict=True) if n > k)
    high = next(v for (v, _), n in zip(run, upto, strict=True) if n > min(k + 1, upto[-1] - 1))
    return between(low, high, rank - k)


@lru_cache
def _quantiles(q: float | tuple[float, ...]) -> Function:
    def quantiles_of(run: Run) -> Any:
        return [quantile_of(run, one) for one in q] if isinstance(q, tuple) else quantile_of(run, q)

    return quantiles_of


def mode_of(run: Run) -> Any:
    return max(run, key=lambda pair: pair[1])[0]  # the first of several: the smallest value


def values_of(run: Run) -> list[Any]:
    return [value for value, _ in run]


@lru_cache
def _joined(sep: str) -> Function:
    def joined(values: Iterable[str]) -> str:
        return sep.join(values)

    return joined


class ValueCounts(Protocol):
    """What can be asked of the distinct values of windows and how often they occur, for all windows at once.

    An engine that holds them has these verbs; an aggregate over `runs` calls one of them in `of_counts`.
    """

    def quantiles(self, q: float | tuple[float, ...]) -> Any:
        """Return the values at a share of all records, or at several."""

    def distinct(self) -> Any:
        """Return the numbers of distinct values."""

    def most_frequent(self) -> Any:
        """Return the values that occur most often, the smallest of several."""

    def values(self) -> Any:
        """Return lists of the distinct values, ascending."""


class Holistic(BuiltIn):
    """An aggregate over all values of a window; states are objects, or live in a pool of the operator."""

    kind = "holistic"

    @property
    def value_column(self) -> str | None:
        """None: answers are numbers, whatever the values."""
        return None

    def of_counts(self, counts: ValueCounts) -> Any:
        """Return the answers for windows, given their distinct values and how often they occur."""
        raise TypeError(f"{self!r} needs values in order, not {counts!r}.")

    def algebra(self, kinds: Kinds | None = None, *, inverting: bool = False) -> Algebra:
        """Return the functions on states that are objects, whatever the values."""
        del kinds
        return super().algebra(None, inverting=inverting)


class _AtShares(Holistic):
    """The values at shares of all records."""

    needs = ("runs",)
    commutative = numeric = ordered = True
    q: float | tuple[float, ...]

    def __init__(self, *columns: str) -> None:
        self.gives_many = isinstance(self.q, tuple)
        self.quantile_share = None if isinstance(self.q, tuple) else self.q
        super().__init__(*columns)

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return _quantiles(self.q)

    def of_counts(self, counts: ValueCounts) -> Any:
        """Return the values at its shares."""
        return counts.quantiles(self.q)

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of numbers, or of lists of them."""
        from muntin.algebra import column_types

        del types
        return column_types.share_type(self.gives_many)


class Quantile(_AtShares):
    """The value below which a share of all values lies, between two values where it falls between them."""

    def __init__(self, *columns: str, q: float | Sequence[float]) -> None:
        self.q = _shares(q)
        super().__init__(*columns)

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
        return (self.q,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {"q": list(self.q) if isinstance(self.q, tuple) else self.q}

    def __repr__(self) -> str:
        arguments = [*map(repr, self.columns), f"q={self.keywords()['q']!r}"]
        return f"quantile({', '.join(arguments)})"


class Median(_AtShares):
    """The middle value, or the mean of the two in the middle."""

    q = 0.5


class Mode(Holistic):
    """The most frequent value, the smallest of several."""

    needs = ("runs",)
    finish = mode_of
    commutative = ordered = True

    def of_counts(self, counts: ValueCounts) -> Any:
        """Return the most frequent values."""
        return counts.most_frequent()

    @property
    def value_column(self) -> str:
        """The column that answers are values of."""
        return self.columns[0]

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of the values."""
        return types[self.value_column]


class CountDistinct(Holistic):
    """How many different values there are."""

    needs = ("runs",)
    finish = len
    result = "i8"
    commutative = ordered = True
    empty = 0

    def of_counts(self, counts: ValueCounts) -> Any:
        """Return the numbers of distinct values."""
        return counts.distinct()


class _Lists(Holistic):
    """Lists of values of a column."""

    gives_many = True

    @property
    def value_column(self) -> str:
        """The column that answers hold values of."""
        return self.columns[0]

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of lists of the values."""
        import pyarrow as pa

        return pa.list_(types[self.value_column])


class CollectDistinct(_Lists):
    """The different values, ascending."""

    needs = ("runs",)
    finish = values_of
    commutative = ordered = True

    def of_counts(self, counts: ValueCounts) -> Any:
        """Return the different values."""
        return counts.values()


class Collect(_Lists):
    """All values, in the order of their records."""

    needs = ("list",)
    finish = list


class Concat(Holistic):
    """All texts in the order of their records, end to end."""

    needs = ("list",)
    gives_many = True

    def __init__(self, *columns: str, sep: str = "") -> None:
        if not isinstance(sep, str):
            raise TypeError(f"sep is a text, not {sep!r}.")
        self.sep = sep
        super().__init__(*columns)

    @property
    def value_column(self) -> str:
        """The column of the texts."""
        return self.columns[0]

    def _check_kinds(self, types: Mapping[str, pa.DataType]) -> None:
        """Refuse anything but texts."""
        from muntin.algebra import column_types

        column_types.check_texts(self, types)

    def needed_types(self) -> dict[str, pa.DataType]:
        """Return the type of texts."""
        import pyarrow as pa

        return {self.columns[0]: pa.string()}

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of the texts."""
        return types[self.value_column]

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return _joined(self.sep)

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
        return (self.sep,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {"sep": self.sep}

    def __repr__(self) -> str:
        return f"concat({', '.join([*map(repr, self.columns), f'sep={self.sep!r}'])})"


def _shares(q: Any) -> float | tuple[float, ...]:
    """Return what was asked for as numbers from 0 to 1."""
    many = isinstance(q, (list, tuple)) or getattr(q, "ndim", 0) == 1
    shares = list(q) if many else [q]
    for share in shares:
        number = isinstance(share, (int, float)) or hasattr(share, "__float__")
        if not number or isinstance(share, (bool, str)) or not 0 <= float(share) <= 1:
            raise ValueError(f"q is a number from 0 to 1, or a list of such, not {share!r}.")
    if not shares:
        raise ValueError("q is a number from 0 to 1, or a list of such, not an empty list.")
    return tuple(map(float, shares)) if many else float(shares[0])


def median(v: str | None = None) -> BuiltIn:
    """Take the median: exact, the mean of the two values in the middle where there are two.

    >>> m = median("load")
    >>> m.lower(m.combine(m.lift(1), m.combine(m.lift(5), m.lift(2))))
    2.0
    """
    return Median(*columns_of(v))


def quantile(v: str | None = None, q: float | Sequence[float] | None = None) -> BuiltIn:
    """Take a quantile, exact and with linear interpolation; of a list of q, a list.

    >>> m = quantile("load", q=[0, 0.75])
    >>> m.lower(m.combine(m.lift(1), m.lift(3)))
    [1.0, 2.5]
    """
    if q is None:
        raise TypeError("quantile needs q, a number from 0 to 1 or a list of such: quantile('v', q=0.9).")
    return Quantile(*columns_of(v), q=q)


def mode(v: str | None = None) -> BuiltIn:
    """Take the most frequent value, the smallest of several.

    >>> m = mode("word")
    >>> m.lower(m.combine(m.lift("b"), m.combine(m.lift("a"), m.lift("b"))))
    'b'
    """
    return Mode(*columns_of(v))


def count_distinct(v: str | None = None) -> BuiltIn:
    """Count the different values, exactly; NaN equals NaN, and -0.0 equals 0.0.

    >>> c = count_distinct("word")
    >>> c.lower(c.combine(c.lift("b"), c.combine(c.lift("a"), c.lift("b"))))
    2
    """
    return CountDistinct(*columns_of(v))


def collect(v: str | None = None) -> BuiltIn:
    """Collect all values into a list, in the order of their records.

    >>> c = collect("word")
    >>> c.lower(c.combine(c.lift("b"), c.lift("a")))
    ['b', 'a']
    """
    return Collect(*columns_of(v))


def collect_distinct(v: str | None = None) -> BuiltIn:
    """Collect the different values into a list, ascending.

    >>> c = collect_distinct("word")
    >>> c.lower(c.combine(c.lift("b"), c.combine(c.lift("a"), c.lift("b"))))
    ['a', 'b']
    """
    return CollectDistinct(*columns_of(v))


def concat(v: str | None = None, sep: str = "") -> BuiltIn:
    """Put texts end to end, in the order of their records.

    >>> c = concat("word", sep="-")
    >>> c.lower(c.combine(c.lift("b"), c.lift("a")))
    'b-a'
    """
    return Concat(*columns_of(v), sep=sep)
