"""Holistic aggregates: quantiles, the mode, distinct values and lists, whose states grow with the records.

Two parts serve them all. `runs` holds the distinct values, ascending, each with how often it occurs: NaN is
the largest and equals NaN, -0.0 equals 0.0. `list` holds the values in canonical order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

from muntin.algebra.aggregate import Algebra, Function, Kinds
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part

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
register("list", (("list", 1),), Part(("o",), one_listed, listed_after))


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


class Holistic(BuiltIn):
    """An aggregate over all values of a window; states are objects, or live in a pool of the operator."""

    kind = "holistic"
    gives: ClassVar[Literal["number", "value", "values", "text"]] = "number"  # what answers are made of

    def algebra(self, kinds: Kinds | None = None, *, inverting: bool = False) -> Algebra:
        """Return the functions on states that are objects, whatever the values."""
        del kinds
        return super().algebra(None, inverting=inverting)


class Quantile(Holistic):
    """The value below which a share of all values lies, between two values where it falls between them."""

    needs = ("runs",)
    commutative = numeric = True

    def __init__(self, *columns: str, q: float | Sequence[float]) -> None:
        self.q = _shares(q)
        self.gives_many = isinstance(self.q, tuple)
        super().__init__(*columns)

    def _finish(self) -> Function:
        return _quantiles(self.q)

    def _parameters(self) -> tuple[Any, ...]:
        return (self.q,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {"q": list(self.q) if isinstance(self.q, tuple) else self.q}

    def __repr__(self) -> str:
        arguments = [*map(repr, self.columns), f"q={self.keywords()['q']!r}"]
        return f"quantile({', '.join(arguments)})"


class Median(Holistic):
    """The middle value, or the mean of the two in the middle."""

    needs = ("runs",)
    commutative = numeric = True
    q = 0.5

    def _finish(self) -> Function:
        return _quantiles(0.5)


class Mode(Holistic):
    """The most frequent value, the smallest of several."""

    needs = ("runs",)
    finish = mode_of
    gives = "value"
    commutative = True


class CountDistinct(Holistic):
    """How many different values there are."""

    needs = ("runs",)
    finish = len
    result = "i8"
    commutative = True
    empty = 0


class CollectDistinct(Holistic):
    """The different values, ascending."""

    needs = ("runs",)
    finish = values_of
    gives = "values"
    commutative = gives_many = True


class Collect(Holistic):
    """All values, in the order of their records."""

    needs = ("list",)
    finish = list
    gives = "values"
    gives_many = True


class Concat(Holistic):
    """All texts in the order of their records, end to end."""

    needs = ("list",)
    gives = "text"
    gives_many = True

    def __init__(self, *columns: str, sep: str = "") -> None:
        if not isinstance(sep, str):
            raise TypeError(f"sep is a text, not {sep!r}.")
        self.sep = sep
        super().__init__(*columns)

    def _finish(self) -> Function:
        return _joined(self.sep)

    def _parameters(self) -> tuple[Any, ...]:
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
