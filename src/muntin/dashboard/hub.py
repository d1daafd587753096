"""The hub: what is known of a stream of windows, brought up to date twice a second for all who look.

It belongs to the thread of the server. What an operator does reaches it through a tap; what comes from
elsewhere, as from Spark, is handed to it.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.dashboard import history
from muntin.dashboard.graph import graph_of
from muntin.dashboard.history import History, Slices, View
from muntin.dashboard.lanes import (
    TIMES,
    Block,
    Keys,
    Recent,
    blocks_of,
    is_m4,
    open_on_grid,
    rows_as_json,
    sessions_of,
    value_columns,
)
from muntin.dashboard.lateness import Latency, Lateness, Strip, spread
from muntin.dashboard.tap import Look, Tap, ticks
from muntin.engine.ingest.times import NANOSECONDS
from muntin.operator import PROCESSING_TIME, WindowOperator
from muntin.windows.base import Query
from muntin.windows.durations import Clock

RECENT = 100_000  # rows that are kept as they came
SLICES = 200_000  # of all lines together
_LINES = 256  # columns of queries that are kept as lines
_TICKS = 256  # late records of a batch that are shown
_RATES = 20  # looks over which rates are taken


@dataclass(frozen=True)
class News:
    """What an update brought."""

    number: int
    blocks: Sequence[Block]
    lost: NDArray[np.int64]  # times of records that came too late for everything
    late: NDArray[np.int64]  # times of others that came behind the watermark, of a sample
    state: Mapping[str, Any]  # the numbers of the stream, the same for all pages


class Hub:
    """All that pages can ask for."""

    def __init__(
        self,
        operator: WindowOperator | None = None,
        *,
        title: str = "muntin",
        key: Sequence[str] | None = None,
    ) -> None:
        self.title = title
        self.tap: Tap | None = None
        self.keys = Keys(key or ())
        self.recent = Recent(RECENT)
        self.lines: dict[tuple[str, str], History] = {}
        self.columns: dict[
            str, dict[str, str]
        ] = {}  # by query: "m4" or "number" of each column that is drawn
        self.lateness, self.strip, self.latency = Lateness(), Strip(), Latency()
        self.rows_out: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.delays: dict[str, deque[float]] = {}  # ticks from the end of a window to its first row
        self.latest: int | None = None  # the end of the last window, in ticks
        self.base: int | None = None  # ticks; times are told to pages since then
        self.kind: pa.DataType | None = None  # of times
        self.look: Look | None = None
        self.numbers: dict[str, Any] = {}  # what others than an operator measure
        self.number = 0  # of updates
        self.explanation: dict[str, Any] | None = None
        self.lock = threading.Lock()  # over lines and rows: held by the server's threads only
        self._looks: deque[Look] = deque(maxlen=_RATES)
        self._queries: dict[str, Query] = {}
        self._handed: deque[pa.Table] = deque()
        self._told: list[Block] = []  # of the last update
        self._lost: deque[NDArray[np.int64]] = deque(maxlen=64)
        self._late: deque[NDArray[np.int64]] = deque(maxlen=64)
        self.told: dict[str, Any] = {}  # the numbers of the last update
        self.lost = 0
        self._watching = False
        if operator is not None:
            self.attach(operator)

    def attach(self, operator: WindowOperator) -> None:
        """Be about an operator, whose calls `watch` will see."""
        self.keys.names = list(operator.key)
        self._explain(operator.queries, operator.explain().as_dict())
        self.tap = Tap(operator, operator.time)

    def watch(self) -> None:
        """See all calls of the operator from now on."""
        if self.tap is not None:
            self.tap.operator.watch(self.tap.saw)
            self._watching = True

    def close(self) -> None:
        """Watch no more."""
        if self.tap is not None and self._watching:
            self._watching = False
            self.tap.operator.watch(None)

    # ---- what comes in ----

    def hand(self, rows: pa.Table) -> None:
        """Take in rows that no tap sees; for any thread."""
        if rows.num_rows:
            self._handed.append(rows)

    def hand_lost(self, late: pa.Table, time_column: str) -> None:
        """Take in records that came too late for everything; for any thread."""
        if late.num_rows:
            self.lost += late.num_rows
            self._lost.append(np.asarray(late.column(time_column).slice(0, _TICKS).cast(pa.int64())))

    def measure(self, **numbers: Any) -> None:
        """Take in numbers that no tap sees, such as those of a micro-batch; for any thread."""
        self.numbers = {**self.numbers, **numbers}

    def update(self) -> News:
        """Take in all that came since the last time."""
        tables = [self._handed.popleft() for _ in range(len(self._handed))]
        if self.tap is not None:
            tables += self.tap.take_rows()
            if (
                not self.tap.up_to_date()
                and self.tap.look is not None
                and time.time() - self.tap.look.wall > 1
            ):
                self.tap.ask(self.tap.take_look)  # calls have ceased since the last look
            self._look(self.tap)
        with self.lock:
            blocks = [block for table in _together(tables) for block in self._blocks(table)]
            for block in blocks:
                self._keep(block)
        for block in self._told:
            block.forget_lines()
        self._told = blocks
        self.told = self.state()
        self.number += 1
        return News(self.number, blocks, _all(self._lost), _all(self._late), self.told)

    def _look(self, tap: Tap) -> None:
        self.latency.add(tap.take_durations())
        for sample in tap.take_samples():
            self.lateness.add(ticks(sample.newest), sample.times)
            watermark = ticks(sample.watermark)
            if watermark is not None:
                self._late.append(sample.times[sample.times < watermark][:_TICKS])
        if tap.look is None or tap.look is self.look:
            return
        self.look = tap.look
        self._looks.append(self.look)
        if tuple(self.look.queries) != tuple(self._queries):  # others than pages add queries, too
            operator = tap.operator
            self._explain(*tap.ask(lambda: (operator.queries, operator.explain().as_dict())))
        newest, watermark = ticks(self.look.newest), ticks(self.look.watermark)
        if isinstance(self.look.newest, pa.Scalar):
            self.kind = self.look.newest.type
        if newest is not None:
            self._set_base(newest)
            told = np.nan if watermark is None else self.since_base(watermark)
            self.strip.add(self.look.wall, self.since_base(newest), told)

    def learn(self, queries: Mapping[str, Query]) -> None:
        """Know the queries of a stream that runs elsewhere."""
        self._queries = dict(queries)

    def _explain(self, queries: Mapping[str, Query], facts: Mapping[str, Any]) -> None:
        """Follow a change of the queries."""
        with self.lock:
            self._queries, self.explanation = dict(queries), graph_of(facts)
            for name in self.columns.keys() - self._queries.keys():
                del self.columns[name]
                self.recent.forget(name)
                for line in [line for line in self.lines if line[0] == name]:
                    del self.lines[line]

    def _blocks(self, rows: pa.Table) -> list[Block]:
        if not self.keys.names:
            names = rows.column_names
            self.keys.names = names[: names.index("query")]
        kind = rows.schema.field("window_start").type
        self.kind = kind if pa.types.is_timestamp(kind) else self.kind
        identities = {name: query.window.identity() for name, query in self._queries.items()}
        return blocks_of(rows, self.keys, identities)

    def _keep(self, block: Block) -> None:
        self.rows_out[block.query] += len(block)
        for change, count in enumerate(np.bincount(block.change, minlength=3).tolist()):
            self.changes[("insert", "update", "retract")[change]] += count
        if self._queries and block.query not in self._queries:  # it was removed meanwhile
            return
        last = int(block.end.max())
        self.latest = last if self.latest is None else max(self.latest, last)
        self._set_base(int(block.start.min()))
        self.recent.append(block)
        kinds = self.columns.setdefault(block.query, {})
        asked = self._queries[block.query].aggregates if block.query in self._queries else None
        for name in value_columns(block.rows):
            if asked is not None and name not in asked:
                continue
            if name not in kinds and block.rows.column(name).null_count < len(block):
                kinds[name] = "m4" if is_m4(block.rows.schema.field(name).type) else "number"
        for name, slices in block.lines(kinds).items():
            line = self.lines.get((block.query, name))
            if line is None:
                if len(self.lines) >= _LINES:
                    continue
                line = self.lines[block.query, name] = History(SLICES)
                for other in self.lines.values():
                    other.capacity = max(4096, SLICES // len(self.lines))
            line.append(slices)
        newest = ticks(self.look.newest) if self.look is not None else None
        if newest is not None:
            delays = self.delays.setdefault(block.query, deque(maxlen=4096))
            since = newest - block.end[block.change == 0][-1024:]
            delays.extend(since[since >= 0].tolist())  # the newest time may be older than the rows

    def _set_base(self, time_: int) -> None:
        if self.base is None:
            self.base = time_

    def since_base(self, time_: Any) -> Any:
        """Return times as pages are told them."""
        return (time_ - (self.base or 0)) * 1.0

    # ---- what pages are told ----

    @property
    def unit(self) -> int | None:
        """Nanoseconds in a tick; None where times are plain numbers."""
        return NANOSECONDS[self.kind.unit] if self.kind is not None else None

    def described(self) -> dict[str, Any]:
        """Return what a page must know before anything else."""
        with self.lock:
            columns = {name: dict(kinds) for name, kinds in self.columns.items()}
        queries = []
        for name in dict(self._queries) or columns:
            query = self._queries.get(name)
            queries.append(
                {
                    "name": name,
                    "window": repr(query.window) if query is not None else "",
                    "family": query.window.family if query is not None else "",
                    "columns": columns.get(name, {}),
                }
            )
        return {
            "title": self.title,
            "base": None if self.base is None else str(self.base),
            "unit": self.unit,
            "key": self.keys.names,
            "time": self.tap.operator.time if self.tap is not None else None,
            "queries": queries,
            "graph": self.explanation,
        }

    def known(self) -> tuple[Any, ...]:
        """Return what tells whether pages must be told anew what `described` says."""
        with self.lock:
            columns = {query: dict(kinds) for query, kinds in self.columns.items()}
        return self.base, self.unit, len(self.keys), columns, self.explanation

    def state(self) -> dict[str, Any]:
        """Return the numbers of an update."""
        look = self.look
        told: dict[str, Any] = {
            "newest": None if self.latest is None else self.since_base(self.latest),
            "watermark": None,
            "wall": time.time(),
            "rows": dict(self.rows_out),
            "changes": dict(self.changes),
            "latency": self.latency.quantiles(),
            "delays": {name: spread(delays) for name, delays in self.delays.items()},
            "lateness": self.lateness.described(),
            "lost": self.lost,
            "keys": len(self.keys),
            "skipped": self.tap.skipped if self.tap is not None else 0,
            **self.numbers,
        }
        if look is not None:
            newest, watermark = ticks(look.newest), ticks(look.watermark)
            told["newest"] = None if newest is None else self.since_base(newest)
            told["watermark"] = None if watermark is None else self.since_base(watermark)
            told["metrics"] = asdict(look.metrics)
            told["query_metrics"] = {name: asdict(metrics) for name, metrics in look.queries.items()}
            told["ended"] = look.watermark == math.inf
            told |= self._rates()
        return told

    def _rates(self) -> dict[str, Any]:
        first, last = self._looks[0], self._looks[-1]
        seconds = last.wall - first.wall
        records = last.metrics.records_in - first.metrics.records_in
        return {
            "records_per_second": records / seconds if seconds > 0 else None,
            "ns_per_record": (last.busy - first.busy) / records if records else None,
        }

    def based(self, query: str) -> tuple[bool, bool]:
        """Tell which of the two numbers that tell windows of a query apart are times."""
        known = self._queries.get(query)
        names = [*(known.window.identity() if known is not None else TIMES), ""][:2]
        return names[0] in TIMES, names[1] in TIMES

    def open_windows(self, lanes: Sequence[tuple[str, int]]) -> list[list[tuple[int, int]]]:
        """Return the windows of each lane that are not complete yet, as far as they are known now."""
        look = self.look
        newest = None if look is None else ticks(look.newest)
        if self.tap is None or look is None or newest is None or look.watermark == math.inf:
            return [[] for _ in lanes]
        watermark = ticks(look.watermark)
        reached = newest if watermark is None else watermark
        runs = self._runs([lane for lane in lanes if self._family(lane[0]) == "session"])
        clock, found = Clock(self.unit), []
        for query, code in lanes:
            family = self._family(query)
            if family == "grid":
                found.append(open_on_grid(self._queries[query].window.resolved(clock), reached, newest))
            elif family == "session":
                gap = self._queries[query].window.resolved(clock)
                found.append([run for run in sessions_of(runs[query, code], gap) if run[1] >= reached])
            else:
                found.append([])
        return found

    def _family(self, query: str) -> str:
        return self._queries[query].window.family if query in self._queries else ""

    def _runs(self, lanes: Sequence[tuple[str, int]]) -> dict[tuple[str, int], pa.Table]:
        """Return the slices of lanes, all asked for at once."""
        operator = self.operator_()
        if not lanes or self.tap is None:
            return {}
        keys = {lane: self.key_of(lane[1]) for lane in lanes if self.knows(lane[1])}

        def asked() -> dict[tuple[str, int], pa.Table]:
            found = dict.fromkeys(lanes, pa.table({}))
            for lane, key in keys.items():
                # A query may be gone by now, or wait for its columns: other lanes are shown all the same.
                with contextlib.suppress(KeyError, ValueError):
                    found[lane] = operator.slices(key, name=lane[0])
            return found

        return self.tap.ask(asked)

    def knows(self, code: int) -> bool:
        """Tell whether there is a key of this number; where there are no keys, any number will do."""
        return not self.keys.names or 0 <= code < len(self.keys)

    # ---- what pages ask ----

    def bars(self, query: str, code: int) -> dict[str, NDArray[Any]]:
        """Return a lane of the timeline."""
        with self.lock:
            return self.recent.bars(query, code)

    def views(
        self, query: str, column: str, codes: Sequence[int], low: int, high: int, width: int
    ) -> Iterator[tuple[bool, View]]:
        """Return a line between two times: coarse first if it is long. Each with whether it is the last."""
        slices = self.slices_of_line(query, column, codes)
        some = history.coarse(slices)
        if some is not slices:
            yield False, history.view(some, low, high, width)
        yield True, history.view(slices, low, high, width)

    def slices_of_line(self, query: str, column: str, codes: Sequence[int]) -> Slices:
        """Return the history of a line for some keys."""
        with self.lock:
            line = self.lines.get((query, column))
            return history.no_slices() if line is None else line.of_keys(codes)

    def span(self) -> tuple[int, int] | None:
        """Return the times that lines cover."""
        with self.lock:
            spans = [span for line in self.lines.values() if (span := line.span()) is not None]
        return (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None

    def operator_(self) -> WindowOperator:
        """Return the operator; refuse what needs one where there is none."""
        if self.tap is None:
            raise ValueError("this stream runs elsewhere: it can be looked at, not asked.")
        return self.tap.operator

    @property
    def query_count(self) -> int:
        """How many queries there are."""
        return len(self._queries)

    def time_of(self, ticks_: int) -> Any:
        """Return ticks as a time that the operator takes."""
        return ticks_ if self.kind is None else pa.scalar(ticks_, pa.int64()).cast(self.kind)

    def key_of(self, code: int) -> tuple[Any, ...] | None:
        """Return the key of a number; None where there are no keys."""
        return self.keys.values[code] if self.keys.names and 0 <= code < len(self.keys) else None

    def slices(self, query: str, code: int, low: int, high: int) -> list[dict[str, Any]]:
        """Return the live slices of a key between two times, in ticks since the base."""
        operator, key = self.operator_(), self.key_of(code)
        if self.tap is None or not self.knows(code):
            return []
        table = self.tap.ask(lambda: operator.slices(key, name=query))
        if not table.num_rows:
            return []
        first, last = (np.asarray(table[side].cast(pa.int64())) for side in ("first", "last"))
        edges = np.asarray(table["slice_start"].cast(pa.int64()).fill_null(0))
        begins = first if table["slice_start"].null_count else edges
        at = np.flatnonzero((first >= low) & (last < max(high, low + 1)) | (first == low) & (last == high))[
            :500
        ]
        records = np.asarray(table["records"])
        return [
            {
                "start": self.since_base(int(begins[i])),
                "first": self.since_base(int(first[i])),
                "last": self.since_base(int(last[i])),
                "records": int(records[i]),
            }
            for i in at.tolist()
        ]

    def look_up(self, query: str, code: int, low: int, high: int) -> list[dict[str, Any]]:
        """Return the aggregates of a query over a stretch, as rows that JSON can hold."""
        operator, key = self.operator_(), self.key_of(code)
        start, end = self.time_of(low), self.time_of(high)
        assert self.tap is not None
        table = self.tap.ask(lambda: operator.lookup(start, end, key, name=query))
        return rows_as_json(table.slice(0, 100))

    def add(self, query: Query) -> str:
        """Add a query to the running operator."""
        operator = self.operator_()
        assert self.tap is not None
        if self.tap.example is None:
            raise ValueError("queries can be added once there are records: their columns are then known.")
        # A query over a column that batches do not have, or of a wrong type, would end the stream.
        column = PROCESSING_TIME if operator.time is None else operator.time
        WindowOperator(replace(query, name=None), time=column, key=operator.key).process(self.tap.example)
        name, *found = self.tap.ask(
            lambda: (operator.add(query), operator.queries, operator.explain().as_dict())
        )
        self._explain(*found)
        return name

    def remove(self, name: str) -> None:
        """Remove a query from the running operator."""
        operator = self.operator_()
        assert self.tap is not None

        def removed() -> tuple[Mapping[str, Query], dict[str, Any]]:
            operator.remove(name)
            return operator.queries, operator.explain().as_dict()

        self._explain(*self.tap.ask(removed))

    def window(self, query: str, code: int, a: int, b: int) -> list[dict[str, Any]]:
        """Return all revisions of a window."""
        with self.lock:
            table = self.recent.revisions(query, code, a, b)
        return [] if table is None else rows_as_json(table.slice(0, 100))


def _all(parts: deque[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Take all that waits, as one array."""
    found = [parts.popleft() for _ in range(len(parts))]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _together(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables of one schema after another as one."""
    runs: list[list[pa.Table]] = []
    for table in tables:
        if runs and runs[-1][0].schema.equals(table.schema):
            runs[-1].append(table)
        else:
            runs.append([table])
    return [pa.concat_tables(run) for run in runs]
