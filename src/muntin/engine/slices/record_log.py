"""Records that the decision trees ask to keep, in canonical order, until they are out of reach.

A log holds its records in chunks. Each is in order and never changes, and its records came after those of
older chunks:

    older  [ 4096 records | 1024 | 1024 | 64 | 4 | 1 | 1 ]  newer

New records are a chunk of their own. Once the last few chunks are of like size, they become one, so that a
record is merged O(log n) times in all and there are O(log n) chunks. A call costs what it brings and reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times, frozen
from muntin.engine import tuning
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.listers import lister_loops
from muntin.engine.transaction import Transactional

Ties = NDArray[np.generic] | None
Marks = NDArray[np.bool_]


def canonical(stretch: Stretch, tie: Ties) -> Indices:
    """Return the places of records by key, time, tie and arrival."""
    ties = () if tie is None else (tie,)
    keys = (stretch.codes,) if stretch.keys > 1 else ()
    return np.lexsort((*ties, stretch.times, *keys))


def joined(values: Iterable[Values]) -> Values:
    """Return records one after the other."""
    parts = list(values)
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate(
            [np.ones(part.count, bool) if part.valid is None else part.valid for part in parts]
        )
    kinds = parts[0].kinds if all(part.kinds == parts[0].kinds for part in parts) else None
    columns = tuple(np.concatenate(columns) for columns in zip(*(p.columns for p in parts), strict=True))
    return Values(columns, valid, sum(part.count for part in parts), kinds)


def _blank(like: Values, count: int) -> Values:
    """Return values for records from before a field was there: they are never read for it."""
    columns = tuple(np.zeros(count, column.dtype) for column in like.columns)
    return Values(columns, np.zeros(count, bool), count, like.kinds)


@dataclass(frozen=True)
class Chunk:
    """Records that are kept, as columns."""

    times: Times
    codes: Codes
    tie: Ties
    overdue: Marks
    fresh: Marks | None  # which came in this call; None: none did
    values: Mapping[int, Values]  # by field or lister; none of those that were added since
    spent: int = 0  # records before these that are gone, but whose columns are still in memory

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: Indices | Marks) -> Chunk:
        """Return some of the records, in this order."""
        return Chunk(
            self.times[at],
            self.codes[at],
            None if self.tie is None else self.tie[at],
            self.overdue[at],
            None if self.fresh is None else self.fresh[at],
            {number: values.take(at) for number, values in self.values.items()},
        )

    def part(self, which: slice) -> Chunk:
        """Return neighbouring records, without a copy."""
        return Chunk(
            self.times[which],
            self.codes[which],
            None if self.tie is None else self.tie[which],
            self.overdue[which],
            None if self.fresh is None else self.fresh[which],
            {number: values.part(which) for number, values in self.values.items()},
        )

    def after(self, count: int) -> Chunk:
        """Return all but the first records, without a copy as long as those are not most of all."""
        spent = self.spent + count
        rest = self.part(slice(count, None))
        return replace(rest, spent=spent) if spent <= len(rest) else rest.take(np.arange(len(rest)))

    def by_key(self) -> Chunk:
        """Return the records by key, then in canonical order, given that a key's come as they came."""
        return self.take(np.lexsort((*self.by_time(), self.codes)))

    def by_time(self) -> tuple[NDArray[np.generic], ...]:
        """Return the columns that say when records were, the last one first."""
        return (self.times,) if self.tie is None else (self.tie, self.times)

    def is_fresh(self) -> Marks:
        """Return which records came in this call."""
        return np.zeros(len(self), bool) if self.fresh is None else self.fresh

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        columns = [c for v in self.values.values() for c in (*v.columns, v.valid)]
        every = [self.times, self.codes, self.tie, self.overdue, self.fresh, *columns]
        return sum(column.nbytes for column in every if column is not None)


_NONE = Chunk(np.empty(0, np.int64), np.empty(0, np.int64), None, np.empty(0, bool), None, {})


def _together(chunks: Sequence[Chunk]) -> Chunk:
    """Return the records of chunks one after the other."""
    if len(chunks) < 2:
        return chunks[0] if chunks else _NONE
    ties = [chunk.tie for chunk in chunks if chunk.tie is not None]
    fresh = any(chunk.fresh is not None for chunk in chunks)
    newest = chunks[-1].values  # older chunks may lack a field, never newer ones
    return Chunk(
        np.concatenate([chunk.times for chunk in chunks]),
        np.concatenate([chunk.codes for chunk in chunks]),
        np.concatenate(ties) if ties else None,
        np.concatenate([chunk.overdue for chunk in chunks]),
        np.concatenate([chunk.is_fresh() for chunk in chunks]) if fresh else None,
        {number: _values(chunks, number, newest[number]) for number in newest},
    )


def _values(chunks: Sequence[Chunk], number: int, like: Values) -> Values:
    """Return the values of a field, blank ones for records from before it was there."""
    return joined(chunk.values.get(number) or _blank(like, len(chunk)) for chunk in chunks)


class RecordLog(Transactional):
    """Records in chunks that lie by key, then in canonical order."""

    def __init__(self, fields: Iterable[int]) -> None:
        self.fields = tuple(fields)
        self.chunks: tuple[Chunk, ...] = ()  # oldest first

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    def in_order(self, chunk: Chunk) -> Chunk:
        """Return records in the order of this log's chunks, given that equal ones come as they came."""
        return chunk.by_key()

    def add(self, stretch: Stretch, tie: Ties, *, overdue: bool = False) -> None:
        """Keep records, marked as fresh."""
        count, codes = len(stretch), stretch.codes if stretch.keys > 1 else np.zeros(len(stretch), np.int64)
        values = {number: stretch.values[number] for number in self.fields}
        new = Chunk(stretch.times, codes, tie, np.full(count, overdue), np.ones(count, bool), values)
        self.chunks = self._few([*self.chunks, self.in_order(new)])

    def load(self, chunk: Chunk) -> None:
        """Hold just these records, which lie by key."""
        self.chunks = (self.in_order(chunk),) if len(chunk) else ()

    def _few(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """Return the same records in few chunks: none is much shorter than a few newer ones."""
        few: list[Chunk] = []
        most = tuning.LIKE_CHUNKS
        for chunk in chunks:
            few.append(chunk)
            while len(few) >= most and len(few[-most]) < most * len(few[-1]):
                few[-most:] = [self.in_order(_together(few[-most:]))]
        return tuple(few)

    def set_fields(self, fields: Iterable[int]) -> None:
        """Keep the values of these fields from now on."""
        self.fields = tuple(fields)
        self.read_again(lambda values, _: {n: values[n] for n in self.fields if n in values})

    def read_again(self, read: Callable[[Mapping[int, Values], int], Mapping[int, Values]]) -> None:
        """Hold values in the form that `read` gives to those of so many records."""
        self.chunks = tuple(replace(chunk, values=read(chunk.values, len(chunk))) for chunk in self.chunks)

    def keep(self, wanted: Callable[[Chunk], Marks]) -> None:
        """Let go of all records but those that are marked as wanted."""
        marked = ((chunk, wanted(chunk)) for chunk in self.chunks)
        kept = (chunk if marks.all() else chunk.take(marks) for chunk, marks in marked)
        self.chunks = self._few(chunk for chunk in kept if len(chunk))

    def settle(self) -> None:
        """Forget which records are fresh."""
        if any(chunk.fresh is not None for chunk in self.chunks):
            self.chunks = tuple(c if c.fresh is None else replace(c, fresh=None) for c in self.chunks)

    def within(self, codes: Codes, first: Times, last: Times) -> tuple[Chunk, Indices]:
        """Return the records of keys from one time to another, span by span, and the span of each."""
        parts, spans = [], []
        for chunk in self.chunks:
            low, high = np.empty((2, len(codes)), np.int64)
            for times, found in ((first, low), (last + 1, high)):
                lister_loops.run("locate", frozen(chunk.codes), frozen(chunk.times), codes, times, found)
            sizes = high - low
            span = np.repeat(np.arange(len(codes)), sizes)
            if len(span):
                parts.append(chunk.take(np.arange(len(span)) + (low - np.cumsum(sizes) + sizes)[span]))
                spans.append(span)
        if len(parts) == 1:
            return parts[0], spans[0]
        records, span = _together(parts), np.concatenate([_NONE.codes, *spans])
        order = np.lexsort((*records.by_time(), span))
        return records.take(order), span[order]

    def renumber(self, codes: Codes) -> None:
        """Give keys other numbers, in the same order: codes[old] is the new one; others must not be there."""
        self.chunks = tuple(replace(chunk, codes=codes[chunk.codes]) for chunk in self.chunks)

    def values_of(self, number: int) -> Values | None:
        """Return the values of a field, chunk by chunk; None: no record has some."""
        newest = self.chunks[-1].values if self.chunks else {}
        return _values(self.chunks, number, newest[number]) if number in newest else None

    def replace(self, number: int, values: Values) -> None:
        """Hold other values of a field, which come chunk by chunk."""
        chunks, begin = [], 0
        for chunk in self.chunks:
            some = values.part(slice(begin, begin + len(chunk)))
            chunks.append(replace(chunk, values={**chunk.values, number: some}))
            begin += len(chunk)
        self.chunks = tuple(chunks)

    def whole(self) -> Chunk:
        """Return all records by key, then in canonical order."""
        return _together(self.chunks).by_key()

    def codes(self) -> Codes:
        """Return the keys of all records, in any order."""
        return np.concatenate([_NONE.codes, *(chunk.codes for chunk in self.chunks)])

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(chunk.nbytes for chunk in self.chunks)


class WaitingRecords(RecordLog):
    """Records that wait for the watermark: in chunks that lie by time."""

    def in_order(self, chunk: Chunk) -> Chunk:
        """Return records by time, tie and arrival."""
        return chunk.take(np.lexsort(chunk.by_time()))

    def until(self, bound: float) -> Chunk:
        """Return the records up to a time, by key, then in canonical order."""
        parts = [chunk.part(slice(_count(chunk.times, bound))) for chunk in self.chunks]
        return _together([part for part in parts if len(part)]).by_key()

    def of_key(self, code: int) -> Chunk:
        """Return the records of a key in canonical order."""
        parts = [chunk.take(chunk.codes == code) for chunk in self.chunks]
        return _together([part for part in parts if len(part)]).by_key()

    def drop(self, bound: float, *, equal: bool) -> None:
        """Let go of the records before a time; with `equal`, of those at that time, too."""
        counts = [_count(chunk.times, bound, equal=equal) for chunk in self.chunks]
        if any(counts):
            rest = (c if not n else c.after(n) for c, n in zip(self.chunks, counts, strict=True))
            self.chunks = self._few(chunk for chunk in rest if len(chunk))

    def any_fresh(self, bound: float) -> bool:
        """Tell whether a record up to a time came in this call."""
        return any(c.fresh is not None and c.fresh[: _count(c.times, bound)].any() for c in self.chunks)

    @property
    def low(self) -> float:
        """The least time of a record; infinity if there is none."""
        return min((int(chunk.times[0]) for chunk in self.chunks), default=math.inf)


def _count(times: Times, bound: float, *, equal: bool = True) -> int:
    """Return how many times, which ascend, come before a bound, which may be infinite, or are equal to it."""
    if bound < times[0]:
        return 0
    if bound > times[-1]:
        return len(times)
    return int(np.searchsorted(times, int(bound), "right" if equal else "left"))
