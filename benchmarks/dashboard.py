"""What pages cost a stream: `make bench-dashboard`, or `python -m benchmarks.dashboard --help`.

An operator with 20 queries takes in records as fast as it can on one thread, by turns alone and with 50 pages
open in another process, each of which gets two updates a second and says that it has read them. One more
page never reads, and must be dropped within 5 s. With --soak, memory must stay flat for so many minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import pyarrow as pa

import muntin as mt
from benchmarks.report import show, verdict
from muntin.dashboard import Dashboard, serve

LEAST = 0.8  # of the speed alone
DROPPED = 5.0  # seconds within which a page that never reads is dropped
GROWTH = 1.1  # by which memory may grow in the second half of a soak: in the first, what is kept fills up
BATCH, KEYS, RATE = 100_000, 20, 1_000_000  # records, keys, records of event time a second


def queries() -> list[mt.Query]:
    """Twenty queries: lines, and sliding, tumbling and count windows."""
    windows = [mt.tumbling("200ms").agg(line=mt.m4("v"), name="line")]
    windows += [
        mt.sliding(f"{k}s", every="1s").agg(mean=mt.mean("v"), name=f"mean {k} s") for k in range(2, 11)
    ]
    windows += [
        mt.tumbling(f"{k}s").agg(top=mt.max("v"), n=mt.count(), name=f"top {k} s") for k in range(1, 10)
    ]
    return [*windows, mt.count_tumbling(10_000).agg(top=mt.max("v"), name="counts")]


class Stream:
    """Batches of records that follow one another in time, made before they are timed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self._keys, self._values = pa.array(rng.integers(0, KEYS, BATCH)), pa.array(rng.normal(size=BATCH))
        self._offsets = np.arange(BATCH) * 1_000_000 // RATE
        self._at = 1_700_000_000_000_000

    def next(self) -> pa.Table:
        """Return the next batch."""
        times = pa.array(self._offsets + self._at).view(pa.timestamp("us"))
        self._at += BATCH * 1_000_000 // RATE
        return pa.table({"t": times, "k": self._keys, "v": self._values})


def speed(operator: mt.WindowOperator, stream: Stream, seconds: float) -> float:
    """Return the records that an operator takes in a second."""
    operator.process(stream.next())
    records, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        operator.process(stream.next())
        records += BATCH
    return records / (time.perf_counter() - began)


def operator() -> mt.WindowOperator:
    """Return an operator with all queries."""
    return mt.WindowOperator(queries(), time="t", key="k")


@contextlib.contextmanager
def pages(dashboard: Dashboard, count: int) -> Iterator[subprocess.Popen[str]]:
    """Open pages in another process."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.dashboard",
        "--pages",
        str(count),
        "--port",
        str(dashboard.port),
    ]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.terminate()
        process.wait()


async def read(port: int, place: int, counts: list[int]) -> None:
    """Be a page: watch some lanes and a line, read updates and say so."""
    from websockets.asyncio.client import connect

    from muntin.dashboard.frames import decode

    async with connect(f"ws://127.0.0.1:{port}/live", max_size=None) as page:
        line = {"query": "line", "column": "line", "keys": [place % KEYS]}
        lanes = [{"query": f"mean {k} s", "key": place % KEYS} for k in range(2, 8)]
        await page.send(json.dumps({"type": "watch", "lanes": lanes, "line": line}))
        async for frame in page:
            assert isinstance(frame, bytes)
            header, _ = decode(frame)
            if header["type"] == "update":
                counts[place] += 1
                await page.send(json.dumps({"type": "read", "n": header["n"]}))


async def be_pages(count: int, port: int) -> None:
    """Be many pages until the process is ended."""
    counts = [0] * count
    tasks = [asyncio.create_task(read(port, place, counts)) for place in range(count)]
    while min(counts) == 0:
        await asyncio.sleep(0.05)
    print("open", flush=True)
    await asyncio.gather(*tasks)


def silent(port: int) -> socket.socket:
    """Open a page that never reads."""
    asked = socket.create_connection(("127.0.0.1", port))
    lines = ["GET /live HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}==", "", ""]
    asked.sendall("\r\n".join(lines).encode())
    return asked


def memory() -> float:
    """Return the memory of this process that is in use, in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def with_pages(count: int, seconds: float) -> tuple[float, float, float]:
    """Return the speed with pages, updates a second of each, and when one that never reads was dropped."""
    op, stream = operator(), Stream()
    op.process(stream.next())
    with serve(op, port=0) as dashboard:
        op.process(stream.next())
        with pages(dashboard, count):
            before, began = dashboard.server.hubs["muntin"].number, time.perf_counter()
            found = speed(op, stream, seconds)
            updates = (dashboard.server.hubs["muntin"].number - before) / (time.perf_counter() - began)
            assert len(dashboard.server.clients) == count, "a page was dropped"
            with silent(dashboard.port):
                began, dropped = time.perf_counter(), dashboard.server.clients.dropped
                while (
                    dashboard.server.clients.dropped == dropped and time.perf_counter() - began < 2 * DROPPED
                ):
                    op.process(stream.next())
            return found, updates, time.perf_counter() - began


def soak(minutes: float, count: int) -> list[float]:
    """Return the memory of the process each quarter of some minutes."""
    op, stream = operator(), Stream()
    found = []
    with serve(op, port=0) as dashboard:
        op.process(stream.next())
        with pages(dashboard, count):
            for _ in range(4):
                until = time.monotonic() + minutes * 15
                while time.monotonic() < until:
                    op.process(stream.next())
                found.append(memory())
                print(f"{found[-1]:.0f} MB", flush=True)
    return found


def main() -> int:
    """Run what is asked for; return 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each kind, by turns (5)")
    parser.add_argument("--seconds", type=float, default=10, help="of each run (10)")
    parser.add_argument("--clients", type=int, default=50, help="pages (50)")
    parser.add_argument("--soak", type=float, default=10, help="minutes in which memory must stay flat (10)")
    parser.add_argument("--pages", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pages is not None:
        asyncio.run(be_pages(options.pages, options.port))
        return 0
    speed(operator(), Stream(), 1)  # compiles
    alone, served, updates, drops = [], [], [], []
    for _ in range(options.runs):
        alone.append(speed(operator(), Stream(), options.seconds))
        found, told, dropped = with_pages(options.clients, options.seconds)
        served.append(found)
        updates.append(told)
        drops.append(dropped)
    share = median(served) / median(alone)
    rows: list[tuple[str, str, str, bool]] = [
        ("records a second alone", f"{median(alone):,.0f}", "", True),
        (f"records a second with {options.clients} pages", f"{median(served):,.0f}", "", True),
        ("share of the speed alone", f"{share:.2f}", f">= {LEAST}", share >= LEAST),
        ("updates a second of each page", f"{median(updates):.1f}", ">= 1.8", median(updates) >= 1.8),
        (
            "a page that never reads is dropped after, s",
            f"{max(drops):.1f}",
            f"<= {DROPPED}",
            max(drops) <= DROPPED,
        ),
    ]
    if options.soak:
        quarters = soak(options.soak, options.clients)
        grown = quarters[-1] / quarters[1]
        what = f"memory after {options.soak:g} minutes / half of it"
        rows.append((what, f"{grown:.2f}", f"<= {GROWTH}", grown <= GROWTH))
    shown = [(*row[:3], verdict(row[3])) for row in rows]
    show("Pages beside a stream", ("what", "measured", "limit", "kept"), shown)
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
