"""Variance and standard deviation, by pairwise (Chan) merging about an anchor.

A partial is (n, anchor, shifted sum, sum of squared deviations from the mean). The anchor is the first
value of the partial; the shifted sum adds up distances from it. A value of the window is never further
from its mean than the root of the summed squares, so distances from the anchor are small wherever the
spread is, and the mean they give keeps its digits even for values near 1e9 that differ by 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from muntin.algebra.aggregate import Function
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part


def spread_of_one(v: Any) -> tuple[float, float, float, float]:
    x = float(v)
    return 1.0, x, 0.0, x - x  # NaN if the value is not finite


def merge_spreads(a: Any, b: Any) -> Any:
    n = a[0] + b[0]
    weight = a[0] * b[0] * n
    shifted = b[2] + b[0] * (b[1] - a[1])  # b's sum, seen from a's anchor
    gap = shifted * a[0] - a[2] * b[0]  # the distance of the means, times both counts
    return n, a[1], a[2] + shifted, a[3] + b[3] + gap * (gap / weight)


def unmerge_spreads(a: Any, b: Any) -> Any:
    n = a[0] - b[0]
    shifted = b[2] + b[0] * (b[1] - a[1])
    rest = a[2] - shifted
    gap = shifted * n - rest * b[0]
    squares = a[3] - b[3] - gap * (gap / (a[0] * b[0] * n))
    return n, a[1], rest, squares if squares > 0.0 or squares != squares else 0.0


def spread_error_step(s: Any) -> float:
    drift = s[2] / s[0]
    return float(1e-15 * (s[3] + drift * drift))


def spread_error_limit(s: Any) -> float:
    return float(1e-10 * s[3])


register(
    "spread",
    (("n", 1), ("anchor", 1), ("shifted", 1), ("squares", 1)),
    Part(
        ("f8",) * 4,
        spread_of_one,
        merge_spreads,
        invert=unmerge_spreads,
        error_step=spread_error_step,
        error_limit=spread_error_limit,
    ),
)


def variance_of_pair(a: Any, b: Any, ddof: int) -> Any:
    """Merge and divide with one division for three: they are what a variance spends its time on."""
    n = a[0] + b[0]
    if n <= ddof:
        return None
    weight = a[0] * b[0] * n
    gap = (b[2] + b[0] * (b[1] - a[1])) * a[0] - a[2] * b[0]
    scale = 1.0 / (weight * (n - ddof))
    return (a[3] + b[3]) * (weight * scale) + gap * (gap * scale)


@lru_cache
def _variance(ddof: int) -> tuple[Function, Function]:
    def variance_of(n: float, squares: float) -> float | None:
        if n <= ddof:
            return None
        return squares / (n - ddof)

    def pair(a: Any, b: Any) -> Any:
        return variance_of_pair(a, b, ddof)

    return variance_of, pair


@lru_cache
def _stddev(ddof: int) -> tuple[Function, Function]:
    def stddev_of(n: float, squares: float) -> float | None:
        if n <= ddof:
            return None
        return math.sqrt(squares / (n - ddof))

    def pair(a: Any, b: Any) -> Any:
        if a[0] + b[0] <= ddof:
            return None
        return math.sqrt(variance_of_pair(a, b, ddof))

    return stddev_of, pair


class Variance(BuiltIn):
    """The variance; null over `ddof` values or fewer."""

    needs = ("n", "squares")
    commutative = numeric = misses = True
    _finishers: Callable[[int], tuple[Function, Function]] = staticmethod(_variance)

    def __init__(self, *columns: str, ddof: int = 1) -> None:
        if not hasattr(ddof, "__index__") or ddof < 0:
            raise ValueError(f"ddof is a whole number from 0, not {ddof!r}.")
        self.ddof = operator.index(ddof)
        super().__init__(*columns)

    def _finish(self) -> Function:
        return self._finishers(self.ddof)[0]

    def _finish_pair(self) -> Function:
        return self._finishers(self.ddof)[1]

    def _parameters(self) -> tuple[Any, ...]:
        return (self.ddof,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {"ddof": self.ddof}

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({', '.join([*map(repr, self.columns), f'ddof={self.ddof}'])})"


class Stddev(Variance):
    """The standard deviation; null over `ddof` values or fewer."""

    _finishers = staticmethod(_stddev)


def variance(v: str | None = None, ddof: int = 1) -> BuiltIn:
    """Take the variance of a column, over n - ddof; null for n <= ddof.

    >>> v = variance("load")
    >>> v.lower(v.combine(v.lift(1e9), v.lift(1e9 + 2)))
    2.0
    """
    return Variance(*columns_of(v), ddof=ddof)


def stddev(v: str | None = None, ddof: int = 1) -> BuiltIn:
    """Take the standard deviation of a column, over n - ddof; null for n <= ddof.

    >>> s = stddev("load", ddof=0)
    >>> s.lower(s.combine(s.lift(1.0), s.lift(3.0)))
    1.0
    """
    return Stddev(*columns_of(v), ddof=ddof)
