"""The dashboard as a sink of Spark streams."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.spark import Dashboard, ParquetTable, replay, window_aggregate
from tests.dashboard.pages import get, page

QUERIES = [
    mt.tumbling("5s").agg(top=mt.max("mf01"), name="top"),
    mt.count_tumbling(100).agg(n=mt.count(), name="hundreds"),
]


def test_micro_batches_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "windows")
    dashboard = Dashboard(table, queries=QUERIES, port=0, title="machines")
    spark.streams.addListener(dashboard.progress)
    try:
        records = replay(spark, "factory", per_batch="10s", delay="2s", seed=1, seconds=40, machines=2)
        windows = window_aggregate(
            records, QUERIES, time="ts", key=["machine"], watermark="2 seconds", buckets=2
        )
        query = (
            windows.writeStream.foreachBatch(dashboard)
            .option("checkpointLocation", str(tmp_path / "state"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert table.read().num_rows
        with page(dashboard._served) as one:
            header, _ = one.until("update", lambda header, _: _shown(header))
            assert set(header["state"]["rows"]) == {"top", "hundreds"}
            _, bars = one.ask(type="lanes", query="top", key=0)
            assert len(bars["start"]) >= 6
            refused, _ = one.ask(type="lookup", query="top", key=0, start=0, end=10)
            assert "runs elsewhere" in refused["message"]
        assert 'muntin_micro_batch_records{stream="machines"}' in get(dashboard._served, "/metrics")[2]
    finally:
        spark.streams.removeListener(dashboard.progress)
        dashboard.stop()


def _shown(header: dict[str, Any]) -> bool:
    state = header["state"]
    return bool(state["rows"].get("hundreds")) and "micro_batch" in state


def test_what_the_sink_raises_reaches_spark(spark: SparkSession) -> None:
    def fail(batch: object, number: int) -> None:
        raise ValueError(f"no room for batch {number}")

    dashboard = Dashboard(fail, port=0)
    try:
        with pytest.raises(ValueError, match="no room for batch 7"):
            dashboard(spark.range(1), 7)
        time.sleep(0.6)
        assert not len(dashboard._hub.recent)
    finally:
        dashboard.stop()
