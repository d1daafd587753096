"""A driver that is killed goes on where it was: no window is lost, none comes twice."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.killed import SPECS
from tests.spark.test_spark import ROOT, Expected, Files, drawn_batches
from tests.spark.test_workers import check_rows
from tests.test_operator import told

BATCHES = 8
KILLS = 5


def start(directory: Path) -> subprocess.Popen[bytes]:
    """A driver with its JVM and workers, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spark.killed", str(directory)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill the driver, its JVM and its workers, as if the power had failed."""
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def run_until(directory: Path, batches: int, more: float) -> bool:
    """Run a driver until so many micro-batches are there, and a while; tell whether it was killed."""
    driver = start(directory)
    try:
        while len(list((directory / "rows").glob("*.parquet"))) < batches and driver.poll() is None:
            time.sleep(0.02)
        time.sleep(more)
        return driver.poll() is None
    finally:
        if driver.poll() is None:
            kill(driver)


@pytest.mark.xdist_group("spark")
def test_a_driver_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    rng = random.Random(11)
    (tmp_path / "rows").mkdir()
    files = Files(None, tmp_path)  # type: ignore[arg-type]
    batches = drawn_batches(BATCHES, 40)
    for batch in batches:
        files.write(batch)
    points = sorted(rng.sample(range(BATCHES - 1), KILLS))
    killed = [run_until(tmp_path, point, rng.random()) for point in points]
    assert sum(killed) >= KILLS - 1  # the last one may have come too late
    last = start(tmp_path)
    try:
        assert last.wait(timeout=240) == 0
    finally:
        if last.poll() is None:
            kill(last)
    expected = Expected(SPECS, lateness=500, delay=300)
    for read in files_of_micro_batches(tmp_path / "checkpoint"):
        expected.micro_batch([record for batch in batches[read] for record in batch])
    for number, want in enumerate(expected.rows):
        path = tmp_path / "rows" / f"{number}.parquet"
        check_rows(in_milliseconds(path) if path.exists() else [], want, SPECS, f"micro-batch {number}")


def files_of_micro_batches(checkpoint: Path) -> list[slice]:
    """Return which files each micro-batch had, by Spark's log of offsets.

    The source notes a file before the micro-batch is logged. A driver that is killed in between goes on with
    one more file in that micro-batch.
    """
    count = len(list((checkpoint / "commits").glob("[0-9]*")))
    logs = [(checkpoint / "offsets" / str(number)).read_text().splitlines() for number in range(count)]
    ends = [json.loads(lines[2])["logOffset"] + 1 for lines in logs]
    assert ends[-1] == BATCHES
    return [slice(begin, end) for begin, end in itertools.pairwise([0, *ends])]


def in_milliseconds(path: Path) -> list:
    """The rows of a micro-batch."""
    table = pq.read_table(path)
    for name in ("window_start", "window_end"):
        ticks = pa.array(table[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1000)
        table = table.set_column(table.column_names.index(name), name, ticks)
    return told(table, ("site", "unit"))
