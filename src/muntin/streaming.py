"""Operators over streams: reading a source in a loop, going on from a checkpoint, warming up."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from muntin.engine.transaction import run
from muntin.loop import Run, Stream
from muntin.running_stream import RunningStream
from muntin.settings import Settings
from muntin.warming import exercise, sample
from muntin.windows.base import Query

if TYPE_CHECKING:
    from muntin.operator import WindowOperator

# What an operator keeps that goes on from a snapshot: whom it serves, and the transaction that it is in.
_OWN = ("_watcher", "_runs", "_input", "_noted", "_journal", "_objects", "_call")


class Streaming(RunningStream):
    """What a `WindowOperator` does with whole sources, beside what its calls do with batches."""

    def __init__(self, settings: Settings, queries: Iterable[Query]) -> None:
        super().__init__(settings, queries)
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()  # of streams that are being read

    def stream(
        self,
        source: Any,
        *,
        batch: Any = "1s",
        idle: Any = None,
        on_late: Callable[[pa.Table], Any] | None = None,
        checkpoint: Any = None,
        every: Any = "30s",
    ) -> Stream:
        """Return the rows of a source as they come, to be read by `for`, or by `async for`.

        A source that comes to its end ends the stream: the last rows are those of `finish()`. The source is
        read only as far as its records are processed: whoever takes the rows slowly slows it down. Ctrl-C
        ends the loop once what was read is processed and its rows are taken, without `finish()`; pressed
        twice, it raises KeyboardInterrupt.

        Args:
            source: An iterable, or an asynchronous one, of batches or of records as dicts; None among them
                says that nothing has come. Or a function that returns one: it is called with the number of
                records that the operator has taken in already, as after a restart from a checkpoint.
            batch: Records are gathered for so long, or until there are so many, and processed together. What
                comes as a batch is processed at once, and so is a record after a pause of that length. That
                the time is over is seen when the next item comes, or, with `idle`, without one.
            idle: After so long without a record, event time goes on with the clock: the watermark is the
                newest time, plus the silence, less the watermark's delay (for integer times: the newest
                time). A source that is not asynchronous is then read in a thread of its own.
            on_late: Called with a table of the records that were dropped; without it, `take_late` has them.
            checkpoint: The path of a file for the operator's state. If it is there, the operator, which must
                be new, goes on from it. It is written once the rows so far have been taken, and at the end.
            every: How often the checkpoint is written.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> for rows in op.stream({"ts": t} for t in (1, 4, 12, 27)):
        ...     print(rows.select(["window_start", "n"]).to_pylist())
        [{'window_start': 0, 'n': 2}, {'window_start': 10, 'n': 1}]
        [{'window_start': 20, 'n': 1}]
        """
        running = Run(
            self._operator(),
            source,
            batch=batch,
            idle=idle,
            on_late=on_late,
            checkpoint=checkpoint,
            every=every,
            delay=self._settings.delay,
            resume=self._resume,
        )
        self._runs.add(running)
        return Stream(running)

    def _operator(self) -> WindowOperator:
        return cast("WindowOperator", self)

    def close(self) -> None:
        """Stop reading the sources of streams; `with op:` does so at its end. The state stays as it is."""
        for running in list(self._runs):
            running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _resume(self, blob: bytes) -> None:
        """Go on from a snapshot of an operator like this one, which must be new."""
        other = type(self._operator()).restore(blob, [query for _, query in self._queries])
        names = [[name for name, _ in each._queries] for each in (self, other)]
        if self._settings != other._settings or names[0] != names[1]:
            raise ValueError("the checkpoint is of an operator with other settings or names of queries.")
        if self._records_in:
            raise ValueError("a checkpoint is for a new operator; this one has taken in records already.")
        run(self, self._become, other)

    def _become(self, other: WindowOperator) -> None:
        self.save()
        for name, value in vars(other).items():
            if name not in _OWN:
                setattr(self, name, value)
        self.parts_changed()

    def warm_up(self, schema: Any) -> None:
        """Compile and load what records of a schema need, so that the first one is as quick as the others.

        The state stays as it is. `schema` is an Arrow schema, for which values are made up, or a batch of
        records like those to come: give that where functions of your own need values that make sense.

        >>> import muntin as mt
        >>> import pyarrow as pa
        >>> op = mt.WindowOperator(mt.tumbling("1m").agg(avg=mt.mean("v")), time="ts", key="car")
        >>> op.warm_up(pa.schema({"ts": pa.timestamp("us"), "car": pa.string(), "v": pa.float64()}))
        """
        known = self._settings
        queries = [dataclasses.replace(q, name=name, emit_empty=False) for name, q in self._queries]
        fixed = [*known.key, *([known.tie] if known.tie else [])]
        for table in sample(schema, self._operator().time, fixed, queries):
            twin = type(self._operator())(
                queries,
                time=known.time,
                key=list(known.key),
                watermark=known.policy if known.delay is None else known.delay,
                lateness=known.lateness,
                tie=known.tie,
                store=known.store,
            )
            exercise(twin, table, in_order=known.policy == "in_order")
