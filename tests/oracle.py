"""A brute-force reading of the semantics: what each aggregate is, over a list of values with nulls.

No code is shared with src: no states, no combining, plain definitions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any


def _order(value: Any) -> tuple[bool, Any]:
    """NaN is the largest value."""
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0 if nan else value


def _total(values: list[Any]) -> Any:
    if all(isinstance(v, int) for v in values):
        total = sum(values)
        if not -(2**63) <= total < 2**63:
            raise OverflowError
        return total
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _product(values: list[Any]) -> float:
    if not all(map(math.isfinite, values)):
        return math.prod(map(float, values))
    exact = math.prod(map(Fraction, values), start=Fraction(1))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _geomean(values: list[Any]) -> float:
    if any(v < 0 for v in values) or any(v != v for v in values):
        return math.nan
    if 0 in values:
        return math.nan if math.inf in values else 0.0
    return statistics.geometric_mean(map(float, values)) if math.inf not in values else math.inf


def _variance(values: list[Any], ddof: int) -> float | None:
    if len(values) <= ddof:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = list(map(Fraction, values))
    mean = sum(exact, Fraction(0)) / len(exact)
    return float(sum((v - mean) ** 2 for v in exact) / (len(exact) - ddof))


def _stddev(values: list[Any], ddof: int) -> float | None:
    variance = _variance(values, ddof)
    return None if variance is None else math.sqrt(variance)


def _relative_variation(values: list[Any]) -> float | None:
    low, high = min(values, key=_order), max(values, key=_order)
    return None if high == 0 else (high - low) / high


def _occurrences(values: list[Any], extreme: Any) -> int:
    return sum(_order(v) == _order(extreme) for v in values)


def quantile(values: list[Any], q: float) -> float:
    """The value at a share of the way through the ordered values, between two of them by its distance."""
    ordered = sorted(values, key=_order)
    way = (len(ordered) - 1) * q
    low = math.floor(way)
    if way == low or ordered[low] == ordered[low + 1]:
        return float(ordered[low])
    return float(ordered[low]) * (1 - (way - low)) + float(ordered[low + 1]) * (way - low)


def _distinct(values: list[Any]) -> list[Any]:
    return [v for _, v in sorted({_order(v): v for v in values}.items())]


def _m4(pairs: list[tuple[Any, Any]]) -> dict[str, Any] | None:
    if not pairs:
        return None
    low, high = (pick(pairs, key=lambda pair: _order(pair[0])) for pick in (min, max))  # the first of several
    ends = {"min": low, "max": high, "first": pairs[0], "last": pairs[-1]}
    return {name + suffix: pair[k] for name, pair in ends.items() for k, suffix in enumerate(("", "_time"))}


OVER_VALUES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _total,
    "product": _product,
    "mean": lambda vs: (
        float(_total(vs)) / len(vs) if not isinstance(_total(vs), int) else _total(vs) / len(vs)
    ),
    "geomean": _geomean,
    "min": lambda vs: min(vs, key=_order),
    "max": lambda vs: max(vs, key=_order),
    "min_count": lambda vs: _occurrences(vs, min(vs, key=_order)),
    "max_count": lambda vs: _occurrences(vs, max(vs, key=_order)),
    "variance": lambda vs: _variance(vs, 1),
    "stddev": lambda vs: _stddev(vs, 1),
    "relative_variation": _relative_variation,
    "first": lambda vs: vs[0],
    "last": lambda vs: vs[-1],
    "median": lambda vs: quantile(vs, 0.5),
    "mode": lambda vs: max(_distinct(vs), key=lambda v: _occurrences(vs, v)),
    "count_distinct": lambda vs: len(_distinct(vs)),
    "collect_distinct": _distinct,
    "collect": list,
}


def answer(name: str, values: list[Any]) -> Any:
    """The aggregate `name` of these values in order; None is null."""
    if name == "count":
        return len(values)
    if name == "count_distinct" and not any(v is not None for v in values):
        return 0
    if name in ("argmin", "argmax"):
        pairs = [(v, arg) for v, arg in values if v is not None]
        if not pairs:
            return None
        pick = min if name == "argmin" else max
        return pick(pairs, key=lambda pair: _order(pair[0]))[1]
    if name == "m4":
        return _m4([(v, t) for v, t in values if v is not None])
    present = [v for v in values if v is not None]
    return OVER_VALUES[name](present) if present else None


def agrees(got: Any, want: Any, scale: float = 0.0) -> bool:
    """Equal to the bit but for floats, which may differ by rounding: relative, or of the sum of |x|."""
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(agrees, got, want))
    if isinstance(want, dict) and isinstance(got, dict):
        return list(got) == list(want) and all(agrees(got[name], want[name], scale) for name in want)
    if isinstance(want, float) and isinstance(got, (int, float)):
        if math.isnan(want) or math.isnan(got):
            return math.isnan(want) and math.isnan(got)
        return got == want or math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-12 * scale)
    return got == want and (got is None) == (want is None)
