"""The stateful operator of a stream: an engine per bucket, its state in parts, timers in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from muntin.engine import NEVER
from muntin.engine.state import HEAD, Head, SnapshotError, dump_parts, load_parts
from muntin.spark.combining import Bucket, Outcome, in_ticks, row_blobs
from muntin.spark.job import Job
from muntin.spark.late import among_windows
from muntin.spark.packing import to_blob
from muntin.windows.durations import in_words

if TYPE_CHECKING:
    import pandas as pd

COUNTERS = ("records_in", "null_times", "late_dropped", "windows_emitted", "keys", "slices", "state_bytes")
STEP_DDL = ", ".join(["rows binary", *(f"{name} bigint" for name in COUNTERS)])


class WindowProcessor(StatefulProcessor):
    """Gives each bucket's blobs to its engine, under the watermark of the micro-batch."""

    def __init__(self, job: Job, schema: pa.Schema) -> None:
        self._job = job
        self._lanes = job.lanes
        self._schema = schema

    def init(self, handle: Any) -> None:
        """Take hold of the state."""
        self._handle = handle
        self._parts = handle.getMapState("parts", "name string", "part binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Process what a micro-batch has for a bucket."""
        blobs: list[bytes] = []
        null_times = 0
        for frame in rows:
            blobs += [blob for blob in frame["blob"] if blob is not None]
            null_times += int(frame["null_times"].sum())
        yield from self._step(key[0], blobs, timerValues.getCurrentWatermarkInMs(), null_times)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Any]:
        """Let the watermark reach a bucket that no record came for."""
        del expiredTimerInfo
        yield from self._step(key[0], [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing is held."""

    # ---- a step ----

    def _step(self, number: int, blobs: list[bytes], milliseconds: int, null_times: int = 0) -> Iterator[Any]:
        job = self._lanes[number // self._job.buckets]
        watermark = in_ticks(milliseconds, job)
        head = self._head(number)
        if head is None:
            bucket = Bucket.new(job)
        else:
            same = len(head.staying(job.queries)) == len(head.queries) == len(job.queries)
            if same and not blobs and not null_times and head.watermark >= watermark:
                return
            bucket = self._restore(job, number, head, watermark)
        watermark = max(watermark, bucket.engine.watermark)
        done = bucket.process(blobs, watermark)
        self._save(bucket, {} if head is None else head.digests)
        self._set_timer(bucket, milliseconds)
        rows = among_windows(done.rows, done.late, job.whole) if job.whole else done.rows
        yield _frame(rows, self._schema, _counters(bucket, done, null_times))

    def _set_timer(self, bucket: Bucket, milliseconds: int) -> None:
        """Ask to be called when the watermark moves, as long as there is something that may come of it.

        While records come, each bucket is called anyway. When they stop, the watermark moves once more. For
        early results, a bucket must see each step of the watermark, or it would take a later one for it.
        """
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        engine = bucket.engine
        if engine.slice_count() or engine.records_kept() or engine.early is not None:
            self._handle.registerTimer(max(milliseconds, 0) + 1)

    # ---- state ----

    def _read(self, name: str) -> bytes | None:
        found = self._parts.getValue((name,))
        return None if found is None else bytes(found[0])

    def _head(self, number: int) -> Head | None:
        blob = self._read(HEAD)
        try:
            return None if blob is None else Head(blob)
        except SnapshotError as error:
            raise SnapshotError(_UNREADABLE.format(number, error)) from error

    def _restore(self, job: Job, number: int, head: Head, watermark: int) -> Bucket:
        _check_setting(head.setting, job)
        bucket = Bucket(job, job.engine(empty=True), job.key_table())
        _check_types(head.types, job)
        try:
            tie = job.types[job.tie] if job.tie else None
            load_parts(head, self._read, bucket.engine, bucket.keys, job.queries, tie)
        except SnapshotError as error:
            raise SnapshotError(_UNREADABLE.format(number, error)) from error
        bucket.engine.types |= job.types
        there = {planned.name for planned in bucket.engine.plan.queries}
        # Spark's watermark is cut to milliseconds, and the delay may be another than before.
        seen = NEVER if watermark == NEVER else watermark + job.delay + job.clock_ticks - 1
        origin = max(seen, bucket.engine.largest)
        for name, query in job.queries.items():
            if name not in there:
                bucket.engine.plan_query(name, query, None if origin == NEVER else origin)
        return bucket

    def _save(self, bucket: Bucket, digests: Mapping[str, str]) -> None:
        """Write what is not there yet, and remove what is gone."""
        job = bucket.job
        parts = dump_parts(bucket.engine, bucket.keys, job.setting(), job.queries)
        now = Head(parts[HEAD]).digests
        for name in digests.keys() - now.keys():
            self._parts.removeKey((name,))
        for name, part in parts.items():
            if name == HEAD or digests.get(name) != now[name]:
                self._parts.updateValue((name,), (part,))


_UNREADABLE = "the state of bucket {} in the checkpoint cannot be read, and is left as it is: {}"


def _check_setting(there: dict[str, Any], job: Job) -> None:
    for name, here in job.setting().items():
        if there.get(name) != here:
            was, now = repr(there.get(name)), repr(here)
            if name == "lateness":  # kept in ticks, which no user has typed
                was, now = in_words(there[name], job.clock), str(job.lateness)
            raise ValueError(
                f"the checkpoint was written with {name}={was}, and this job has {now}: "
                "give the same, or begin with a new checkpoint."
            )


def _check_types(there: Mapping[str, pa.DataType], job: Job) -> None:
    for name, kind in there.items():
        now = job.types.get(name)
        if now is not None and now != kind:
            raise TypeError(
                f"column {name!r} was {kind} when the checkpoint was written, and is {now} now: "
                "cast it, or begin with a new checkpoint."
            )


def _counters(bucket: Bucket, done: Outcome, null_times: int) -> dict[str, int]:
    engine = bucket.engine
    live = (engine.live_keys(bucket.keys), engine.slice_count(), engine.state_bytes())
    counts = (done.came, null_times, done.dropped, done.rows.num_rows, *live)
    return dict(zip(COUNTERS, counts, strict=True))


def _frame(rows: pa.Table, schema: pa.Schema, counters: dict[str, int]) -> pd.DataFrame:
    """Return blobs of rows; the first has the counters, which are added up over all."""
    import pandas as pd

    blobs: list[bytes | None] = [to_blob(some) for some in row_blobs(rows, schema)] or [None]
    more = [0] * (len(blobs) - 1)
    columns = {name: pd.Series([count, *more], dtype="int64") for name, count in counters.items()}
    return pd.DataFrame({"rows": pd.Series(blobs, dtype=object), **columns})
