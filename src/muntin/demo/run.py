"""Runs the demo: starts the streams, shows how they get on, prints tables and writes the page."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.live import Live

from muntin.console.mistakes import FAILED, INTERRUPTED, MISTAKEN, SPARK, MistakeError, need
from muntin.console.terminal import errors_into, interruption
from muntin.demo.page import write_first_picture, write_page
from muntin.demo.streams import STREAMS, Stream
from muntin.demo.tables import progress_table, show_results
from muntin.generate import GENERATORS, Arrivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from muntin.spark import ParquetTable, Progress
    from muntin.spark.progress import BatchMetrics

PLAYED_IN = 24  # seconds of real time in which the recording is replayed
BATCH = 6  # seconds of real time for one micro-batch at most, also after the first, in which workers compile
DELAY = "2s"  # by which records come late at most, and the watermark of the queries


class QueryFailedError(Exception):
    """A streaming query ended by itself."""


@dataclass
class Running:
    """A stream that runs: its query, its table of windows, and where its recording ends."""

    stream: Stream
    query: StreamingQuery
    table: ParquetTable
    end: int

    @property
    def arrived(self) -> int:
        """Return how much of the recording is processed, in microseconds."""
        last = self.query.lastProgress
        offset = last["sources"][0]["endOffset"] if last else None
        return int(json.loads(offset)["arrived"]) if offset else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return 0, 130 if Ctrl-C ended it, 1 if a query failed, 2 without Spark or Java."""
    parser = argparse.ArgumentParser(prog="python -m muntin.demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="length of the recordings (120)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory of the results (out)")
    options = parser.parse_args(argv)
    console = Console()
    try:
        need("the demo", "spark", SPARK)
    except MistakeError as error:
        print(f"muntin: {error}", file=sys.stderr)
        return MISTAKEN
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        return _demo(console, options.seconds, options.out)
    except KeyboardInterrupt:  # before there is anything to show
        console.print("Interrupted.")
        return INTERRUPTED


def _demo(console: Console, seconds: float, out: Path) -> int:
    from muntin.spark import JavaError, local_session

    queries = sum(len(stream.queries) for stream in STREAMS)
    console.print(f"{queries} window queries over {len(STREAMS)} streams of football and factory sensors.")
    began = time.monotonic()
    with console.status("Drawing a first picture"):
        picture = write_first_picture(out / "first.svg")
    console.print(f"A minute of it, computed without Spark, is in {picture}.")
    try:
        with (out / "demo.log").open("wb") as log, errors_into(log), console.status("Starting Spark"):
            spark = local_session("muntin demo")
    except JavaError as error:
        console.print(f"[red]{error}[/red]")
        return MISTAKEN
    with spark:
        code = run(console, spark, STREAMS, seconds, out)
    console.print(f"{time.monotonic() - began:.0f} s in all. What Spark said is in {out / 'demo.log'}.")
    return code


def run(
    console: Console,
    spark: SparkSession,
    streams: Sequence[Stream],
    seconds: float,
    out: Path,
    played_in: float = PLAYED_IN,
) -> int:
    """Run the streams to their end, or until Ctrl-C; show and write what came out; return the exit code."""
    from muntin.spark import Progress

    (out / "demo").mkdir(parents=True, exist_ok=True)
    progress = Progress()
    spark.streams.addListener(progress)
    running: list[Running] = []
    try:
        with tempfile.TemporaryDirectory() as state, interruption() as interrupted:
            try:
                for stream in streams:  # one by one: what runs is stopped even if the next does not start
                    one = _start(spark, stream, out / "demo", Path(state), seconds, played_in)
                    running.append(one)
                    with console.status(f"Starting {stream.name}"):
                        _await_first_batch(one, interrupted)
                    if interrupted.is_set():
                        break
                _watch(console, running, progress, interrupted, seconds)
            finally:
                for one in running:
                    one.query.stop()
            _catch_up(progress, running)
    except QueryFailedError as error:
        console.print(f"[red]{error}[/red]")
        return FAILED
    finally:
        spark.streams.removeListener(progress)
    results = _results(running)
    show_results(console, results)
    batches = _batches(progress, running)
    records = sum(batch.rows for batch in batches)
    windows = sum(len(table) for table in results.values())
    page = write_page(out / "demo.html", results, batches)
    progress.to_json_lines(out / "demo" / "progress.jsonl")
    ended = "Interrupted after" if interrupted.is_set() else "Done:"
    console.print(
        f"{ended} {records:,} records, {windows:,} windows. Pictures are in {page}, "
        f"the windows as Parquet in {out / 'demo'}."
    )
    return INTERRUPTED if interrupted.is_set() else 0


def _start(
    spark: SparkSession, stream: Stream, out: Path, state: Path, seconds: float, played_in: float
) -> Running:
    """Start a stream: replayed, filtered, windowed, and folded into a table."""
    from muntin.spark import ParquetTable, replay, window_aggregate

    how = {"seconds": seconds, **stream.options}
    records = replay(
        spark,
        stream.source,
        speed=seconds / played_in,
        per_batch=f"{seconds / played_in * BATCH * 1000:.0f}ms",
        delay=DELAY,
        seed=7,
        **how,
    )
    # Spark moves a filter on other columns ahead of the watermark, wherever either is written: the watermark
    # goes by the records that pass it, and stands still while nobody has the ball.
    records = records.withWatermark("ts", DELAY.replace("s", " seconds"))
    if stream.where:
        records = records.where(stream.where)
    windows = window_aggregate(records, stream.queries, time="ts", key=stream.key, buckets=2)
    shutil.rmtree(out / stream.name, ignore_errors=True)  # of an earlier run
    table = ParquetTable(out / stream.name)
    query = (
        windows.writeStream.foreachBatch(table)
        .queryName(stream.name)
        .option("checkpointLocation", str(state / stream.name))
        .start()
    )
    end = Arrivals(GENERATORS[stream.source](**how), delay=DELAY).length + 1
    return Running(stream, query, table, end)


def _await_first_batch(one: Running, interrupted: threading.Event) -> None:
    """Let a stream's processes start before those of the next: Spark gives each 10 s to report back."""
    while one.query.isActive and one.query.lastProgress is None and not interrupted.wait(0.1):
        pass


def _watch(
    console: Console, running: list[Running], progress: Progress, interrupted: threading.Event, seconds: float
) -> None:
    """Show how the streams get on until all have come to their end, or Ctrl-C."""
    with Live(console=console, refresh_per_second=4) as live:
        while not interrupted.wait(0.25):
            live.update(progress_table([one.stream.name for one in running], progress.batches, seconds))
            for one in running:
                if not one.query.isActive:
                    raise QueryFailedError(f"The query {one.stream.name!r} ended: {_reason(one.query)}")
            if all(one.arrived >= one.end for one in running):
                break
    if not interrupted.is_set():
        for one in running:
            one.query.processAllAvailable()  # the windows that the last records closed


def _batches(progress: Progress, running: list[Running]) -> list[BatchMetrics]:
    """Return the micro-batches of these runs: the session may have others, or have had these before."""
    runs = {str(one.query.runId) for one in running}
    return [batch for batch in progress.batches if batch.run in runs]


def _catch_up(progress: Progress, running: list[Running]) -> None:
    """Wait until Spark has told of the last micro-batches, which it does a moment later."""
    deadline = time.monotonic() + 5
    last = {one.stream.name: one.query.lastProgress for one in running}
    while time.monotonic() < deadline:
        told = {batch.query: batch.batch for batch in _batches(progress, running)}
        if all(report is None or told.get(name, -1) >= report["batchId"] for name, report in last.items()):
            return
        time.sleep(0.05)


def _reason(query: StreamingQuery) -> str:
    error = query.exception()
    return str(error).strip().splitlines()[0] if error else "it was stopped."


def _results(running: list[Running]) -> dict[str, pa.Table]:
    """Return the windows of each query, by time; of those that have any."""
    results = {}
    for one in running:
        try:
            windows = one.table.read()
        except KeyError:  # interrupted before the first
            continue
        for query in one.stream.queries:
            mine = windows.filter(pc.equal(windows["query"], query.name))
            columns = [*one.stream.key, "window_start", "window_end", *query.aggregates]
            results[str(query.name)] = mine.select(columns).sort_by("window_end")
    return results
