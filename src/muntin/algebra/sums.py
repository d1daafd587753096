"""Counts, sums, products and means, weighted ones too."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from muntin.algebra.aggregate import Function, Kinds
from muntin.algebra.builtin import BuiltIn, columns_of, register
from muntin.algebra.parts import Part

NEGATIVE_WEIGHT = "a weight is negative; weights are numbers from 0."
TOO_LARGE = "a sum of integers left the 64-bit range; cast the values to float64 for an approximate sum."

# ---- functions on states: plain Python that also compiles ----


def one_record() -> int:
    return 1


def one_value(_v: Any) -> int:
    return 1


def same(v: Any) -> Any:
    return v


def add(a: Any, b: Any) -> Any:
    return a + b


def subtract(a: Any, b: Any) -> Any:
    return a - b


def within_64_bits(total: Any) -> Any:
    """Refuse an integer sum that a 64-bit column could not hold; Python's own would just grow."""
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise OverflowError(TOO_LARGE)
    return total


# Integers are summed in two limbs of 32 bits, each in 64 bits of room: partial sums cannot overflow
# within 2^31 records, so whether a total fits never depends on the order in which it was combined.


def split_limbs(v: int) -> tuple[int, int]:
    return v >> 32, v & 4294967295


def add_pairs(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] + b[1]


def subtract_pairs(a: Any, b: Any) -> Any:
    return a[0] - b[0], a[1] - b[1]


def join_limbs(high: int, low: int) -> int:
    high += low >> 32
    if high >= 2147483648 or high < -2147483648:
        raise OverflowError(TOO_LARGE)
    return (high << 32) | (low & 4294967295)


def float_of_limbs(high: int, low: int) -> float:
    return float(high + (low >> 32)) * 4294967296.0 + float(low & 4294967295)


def object_of_limbs(high: int, low: int) -> tuple[int, int]:
    return (high << 32) + low, 0  # a compensated sum, which Python's integers need no rest for


# Where values are taken out again, a float sum carries the rounding error of its head (Knuth's
# two-sum): what was added then leaves without a trace, short of 2^-104 of the largest sum on the way.


def with_remainder(v: Any) -> Any:
    return v, v - v


def add_compensated(a: Any, b: Any) -> Any:
    head = a[0] + b[0]
    taken = head - a[0]
    rest = (a[0] - (head - taken)) + (b[0] - taken)
    return head, rest + (a[1] + b[1])


def subtract_compensated(a: Any, b: Any) -> Any:
    return add_compensated(a, (-b[0], -b[1]))


def join_compensated(head: Any, rest: Any) -> Any:
    total = head + rest
    return total if total == total else head  # the remainder of an infinite head is NaN


def join_compensated_object(head: Any, rest: Any) -> Any:
    return within_64_bits(join_compensated(head, rest))


def compensated_error_step(s: Any) -> float:
    return 2.3e-16 * float(abs(s[1])) + float(s[0] - s[0])  # NaN if the head is not finite


def compensated_error_limit(s: Any) -> float:
    return 1e-13 * float(abs(s[0] + s[1]))


def log_or_nan(v: Any) -> float:
    if v > 0:
        return math.log(v)
    return -math.inf if v == 0 else math.nan


def log_with_remainder(v: Any) -> tuple[float, float]:
    x = log_or_nan(v)
    return x, x - x


# A product is a mantissa and a power of two: it over- or underflows only if the result does.


def split_float(v: Any) -> tuple[float, int]:
    x = float(v)
    if x - x != 0.0:  # infinite or NaN
        return x, 0
    m, e = math.frexp(x)
    return m, int(e)


def multiply_scaled(a: Any, b: Any) -> Any:
    m = a[0] * b[0]
    e = a[1] + b[1]
    if -3.0e-151 < m < 3.0e-151 and m != 0.0:
        m *= 3.273390607896142e150  # 2^500
        e -= 500
    return m, e


def join_scaled(m: float, e: int) -> float:
    while e > 1000 and m - m == 0.0 and m != 0.0:
        m *= 1.0715086071862673e301  # 2^1000
        e -= 1000
    while e < -1000 and m != 0.0:
        m *= 9.332636185032189e-302  # 2^-1000
        e += 1000
    return m * 2.0 ** float(e) if m != 0.0 and m - m == 0.0 else m


# A weighted sum and the sum of its weights, both with the rounding errors of their heads.


def with_weight(v: Any, w: Any) -> Any:
    if w < 0:
        raise ValueError(NEGATIVE_WEIGHT)
    weight = float(w)
    x = weight * float(v)
    return weight, weight - weight, x, x - x


def add_weighted(a: Any, b: Any) -> Any:
    weights = add_compensated((a[0], a[1]), (b[0], b[1]))
    values = add_compensated((a[2], a[3]), (b[2], b[3]))
    return weights[0], weights[1], values[0], values[1]


def negative_weights(_v: Any, w: Any) -> Any:
    return w < 0


# An exponentially weighted sum: the newest value of a partial weighs 1. What all that is older is multiplied
# by stays above zero, so that infinity and NaN are never lost, however far back they lie.


@lru_cache
def _newest(decay: float) -> Function:
    def with_decay(v: Any) -> Any:
        return 1.0, float(v), decay

    return with_decay


def add_decayed(a: Any, b: Any) -> Any:
    if b[2] == 0.0:
        return b
    decay = a[2] * b[2]
    return a[0] * b[2] + b[0], a[1] * b[2] + b[1], decay if decay > 1e-300 else 1e-300


# ---- parts ----

COUNT = Part(("i8",), one_value, add, identity=0, invert=subtract)
ROWS = Part(("i8",), one_record, add, identity=0, invert=subtract)
SUM = Part(("v",), same, add, identity=0.0, invert=subtract)
OBJECT_SUM = Part(("v",), same, add, identity=0, invert=subtract, read=within_64_bits, read_float=same)
INTEGER_SUM = Part(
    ("i8", "i8"),
    split_limbs,
    add_pairs,
    widths=(2,),
    identity=(0, 0),
    invert=subtract_pairs,
    read=join_limbs,
    read_float=float_of_limbs,
    as_object=object_of_limbs,
)
COMPENSATED_SUM = Part(
    ("f8", "f8"),
    with_remainder,
    add_compensated,
    widths=(2,),
    identity=(0.0, 0.0),
    invert=subtract_compensated,
    error_step=compensated_error_step,
    error_limit=compensated_error_limit,
    read=join_compensated,
)
OBJECT_COMPENSATED_SUM = replace(
    COMPENSATED_SUM,
    fields=("v", "v"),
    identity=(0, 0),
    read=join_compensated_object,
    read_float=join_compensated,
)
LOGS = Part(("f8",), log_or_nan, add, identity=0.0, invert=subtract)
COMPENSATED_LOGS = replace(COMPENSATED_SUM, lift=log_with_remainder)
PRODUCT = Part(("f8", "i8"), split_float, multiply_scaled, identity=(1.0, 0))
WEIGHTED = Part(
    ("f8",) * 4,
    with_weight,
    add_weighted,
    widths=(2, 2),
    identity=(0.0,) * 4,
    read=join_compensated,
    required=2,
    refuses=negative_weights,
    refusal=NEGATIVE_WEIGHT,
)


def _sum_part(kinds: Kinds | None, inverting: bool) -> Part:
    if kinds is None:
        return OBJECT_COMPENSATED_SUM if inverting else OBJECT_SUM
    if kinds[0] == "i8":
        return INTEGER_SUM
    return COMPENSATED_SUM if inverting else SUM


register("rows", (("rows", 0),), ROWS)
register("n", (("n", 1),), COUNT)
register("sum", (("sum", 1),), _sum_part)
register("logs", (("logs", 1),), lambda _kinds, inverting: COMPENSATED_LOGS if inverting else LOGS)
register("product", (("mantissa", 1), ("exponent", 1)), PRODUCT)
register("weighted", (("weights", 2), ("weighted", 2)), WEIGHTED)


@lru_cache
def _register_decayed(alpha: float) -> tuple[str, str]:
    """Make the part of exponential weights known; return the names of weights and weighted sum."""
    weights, values = f"ewm_weights({alpha!r})", f"ewm_sum({alpha!r})"
    part = Part(("f8",) * 3, _newest(1.0 - alpha), add_decayed, commutative=False)
    register(f"ewm({alpha!r})", ((weights, 1), (values, 1), (f"ewm_decay({alpha!r})", 1)), part)
    return weights, values


# ---- aggregates ----


def whole(n: Any) -> int:
    return int(n)


def divide(n: Any, total: Any) -> Any:
    return total / int(n)  # a count that came with a variance is a float, which divides no decimal


def mean_of_logs(n: Any, logs: Any) -> float:
    x = logs / n
    if 709.782712893384 < x < math.inf:  # the logarithm of the largest float, but for rounding
        x = 709.782712893384
    return math.exp(x)


class Count(BuiltIn):
    """How many records there are, or how many non-null values a column has."""

    needs = ("rows",)
    finish = whole
    result = "i8"
    commutative = True
    kind = "distributive"
    empty = 0

    @property
    def skips_nulls(self) -> bool:
        """Records are counted whatever they hold."""
        return False


class CountValues(Count):
    """How many non-null values a column has."""

    needs = ("n",)

    @property
    def skips_nulls(self) -> bool:
        """Nulls are not counted."""
        return True

    def __repr__(self) -> str:
        return f"count({self.columns[0]!r})" if self.columns else "count(values)"


class Sum(BuiltIn):
    """The sum: of integers an integer, of floats a float."""

    needs = ("sum",)
    finish = same
    result = "v"
    commutative = numeric = True
    kind = "distributive"


class Product(BuiltIn):
    """The product, as a float."""

    needs = ("mantissa", "exponent")
    finish = join_scaled
    commutative = numeric = True
    kind = "distributive"


class Mean(BuiltIn):
    """The arithmetic mean."""

    needs = ("n", "sum")
    finish = divide
    commutative = numeric = floats = True


class Geomean(BuiltIn):
    """The geometric mean, through logarithms."""

    needs = ("n", "logs")
    finish = mean_of_logs
    commutative = numeric = floats = True


def over_weights(weights: Any, total: Any) -> Any:
    return None if weights == 0.0 else total / weights


class WeightedMean(BuiltIn):
    """The mean of one column, weighted by another."""

    needs = ("weights", "weighted")
    finish = over_weights
    values = 2
    commutative = numeric = misses = True


def over_decayed(weights: Any, total: Any) -> Any:
    return total / weights


class Ewm(BuiltIn):
    """The exponentially weighted mean, as of the newest value."""

    finish = over_decayed
    numeric = True

    def __init__(self, *columns: str, alpha: float | None = None) -> None:
        if alpha is None:
            raise ValueError("ewm needs alpha, the weight of a new value, as in ewm('v', alpha=0.1).")
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha is a number above 0 and up to 1, not {alpha!r}.")
        self.alpha = float(alpha)
        super().__init__(*columns)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The components, which are those of one alpha."""
        return _register_decayed(self.alpha)

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
        return (self.alpha,)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with."""
        return {"alpha": self.alpha}

    def __repr__(self) -> str:
        return f"ewm({', '.join([*map(repr, self.columns), f'alpha={self.alpha}'])})"


def count(v: str | None = None) -> BuiltIn:
    """Count records, or the non-null values of a column.

    >>> count(), count("v")
    (count(), count('v'))
    """
    return Count() if v is None else CountValues(v)


def sum(v: str | None = None) -> BuiltIn:
    """Add up a column: integers stay integers, and a total beyond 64 bits raises OverflowError.

    >>> total = sum("v")
    >>> total.lower(total.combine(total.lift(2), total.lift(3)))
    5
    """
    return Sum(*columns_of(v))


def product(v: str | None = None) -> BuiltIn:
    """Multiply a column, as float64; no step on the way over- or underflows.

    >>> p = product("v")
    >>> p.lower(p.combine(p.combine(p.lift(1e200), p.lift(1e200)), p.lift(1e-300)))
    1e+100
    """
    return Product(*columns_of(v))


def mean(v: str | None = None) -> BuiltIn:
    """Take the arithmetic mean of a column.

    >>> m = mean("v")
    >>> m.lower(m.combine(m.lift(2), m.lift(5)))
    3.5
    """
    return Mean(*columns_of(v))


def geomean(v: str | None = None) -> BuiltIn:
    """Take the geometric mean of a column: 0 if a value is 0, NaN if one is negative.

    >>> g = geomean("v")
    >>> round(g.lower(g.combine(g.lift(2), g.lift(8))), 12)
    4.0
    """
    return Geomean(*columns_of(v))


def weighted_mean(v: str | None = None, w: str | None = None) -> BuiltIn:
    """Take the mean of column `v`, weighted by column `w`; null where the weights sum to 0.

    A record with a null in either column is skipped; a negative weight is an error that names the record.

    >>> m = weighted_mean("price", "pieces")
    >>> m.lower(m.combine(m.lift(10.0, 1), m.lift(4.0, 2)))
    6.0
    """
    return WeightedMean(*columns_of(v, w))


def ewm(v: str | None = None, alpha: float | None = None) -> BuiltIn:
    """Take the exponentially weighted mean of a column as of its newest value.

    The i-th value before the newest weighs (1 - alpha)^i; the sum is divided by that of the weights.
    `alpha` is above 0 and up to 1, where the newest value alone counts.

    >>> e = ewm("v", alpha=0.5)
    >>> e.lower(e.combine(e.lift(1.0), e.lift(4.0)))
    3.0
    """
    return Ewm(*columns_of(v), alpha=alpha)
