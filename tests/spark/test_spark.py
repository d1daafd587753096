"""The pipeline on Spark: the same windows as the embedded engine, in batch and in streams."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import muntin as mt
from muntin.spark import fold, split_late, window_aggregate
from muntin.spark.late import LATE
from tests.aggregates import SumOfSquares, Union
from tests.oracle import agrees
from tests.spark.test_workers import SparkOracle, check_rows
from tests.test_operator import told
from tests.windows_oracle import Record, Row, Spec
from tests.workloads import query_of

ROOT = Path(__file__).parent.parent.parent
BASE = 1_700_000_000_000  # milliseconds

MERGED = [
    mt.sliding("600ms", every="100ms").agg(n=mt.count(), total=mt.sum("v"), top=mt.max("w"), name="slide"),
    mt.cumulate("1s", step="250ms").agg(
        avg=mt.mean("v"), spread=mt.variance("v"), name="day", emit_empty=True
    ),
    mt.session("90ms").agg(
        n=mt.count(), low=mt.min("v"), squares=SumOfSquares("v"), seen=Union("w"), name="visit"
    ),
]
ORDERED = [
    mt.count_sliding(7, every=3).agg(n=mt.count(), last=mt.last("v"), name="sevens"),
    mt.tumbling("1s").agg(first=mt.first("v"), best=mt.argmax("v", "w"), name="ends"),
    mt.session("50ms").agg(last_w=mt.last("w"), name="visit"),
]


def records_table(count: int, kind: pa.DataType) -> pa.Table:
    """Records out of order, with null keys and values; the order of equal times is settled by `place`."""
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 20_000, count)) + rng.integers(0, 500, count)
    ticks = times if pa.types.is_integer(kind) else (BASE + times) * 1000
    v = rng.normal(size=count).round(3)
    return pa.table(
        {
            "at": pa.array(ticks).cast(kind) if pa.types.is_integer(kind) else pa.array(ticks).view(kind),
            "site": pa.array(rng.choice(["a", "b", None], count).tolist(), pa.string()),
            "unit": pa.array(rng.choice([1, 2, None], count).tolist(), pa.int32()),
            "v": pa.array(v, mask=rng.random(count) < 0.1),
            "w": pa.array(rng.integers(-5, 5, count)),
            "place": pa.array(np.arange(count)),
        }
    )


def same_rows(got: DataFrame, want: pa.Table) -> None:
    """Equal rows, but for their order and rounding."""
    want = want.cast(
        pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in want.schema])
    )
    table = got.toArrow()
    assert table.column_names == want.column_names
    for name in table.column_names:
        if not pa.types.is_timestamp(table.schema.field(name).type):
            assert table.schema.field(name).type == want.schema.field(name).type, name
    fixed = ["site", "unit", "query", "window_start", "window_end", "window_id", "revision", "change"]

    def by_window(some: pa.Table) -> dict[tuple, dict]:
        times = {
            name: some[name].cast(pa.int64()) for name in ("window_start", "window_end")
        }  # the same instants, whatever the zone
        for name, column in times.items():
            some = some.set_column(some.column_names.index(name), name, column)
        return {tuple(row[name] for name in fixed if name in row): row for row in some.to_pylist()}

    found, wanted = by_window(table), by_window(want)
    assert len(found) == len(table)
    assert found.keys() == wanted.keys()
    for window, row in wanted.items():
        for name, value in row.items():
            assert agrees(found[window][name], value, 100.0), (window, name)


@pytest.fixture
def zone(spark: SparkSession) -> Any:
    """A session in another time zone than UTC."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


# ---- batch ----


@pytest.mark.parametrize("queries", [MERGED, ORDERED], ids=["merged", "ordered"])
def test_batch(spark: SparkSession, zone: None, queries: list[mt.Query]) -> None:
    table = records_table(3000, pa.timestamp("us", "UTC"))
    df = spark.createDataFrame(table).repartition(3)
    given = {"time": "at", "key": ["site", "unit"], "tie": "place"}
    out = window_aggregate(df, queries, **given)
    assert not out.isStreaming
    assert dict(out.dtypes)["window_start"] == "timestamp"
    same_rows(out, mt.aggregate(table, queries, **given, columns="all"))


def test_batch_of_plain_times(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    naive = records_table(500, pa.timestamp("us"))
    pq.write_table(naive, tmp_path / "naive.parquet")
    out = window_aggregate(spark.read.parquet(str(tmp_path)), MERGED, time="at", key="site")
    assert dict(out.dtypes)["window_end"] == "timestamp_ntz"
    same_rows(out, mt.aggregate(naive, MERGED, time="at", key="site", columns="all"))
    whole = records_table(500, pa.int64())
    query = mt.sliding(700, every=200).agg(n=mt.count())
    out = window_aggregate(spark.createDataFrame(whole), query, time="at")
    assert dict(out.dtypes)["window_end"] == "bigint"
    same_rows(out, mt.aggregate(whole, query, time="at", columns="all"))
    narrow = spark.range(120, 127).select(sf.col("id").cast("tinyint").alias("at"))
    out = window_aggregate(narrow, mt.tumbling(100).agg(n=mt.count()), time="at")
    assert [(row.window_start, row.window_end, row.n) for row in out.collect()] == [(100, 200, 7)]


def test_time_and_key_of_a_statement(spark: SparkSession, zone: None) -> None:
    table = records_table(500, pa.timestamp("us", "UTC"))
    queries = mt.sql("SELECT site, SUM(v) AS s FROM TUMBLE(e, at, '1 second') GROUP BY site, window_start")
    df = spark.createDataFrame(table)
    want = mt.aggregate(table, mt.tumbling("1s").agg(s=mt.sum("v")), time="at", key="site", columns="all")
    same_rows(window_aggregate(df, queries), want)
    with pytest.raises(ValueError, match="groups by 'site', but the key of the stream is 'unit'"):
        window_aggregate(df, queries, key="unit")
    with pytest.raises(ValueError, match="takes its time from 'at', but the time of the stream is 'place'"):
        window_aggregate(df, queries, time="place")


def test_nothing_in_nothing_out(spark: SparkSession) -> None:
    df = spark.createDataFrame(records_table(5, pa.timestamp("us", "UTC"))).where("false")
    out = window_aggregate(df, MERGED, time="at", key="site")
    assert out.count() == 0
    assert out.columns[:3] == ["site", "query", "window_start"]


def test_an_aggregate_defined_here(spark: SparkSession) -> None:
    class Widest(mt.Aggregate):
        commutative = True

        def lift(v):
            return v, v

        def combine(a, b):
            return min(a[0], b[0]), max(a[1], b[1])

        def lower(s):
            return s[1] - s[0]

    table = records_table(500, pa.timestamp("us", "UTC"))
    query = mt.tumbling("1s").agg(width=Widest("v"))
    out = window_aggregate(spark.createDataFrame(table), query, time="at", key="site")
    same_rows(out, mt.aggregate(table, query, time="at", key="site", columns="all"))


def test_mistakes(spark: SparkSession) -> None:
    df = spark.createDataFrame(records_table(5, pa.timestamp("us", "UTC")))
    query = mt.tumbling("1s").agg(n=mt.count())
    with pytest.raises(KeyError, match="no column 'nope'; it has 'at'"):
        window_aggregate(df, query, time="at", key="nope")
    with pytest.raises(TypeError, match="the time column 'v' holds double"):
        window_aggregate(df, query, time="v")
    with pytest.raises(TypeError, match="needs numbers, but column 'site' holds string"):
        window_aggregate(df, mt.tumbling("1s").agg(s=mt.sum("site")), time="at")
    with pytest.raises(ValueError, match="null_time is 'fail' or 'drop', not 'keep'"):
        window_aggregate(df, query, time="at", null_time="keep")
    with pytest.raises(ValueError, match="buckets is a number"):
        window_aggregate(df, query, time="at", buckets=0)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="a stream needs a watermark"):
        window_aggregate(stream, query, time="timestamp")
    marked = stream.withWatermark("timestamp", "1 second")
    with pytest.raises(ValueError, match="has a watermark on 'timestamp' already"):
        window_aggregate(marked, query, time="timestamp", watermark="1s")
    with pytest.raises(TypeError, match="watermark is 5, but the time column holds timestamps in microsec"):
        window_aggregate(stream, query, time="timestamp", watermark=5)
    with pytest.raises(ValueError, match="in milliseconds: '1500us' is no whole number of them"):
        window_aggregate(stream, query, time="timestamp", watermark="1500us")
    with pytest.raises(ValueError, match="lateness is '1ns', which is no whole number of microseconds: the"):
        window_aggregate(stream, query, time="timestamp", watermark="1s", lateness="1ns")
    with pytest.raises(TypeError, match="watermarks need timestamps"):
        window_aggregate(stream, mt.tumbling(1).agg(n=mt.count()), time="value", watermark="1s")
    windows = window_aggregate(marked, query, time="timestamp")
    with pytest.raises(ValueError, match="windows of windows in one streaming query"):
        window_aggregate(windows.select("window_end"), query, time="window_end", watermark="1s")
    others = {"time": "timestamp", "key": "value", "metrics": "by value"}
    windows.union(window_aggregate(marked, query, **others).drop("value"))  # else: the same metrics twice
    with pytest.raises(ValueError, match="takes a batch DataFrame"):
        fold(stream)
    with pytest.raises(ValueError, match="late records among these windows"):
        fold(df.withColumnRenamed("v", LATE))
    with pytest.raises(ValueError, match="no late records in this stream"):
        split_late(print, print)(df, 0)


def test_early_results_in_batch_and_folded(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2.0), (3, 4.0), (12, 8.0)], "at long, v double")
    early = mt.tumbling(10).agg(total=mt.sum("v"), early=5, name="early")
    for queries in ([early], [early, mt.tumbling(10).agg(total=mt.sum("v"), where="v > 2", name="plain")]):
        rows = window_aggregate(df, queries, time="at")
        assert rows.columns[-3:] == ["change", "final", "total"]
        found = {(r.query, r.window_start, r.revision, r.change, r.final, r.total) for r in rows.collect()}
        want = {("early", 0, 0, "insert", True, 6.0), ("early", 10, 0, "insert", True, 8.0)}
        want |= {("plain", 0, 0, "insert", True, 4.0), ("plain", 10, 0, "insert", True, 8.0)}
        assert found == {row for row in want if row[0] in {query.name for query in queries}}
    schema = "query string, window_start long, window_end long, window_id long, revision long, "
    schema += "change string, final boolean, total double"
    told = [("early", 0, 10, None, 0, "insert", False, 2.0), ("early", 0, 10, None, 1, "update", True, 6.0)]
    told += [("early", 10, 20, None, 0, "insert", False, 8.0), ("gone", 0, 10, None, 0, "insert", False, 1.0)]
    told += [("gone", 10, 20, None, 0, "insert", True, 3.0)]
    written = spark.createDataFrame(told, schema)

    def totals(df: DataFrame) -> list[float]:
        return sorted(row.total for row in df.collect())

    assert totals(fold(written)) == [1.0, 3.0, 6.0, 8.0]
    assert totals(fold(written, queries=early)) == [3.0, 6.0, 8.0]  # what was complete has been said
    assert totals(fold(written.where("final"))) == [3.0, 6.0]
    with pytest.raises(ValueError, match="columns 'final' and 'Final', which Spark does not tell apart"):
        window_aggregate(df, mt.tumbling(10).agg(Final=mt.sum("v"), early=5), time="at")


# ---- streams ----

GRID = Spec("grid", "sliding", (600, 200, 0), {"n": ("count",), "s": ("sum", "v")})
DAY = Spec("day", "cumulate", (1000, 250), {"avg": ("mean", "v"), "own": ("squares", "v")})
VISIT = Spec("visit", "session", (150,), {"n": ("count",), "low": ("min", "w")})
SEVENS = Spec("sevens", "count_tumbling", (7,), {"last": ("last", "w")})


def query_in_ms(spec: Spec) -> mt.Query:
    """The query of a spec whose ticks are milliseconds."""
    query = query_of(spec)
    window = query.window
    if spec.early is not None:
        query = dataclasses.replace(query, early=f"{spec.early}ms")
    if window.family == "count":
        return query
    written = {name: f"{value}ms" for name, value in window.parameters().items() if name != "offset"}
    return dataclasses.replace(query, window=getattr(mt, window.kind)(**written))


def drawn_batches(count: int, size: int) -> list[list[Record]]:
    """Micro-batches with disorder, late records and null keys."""
    rng = np.random.default_rng(3)
    batches, seq = [], 0
    for number in range(count):
        batch = []
        for _ in range(size):
            lag = int(rng.choice([0, 50, 200, 600, 3000], p=[0.5, 0.2, 0.15, 0.1, 0.05]))
            t = BASE + number * 1000 + int(rng.integers(0, 1000)) - lag
            key = ([None, "a", "b", "c"][rng.integers(4)], [None, 1][rng.integers(2)])
            batch.append(Record(t, float(rng.integers(-8, 8)), int(rng.integers(9)), key, seq))
            seq += 1
        batches.append(batch)
    return batches


def table_of(records: list[Record]) -> pa.Table:
    """Records as a table of a user, with times in microseconds."""
    return pa.table(
        {
            "at": pa.array([r.t * 1000 for r in records]).view(pa.timestamp("us", "UTC")),
            "site": pa.array([r.key[0] for r in records], pa.string()),
            "unit": pa.array([r.key[1] for r in records], pa.int64()),
            "v": pa.array([r.v for r in records]),
            "w": pa.array([r.w for r in records]),
            "place": pa.array([r.tie for r in records]),
        }
    )


class Files:
    """A stream of files, one for each micro-batch, and what came of it."""

    def __init__(self, spark: SparkSession, directory: Path, **given: Any) -> None:
        self.spark = spark
        self.given = given
        self.inputs, self.checkpoint = directory / "in", directory / "checkpoint"
        self.inputs.mkdir()
        self.rows: dict[int, list[Row]] = {}
        self.late = 0
        self.late_records: list[Record] = []
        self.broken: int | None = None  # the micro-batch that shall fail
        self.written = 0

    def write(self, records: list[Record]) -> None:
        path = self.inputs / f"{self.written:04}.parquet"
        pq.write_table(table_of(records), path)
        os.utime(path, (10**9 + self.written, 10**9 + self.written))
        self.written += 1

    def run(self, specs: list[Spec]) -> None:
        """Process all files that are there; raises what a micro-batch raises."""
        schema = "at timestamp, site string, unit bigint, v double, w bigint, place bigint"
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        queries = [query_in_ms(spec) for spec in specs]
        out = window_aggregate(
            source.parquet(str(self.inputs)),
            queries,
            time="at",
            key=["site", "unit"],
            tie="place",
            **self.given,
        )
        take = split_late(self._take, self._take_late) if self.given.get("keep_late") else self._take
        writer = out.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.awaitTermination()
        finally:
            seen = [p.observedMetrics.get("muntin") for p in query.recentProgress]
            self.late += sum(row.late_dropped for row in seen if row is not None)

    def _take(self, df: DataFrame, number: int) -> None:
        table = df.toArrow()
        if number == self.broken:
            self.broken = None
            raise RuntimeError("the power failed")
        for name in ("window_start", "window_end"):
            at = table.column_names.index(name)
            ticks = pa.array(table[name].cast(pa.int64()).to_numpy() // 1000)
            table = table.set_column(at, name, ticks)
        assert number not in self.rows
        self.rows[number] = told(table, ("site", "unit"))

    def _take_late(self, df: DataFrame, number: int) -> None:
        table = df.toArrow()
        assert table.column_names == ["at", "site", "unit", "v", "w", "place"]
        stamps = table["at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1000
        for t, row in zip(stamps.tolist(), table.drop_columns(["at"]).to_pylist(), strict=True):
            assert row["place"] not in {record.tie for record in self.late_records}
            key = row["site"], row["unit"]
            self.late_records.append(Record(t, row["v"], row["w"], key, row["place"]))


class Expected:
    """What the oracle says to the same micro-batches."""

    def __init__(self, specs: list[Spec], lateness: int, delay: int) -> None:
        self.oracle = SparkOracle(specs, "manual", lateness, tie=True)
        self.delay = self.oracle.delay = delay
        self.watermark: float = -np.inf
        self.largest: float = -np.inf
        self.rows: list[list[Row]] = []

    def micro_batch(self, records: list[Record]) -> None:
        self.watermark = max(self.watermark, self.largest - self.delay)
        self.rows.append(self.oracle.micro_batch(records, self.watermark))
        self.largest = max([self.largest, *(r.t for r in records)])

    def change(self, specs: list[Spec]) -> None:
        """Queries come and go."""
        names = {spec.name for spec in specs}
        for name in [name for name in self.oracle.queries if name not in names]:
            self.oracle.remove(name)
        self.oracle.largest = max(self.watermark, self.largest - self.delay) + self.delay
        for spec in specs:
            if spec.name not in self.oracle.queries:
                self.oracle.add(spec)


@pytest.mark.parametrize(
    ("specs", "keep_late"),
    [
        ([GRID, DAY], False),
        ([GRID, VISIT, SEVENS], True),
        ([dataclasses.replace(GRID, early=250), dataclasses.replace(VISIT, early=100), SEVENS], True),
    ],
    ids=["merged", "ordered, and late records kept", "with early results"],
)
def test_stream(spark: SparkSession, zone: None, tmp_path: Path, specs: list[Spec], keep_late: bool) -> None:
    """Disorder, late records, null keys; the job fails twice, and its queries change half-way."""
    lateness, delay = 500, 300
    files = Files(spark, tmp_path, watermark="300ms", lateness="500ms", buckets=3, keep_late=keep_late)
    expected = Expected(specs, lateness, delay)
    batches = drawn_batches(5, 60)
    for batch in batches[:3]:
        files.write(batch)
        expected.micro_batch(batch)
    expected.micro_batch([])
    files.broken = 1
    with pytest.raises(StreamingQueryException, match="the power failed"):
        files.run(specs)
    files.run(specs)
    changed = [specs[1], dataclasses.replace(specs[0], name="later", params=(400, 200, 0)), *specs[2:]]
    expected.change(changed)
    for batch in batches[3:]:
        files.write(batch)
        expected.micro_batch(batch)
    expected.micro_batch([])
    files.given["buckets"] = 2
    with pytest.raises(StreamingQueryException, match="written with buckets=3, and this job has 2"):
        files.run(changed)
    files.given["buckets"] = 3
    files.run(changed)
    for number, want in enumerate(expected.rows):
        check_rows(files.rows.get(number, []), want, [*specs, *changed], f"micro-batch {number}")
    assert len(expected.oracle.dropped) > 0
    assert files.late == len(expected.oracle.dropped)
    wanted = expected.oracle.dropped if keep_late else []
    assert sorted(files.late_records, key=lambda record: record.tie) == wanted
    _check_fold(spark, files, expected)


def _check_fold(spark: SparkSession, files: Files, expected: Expected) -> None:
    """Folded rows are the view at the end, with what removed queries have said."""
    rows = [row for some in files.rows.values() for row in some]
    kinds = {"site": "string", "unit": "bigint", "query": "string", "window_start": "bigint"}
    kinds |= {"window_end": "bigint", "window_id": "bigint", "revision": "bigint"}
    kinds |= {"change": "string", "n": "bigint"}
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    listed = [(*r.key, r.query, r.start, r.end, r.id, r.revision, r.change, r.values.get("n")) for r in rows]
    got = {
        tuple(row[:6]): row for row in fold(spark.createDataFrame(listed, schema).repartition(2)).collect()
    }
    written = spark.createDataFrame(listed, schema)
    assert fold(written).columns == list(kinds)
    moved = written.select(*written.columns[1:], "site")  # as in a table written with partitionBy("site")
    again = fold(moved, key=["site", "unit"]).select(*written.columns).collect()
    assert {tuple(row[:6]): row for row in again} == got
    with pytest.raises(KeyError, match="no column 'revision'"):
        fold(written.drop("revision"))
    last: dict[tuple, Row] = {}
    for row in rows:
        window = row.id if row.id is not None else (row.start, row.end)
        if row.revision >= last.get((row.key, row.query, window), row).revision:
            last[row.key, row.query, window] = row
    want = {
        (*r.key, r.query, r.start, r.end, r.id): r.values.get("n")
        for r in last.values()
        if r.change != "retract"
    }
    assert {window: row["n"] for window, row in got.items()} == want
    assert any(row.revision for row in rows)


# ---- records without a time, and output modes ----

TIMELESS = [
    [{"at": None, "site": "a"}],
    [{"at": "2024-01-01 00:00:01", "site": "a"}, {"at": None, "site": "b"}, {"site": "a"}],
    [{"at": None, "site": "c"}],
    [{"at": "2024-01-01 00:00:09", "site": "a"}],
]
PER_SECOND = mt.tumbling("1s").agg(n=mt.count())


def timeless(spark: SparkSession, directory: Path, *, streaming: bool) -> DataFrame:
    """Records some of which have no time: four files, each a micro-batch."""
    directory.mkdir()
    for number, records in enumerate(TIMELESS):
        path = directory / f"{number}.json"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(path, (10**9 + number, 10**9 + number))
    reader = spark.readStream.option("maxFilesPerTrigger", 1) if streaming else spark.read
    return reader.schema("at timestamp, site string").json(str(directory))


def run_to_the_end(out: DataFrame, mode: str = "append") -> tuple[list[tuple], list[Any]]:
    """What comes of a stream: rows with the number of their micro-batch, and what was counted in each."""
    rows: list[tuple] = []

    def take(batch: DataFrame, number: int) -> None:
        rows.extend((number, row.site, row.window_start.second, row.n) for row in batch.collect())

    query = out.writeStream.foreachBatch(take).outputMode(mode).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows, [p.observedMetrics["muntin"].asDict() for p in query.recentProgress]


def test_a_batch_with_records_without_a_time(spark: SparkSession, tmp_path: Path) -> None:
    df = timeless(spark, tmp_path / "in", streaming=False)
    with pytest.raises(
        PythonException, match=r"ValueError: the time column 'AT' is null in .*null_time='drop'"
    ):
        window_aggregate(df, PER_SECOND, time="AT", key="site").collect()
    out = window_aggregate(df, PER_SECOND, time="at", key="site", null_time="drop")
    assert sorted((row.window_start.second, row.n) for row in out.collect()) == [(1, 1), (9, 1)]


def test_a_stream_with_records_without_a_time_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    df = timeless(spark, tmp_path / "in", streaming=True)
    given = {"time": "at", "key": "site", "watermark": "1s", "buckets": 2}
    rows, counted = run_to_the_end(window_aggregate(df, PER_SECOND, **given))
    assert rows == [(4, "a", 1, 1)]
    assert [step["null_times"] for step in counted] == [1, 2, 1, 0, 0]
    assert sum(step["records_in"] for step in counted) == 2
    assert sum(step["late_dropped"] for step in counted) == 0
    with pytest.raises(StreamingQueryException, match="the time column 'at' is null in 1 record"):
        run_to_the_end(window_aggregate(df, PER_SECOND, **given, null_time="fail"))


def test_output_modes(spark: SparkSession, tmp_path: Path) -> None:
    """Update mode gives the rows of append mode; complete mode is not for streams without an aggregation."""
    df = timeless(spark, tmp_path / "in", streaming=True)
    out = window_aggregate(df, PER_SECOND, time="at", key="site", watermark="1s", buckets=2)
    assert run_to_the_end(out, "update")[0] == [(4, "a", 1, 1)]
    with pytest.raises(AnalysisException, match="Invalid streaming output mode: complete"):
        run_to_the_end(out, "complete")


SUBMITTED = """
from pyspark.sql import SparkSession, functions as sf
import muntin as mt
from muntin.spark import window_aggregate
spark = SparkSession.builder.getOrCreate()
df = spark.range(0, 10_000, 1, 4).select((sf.col("id") % 7).alias("k"), sf.col("id").alias("t"))
rows = window_aggregate(df, mt.tumbling(1000).agg(n=mt.count()), time="t", key="k").collect()
assert len(rows) == 70 and sum(row.n for row in rows) == 10_000, rows
print("muntin on executors:", df.rdd.map(lambda row: __import__("muntin").__file__).distinct().collect())
"""


def test_executors_of_their_own_with_muntin_from_py_files(tmp_path: Path) -> None:
    """On local-cluster, executors are processes that share nothing with the driver."""
    (tmp_path / "job.py").write_text(SUBMITTED)
    shutil.make_archive(str(tmp_path / "muntin"), "zip", ROOT / "src", "muntin")
    settings = ["spark.ui.enabled=false", "spark.executor.memory=1g", "spark.sql.shuffle.partitions=2"]
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local-cluster[2,1,1024]"]
    command += [word for setting in settings for word in ("--conf", setting)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*command, "--py-files", "muntin.zip", "job.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "muntin on executors: ['./muntin.zip/muntin/__init__.py']" in done.stdout, done.stderr[-2000:]
