"""Sliding-window aggregators, one by one.

| class | window | time per operation | partials | demands |
|---|---|---|---|---|
| Recalculate | first in, first out | query O(n) | n | associative |
| SubtractOnEvict | first in, first out | O(1) | n + 1 | invertible |
| TwoStacks | first in, first out | amortized O(1), worst O(n) | 2n | associative |
| TwoStacksLite | first in, first out | amortized O(1), worst O(n) | n + 1 | associative |
| Daba | first in, first out | worst-case O(1) | 2n | associative |
| DabaLite | first in, first out | worst-case O(1) | n + 2 | associative |
| FlatFit | first in, first out | amortized O(1), worst O(n) | n | associative |
| BInt | first in, first out | O(log n) | < 2n | associative |
| SlickDeque | first in, first out | amortized O(1) | <= n (n + 1 with inverses) | invertible or selective |
| FlatFat | fixed places | O(m + m log(n / m)) for m changes | 2n - 1 | associative |
| ReactiveAggregator | any removal order | as FlatFat | 2 capacity - 1 | associative |
| Fiba | any insertion order | amortized O(log d), d places from an end | n + nodes | associative |
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import SlidingWindow, checked
from muntin.swag.bint import BInt
from muntin.swag.bulk import Bounds, Bulk, run
from muntin.swag.daba import Daba
from muntin.swag.daba_lite import DabaLite
from muntin.swag.fiba import Fiba
from muntin.swag.flatfat import FlatFat
from muntin.swag.flatfit import FlatFit
from muntin.swag.quantiles import slid_quantile
from muntin.swag.reactive import ReactiveAggregator
from muntin.swag.recalculate import Recalculate
from muntin.swag.slick_deque import SlickDeque
from muntin.swag.subtract_on_evict import SubtractOnEvict
from muntin.swag.two_stacks import TwoStacks
from muntin.swag.two_stacks_lite import TwoStacksLite

__all__ = [
    "BInt",
    "Daba",
    "DabaLite",
    "Fiba",
    "FlatFat",
    "FlatFit",
    "ReactiveAggregator",
    "Recalculate",
    "SlickDeque",
    "SlidingWindow",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
    "slide",
]

_BLOCK = Bulk("block", partials=2)


def slide(
    aggregate: Aggregate, values: Any, window: int | None = None, *, times: Any = None, length: Any = None
) -> NDArray[Any]:
    """Run a window over a whole column with the fastest kernel there is: the answer after each record.

    The window is the last `window` records, or with `times` those in (t - length, t]. Values are an array
    or a sequence; for aggregates of two columns a tuple of two, or a list of pairs.

    >>> import muntin as mt
    >>> mt.swag.slide(mt.mean(), [3.0, 1.0, 2.0, 0.0], window=2).tolist()
    [3.0, 2.0, 1.5, 1.0]
    """
    aggregate = checked(aggregate, "slide")
    if aggregate.quantile_share is not None:
        found = slid_quantile(aggregate.quantile_share, values, window, times, length)
        if found is not None:
            return found
    bulk = _BLOCK if times is None and not aggregate.in_place else TwoStacksLite.bulk

    def one_at_a_time(records: list[Any], limits: Bounds) -> list[Any]:
        return TwoStacksLite(aggregate).slide_over(records, limits)

    return run(bulk, aggregate, values, window, times, length, one_at_a_time)
