"""Drivers, executors and workers that are killed: no window is lost, none comes twice."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.killed import SPECS
from tests.spark.test_spark import ROOT, Expected, Files, drawn_batches
from tests.spark.test_workers import check_rows
from tests.test_operator import told
from tests.windows_oracle import Record

BATCHES = 7
KILLS = 5
Driver = subprocess.Popen[bytes]


@pytest.fixture
def batches(tmp_path: Path) -> list[list[Record]]:
    """The records of a stream, which lie in files."""
    (tmp_path / "rows").mkdir()
    files = Files(None, tmp_path)  # type: ignore[arg-type]
    drawn = drawn_batches(BATCHES, 40)
    for batch in drawn:
        files.write(batch)
    return drawn


@contextlib.contextmanager
def driver_of(directory: Path, master: str) -> Iterator[Driver]:
    """A driver with its JVM and workers, in a session of its own; what is left of it is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spark.killed", str(directory), master]
    driver = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield driver
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)  # as if the power had failed
            driver.wait()


def wait_for(directory: Path, driver: Driver, count: int, more: float) -> bool:
    """Wait until so many micro-batches are there, and a while; tell whether the driver still runs."""
    while len(list((directory / "rows").glob("*.parquet"))) < count and driver.poll() is None:
        time.sleep(0.02)
    time.sleep(more)
    return driver.poll() is None


def test_a_driver_that_is_killed_goes_on_where_it_was(tmp_path: Path, batches: list[list[Record]]) -> None:
    rng = random.Random(11)
    killed = 0
    for point in sorted(rng.sample(range(BATCHES - 1), KILLS)):
        with driver_of(tmp_path, "local[2]") as driver:
            killed += wait_for(tmp_path, driver, point, rng.random())
    assert killed >= KILLS - 1  # the last one may have come too late
    with driver_of(tmp_path, "local[2]") as driver:
        assert driver.wait(timeout=240) == 0
    check_result(tmp_path, batches)


def test_workers_and_executors_that_are_killed_are_replaced(
    tmp_path: Path, batches: list[list[Record]]
) -> None:
    """Spark runs their tasks again, here or there: on the state of the last micro-batch, not on theirs."""
    rng = random.Random(12)
    points = sorted(rng.sample(range(BATCHES - 1), KILLS))
    victims: list[Callable[[int], list[int]]] = [busy_workers, executors] * 3
    killed = 0
    with driver_of(tmp_path, "local-cluster[2,1,1024]") as driver:
        for point, find in zip(points, victims, strict=False):
            if wait_for(tmp_path, driver, point, rng.random() / 3):
                killed += kill_one(driver, find, rng)
        assert driver.wait(timeout=240) == 0
    assert killed >= KILLS - 1  # the last one may have come too late
    assert int((tmp_path / "failed_tasks").read_text()) > 0  # some were at work
    check_result(tmp_path, batches)


def kill_one(driver: Driver, find: Callable[[int], list[int]], rng: random.Random) -> bool:
    """Kill one of the processes of a driver that are looked for as soon as there is one; False: none came."""
    while driver.poll() is None:
        found = find(driver.pid)
        if found:
            os.kill(rng.choice(found), signal.SIGKILL)
            return True
        time.sleep(0.005)
    return False


def executors(session: int) -> list[int]:
    """The Java processes of a driver's executors."""
    return [p.pid for p in processes(session) if b"CoarseGrainedExecutorBackend" in p.command]


def busy_workers(session: int) -> list[int]:
    """The Python workers of a driver's executors that compute at this moment."""
    java = set(executors(session))
    there = processes(session)
    daemons = {p.pid for p in there if p.parent in java}  # each starts the workers of an executor
    return [p.pid for p in there if p.parent in daemons and p.state == "R"]


class Process(NamedTuple):
    pid: int
    parent: int
    state: str
    command: bytes


def processes(session: int) -> list[Process]:
    """The processes of a session, by what Linux tells of them."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            state, parent, _, its_session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session:
                found.append(Process(int(path.name), int(parent), state, (path / "cmdline").read_bytes()))
    return found


def check_result(directory: Path, batches: list[list[Record]]) -> None:
    """The rows of each micro-batch are those of the oracle."""
    expected = Expected(SPECS, lateness=500, delay=300)
    for read in files_of_micro_batches(directory / "checkpoint"):
        expected.micro_batch([record for batch in batches[read] for record in batch])
    for number, want in enumerate(expected.rows):
        path = directory / "rows" / f"{number}.parquet"
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
