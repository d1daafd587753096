"""How windows are folded from ranges of slices: the strategies, what each costs, and which one is taken.

A strategy is a value with a name, the conditions under which it fits, its cost in combines, and its fold.
Fields say in `folds` which strategies they have verbs for. To add one, write its class here, list it in
`STRATEGIES`, and name it in `folds` of the fields that can do it.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from muntin.columnar import Indices
from muntin.engine import tuning
from muntin.engine.partials.base import FieldPartials, States
from muntin.engine.partials.pool import Ranged
from muntin.engine.store import folding
from muntin.engine.store.cells import AggregateStore
from muntin.settings import Store


class Ranges:
    """The windows of some queries as ranges of a store's cells; what is found out about them is kept."""

    def __init__(
        self, store: AggregateStore, low: Indices, high: Indices, query: Indices, queries: int
    ) -> None:
        self.store = store
        self.low, self.high = low, high
        self.query = query
        self.queries = queries

    def __len__(self) -> int:
        return len(self.low)

    @cached_property
    def total(self) -> int:
        """How many cells there are in all ranges."""
        return int((self.high - self.low).sum())

    @cached_property
    def longest(self) -> int:
        """How many cells the longest range has."""
        return int((self.high - self.low).max())

    @cached_property
    def prefixes(self) -> tuple[Indices, Indices]:
        """The prefixes that ranges are differences of: the same for all fields."""
        return folding.prefixes_of(self.store, self.low, self.high)


class Strategy(ABC):
    """A way to fold ranges of a field's partials."""

    name: ClassVar[str]
    by_query: ClassVar[bool] = False  # ranges must come query by query

    def fits(self, folds: tuple[str, ...], queries: int) -> bool:
        """Tell whether it may be taken for so many queries, beside the others that a field can do."""
        del folds, queries
        return True

    @abstractmethod
    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """Return about how many combines it takes, in those of folding each range by itself."""

    @abstractmethod
    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Return what a field holds for each range, and the number of combines."""


class Each(Strategy):
    """Each range by itself."""

    name = "each"

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """One for each cell."""
        del partials
        return ranges.total

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Fold each range by itself."""
        store = ranges.store
        return store.fields[number].each_window(store.ordered_states(number), ranges.low, ranges.high)


class Unmerged(Strategy):
    """Not at all: fields that answer for many ranges at once take them as they are."""

    name = "ranges"

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """Nothing: nothing is merged."""
        del partials, ranges
        return 0

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Return the ranges."""
        unmerged: Any = Ranged(ranges.store.ordered_states(number), ranges.low, ranges.high)
        return unmerged, 0


class Prefixes(Strategy):
    """Differences of prefixes of each key's partials."""

    name = "prefix"

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """Less than anything else, unless ranges are short."""
        del partials
        return _shared(0, ranges)

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Subtract prefixes."""
        return ranges.store.folds.prefix(number, ranges.low, ranges.high, ranges.prefixes)


class TwoStacks(Strategy):
    """Two stacks per key and query, that go along with the ranges of one query."""

    name = "slide"
    by_query = True

    def fits(self, folds: tuple[str, ...], queries: int) -> bool:
        """For few queries, or where pairs cannot be."""
        return queries <= tuning.STACK_QUERIES or "levels" not in folds

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """Up to four for each cell and query."""
        del partials
        return _shared(4 * ranges.queries * ranges.store.count, ranges)

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Slide along with the ranges, query by query."""
        query = ranges.query
        ends = [0, *(np.flatnonzero(query[1:] != query[:-1]) + 1).tolist(), len(query)]
        parts, total = [], 0
        for begin, stop in itertools.pairwise(ends):
            some = (ranges.low[begin:stop], ranges.high[begin:stop])
            states, combines = ranges.store.folds.slide(number, int(query[begin]), *some)
            parts.append(states)
            total += combines
        return parts[0] if len(parts) == 1 else np.concatenate(parts), total


class Levels(Strategy):
    """Pairs of neighbours, pairs of pairs and so on, each made once for all queries."""

    name = "levels"

    def fits(self, folds: tuple[str, ...], queries: int) -> bool:
        """For many queries, or where stacks cannot be."""
        return queries > tuning.STACK_QUERIES or "slide" not in folds

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """One for each cell, and two a level for each range."""
        if partials.merges_slowly:  # nothing else counts: a merge for each pair, and two a level for a range
            return ranges.store.count + 2 * len(ranges) * ranges.longest.bit_length()
        pairs = len(ranges) * (ranges.total // len(ranges)).bit_length()
        return _shared(2 * (ranges.store.count + pairs), ranges)

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Put ranges together from pairs of pairs."""
        return folding.by_levels(ranges.store, number, ranges.low, ranges.high)


class Trees(Strategy):
    """FlatFAT over each key's slices, kept up to date as records come: only where that is asked for."""

    name = "tree"

    def fits(self, folds: tuple[str, ...], queries: int) -> bool:
        """Never, unless asked for: trees cost something with each record."""
        del folds, queries
        return False

    def cost(self, partials: FieldPartials, ranges: Ranges) -> float:
        """Two a level for each range, beside what keeping trees takes."""
        del partials
        return 2 * len(ranges) * ranges.longest.bit_length()

    def fold(self, number: int, ranges: Ranges) -> tuple[States, int]:
        """Put ranges together from nodes of trees."""
        return ranges.store.folds.tree(number, ranges.low, ranges.high)


def _shared(cost: int, ranges: Ranges) -> float:
    """Return the cost of sharing what ranges have in common: too much for one, or for short ones."""
    return math.inf if len(ranges) == 1 else max(cost, tuning.SHORT_WINDOW * len(ranges))


# Of equal costs, the first is taken.
STRATEGIES: tuple[Strategy, ...] = (Each(), Unmerged(), Prefixes(), TwoStacks(), Levels(), Trees())
# What a user asks for with `store`; fields that can do none of it are folded as with "auto".
_ASKED: dict[Store, tuple[str, ...]] = {
    "auto": (),
    "lazy": ("each",),
    "eager": ("tree",),
    "sliding": ("prefix", "slide"),
}


def choose(store: Store, partials: FieldPartials, ranges: Ranges) -> Strategy:
    """Return the strategy for a field: the one that the user asked for, else that of the least cost."""
    found = _candidates(store, partials.folds, ranges.queries)
    return found[0] if len(found) == 1 else min(found, key=lambda s: s.cost(partials, ranges))


def in_any_order(store: Store, fields: Iterable[FieldPartials], queries: int) -> bool:
    """Tell whether ranges of several queries may come mixed, whatever is chosen."""
    return all(
        partials.folds_in_any_order
        and not any(strategy.by_query for strategy in _candidates(store, partials.folds, queries))
        for partials in fields
    )


@lru_cache(maxsize=1024)
def _candidates(store: Store, folds: tuple[str, ...], queries: int) -> tuple[Strategy, ...]:
    """Return the strategies that may be chosen for a field that has verbs for these."""
    possible = [strategy for strategy in STRATEGIES if strategy.name in folds]
    asked = [strategy for strategy in possible if strategy.name in _ASKED[store]]
    return tuple(asked[:1] or (strategy for strategy in possible if strategy.fits(folds, queries)))
