"""What workers do, without Spark: random tables and streams through the same code, against the oracle.

Partitions, buckets, the state of a checkpoint and timers are played by plain Python, so that hundreds of
cases take seconds. Each step of a stream restores its engines from the state, as Spark does.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.algebra.aggregate import RowAggregate
from muntin.engine.plan.decisions import merges_ahead
from muntin.engine.state.description import SnapshotError
from muntin.engine.state.incremental import HEAD
from muntin.spark.combining import Combine
from muntin.spark.job import Job, make_job
from muntin.spark.late import LATE, late_field
from muntin.spark.packing import BUCKET, PACKED, Pack, from_blob
from muntin.spark.processor import WindowProcessor
from muntin.windows.durations import Duration
from tests import mixed_workloads
from tests.conditions import WHERE
from tests.early_workloads import allows_early, with_early, without_early
from tests.test_filters import filtered, with_conditions
from tests.test_operator import check_values, told
from tests.window_kinds import with_measures
from tests.windows_oracle import Oracle, Record, Row, Spec, one_shot
from tests.workloads import (
    KEY_TYPES,
    KEYS,
    Setting,
    Workload,
    _lists_of,
    _records,
    batch_of,
    query_of,
    specs,
    tables,
)

TYPES = {**KEY_TYPES, "t": pa.int64(), "v": pa.float64(), "w": pa.int64(), "tie": pa.int64()}
TYPES |= {"p": pa.bool_(), "q": pa.bool_(), "s": pa.float64(), "m": pa.int64()}


def job_of(specs: list[Spec], keys: tuple[str, ...], *, late: bool, tie: bool = False, **more: Any) -> Job:
    """The job that runs these queries."""
    queries = [query_of(spec) for spec in specs]
    job = make_job(
        queries,
        TYPES.__getitem__,
        time="t",
        key=list(keys) or None,
        tie="tie" if tie else None,
        lateness=more.pop("lateness", 0),
        buckets=3 if keys else 1,
    )
    ahead = all(merges_ahead(query, late=late) for query in queries)
    return dataclasses.replace(job, ahead=ahead, **more)


def with_buckets(batch: pa.Table, job: Job) -> list[pa.RecordBatch]:
    """What Spark hands over: the columns that are read, and a bucket by the hash of the key."""
    batch = batch.select(job.columns)
    keys = (
        zip(*(batch[name].to_pylist() for name in job.keys), strict=True) if job.keys else [()] * len(batch)
    )
    buckets = [zlib.crc32(str(key).encode()) % job.buckets for key in keys]
    return batch.append_column(BUCKET, pa.array(buckets, pa.int32())).to_batches(max_chunksize=7)


def packed(batches: list[pa.RecordBatch], job: Job, *, ticks: bool = False) -> pa.Table:
    """What one partition sends."""
    return pa.Table.from_batches(list(Pack(job, ticks=ticks)(iter(batches))), PACKED)


def check_rows(got: list[Row], want: list[Row], specs: list[Spec], where: str = "") -> None:
    """The same rows, in whatever order."""

    def identity(row: Row) -> tuple:
        bounds = (row.start, row.end, row.id, row.measures)
        return row.key, row.query, *bounds, row.change, row.revision, row.final

    got_by, want_by = ({identity(row): row for row in rows} for rows in (got, want))
    assert len(got_by) == len(got), f"{where}: a row came twice"
    assert got_by.keys() == want_by.keys(), (
        f"{where}: too much {got_by.keys() - want_by.keys()}, missing {want_by.keys() - got_by.keys()}"
    )
    calls = {spec.name: spec.aggregates for spec in specs}
    for key, row in want_by.items():
        check_values(got_by[key], row, calls[row.query], f"{where}, {key}")


# ---- batch ----


@settings(max_examples=60)
@given(tables(), st.integers(1, 4))
def test_tables(workload: Workload, partitions: int) -> None:
    check_table(workload, partitions)


@settings(max_examples=60)
@given(mixed_workloads.mixed_tables(), st.integers(1, 4))
def test_tables_with_windows_of_every_kind(workload: Workload, partitions: int) -> None:
    check_table(workload, partitions)


@settings(max_examples=25)
@given(with_conditions(mixed_workloads.mixed_tables()), st.integers(1, 4))
def test_tables_with_conditions(workload: Workload, partitions: int) -> None:
    check_table(workload, partitions)


def check_table(workload: Workload, partitions: int) -> None:
    (batch, _) = workload.calls
    want = one_shot(without_early(workload).queries, batch.records)
    job = job_of(workload.queries, workload.keys, late=False)
    table = batch_of(batch.records, workload.keys, False, marked=workload.marked)
    bounds = np.linspace(0, len(table), partitions + 1).astype(int)
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    blobs = pa.concat_tables(packed(with_buckets(part, job), job) for part in parts)
    schema = job.output_schema()
    combine = Combine(job, schema)
    got = []
    for bucket in blobs["bucket"].unique().to_pylist():
        rows = combine(blobs.filter(pc.equal(blobs["bucket"], bucket)))
        assert rows.schema == schema
        got += told(rows, workload.keys)
    check_rows(got, want, workload.queries)


# ---- streams ----


class State:
    """The state and timers of one bucket, as Spark's handle shows them."""

    def __init__(self) -> None:
        self.parts: dict[tuple, tuple] = {}
        self.timers: set[int] = set()
        self.writes: list[str] = []

    def getMapState(self, name: str, key: str, value: str) -> State:  # noqa: N802
        return self

    def getValue(self, key: tuple) -> tuple | None:  # noqa: N802
        return self.parts.get(key)

    def updateValue(self, key: tuple, value: tuple) -> None:  # noqa: N802
        self.parts[key] = value
        self.writes.append(key[0])

    def removeKey(self, key: tuple) -> None:  # noqa: N802
        del self.parts[key]

    def listTimers(self) -> list[int]:  # noqa: N802
        return sorted(self.timers)

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.timers.discard(at)


@dataclass(frozen=True)
class Now:
    """The watermark, as Spark's timer values show it."""

    watermark: int

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self.watermark


class Stream:
    """Micro-batches through the stateful operator of each bucket."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.states: dict[int, State] = defaultdict(State)
        self.late = 0
        self.late_times: list[int] = []
        self.null_times = 0

    def micro_batch(self, batch: pa.Table | None, watermark: int) -> list[Row]:
        """Run a micro-batch; None: one without data."""
        now, frames = Now(watermark), []
        if batch is not None:
            sent = packed(with_buckets(batch, self.job), self.job, ticks=True)
            for bucket in sent["bucket"].unique().to_pylist():
                frame = sent.filter(pc.equal(sent["bucket"], bucket)).to_pandas()
                frames += self._processor(bucket).handleInputRows((bucket,), iter([frame]), now)
        for bucket, state in self.states.items():
            for timer in [at for at in state.timers if at <= watermark]:
                state.timers.discard(timer)
                frames += self._processor(bucket).handleExpiredTimer((bucket,), now, None)
        self.late += sum(int(frame["late_dropped"].sum()) for frame in frames)
        self.null_times += sum(int(frame["null_times"].sum()) for frame in frames)
        tables = [from_blob(blob) for frame in frames for blob in frame["rows"] if blob is not None]
        if self.job.whole:
            kept = [table[LATE].combine_chunks().drop_null() for table in tables]
            self.late_times += [record["t"].as_py() for some in kept for record in some]
            tables = [table.filter(pc.is_null(table[LATE])).drop_columns([LATE]) for table in tables]
        return [row for table in tables for row in told(table, self.job.keys)]

    def _processor(self, bucket: int) -> WindowProcessor:
        schema = self.job.output_schema()
        schema = schema.append(late_field(self.job.whole)) if self.job.whole else schema
        processor = WindowProcessor(self.job, schema)
        processor.init(self.states[bucket])
        return processor


class SparkOracle(Oracle):
    """The oracle under Spark's policy: one watermark for a micro-batch, one difference of views."""

    delay = 0

    def newest(self) -> float:
        return self.watermark + self.delay

    def micro_batch(self, records: list[Record], watermark: float) -> list[Row]:
        self.watermark = max(self.watermark, watermark)
        for record in records:
            self._take(record)
        return self._difference()


@dataclass(frozen=True)
class Drawn:
    """A stream in micro-batches, with the queries of each."""

    batches: list[tuple[list[Spec], list[Record] | None]]
    keys: tuple[str, ...]
    tie: bool
    lateness: int
    delay: int
    keep_late: bool
    marked: bool = False  # records say more, for windows of every kind


@st.composite
def streams(draw: st.DrawFn, *, every_kind: bool = False) -> Drawn:
    """Streams whose set of queries may change between micro-batches."""
    delay = draw(st.sampled_from([0, 1, 3, 7, 15]))
    lateness = draw(st.sampled_from([0, 0, 3, 8, 20]))
    tie = draw(st.sampled_from([False, False, False, True]))
    setting = Setting(delay, lateness, tie=tie, spells=False)
    names = [f"q{place}" for place in range(draw(st.integers(1, 4)))]
    keys = draw(st.sampled_from(list(KEYS)))
    if every_kind:
        kinds = mixed_workloads.KINDS
        pool = [draw(mixed_workloads.specs(name, setting, kinds)) for name in names]
        pool = [dataclasses.replace(spec, emit="all") for spec in pool]
        records = draw(mixed_workloads._records(keys, setting))
    else:
        pool = [draw(specs(name, setting)) for name in names]
        if draw(st.booleans()):  # so that panes are made often enough
            grids = [s for s in pool if merges_ahead(query_of(s), late=True)]
            pool = grids or pool
        two_columns = any(len(call) == 3 for spec in pool for call in spec.aggregates.values())
        records = draw(_records(keys, setting, not two_columns and draw(st.booleans())))
    now, batches, chosen = 2_000_000_000, [], pool
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.sampled_from([False] * 4 + [True])):
            before = chosen
            chosen = draw(st.lists(st.sampled_from(pool), min_size=1, unique_by=lambda s: s.name))
            # None comes again: a bucket that was not called in between does not know that it was away.
            away = {s.name for s in before} - {s.name for s in chosen}
            pool = [s for s in pool if s.name not in away]
        drawn = draw(st.one_of(_lists_of(records, 8), _lists_of(records, 8), st.none()))
        batch = None
        if drawn:
            batch = []
            for gap, lagging in drawn:
                now += gap
                batch.append(lagging._replace(t=now - lagging.t))
        batches.append((chosen, batch))
    if every_kind:
        measured = iter(with_measures([r for _, batch in batches for r in batch or ()], tie))
        batches = [(s, None if b is None else [next(measured) for _ in b]) for s, b in batches]
    keep_late = draw(st.sampled_from([False, False, True]))
    return Drawn(batches, keys, tie, lateness, delay, keep_late, every_kind)


@settings(max_examples=120)
@given(streams())
def test_streams(drawn: Drawn) -> None:
    check_stream(drawn)


@settings(max_examples=120)
@given(streams(every_kind=True))
def test_streams_with_windows_of_every_kind(drawn: Drawn) -> None:
    check_stream(drawn)


@st.composite
def streams_with_conditions(draw: st.DrawFn) -> Drawn:
    """Streams whose queries, which stay the same, are under a few conditions."""
    drawn = draw(streams(every_kind=True))
    wheres = draw(st.lists(st.sampled_from([None, *WHERE]), min_size=1, max_size=3))
    specs = [draw(filtered(spec, wheres)) for spec in drawn.batches[0][0]]
    return dataclasses.replace(drawn, batches=[(specs, records) for _, records in drawn.batches])


@settings(max_examples=30)
@given(streams_with_conditions())
def test_streams_with_conditions(drawn: Drawn) -> None:
    # Late records are dropped under each condition by itself: where there are several, that is not as it is
    # for the embedded engine.
    check_stream(drawn, late=len({spec.where for spec in drawn.batches[0][0]} | {None}) == 1)


@st.composite
def streams_with_early(draw: st.DrawFn, drawn: st.SearchStrategy[Drawn]) -> Drawn:
    """Streams of which most queries have early results."""
    stream = draw(drawn)
    names = sorted({spec.name for specs, _ in stream.batches for spec in specs})
    every = {name: draw(st.sampled_from([None, 1, 3, 5, 12, 40])) for name in names}

    def early(spec: Spec) -> Spec:
        return dataclasses.replace(spec, early=every[spec.name]) if allows_early(spec) else spec

    batches = [([early(spec) for spec in specs], records) for specs, records in stream.batches]
    return dataclasses.replace(stream, batches=batches)


EARLY = [streams(), streams(every_kind=True), streams_with_conditions()]


@pytest.mark.parametrize("kind", range(len(EARLY)))
@settings(max_examples=60)
@given(data=st.data())
def test_streams_with_early_results(kind: int, data: st.DataObject) -> None:
    check_stream(data.draw(streams_with_early(EARLY[kind])), late=kind < 2)


@settings(max_examples=25)
@given(with_early(with_conditions(mixed_workloads.mixed_tables())), st.integers(1, 4))
def test_tables_with_early_results(workload: Workload, partitions: int) -> None:
    check_table(workload, partitions)


def test_conditions_of_a_stream_stay_the_same() -> None:
    one, other = (mt.tumbling(10).agg(n=mt.count(), where=w, name=w) for w in ("v > 0", "w > 0"))
    stream = _stream_of(one)
    stream.micro_batch(_batch(1001), 0)
    stream.job = _stream_of(one, other).job
    with pytest.raises(
        ValueError, match=r"written with where=\['v > 0'\], and this job has \['v > 0', 'w > 0'\]"
    ):
        stream.micro_batch(_batch(1002), 1)


def check_stream(drawn: Drawn, *, late: bool = True) -> None:
    specs, _ = drawn.batches[0]
    oracle = SparkOracle(specs, "manual", drawn.lateness, drawn.tie)
    stream: Stream | None = None
    largest, watermark = 0, 0
    for number, (specs, records) in enumerate(drawn.batches):
        job = job_of(specs, drawn.keys, late=True, tie=drawn.tie, lateness=drawn.lateness, delay=drawn.delay)
        if drawn.keep_late:
            whole = {field.name: field.type for field in _table(drawn, []).schema}
            job = dataclasses.replace(job, whole=whole, ahead=False)
        if stream is None:
            if records is None:
                continue
            stream, oracle = Stream(job), SparkOracle(specs, "manual", drawn.lateness, drawn.tie)
        stream.job, oracle.delay = job, drawn.delay
        watermark = max(watermark, largest - drawn.delay)
        _change_queries(oracle, specs, watermark, drawn.delay)
        want = oracle.micro_batch(records or [], watermark or -np.inf)
        batch = None if records is None else _table(drawn, records)
        got = stream.micro_batch(batch, watermark)
        check_rows(got, want, specs, f"micro-batch {number}")
        assert not late or stream.late == len(oracle.dropped)
        if late and drawn.keep_late:
            assert sorted(stream.late_times) == sorted(record.t for record in oracle.dropped)
        largest = max([largest, *(record.t for record in records or [])])


def _table(drawn: Drawn, records: list[Record]) -> pa.Table:
    table: pa.Table = batch_of(records, drawn.keys, drawn.tie, marked=drawn.marked)
    return table


def _change_queries(oracle: Oracle, specs: list[Spec], watermark: int, delay: int) -> None:
    names = {spec.name for spec in specs}
    for name in [name for name in oracle.queries if name not in names]:
        oracle.remove(name)
    for spec in specs:
        if spec.name not in oracle.queries:
            oracle.largest = watermark + delay if watermark else oracle.largest
            oracle.add(spec)


# ---- too many empty windows ----


def test_a_jump_in_time_is_refused_before_the_state_changes() -> None:
    stream = _stream_of(mt.tumbling(1).agg(n=mt.count(), emit_empty=True))
    stream.micro_batch(_batch(1001), 0)
    stream.micro_batch(_batch(2**40), 1000)
    there = dict(stream.states[0].parts)
    for batch in (_batch(2**40 + 1), None):
        with pytest.raises(ValueError, match=r"1,099,511,626,774 empty windows"):
            stream.micro_batch(batch, 2**40)
        assert stream.states[0].parts == there
        stream.states[0].timers.add(1)
    rows = stream.micro_batch(None, 1004)
    assert [row.values["n"] for row in rows] == [1, 0, 0]


def test_a_table_with_a_jump_in_time_is_refused() -> None:
    query = mt.tumbling(1).agg(n=mt.count(), emit_empty=True)
    made = make_job([query], TYPES.__getitem__, time="t", key="k", tie=None, lateness=0, buckets=1)
    for ahead in (True, False):
        job = dataclasses.replace(made, ahead=ahead)
        sent = packed(with_buckets(_batch(*[1001] * 9, 2**40), job), job)
        with pytest.raises(ValueError, match=r"1,099,511,626,774 empty windows"):
            Combine(job, job.output_schema())(sent)


# ---- the state ----


def _stream_of(*queries: mt.Query, **more: Any) -> Stream:
    given = {"time": "t", "key": "k", "tie": None, "lateness": 0, "buckets": 1} | more
    ahead = all(merges_ahead(query, late=True) for query in queries)
    return Stream(dataclasses.replace(make_job(list(queries), TYPES.__getitem__, **given), ahead=ahead))


def _batch(*times: int) -> pa.Table:
    return batch_of([Record(t, 1.0, 1, ("a",)) for t in times], ("k",), False)


def test_only_slices_that_changed_are_written() -> None:
    stream = _stream_of(mt.sliding(100, every=10).agg(s=mt.sum("v")))
    stream.micro_batch(_batch(1001, 1011, 1021), 0)
    state = stream.states[0]
    state.writes.clear()
    stream.micro_batch(_batch(1022, 1031), 1)
    assert sorted(state.writes) == ["grid 127", "grid 128", HEAD]  # slices 1020 and 1030, eight to a part


def test_a_query_with_early_results_joins_a_state_of_the_older_format() -> None:
    plain = mt.tumbling(10).agg(n=mt.count(), name="plain")
    stream = _stream_of(plain)
    stream.micro_batch(_batch(1001, 1004), 0)
    (head,) = stream.states[0].parts[HEAD,]
    assert head[8] == 1  # the format, as without early results
    stream.job = _stream_of(plain, mt.tumbling(10).agg(n=mt.count(), name="early", early=5)).job
    rows = stream.micro_batch(_batch(1005, 1012), 1002)
    rows += stream.micro_batch(_batch(1013), 1006)
    # [1010, 1020) at the first time that is known, 1002, and when it passes a multiple of 5.
    shown = [(row.query, row.change, row.values["n"], row.final) for row in rows]
    assert shown == [("early", "insert", 1, False), ("early", "update", 2, False)]
    (head,) = stream.states[0].parts[HEAD,]
    assert head[8] == 2
    rows = stream.micro_batch(_batch(1031), 1021)
    want = [("plain", 1000, 3, True), ("plain", 1010, 2, True), ("early", 1010, 2, True)]
    want.append(("early", 1030, 1, False))
    assert sorted((r.query, r.start, r.values["n"], r.final) for r in rows) == sorted(want)


def test_state_that_nobody_needs_is_let_go() -> None:
    stream = _stream_of(mt.tumbling(10).agg(s=mt.sum("v")))
    for k in range(50):
        stream.micro_batch(_batch(*range(1000 + 10 * k, 1010 + 10 * k)), max(0, 990 + 10 * k))
    assert len(stream.states[0].parts) <= 4
    stream.micro_batch(None, 10_000)
    assert sorted(name for (name,) in stream.states[0].parts) == [HEAD, "keys"]
    assert not stream.states[0].timers


def test_damaged_state_says_so_and_is_left_alone() -> None:
    stream = _stream_of(mt.tumbling(10).agg(s=mt.sum("v")))
    stream.micro_batch(_batch(1001), 0)
    whole = dict(stream.states[0].parts)
    for name in (HEAD, "grid 1000"):
        (part,) = whole[name,]
        for broken in (part[:-1], part[:-1] + bytes([part[-1] ^ 1]), b"", None):
            stream.states[0].parts = {**whole, (name,): (broken,)}
            if broken is None:
                del stream.states[0].parts[name,]
                if name == HEAD:
                    continue  # a bucket that was never there
            there = dict(stream.states[0].parts)
            with pytest.raises(SnapshotError, match="bucket 0 in the checkpoint cannot be read"):
                stream.micro_batch(_batch(1002), 1)
            assert stream.states[0].parts == there


def test_state_of_another_setting() -> None:
    query = mt.tumbling(10).agg(s=mt.sum("v"), name="q")
    stream = _stream_of(query)
    stream.micro_batch(_batch(1001), 0)
    job = stream.job
    tied = {"tie": "tie", "types": {**job.types, "tie": pa.int64()}}
    for change in ({"lateness": Duration.of(5, "lateness")}, tied, {"buckets": 2}):
        stream.job = dataclasses.replace(job, **change)
        with pytest.raises(ValueError, match=f"written with {next(iter(change))}="):
            stream.micro_batch(batch_of([Record(1002, 1.0, 1, ("a",), 0)], ("k",), True), 1)
    stream.job = dataclasses.replace(job, types={**job.types, "v": pa.int64()})
    with pytest.raises(
        TypeError, match="column 'v' was double when the checkpoint was written, and is int64"
    ):
        stream.micro_batch(
            _batch(1002).cast(
                pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64(), "w": pa.int64()})
            ),
            1,
        )


def test_a_query_with_another_window_under_an_old_name_begins_anew() -> None:
    stream = _stream_of(
        mt.tumbling(10).agg(n=mt.count(), name="q"), mt.tumbling(20).agg(n=mt.count(), name="r")
    )
    stream.micro_batch(_batch(1001, 1004), 0)
    other = _stream_of(
        mt.tumbling(5).agg(n=mt.count(), name="q"), mt.tumbling(20).agg(n=mt.count(), name="r")
    )
    stream.job = dataclasses.replace(other.job, delay=3)
    rows = stream.micro_batch(_batch(1007, 1010), 1001)
    rows += stream.micro_batch(None, 1020)
    assert [(row.query, row.start, row.values["n"]) for row in rows] == [
        ("q", 1005, 1),
        ("q", 1010, 1),
        ("r", 1000, 4),
    ]


def without_times(table: pa.Table, *rows: int) -> pa.Table:
    """The records, some of which have no time."""
    times = pa.array([None if k in rows else t for k, t in enumerate(table["t"].to_pylist())], pa.int64())
    return table.set_column(table.column_names.index("t"), "t", times)


@pytest.mark.parametrize("where", [[None], ["v > 0"], [None, "v > 0", "w > 0"]])
@pytest.mark.parametrize("keep_late", [False, True])
def test_records_without_a_time_are_dropped_and_counted_once(
    where: list[str | None], keep_late: bool
) -> None:
    queries = [mt.tumbling(10).agg(n=mt.count(), where=w, name=f"q{k}") for k, w in enumerate(where)]
    stream = _stream_of(*queries)
    whole = {field.name: field.type for field in _batch(1).schema} if keep_late else {}
    stream.job = dataclasses.replace(
        stream.job, null_time="drop", whole=whole, ahead=stream.job.ahead and not keep_late
    )
    stream.micro_batch(without_times(_batch(1001, 1002, 1003), 1), 0)
    assert stream.null_times == 1
    stream.micro_batch(without_times(_batch(1, 2), 0, 1), 0)  # nothing else, and the watermark stands still
    assert stream.null_times == 3
    stream.micro_batch(without_times(_batch(1004, 1), 1), 1009)
    assert stream.null_times == 4
    rows = stream.micro_batch(None, 1010)
    assert [row.values["n"] for row in rows] == [3] * len(where)
    assert (stream.late, stream.late_times) == (0, [])


def test_records_without_a_time_are_refused_whatever_they_are_for() -> None:
    stream = _stream_of(mt.tumbling(10).agg(n=mt.count(), where="v > 5"))
    with pytest.raises(ValueError, match=r"time column 't' is null in 1 record, .*with null_time='drop'"):
        stream.micro_batch(without_times(_batch(1001, 1002), 1), 0)
    with pytest.raises(ValueError, match="time column 't' is null in 2 records"):
        stream.micro_batch(without_times(_batch(1001, 1002), 0, 1), 0)
    assert not stream.states


def test_a_table_of_records_without_a_time() -> None:
    job = job_of([Spec("q", "tumbling", (10, 0), {"n": ("count",)})], ("k",), late=False, null_time="drop")
    assert packed(with_buckets(without_times(_batch(1, 2), 0, 1), job), job).num_rows == 0


def test_lateness_is_told_in_words() -> None:
    query = mt.tumbling("10s").agg(n=mt.count(), name="q")
    types = {"t": pa.timestamp("us", "UTC"), "k": pa.string()}
    given = {"time": "t", "key": "k", "tie": None, "buckets": 1}
    table = pa.table({"t": pa.array([10**15], types["t"]), "k": ["a"]})
    stream = Stream(make_job(query, types.__getitem__, lateness="90 seconds", **given))
    stream.micro_batch(table, 0)
    for lateness in ("1 minute", 0):
        stream.job = make_job(query, types.__getitem__, lateness=lateness, **given)
        with pytest.raises(ValueError, match=f"written with lateness=90s, and this job has {lateness}: give"):
            stream.micro_batch(table, 1)
    stream = Stream(make_job(query, types.__getitem__, lateness=0, **given))
    stream.micro_batch(table, 0)
    stream.job = make_job(query, types.__getitem__, lateness="1h", **given)
    with pytest.raises(ValueError, match="written with lateness=0s, and this job has 1h: give"):
        stream.micro_batch(table, 1)


def test_the_type_of_an_own_aggregate_is_asked_for() -> None:
    class Twice(mt.Aggregate):
        commutative = True

        def combine(a, b):
            return a + b

        def lower(a):
            return [a, a]

    job = _stream_of(mt.tumbling(10).agg(x=Twice("v"))).job
    assert job.output_schema().field("x").type == pa.list_(pa.float64())


class Seen(RowAggregate):
    """Which digits occurred: a row of flags."""

    width, dtype, commutative = 10, "u1", True

    def lift_into(row, v):
        row[v] = 1

    def combine_into(row, a, b):
        np.bitwise_or(a, b, row)

    def lower(row):
        return int(row.sum())


def test_partials_that_are_rows() -> None:
    stream = _stream_of(mt.sliding(20, every=10).agg(x=Seen("w")))
    stream.micro_batch(_batch(1001, 1011), 0)
    rows = stream.micro_batch(_batch(1012, 1031), 1020)
    assert [(row.start, row.values["x"]) for row in rows] == [(990, 1), (1000, 1)]


def test_a_query_that_comes_with_another_delay_reports_no_window_that_it_has_not_seen_whole() -> None:
    old = mt.tumbling(10).agg(n=mt.count(), name="q")
    new = mt.tumbling(5).agg(n=mt.count(), s=mt.sum("v"), name="r")
    stream = _stream_of(old)
    stream.job = dataclasses.replace(stream.job, delay=50)
    stream.micro_batch(_batch(1001, 1041, 1047, 1048, 1050), 0)
    stream.job = dataclasses.replace(_stream_of(old, new).job, delay=5)
    stream.micro_batch(_batch(1044, 1051), 1000)
    rows = stream.micro_batch(None, 1070)
    assert [row.start for row in rows if row.query == "r"] == []


class Tally(mt.Aggregate):
    """How often each value occurred: a state that no snapshot keeps."""

    commutative = True

    def lift(v):
        return collections.Counter([v])

    def combine(a, b):
        return a + b

    def lower(a):
        return max(a.values())


def test_states_of_any_kind_are_not_sent() -> None:
    assert _stream_of(mt.tumbling(10).agg(x=Tally("v"))).job.own_objects()
    assert not _stream_of(mt.tumbling(10).agg(x=mt.sum("v"))).job.own_objects()


def test_own_aggregates_of_two_types_under_one_name() -> None:
    class Text(mt.Aggregate):
        commutative = True

        def combine(a, b):
            return a + b

        def lower(a):
            return str(a)

    job = _stream_of(mt.tumbling(10).agg(x=Tally("v")), mt.tumbling(5).agg(x=Text("v"))).job
    with pytest.raises(TypeError, match="column 'x' would be int64 for one query and string for 'q1'"):
        job.output_schema()


def test_records_that_a_query_kept_go_with_it() -> None:
    gone = mt.last_n(2, every=10).agg(s=mt.sum("w"), name="gone")
    stays = mt.last_n(2, every=10).agg(m=mt.max("v"), name="stays")
    stream = _stream_of(gone)
    stream.micro_batch(_batch(1001, 1002), 0)
    stream.job = _stream_of(gone, stays).job
    stream.micro_batch(None, 1002)
    stream.job = _stream_of(stays).job
    stream.micro_batch(_batch(1011, 1012, 1013), 1003)
    rows = stream.micro_batch(None, 1030)
    assert [(row.query, row.start, row.end, row.values["m"]) for row in rows] == [("stays", 1012, 1020, 1.0)]


def test_slices_of_counts_that_only_a_query_that_is_gone_cut_are_merged() -> None:
    gone = mt.count_tumbling(1).agg(n=mt.count(), name="gone")
    stays = mt.count_tumbling(2).agg(n=mt.count(), name="stays")
    stream = _stream_of(stays, gone)
    stream.micro_batch(_batch(1001, 1001, 1003), 0)
    stream.micro_batch(None, 1002)  # two records are settled: a slice for each
    stream.job = _stream_of(stays).job
    rows = stream.micro_batch(_batch(1004), 1002) + stream.micro_batch(None, 1010)
    assert [(row.query, row.start, row.end, row.values["n"]) for row in rows] == [("stays", 1003, 1004, 2)]
