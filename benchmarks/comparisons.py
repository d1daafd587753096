"""What is compared with what: one table for the benchmark, which times it, and the tests, which check it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import muntin as mt

Array = NDArray[Any]


class OwnSum(mt.Aggregate):
    """The built-in sum as a user would write it."""

    commutative = True
    identity = 0.0

    @staticmethod
    def lift(v: float) -> float:
        return v

    @staticmethod
    def combine(a: float, b: float) -> float:
        return a + b

    @staticmethod
    def lower(a: float) -> float:
        return a


class OwnMean(mt.Aggregate):
    """The built-in mean as a user would write it."""

    commutative = True
    identity = (0, 0.0)

    @staticmethod
    def lift(v: float) -> tuple[int, float]:
        return 1, v

    @staticmethod
    def combine(a: tuple[int, float], b: tuple[int, float]) -> tuple[int, float]:
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def lower(a: tuple[int, float]) -> float:
        return a[1] / a[0]


@dataclass(frozen=True)
class Comparison:
    """A run over values and a window, what it is measured against, and how many times that it may take."""

    name: str
    run: Callable[[Array, int], Array]
    against: str
    limit: float | None  # None: measured and published, not held to anything
    answer: Callable[[Array], float]  # of the records of one window


def cumsum(values: Array, window: int) -> Array:
    """Return the yardstick: one pass that reads and writes each value."""
    del window
    return np.cumsum(values)


def _slide(algorithm: Any, aggregate: mt.Aggregate) -> Callable[[Array, int], Array]:
    return lambda values, window: algorithm.slide(aggregate, values, window=window)


def _sum(values: Array) -> float:
    return float(values.sum())


def _mean(values: Array) -> float:
    return float(values.mean())


def _variance(values: Array) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else float("nan")


_LITE = mt.swag.TwoStacksLite
COMPARISONS = [
    Comparison("TwoStacksLite sum", _slide(_LITE, mt.sum()), "cumsum", 1.3, _sum),
    Comparison("DabaLite sum", _slide(mt.swag.DabaLite, mt.sum()), "cumsum", 2.2, _sum),
    Comparison("block sum", _slide(mt.swag, mt.sum()), "cumsum", 0.8, _sum),
    Comparison("TwoStacksLite mean", _slide(_LITE, mt.mean()), "TwoStacksLite sum", 2.5, _mean),
    Comparison("TwoStacksLite variance", _slide(_LITE, mt.variance()), "TwoStacksLite sum", 3.5, _variance),
    Comparison("block mean", _slide(mt.swag, mt.mean()), "block sum", None, _mean),
    Comparison("block variance", _slide(mt.swag, mt.variance()), "block sum", None, _variance),
    Comparison("DabaLite variance", _slide(mt.swag.DabaLite, mt.variance()), "DabaLite sum", None, _variance),
    Comparison("TwoStacksLite own sum", _slide(_LITE, OwnSum()), "TwoStacksLite sum", 1.2, _sum),
    Comparison("TwoStacksLite own mean", _slide(_LITE, OwnMean()), "TwoStacksLite mean", 1.2, _mean),
    Comparison("DabaLite own sum", _slide(mt.swag.DabaLite, OwnSum()), "DabaLite sum", 1.2, _sum),
]


def check(comparison: Comparison, values: Array, window: int, places: list[int]) -> None:
    """Compare the answers at some places with NumPy's over the same records."""
    answers = np.asarray(comparison.run(values, window))
    for i in places:
        want = comparison.answer(values[max(0, i - window + 1) : i + 1])
        if not np.isclose(answers[i], want, rtol=1e-9, atol=1e-9, equal_nan=True):
            raise AssertionError(f"{comparison.name}: {answers[i]} at record {i}, but NumPy gives {want}")
