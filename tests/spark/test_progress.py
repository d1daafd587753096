"""Progress: what each micro-batch did, as metrics."""

import json
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from muntin.spark import Progress, replay
from muntin.spark.progress import read_progress

REPORT = {
    "id": "i",
    "runId": "r",
    "name": None,
    "batchId": 2,
    "timestamp": "2026-01-01T00:00:10.000Z",
    "numInputRows": 500,
    "durationMs": {"triggerExecution": 250},
    "eventTime": {"max": "2026-01-01T00:00:09.500Z", "watermark": "2026-01-01T00:00:04.000Z"},
    "stateOperators": [
        {"numRowsTotal": 3, "memoryUsedBytes": 100},
        {"numRowsTotal": 4, "memoryUsedBytes": 50},
    ],
    "observedMetrics": {"muntin": {"late_dropped": 7}},
}


def test_a_report():
    batch = read_progress(REPORT)
    assert (batch.query, batch.run, batch.batch) == ("i", "r", 2)
    assert (batch.rows, batch.seconds, batch.rows_per_second) == (500, 0.25, 2000)
    assert (batch.state_rows, batch.state_bytes) == (7, 150)
    assert batch.watermark == datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC)
    assert batch.watermark_lag == 5.5
    assert batch.observed == {"muntin.late_dropped": 7}


def test_a_report_before_there_is_a_watermark():
    early = {**REPORT, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "stateOperators": []}
    batch = read_progress(early)
    assert (batch.watermark, batch.watermark_lag, batch.state_bytes) == (None, None, 0)


def test_a_report_of_records_without_a_time():
    """Spark takes a null for the first moment of 1970."""
    times = {"max": "1970-01-01T00:00:00.000Z", "watermark": "2026-01-01T00:00:04.000Z"}
    batch = read_progress({**REPORT, "eventTime": times})
    assert batch.watermark == datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC)
    assert batch.watermark_lag is None


@pytest.fixture(scope="module")
def progress(spark, tmp_path_factory):
    called = []
    listener = Progress(on_batch=called.append)
    spark.streams.addListener(listener)
    try:
        records = replay(spark, "factory", seconds=8, speed=None, per_batch="5s")
        counted = records.withWatermark("ts", "1 second").groupBy("machine", "ts").count()
        query = (
            counted.writeStream.format("noop")
            .queryName("counted")
            .option("checkpointLocation", str(tmp_path_factory.mktemp("state")))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(100)
        deadline = time.monotonic() + 60  # Spark tells a moment later
        while sum(b.rows for b in called if b.query == "counted") < 800 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert called == listener.batches
    return listener


def test_metrics_of_a_query(progress):
    # Spark may tell of the last micro-batch of an earlier test as well.
    batches = [batch for batch in progress.batches if batch.rows and batch.query == "counted"]
    assert sum(batch.rows for batch in batches) == 800
    assert all(batch.rows_per_second > 0 and batch.seconds > 0 for batch in batches)
    assert batches[-1].state_rows > 0
    assert batches[-1].state_bytes > 0
    assert batches[-1].watermark_lag > 0
    assert progress.failures == {}


def test_export(progress, tmp_path):
    table = progress.to_arrow()
    assert table.num_rows == len(progress.batches)
    assert table.schema.field("watermark").type == pa.timestamp("us", "UTC")
    assert table["rows"].to_pylist() == [batch.rows for batch in progress.batches]
    progress.to_json_lines(tmp_path / "progress.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [line["state_bytes"] for line in lines] == [batch.state_bytes for batch in progress.batches]
    assert datetime.fromisoformat(lines[0]["started"]) == progress.batches[0].started


def test_nothing_yet():
    assert Progress().to_arrow().num_rows == 0
    assert len(Progress().plot().axes) == 3


def test_plot(progress):
    figure = progress.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["rows a second", "state, MB", "watermark lag, s"]
    for axes in figure.axes:
        assert sum(len(line.get_xdata()) for line in axes.lines) == len(progress.batches)


def test_failures_are_kept(spark, tmp_path):
    listener = Progress()
    spark.streams.addListener(listener)

    def fail(batch, number):
        raise RuntimeError("no space left")

    try:
        stream = replay(spark, "factory", seconds=1, speed=None)
        query = stream.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path)).start()
        with pytest.raises(Exception, match="no space left"):
            query.awaitTermination(60)
        deadline = time.monotonic() + 60
        while not listener.failures and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert "no space left" in listener.failures[str(query.runId)]
