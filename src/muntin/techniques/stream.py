"""What every technique runs over: a stream, the windows in it by position, and what comes out.

Windows are found once, for all techniques alike, as Cutty's shared discretizer does: each becomes a range of
records in canonical order. What is compared is how their aggregates are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.engine.ingest import as_arrow, read_times
from muntin.expressions import Expression
from muntin.settings import time_and_key
from muntin.windows.base import Query, Window
from muntin.windows.durations import Clock
from muntin.windows.grid import Cumulate, Grid, Sliding, Tumbling, end

Places = NDArray[np.int64]
INTEGERS = Clock(None)


class UnsupportedWorkload(Exception):
    """A technique does not apply to these queries over this stream; the message says why."""


class Row(NamedTuple):
    """One window of a query and its aggregates; times are as in the time column."""

    query: str
    start: int
    end: int
    id: int | None
    values: dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """Records in the order of arrival, with integer times that lag at most `delay` behind the largest.

    The watermark is the largest time less the delay, so that no record is late. A delay of 0 means in order.
    """

    batch: Any
    time: str = "ts"
    delay: int = 0


@dataclass(frozen=True)
class Marked(Window):
    """Windows by their marks, as a deterministic user-defined window gives them.

    Window i begins with the record at position begins[i] and ends before the one at ends[i]; positions are
    in canonical order. They are FIFO: neither begins nor ends go back.

    >>> Marked([0, 2, 4], [3, 5, 6]).kind
    'marked'
    """

    begins: Sequence[int] | Places
    ends: Sequence[int] | Places

    kind = "marked"
    family = "marked"  # type: ignore[assignment]  # none of the operator's

    def parameters(self) -> dict[str, Any]:
        """Return the marks."""
        return {"begins": list(self.begins), "ends": list(self.ends)}


@dataclass(frozen=True)
class Windows:
    """Windows of all queries as ranges of records, in the order in which they are emitted.

    `at` is the arrival before which a window is emitted: the record that ends it, or the end of the stream.
    """

    query: Places
    begin: Places
    end: Places
    at: Places
    starts: Places
    ends: Places
    ids: Places  # -1: none

    def __len__(self) -> int:
        return len(self.query)


class Workload:
    """Queries and a stream, read once: records in canonical order, and their windows."""

    def __init__(self, queries: Query | Iterable[Query], stream: Stream) -> None:
        listed = [queries] if isinstance(queries, Query) else list(queries)
        time_and_key(listed, stream.time, None)
        self.queries = listed
        self.names = [query.name or f"q{place}" for place, query in enumerate(listed)]
        self.stream = stream
        self.table = as_arrow(stream.batch)
        times = read_times(self._whole(stream.time), stream.time)
        self.arrival: Places = np.argsort(times, kind="stable")  # arrival[rank]
        self.times: Places = times[self.arrival]
        self.in_order = bool((self.arrival[1:] > self.arrival[:-1]).all())
        self._refuse_late(times)
        for query in listed:
            if query.emit_empty or query.emit != "all" or query.early is not None:
                raise UnsupportedWorkload("techniques emit each window that has records, once.")
            if query.conditions():
                raise UnsupportedWorkload("techniques know neither where nor having.")
            if query.key:
                raise UnsupportedWorkload(f"techniques know no keys, but the query is by {query.key[0]!r}.")
        self.windows = self._find()

    def __len__(self) -> int:
        return len(self.times)

    @property
    def rank(self) -> Places:
        """The place of each record in canonical order, by arrival."""
        rank = np.empty_like(self.arrival)
        rank[self.arrival] = np.arange(len(self))
        return rank

    def column(self, name: str) -> pa.Array:
        """Return a column in canonical order."""
        array = self._whole(name)
        return array if self.in_order else array.take(pa.array(self.arrival))

    def _whole(self, name: str) -> pa.Array:
        if isinstance(name, Expression):
            return name.evaluate(self.table)
        column = self.table.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def complete(self, arrivals: int) -> int:
        """Return how many records, from the oldest on, have arrived for sure after so many arrivals."""
        if arrivals == len(self):
            return arrivals
        return int(np.searchsorted(self.times, self._reached[arrivals - 1])) if arrivals else 0

    def _refuse_late(self, times: Places) -> None:
        self._reached = np.maximum.accumulate(times) - self.stream.delay if len(times) else times
        late = np.flatnonzero(times[1:] < self._reached[:-1])
        if len(late):
            raise UnsupportedWorkload(f"record {late[0] + 1} lags more than {self.stream.delay} behind.")

    # ---- windows ----

    def _find(self) -> Windows:
        none = [np.zeros(0, np.int64)] * 6
        found = [self._of(query) if len(self) else none for query in self.queries]
        which = np.repeat(np.arange(len(found)), [len(columns[0]) for columns in found])
        begin, stop, due, starts, ends, ids = (np.concatenate(c) for c in zip(*found, strict=True))
        at = stop if self.in_order else np.searchsorted(self._reached, due)
        order = np.lexsort((ids, which, starts, ends, at))
        columns = (which, begin, stop, at, starts, ends, ids)
        return Windows(*(column[order] for column in columns))

    def _of(self, query: Query) -> list[Places]:
        """Return begin, end, the watermark at which they are due, bounds and number of a query's windows."""
        window = query.window
        if isinstance(window, Marked):
            return self._marked(np.asarray(window.begins, np.int64), np.asarray(window.ends, np.int64))
        if window.family == "session":
            return self._sessions(window.resolved(INTEGERS))
        if window.family == "count":
            return self._counts(window.resolved(INTEGERS), partial=query.emit_partial)
        if isinstance(window, (Tumbling, Sliding, Cumulate)):
            return self._grid(window.resolved(INTEGERS))
        raise UnsupportedWorkload(f"techniques know no {window.kind} windows.")

    def _grid(self, grid: Grid) -> list[Places]:
        low, high = grid.low(self.times), grid.high(self.times)
        if high[-1] - low[0] <= 4 * len(self):
            k = np.arange(low[0], high[-1] + 1)
        else:  # mostly empty ones: only those that hold a record
            k = np.unique(np.concatenate([np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]))
        starts, ends = grid.start(k), end(grid, k)
        begin: Any = np.searchsorted(self.times, starts)
        stop: Any = np.searchsorted(self.times, ends)
        filled = begin < stop
        columns = (begin, stop, ends, starts, ends, np.full(len(k), -1))
        return [column[filled] for column in columns]

    def _sessions(self, gap: int) -> list[Places]:
        breaks = np.flatnonzero(np.diff(self.times) > gap) + 1
        begin: Places = np.append(0, breaks)
        stop: Places = np.append(breaks, len(self))
        ends = self.times[stop - 1] + gap
        return [begin, stop, ends + 1, self.times[begin], ends, np.full(len(begin), -1)]

    def _counts(self, grid: Grid, *, partial: bool) -> list[Places]:
        ids: Places = np.arange(grid.high(len(self) - 1) + 1)
        begin: Places = grid.start(ids)
        stop = np.minimum(begin + grid.length, len(self))
        due = self.times[stop - 1] + 1
        due[begin + grid.length > len(self)] = np.iinfo(np.int64).max
        columns = (begin, stop, due, self.times[begin], self.times[stop - 1], ids)
        whole = (begin + grid.length <= len(self)) | partial
        return [column[whole] for column in columns]

    def _marked(self, begin: Places, stop: Places) -> list[Places]:
        fifo = (begin[1:] >= begin[:-1]).all() and (stop[1:] >= stop[:-1]).all()
        if len(begin) != len(stop) or not fifo or not (begin < stop).all():
            raise ValueError("marks are as many begins as ends, in FIFO order, each begin before its end.")
        if len(begin) and (begin[0] < 0 or stop[-1] > len(self)):
            raise ValueError(f"marks are positions of the {len(self)} records.")
        if not self.in_order:
            raise UnsupportedWorkload("marks are given for records in order.")
        last = self.times[stop - 1]
        return [begin, stop, last + 1, self.times[begin], last, np.arange(len(begin))]
