"""Fields whose partials are stretches of a pool of values: sorted runs of distinct ones, or lists in order.

A partial is where its stretch begins and ends, so that partials are copied like numbers. What is in the pool
is never written again: a merge appends. Stretches that nobody has any more are left behind when the pool is
packed, which the engine does as it lets go of slices.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate, Kinds
from muntin.columnar import Indices
from muntin.engine import loops, tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import FieldPartials, States
from muntin.engine.rows import Answers
from muntin.engine.transaction import Steps, put_attributes

_ROOM = 1 << 10


@dataclass(frozen=True)
class Ranged:
    """The partials of windows, each a range of slices that nobody has merged."""

    states: States  # of slices, by key and time
    low: Indices
    high: Indices

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, at: Any) -> Ranged:
        return Ranged(self.states, self.low[at], self.high[at])


class Pool:
    """Values end to end; with runs, also how many records are before each."""

    def __init__(self, *, objects: bool, counted: bool) -> None:
        self.values: NDArray[Any] = np.empty(_ROOM, object if objects else np.int64)
        self.total = np.zeros(_ROOM + 1 if counted else 1, np.int64)
        self.used = 0
        self._counted = counted

    @property
    def objects(self) -> bool:
        """Whether values are not just numbers."""
        return self.values.dtype == object

    def reserve(self, count: int) -> None:
        """Make room for so many more."""
        if self.used + count > len(self.values):
            room = max(self.used + count, 2 * len(self.values))
            values = np.empty(room, self.values.dtype)
            values[: self.used] = self.values[: self.used]
            self.values = values
            if self._counted:
                total = np.empty(room + 1, np.int64)
                total[: self.used + 1] = self.total[: self.used + 1]
                self.total = total

    def append(self, count: int) -> NDArray[Any]:
        """Return room for so many more values, which are to be written there."""
        self.reserve(count)
        self.used += count
        return self.values[self.used - count : self.used]

    def counts(self, begin: int, end: int) -> Indices:
        """Return how many records have each of some values."""
        return np.diff(self.total[begin : end + 1])


class PooledField(FieldPartials):
    """Partials in a pool; none where a stretch is empty."""

    often = None
    invertible = False
    nullable = True
    folds = ("ranges",)
    loads_any_form = packs = True
    counted: bool

    def __init__(self, kinds: Kinds | None) -> None:
        self.kinds = kinds  # None: objects
        self.pool = Pool(objects=kinds is None, counted=self.counted)
        self._live = 0  # entries, when the pool was last packed

    def begin(self, steps: Steps) -> None:
        """Write down how far the pool is used: what lies before is never written again."""
        steps.append((put_attributes, self.pool, vars(self.pool).copy()))

    # ---- numbers as they are kept ----

    @abstractmethod
    def keys(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return numbers as they lie in the pool."""

    @abstractmethod
    def numbers(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return what lies in the pool as the numbers, or objects, that it stands for."""

    def accept(self, values: Values) -> FieldPartials:
        """Hold objects, if these are."""
        if values.kinds is None:
            self.widen()
        return self

    def widen(self) -> None:
        """Hold objects from now on: a number came that 64 bits do not hold."""
        if self.kinds is not None:
            pool, objects = self.pool, np.empty(len(self.pool.values), object)
            objects[: pool.used] = self.numbers(pool.values[: pool.used]).tolist()
            pool.values, self.kinds = objects, None

    def _read(self, values: Values) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return values as they lie in the pool, and which are there."""
        (column,) = values.columns
        if self.kinds is not None:
            return self.keys(column), values.valid
        if values.kinds is not None:  # of records that waited since before the field was widened
            objects = np.empty(len(column), object)
            objects[:] = column.tolist()
            column = objects
        return column, values.valid

    # ---- verbs ----

    def allocate(self, count: int) -> States:
        """Return room for so many partials."""
        return np.zeros((count, 2), np.int64)

    def of_segments(self, values: Values, bounds: Indices) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        column, valid = self._read(values)
        if valid is not None:
            kept = np.flatnonzero(valid)
            column, bounds = column[kept], np.searchsorted(kept, bounds)
        return self._appended(column, bounds)

    @abstractmethod
    def _appended(self, column: NDArray[Any], bounds: Indices) -> States:
        """Append stretches of values to the pool."""

    def scatter(
        self, values: Values, at: Indices, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones hold nothing."""
        del apart
        counts = np.bincount(at[: values.count], minlength=1)
        order = np.empty(values.count, np.int64)
        loops.run("group", at[: values.count], counts.copy(), order)
        touched = np.flatnonzero(counts)
        bounds = np.append(0, np.cumsum(counts[touched]))
        new = self.of_segments(values.take(order), bounds)
        self.merge(states, touched, blank[touched], new)
        blank[touched] = False

    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""
        one = self.of_segments(values, np.array([0, 1]))
        self.merge(states, np.array([at]), np.array([new]), one)

    def merge(self, states: States, at: Indices, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        if not len(at):
            return
        order = np.argsort(at, kind="stable")
        firsts = np.flatnonzero(np.append(True, at[order[1:]] != at[order[:-1]]))
        if len(firsts) < len(at):  # several for one: first all of them together
            others, _ = self.each_range(others[order], firsts, np.append(firsts[1:], len(at)))
            at, blank = at[order[firsts]], blank[order[firsts]]
        states[at[blank]] = others[blank]
        into = at[~blank]
        if len(into):
            states[into] = self.joined(states[into], others[~blank])

    def joined(self, older: States, newer: States) -> States:
        """Return the partials of pairs; where one of two is empty, it is the other."""
        out = np.where((older[:, 0] == older[:, 1])[:, None], newer, older)
        both = np.flatnonzero((older[:, 0] < older[:, 1]) & (newer[:, 0] < newer[:, 1]))
        if len(both):
            out[both] = self._joined(older[both], newer[both])
        return out

    @abstractmethod
    def _joined_whole(self, states: States, bounds: Indices) -> States | None:
        """Return the partials of stretches of states, if there is a faster way than in pairs."""

    @abstractmethod
    def _joined(self, older: States, newer: States) -> States:
        """Return the partials of pairs, none of which is empty."""

    def each_range(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return the partials of ranges, none empty, joined in pairs, pairs of pairs and so on."""
        sizes = high - low
        firsts = np.cumsum(sizes) - sizes
        level = states[np.arange(int(sizes.sum())) + np.repeat(low - firsts, sizes)]
        combines = len(level) - len(sizes)
        whole = self._joined_whole(level, np.append(firsts, len(level)))
        if whole is not None:
            return whole, combines
        while len(level) > len(sizes):
            place = np.arange(len(level)) - np.repeat(firsts, sizes)
            left = np.flatnonzero(place & 1 == 0)
            paired = place[left] + 1 < np.repeat(sizes, (sizes + 1) // 2)
            out = level[left]
            out[paired] = self.joined(out[paired], level[left[paired] + 1])
            level, sizes = out, (sizes + 1) // 2
            firsts = np.cumsum(sizes) - sizes
        return level, combines

    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value."""
        there: NDArray[np.bool_] = states[:, 1] > states[:, 0]
        return there

    def answers(self, states: States | Ranged, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate."""
        if not isinstance(states, Ranged):
            one = np.arange(len(states))
            states = Ranged(states, one, one + 1)
        return self._answers(states, aggregate)

    @abstractmethod
    def _answers(self, windows: Ranged, aggregate: Any) -> Answers:
        """Return the answers of an aggregate over windows."""

    # ---- packing ----

    @property
    def crowded(self) -> bool:
        """Whether most of the pool may be left over."""
        return self.pool.used > 2 * self._live + (
            tuning.WORTH_COMPACTING_OBJECTS if self.pool.objects else tuning.WORTH_COMPACTING
        )

    def pack(self, held: Sequence[States]) -> list[States]:
        """Keep only the partials that somebody holds; return them with their new places."""
        old = self.pool
        self.pool = Pool(objects=old.objects, counted=self.counted)
        self.pool.reserve(sum(int((states[:, 1] - states[:, 0]).sum()) for states in held))
        packed = [self._copied(old, states) for states in held]
        self._live = self.pool.used
        return packed

    def _copied(self, old: Pool, states: States) -> States:
        """Return partials of another pool as those of this one, which has room for them."""
        pool, out = self.pool, np.empty_like(states)
        if not old.objects:
            pool.used = self._copy(old, states, out)
            return out
        for s, (begin, end) in enumerate(states.tolist()):
            size = end - begin
            pool.values[pool.used : pool.used + size] = old.values[begin:end]
            if self.counted:
                totals = np.cumsum(old.counts(begin, end)) + pool.total[pool.used]
                pool.total[pool.used + 1 : pool.used + size + 1] = totals
            out[s] = pool.used, pool.used + size
            pool.used += size
        return out

    @abstractmethod
    def _copy(self, old: Pool, states: States, out: States) -> int:
        """Copy stretches of numbers from another pool; return how much is then used."""

    @property
    def nbytes(self) -> int:
        """The bytes of what lies in the pool."""
        return self.pool.used * (self.pool.values.itemsize + (8 if self.counted else 0))

    # ---- as columns ----

    def dump(self, states: States) -> tuple[NDArray[Any], Indices, Indices]:
        """Return values end to end, how many records have each, and the bounds between partials."""
        sizes = states[:, 1] - states[:, 0]
        bounds = np.append(0, np.cumsum(sizes))
        at = np.arange(int(bounds[-1])) + np.repeat(states[:, 0] - bounds[:-1], sizes)
        counts = self.pool.total[at + 1] - self.pool.total[at] if self.counted else np.ones(0, np.int64)
        return self.numbers(self.pool.values[at]), counts, bounds

    def ascending(self, values: NDArray[Any], bounds: Indices) -> bool:
        """Tell whether values go up from one bound to the next."""
        if self.kinds is not None:
            keys = self.keys(values)
            up = keys[1:] > keys[:-1]
        else:
            up = np.array([a < b for a, b in itertools.pairwise(values)], bool)
        up[bounds[1:-1][(bounds[1:-1] > 0) & (bounds[1:-1] < len(values))] - 1] = True
        return bool(up.all())

    def load(self, values: NDArray[Any], counts: Indices, bounds: Indices) -> States:
        """Return the partials that were dumped."""
        if values.dtype == object:
            self.widen()
        pool = self.pool
        pool.reserve(len(values))
        pool.values[pool.used : pool.used + len(values)] = values if self.kinds is None else self.keys(values)
        if self.counted:
            pool.total[pool.used + 1 : pool.used + len(values) + 1] = (
                np.cumsum(counts) + pool.total[pool.used]
            )
        states = np.stack([bounds[:-1], bounds[1:]], axis=1) + pool.used
        pool.used += len(values)
        return states


def pooled(fields: Mapping[int, FieldPartials]) -> dict[int, FieldPartials]:
    """Return those fields whose partials lie in a pool."""
    return {number: partials for number, partials in fields.items() if partials.packs}


def crowded(fields: Mapping[int, FieldPartials]) -> bool:
    """Tell whether most of a pool may be left over."""
    return any(partials.crowded for partials in fields.values())
