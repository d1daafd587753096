"""Variance, covariance and what follows from them, by pairwise (Chan) merging about an anchor.

A partial is (n, anchor, shifted sum, sum of squared deviations from the mean). The anchor is the first
value of the partial; the shifted sum adds up distances from it. A value of the window is never further
from its mean than the root of the summed squares, so distances from the anchor are small wherever the
spread is, and the mean they give keeps its digits even for values near 1e9 that differ by 1. A partial of
pairs is the same for both columns, and the sum of products of their deviations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from muntin.algebra.aggregate import Function
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part

if TYPE_CHECKING:
    import pyarrow as pa


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

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return self._finishers(self.ddof)[0]

    def _finisher_of_pair(self) -> Function:
        return self._finishers(self.ddof)[1]

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
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


# ---- pairs of columns ----


def joint_of_one(a: Any, b: Any) -> Any:
    x, y = float(a), float(b)
    return 1.0, x, y, 0.0, 0.0, x - x, y - y, (x - x) + (y - y)


def merge_joints(p: Any, q: Any) -> Any:
    n = p[0] + q[0]
    weight = p[0] * q[0] * n
    first = q[3] + q[0] * (q[1] - p[1])  # q's sums, seen from p's anchors
    second = q[4] + q[0] * (q[2] - p[2])
    gap = first * p[0] - p[3] * q[0]  # the distances of the means, times both counts
    other = second * p[0] - p[4] * q[0]
    return (
        n,
        p[1],
        p[2],
        p[3] + first,
        p[4] + second,
        p[5] + q[5] + gap * (gap / weight),
        p[6] + q[6] + other * (other / weight),
        p[7] + q[7] + gap * (other / weight),
    )


JOINT = ("pairs", "anchor_a", "anchor_b", "shifted_a", "shifted_b", "squares_a", "squares_b", "products")
register(
    "joint", tuple((name, 2) for name in JOINT), Part(("f8",) * 8, joint_of_one, merge_joints, required=2)
)


def covariance_of(n: float, products: float) -> float | None:
    return None if n < 2.0 else products / (n - 1.0)


def correlation_of(n: float, squares_a: float, squares_b: float, products: float) -> float | None:
    if n < 2.0 or squares_a == 0.0 or squares_b == 0.0:
        return None
    r = products / (math.sqrt(squares_a) * math.sqrt(squares_b))
    return 1.0 if r > 1.0 else -1.0 if r < -1.0 else r  # rounding may lead a little further


def slope_of(
    n: float, _y: float, _x: float, _dy: float, _dx: float, _yy: float, xx: float, yx: float
) -> float | None:
    return None if n < 2.0 or xx == 0.0 else yx / xx


def intercept_of(
    n: float, y: float, x: float, dy: float, dx: float, _yy: float, xx: float, yx: float
) -> float | None:
    if n < 2.0 or xx == 0.0:
        return None
    slope = yx / xx
    return (y - slope * x) + (dy - slope * dx) / n


def r2_of(
    n: float, _y: float, _x: float, _dy: float, _dx: float, yy: float, xx: float, yx: float
) -> float | None:
    if n < 2.0 or yy == 0.0 or xx == 0.0:
        return None
    r = yx / (math.sqrt(yy) * math.sqrt(xx))
    return 1.0 if r * r > 1.0 else r * r


LINE = ("slope", "intercept", "r2")
_LINE_PARTS: dict[str, Function] = {"slope": slope_of, "intercept": intercept_of, "r2": r2_of}


def line_of(*joint: float) -> dict[str, Any] | None:
    """Return all of a regression; null where no line is asked for, its parts where they divide by 0."""
    return None if joint[0] < 2.0 else {name: _LINE_PARTS[name](*joint) for name in LINE}


class Covariance(BuiltIn):
    """The covariance of the sample; null below two pairs."""

    needs = ("pairs", "products")
    finish = covariance_of
    values = 2
    commutative = numeric = misses = True


class Correlation(BuiltIn):
    """Pearson's correlation; null below two pairs, and where a column does not vary."""

    needs = ("pairs", "squares_a", "squares_b", "products")
    finish = correlation_of
    values = 2
    commutative = numeric = misses = True


class Regression(BuiltIn):
    """The line of least squares of one column over another, or one number of it."""

    needs = JOINT
    values = 2
    commutative = numeric = misses = True

    def __init__(self, *columns: str, only: str | None = None) -> None:
        if only is not None and only not in LINE:
            raise ValueError(f"only is one of {', '.join(map(repr, LINE))}, not {only!r}.")
        self.only = only
        self.result = "struct" if only is None else "f8"
        self.gives_many = only is None
        super().__init__(*columns)

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return line_of if self.only is None else _LINE_PARTS[self.only]

    def struct_parts(self) -> dict[str, BuiltIn]:
        """Return slope, intercept and r2."""
        return {name: Regression(*self.columns, only=name) for name in LINE}

    def lacks_struct(self, *components: Any) -> Any:
        """Return where there are not two pairs."""
        return components[0] < 2.0

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of structs of slope, intercept and r2, or of one of them."""
        import pyarrow as pa

        del types
        return pa.float64() if self.only else pa.struct([(name, pa.float64()) for name in LINE])

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
        return () if self.only is None else (self.only,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {} if self.only is None else {"only": self.only}


def covariance(x: str | None = None, y: str | None = None) -> BuiltIn:
    """Take the covariance of two columns over n - 1; null below two pairs.

    >>> c = covariance("x", "y")
    >>> c.lower(c.combine(c.lift(1.0, 2.0), c.lift(3.0, 8.0)))
    6.0
    """
    return Covariance(*columns_of(x, y))


def correlation(x: str | None = None, y: str | None = None) -> BuiltIn:
    """Take Pearson's correlation of two columns; null below two pairs, or where one of them does not vary.

    >>> c = correlation("x", "y")
    >>> c.lower(c.combine(c.lift(1.0, 2.0), c.lift(3.0, 8.0)))
    1.0
    """
    return Correlation(*columns_of(x, y))


def regression(
    y: str | None = None, x: str | None = None, only: Literal["slope", "intercept", "r2"] | None = None
) -> BuiltIn:
    """Fit column `y` by a line over column `x`, by least squares: a struct of slope, intercept and r2.

    Null below two pairs. Where `x` does not vary, all three are null, where `y` does not, r2 is. `only` names
    the one of them that is wanted: the answer is then a number.

    >>> r = regression("y", "x")
    >>> r.lower(r.combine(r.lift(2.0, 1.0), r.lift(8.0, 3.0)))
    {'slope': 3.0, 'intercept': -1.0, 'r2': 1.0}
    """
    return Regression(*columns_of(y, x), only=only)
