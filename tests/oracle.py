"""A brute-force reading of the semantics: what each aggregate is, over a list of values with nulls.

No code is shared with src: no states, no combining, plain definitions.
"""

from __future__ import annotations

import itertools
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


# ---- two columns, weights, and counters ----


def _sums_of_products(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any, Any, Any, Any]:
    """Both means, the sums of squared deviations and of their products; NaN if a value is not finite."""
    columns = []
    for values in zip(*pairs, strict=True):
        if all(map(math.isfinite, values)):
            mean = sum(map(Fraction, values), Fraction(0)) / len(values)
            columns.append((mean, [Fraction(v) - mean for v in values]))
        else:
            columns.append((math.nan, [math.nan] * len(values)))
    (mean_a, a), (mean_b, b) = columns
    finite = mean_a == mean_a and mean_b == mean_b
    both = sum(x * y for x, y in zip(a, b, strict=True)) if finite else math.nan
    return mean_a, mean_b, sum(x * x for x in a), sum(y * y for y in b), both


def _covariance(pairs: list[tuple[Any, Any]]) -> float | None:
    return float(_sums_of_products(pairs)[4] / (len(pairs) - 1)) if len(pairs) > 1 else None


def _correlation(pairs: list[tuple[Any, Any]]) -> float | None:
    _, _, aa, bb, ab = _sums_of_products(pairs)
    if len(pairs) < 2 or aa == 0 or bb == 0:
        return None
    return float(ab) / math.sqrt(aa * bb) if ab == ab else math.nan


def _regression(pairs: list[tuple[Any, Any]]) -> dict[str, Any] | None:
    """Of the first column over the second."""
    if len(pairs) < 2:
        return None
    mean_y, mean_x, _, xx, yx = _sums_of_products(pairs)
    r = _correlation(pairs)
    slope = None if xx == 0 else yx / xx if yx == yx else math.nan
    line = {"slope": slope, "intercept": None if slope is None else mean_y - slope * mean_x}
    line["r2"] = None if r is None else r * r
    return {name: None if value is None else float(value) for name, value in line.items()}


def _weighted_mean(pairs: list[tuple[Any, Any]]) -> float | None:
    if all(math.isfinite(x) for pair in pairs for x in pair):
        weights = sum(Fraction(w) for _, w in pairs)
        return float(sum(Fraction(v) * Fraction(w) for v, w in pairs) / weights) if weights else None
    weights = sum(float(w) for _, w in pairs)
    return sum(float(v) * float(w) for v, w in pairs) / weights if weights else None


def ewm(values: list[Any], alpha: float) -> float:
    """The last of the exponentially weighted means, by definition."""
    finite = all(map(math.isfinite, values))
    number: Any = Fraction if finite else float
    weights = [(1 - number(alpha)) ** i for i in range(len(values))][::-1]
    total = sum((w * number(v) for w, v in zip(weights, values, strict=True)), number(0))
    return float(total / sum(weights))


def rate(pairs: list[tuple[Any, int]], ticks: int = 1) -> float | None:
    """What a counter with its times went up by, over the time that it took."""
    if not pairs or pairs[0][1] == pairs[-1][1]:
        return None
    values = [v for v, _ in pairs]
    steps = [new if new < old else new - old for old, new in itertools.pairwise(values)]
    return float(_total(list(map(float, steps)))) * ticks / (pairs[-1][1] - pairs[0][1])


OVER_PAIRS: dict[str, Callable[[list[Any]], Any]] = {
    "covariance": _covariance,
    "correlation": _correlation,
    "regression": _regression,
    **{
        name: lambda pairs, name=name: (_regression(pairs) or {}).get(name)
        for name in ("slope", "intercept", "r2")
    },
    "weighted_mean": _weighted_mean,
}


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
    if name == "rate":
        return rate([(v, t) for v, t in values if v is not None])
    if name in OVER_PAIRS:
        pairs = [pair for pair in values if None not in pair]
        return OVER_PAIRS[name](pairs) if pairs else None
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
