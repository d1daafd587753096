"""WindowOperator: batches in, Arrow tables of windows out."""

from __future__ import annotations

import dataclasses
import importlib
import time as clock_time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin import results
from muntin.algebra.aggregate import Absent
from muntin.engine.explain import Explanation
from muntin.engine.state import envelope
from muntin.engine.state.description import Described, reading
from muntin.engine.state.queries import match_queries
from muntin.engine.transaction import run
from muntin.expressions import sources
from muntin.lanes import latest_values
from muntin.metrics import Metrics, QueryMetrics
from muntin.results import Columns, Returns
from muntin.running_stream import PROCESSING_TIME
from muntin.settings import Settings, Store, as_queries
from muntin.streaming import Streaming
from muntin.windows.base import Query

if TYPE_CHECKING:
    from muntin.dashboard import Dashboard

_ARROW = (pa.Table, pa.RecordBatch)
Watcher = Callable[[Any, pa.Table, int], None]  # of a batch (None: there was none), its rows, nanoseconds


_Shape = tuple[str, str, bool]  # library, columns, wide


@dataclasses.dataclass
class _Noted:
    """What tells the windows of queries apart, as it goes with rows, and a table without any."""

    queries: Sequence[tuple[str, Query]]
    note: pa.KeyValueMetadata
    empty: pa.Table | None = None
    with_note: pa.Table | None = None


class WindowOperator(Streaming):
    """Any mix of windows over one keyed stream, cut once into slices that all of them share.

    Every call is all or nothing: whatever breaks it off, Ctrl-C too, the operator is as it was before. Calls
    of several threads wait for one another.

    >>> import muntin as mt
    >>> op = mt.WindowOperator([mt.tumbling(10).agg(total=mt.sum("v"))], time="ts")
    >>> op.process({"ts": [1, 4, 12], "v": [1.0, 2.0, 4.0]}).select(["window_start", "total"]).to_pylist()
    [{'window_start': 0, 'total': 3.0}]
    >>> op.finish().select(["window_start", "total"]).to_pylist()
    [{'window_start': 10, 'total': 4.0}]

    `time` and `key` may be left out where queries of `mt.sql` name them:

    >>> queries = mt.sql("SELECT car, SUM(v) AS total FROM TUMBLE(cars, ts, 10) GROUP BY car, window_start")
    >>> op = mt.WindowOperator(queries)
    >>> op.process({"ts": [1, 2, 12], "car": ["a", "b", "a"], "v": [1, 2, 4]}).column("total").to_pylist()
    [1, 2]
    """

    def __init__(
        self,
        queries: Query | Iterable[Query],
        *,
        time: str | Absent | None = None,
        key: str | Sequence[str] | None = None,
        watermark: Any = "in_order",
        lateness: Any = 0,
        tie: str | None = None,
        store: Store = "auto",
    ) -> None:
        listed = as_queries(queries)
        settings = Settings.of(
            listed, time=time, key=key, watermark=watermark, lateness=lateness, tie=tie, store=store
        )
        super().__init__(settings, listed)
        self._watcher: Watcher | None = None
        self._input = "pyarrow"  # the library that the last batch came from
        self._noted: _Noted | None = None  # queries, and what their rows say of them

    def add(self, query: Query) -> str:
        """Add a query to the running operator; it reports windows that it sees whole. Returns its name.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> op.add(mt.session(5).agg(n=mt.count(), name="visits"))
        'visits'
        """
        return run(self, self._add, query)

    def remove(self, name: str) -> None:
        """Remove a query: its open windows are not emitted, no other query's results change."""
        run(self, self._remove, name)

    def process(
        self, batch: Any, *, returns: Returns = "input", columns: Columns = "all", wide: bool = False
    ) -> Any:
        """Take in a batch of records; return the windows that came into view or changed.

        Args:
            batch: A table or record batch of Arrow, a frame of pandas or polars (a LazyFrame, too), a dict of
                arrays, one record as a dict, a list of those, a dataset, a reader of record batches, or the
                path of a Parquet or CSV file, which is read whole.
            returns: "input" for a frame of the library that the batch came from (a table of Arrow for all
                that is neither of pandas nor of polars), or "pyarrow", "pandas" or "polars".
            columns: "needed" leaves out `window_id` where no window has one, and `revision` and `change` if
                there is no lateness, so that nothing is ever corrected.
            wide: One row for each key and window end, with a column `query_aggregate` for each aggregate; an
                error if a query has two rows for one key and end, or if there is lateness.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> op.process([{"ts": 1}, {"ts": 4}, {"ts": 12}], columns="needed").to_pylist()
        [{'query': 'q0', 'window_start': 0, 'window_end': 10, 'n': 2}]
        """
        arrow = type(batch) in _ARROW
        library = "pyarrow" if arrow else results.library_of(batch)
        if arrow and returns == "input" and columns == "all" and not wide:
            shape = None  # as they come: most records close no window
        else:
            results.check_shape(returns, columns, wide, self._corrected)
            shape = (library if returns == "input" else returns, columns, wide)
        made = self._watched(batch, shape, self._process_batch, batch)
        self._input = library
        return made

    def advance(
        self,
        watermark: Any = None,
        *,
        returns: Returns = "input",
        columns: Columns = "all",
        wide: bool = False,
    ) -> Any:
        """Say that all records before this time have arrived; return the windows that came into view.

        `watermark` is a whole number where times are integers, else a datetime of Python, NumPy or pandas, or
        an Arrow timestamp. It is rounded down to the unit of the time column. What that does not reach, or
        lies before the watermark so far, is a ValueError. In processing time, none at all means now.
        The other arguments are those of `process`; "input" is what the last batch came in.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark="manual")
        >>> _ = op.process({"ts": [1, 4, 12]})
        >>> op.advance(10).column("n").to_pylist()
        [2]
        """
        results.check_shape(returns, columns, wide, self._corrected)
        shape = (self._input if returns == "input" else returns, columns, wide)
        return self._watched(None, shape, self._advance, watermark)

    def finish(self, *, returns: Returns = "input", columns: Columns = "all", wide: bool = False) -> Any:
        """End the stream: return all windows that are still open. Afterwards only look, not process.

        The arguments are those of `process`; "input" is what the last batch came in.
        """
        results.check_shape(returns, columns, wide, self._corrected)
        shape = (self._input if returns == "input" else returns, columns, wide)
        return self._watched(None, shape, self._finish)

    def _watched(
        self, batch: Any, shape: _Shape | None, work: Callable[..., pa.Table], *arguments: Any
    ) -> Any:
        """Return the rows of a call in a shape (None: as they come), after whoever watches has seen them."""
        watcher = self._watcher
        if watcher is None:
            # Without a star: after such a call Python looks for signals, when rows are made and not returned.
            return run(self, self._shaped, shape, work, arguments)[1]
        began = clock_time.perf_counter_ns()
        rows, made = run(self, self._shaped, shape, work, arguments)
        watcher(batch, rows, clock_time.perf_counter_ns() - began)
        return made

    @property
    def input_columns(self) -> list[str]:
        """The columns that batches must have, also for expressions and conditions."""
        return [source for name in self._reads() for source in sources(name)]

    @property
    def _corrected(self) -> bool:
        """Whether later rows may replace earlier ones or take them back."""
        early = any(query.early is not None for _, query in self._queries)
        return early or self._settings.lateness.amount > 0 or self._settings.tie is not None

    def _shaped(
        self, shape: _Shape | None, work: Callable[..., pa.Table], arguments: tuple[Any, ...]
    ) -> tuple[pa.Table, Any]:
        """Return the rows of some work as they are, and in a shape: if there is none such, nothing was done.

        With rows comes what tells their windows apart.
        """
        rows = self._with_note(work(*arguments))
        if shape is None or shape == ("pyarrow", "all", False):
            return rows, rows
        return rows, results.shaped(rows, dict(self._queries), *shape, self._corrected)

    def _with_note(self, rows: pa.Table) -> pa.Table:
        """Return rows with what tells their windows apart, those of a table without any made once."""
        noted = self._noted
        if noted is None or noted.queries is not self._queries:
            identities = {name: query.window.identity() for name, query in self._queries}
            noted = self._noted = _Noted(self._queries, results.note_of(identities))
        if rows.num_rows:
            return rows.replace_schema_metadata(noted.note)
        if noted.empty is not rows:
            noted.empty, noted.with_note = rows, rows.replace_schema_metadata(noted.note)
        return noted.with_note

    @property
    def watermark(self) -> Any:
        """The watermark: an integer, or an Arrow scalar where times are timestamps; None before the first."""
        return run(self, self._watermark)

    @property
    def newest(self) -> Any:
        """The largest time of a record so far, of the type of `watermark`; None before the first record."""
        return run(self, self._newest)

    @property
    def time(self) -> str | None:
        """The name of the time column; None in processing time."""
        return None if self._time is PROCESSING_TIME else str(self._time)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._settings.key

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries by name."""
        return run(self, self._named_queries)

    def watch(self, watcher: Watcher | None) -> None:
        """Call a function after each call that brings rows: with the batch, the rows, and nanoseconds taken.

        The batch is None for `advance` and `finish`. The function runs in the caller's thread, after all has
        changed: the caller waits for it, and what it raises reaches the caller instead of the rows. There is
        one watcher at a time, and another one is a RuntimeError; None ends the watching. Snapshots and copies
        have none.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> op.watch(lambda batch, rows, nanoseconds: print(rows.num_rows, "rows"))
        >>> _ = op.process({"ts": [1, 4, 12]})
        1 rows
        """
        if watcher is not None and self._watcher not in (None, watcher):
            raise RuntimeError("this operator is watched already: stop its dashboard, or call watch(None).")
        self._watcher = watcher

    def dashboard(self, **options: Any) -> Dashboard:
        """Serve a page that shows this operator at work; the options are those of `dashboard.serve`."""
        made: Dashboard = importlib.import_module("muntin.dashboard").serve(self, **options)
        return made

    def take_late(self) -> pa.Table:
        """Return the records that were dropped since the last call, as they came, in one table.

        Where the batches had different columns, a column is null for the records that came without it. Where
        one came in different types, it has the type in which the operator reads it, or else the first that it
        came in. Values that this type cannot hold without loss are in a further column, which is named after
        their type, and null in the first.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark=0)
        >>> _ = op.process({"ts": [20, 1], "note": ["a", "b"]})
        >>> _ = op.process({"ts": [30, 2], "note": [3, 4]})
        >>> op.take_late().to_pydict()
        {'ts': [1, 2], 'note': ['b', None], 'note (int64)': [None, 4]}
        """
        return run(self, self._take_late)

    @property
    def metrics(self) -> Metrics:
        """What the operator has done and holds."""
        return run(self, self._metrics)

    @property
    def query_metrics(self) -> Mapping[str, QueryMetrics]:
        """What each query accounts for, by name: live slices, their bytes, and combines of its windows.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.sliding(30, every=10).agg(total=mt.sum("v"), name="sums"), time="ts")
        >>> _ = op.process({"ts": [1, 12, 25, 31], "v": [1, 2, 3, 4]})
        >>> op.query_metrics["sums"].slices, op.query_metrics["sums"].combines
        (3, 3)
        """
        return run(self, self._query_metrics)

    def explain(self) -> Explanation:
        """Return what was decided and why, as text that people can read; as_dict() has it as data.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling("1m").agg(avg=mt.mean("v")), time="ts", watermark="5s")
        >>> print(str(op.explain()).splitlines()[0])
        Stream: out of order (watermark 5s)
        """
        return run(self, self._explain)

    def lookup(self, start: Any, end: Any, key: Any = None, *, name: str | None = None) -> pa.Table:
        """Compute the aggregates of a query over the live slices between two times, now.

        One row per key (or for one `key`) with the bounds [window_start, window_end) that whole slices cover:
        as much of the stretch as they can, never more. Those of sessions are from the first record to just
        past the last one. `name` may be left out where there is one query.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.sliding(60, every=10).agg(n=mt.count()), time="ts")
        >>> _ = op.process({"ts": [5, 15, 25, 27]})
        >>> op.lookup(8, 30).to_pylist()
        [{'window_start': 10, 'window_end': 30, 'n': 3}]
        """
        return run(self, self._lookup, start, end, key, name)

    def latest(self, key: Any = None) -> dict[str, Any]:
        """Return the newest values of a key by query: those as of its last record, whatever the watermark is.

        For queries of `mt.features.queries`, whose windows are kept. A key that has had no record has none.

        >>> import muntin as mt
        >>> queries = mt.features.queries({"last_two": mt.rolling(rows=2).agg(mt.mean("v"))})
        >>> op = mt.WindowOperator(queries, time="ts", key="car")
        >>> _ = op.process({"ts": [1, 2, 3], "car": ["a", "a", "b"], "v": [1.0, 4.0, 9.0]})
        >>> op.latest("a"), op.latest("c")
        ({'last_two': 2.5}, {})
        """
        return run(self, latest_values, self._lanes, key)

    def slices(self, key: Any = None, *, name: str | None = None) -> pa.Table:
        """Return the slices that a query's windows are made of, for one key or all, by key and time.

        Those that are held now: slices that no window to come needs are evicted in time. Columns: the key,
        `slice_start` (the edge where the slice begins; null where slices are cut by position), `first` and
        `last` (times of records) and `records`. Queries whose windows are cut the same way have the same
        slices.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.sliding(60, every=10).agg(n=mt.count()), time="ts")
        >>> _ = op.process({"ts": [5, 15, 25, 27]})
        >>> op.slices().to_pydict()
        {'slice_start': [0, 10, 20], 'first': [5, 15, 25], 'last': [5, 15, 27], 'records': [1, 1, 2]}
        """
        return run(self, self._slices, key, name)

    def snapshot(self) -> bytes:
        """Return the state of the operator as bytes: live slices, what is kept beside them, and late records.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> _ = op.process({"ts": [1, 4]})
        >>> mt.WindowOperator.restore(op.snapshot()).finish().column("n").to_pylist()
        [2]
        """
        return run(self, self._snapshot)

    @classmethod
    def restore(cls, blob: bytes, queries: Iterable[Query] | None = None) -> WindowOperator:
        """Return an operator that goes on where a snapshot was taken.

        `queries` are needed only if they hold aggregates of one's own. Restore only snapshots that come from
        a place you trust; one whose content does not fit its description is refused with a SnapshotError.
        """
        given = None if queries is None else list(queries)
        described, tables = envelope.unpack(blob)
        with reading("the operator"):
            told = Described(described, "the operator")
            by_name = match_queries(told["queries"], given)
            operator = cls(
                [dataclasses.replace(query, name=name) for name, query in by_name.items()],
                time=PROCESSING_TIME if told["time"].missing else told["time"].text(),
                key=told["key"].texts(),
                watermark=told["watermark"].value,
                lateness=told["lateness"].value,
                tie=told["tie"].text_or_none(),
                store=told["store"].value,
            )
            cls._fill(operator, told, tables, by_name)
        return operator

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by way of a snapshot, beside the queries, which may hold a user's functions."""
        return type(self).restore, (self.snapshot(), [query for _, query in self._queries])


__all__ = ["PROCESSING_TIME", "Metrics", "QueryMetrics", "WindowOperator"]
