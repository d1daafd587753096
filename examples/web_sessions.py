"""Visits of a web site, from its access log: sessions with a gap of 30 minutes, and pages by the hour.

The script writes a small log in the common log format, as web servers do, and reads it back line by line.
Some lines come late, as they do where several servers write one log: a late line may bridge two visits that
were reported already, which are then taken back.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import muntin as mt

LINE = re.compile(r'(?P<host>\S+) \S+ \S+ \[(?P<ts>[^\]]+)\] "GET (?P<page>\S+) [^"]*" \d+ (?P<bytes>\d+)')
STAMP = "%d/%b/%Y:%H:%M:%S %z"
PAGES = ("/", "/products", "/products/7", "/cart", "/checkout", "/help")

VISITS = mt.session("30m").agg(
    pages=mt.count(), enters=mt.first("page"), leaves=mt.last("page"), sent=mt.sum("bytes"), name="visits"
)
HOURS = mt.tumbling("1h").agg(
    hits=mt.count(), visitors=mt.count_distinct("host"), favourite=mt.mode("page"), name="hours"
)


def write_log(path: Path, visitors: int = 40, seed: int = 3) -> None:
    """Write an access log of some hours; every sixth line stands up to 70 minutes after its time."""
    chance = random.Random(seed)
    start = datetime(2026, 1, 5, 9, tzinfo=UTC)
    lines: list[tuple[datetime, str]] = []
    for visitor in range(visitors):
        at = start + timedelta(seconds=chance.randrange(6 * 3600))
        for _ in range(chance.randrange(2, 12)):
            page, size = chance.choice(PAGES), chance.randrange(500, 20_000)
            line = f'10.0.0.{visitor} - - [{at.strftime(STAMP)}] "GET {page} HTTP/1.1" 200 {size}'
            late = timedelta(minutes=chance.randrange(70)) if chance.random() < 1 / 6 else timedelta()
            lines.append((at + late, line))
            at += timedelta(seconds=chance.choice((20, 90, 300, 1500, 1500, 2400)))
    path.write_text("".join(line + "\n" for _, line in sorted(lines)))


def batches(path: Path, size: int = 25) -> Iterator[pa.Table]:
    """Yield the lines of a log as tables of some lines each."""
    found = [match.groupdict() for line in path.read_text().splitlines() if (match := LINE.match(line))]
    for begin in range(0, len(found), size):
        part = found[begin : begin + size]
        yield pa.table(
            {
                "ts": pa.array([datetime.strptime(r["ts"], STAMP) for r in part], pa.timestamp("s", "UTC")),
                "host": [r["host"] for r in part],
                "page": [r["page"] for r in part],
                "bytes": [int(r["bytes"]) for r in part],
            }
        )


def latest(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """Return the last word on each visit: its highest revision, unless that was taken back."""
    rows = sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["revision"])
    last = {(row["host"], row["window_start"], row["window_end"]): row for row in rows}
    return [row for row in last.values() if row["change"] != "retract"]


def main() -> None:
    """Print what the log says."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "access.log"
        write_log(log)
        by_host = mt.WindowOperator(VISITS, time="ts", key="host", watermark="5m", lateness="1h")
        of_all = mt.WindowOperator(HOURS, time="ts", watermark="70m")
        visits, hours = [], []
        for batch in batches(log):
            visits.append(by_host.process(batch))
            hours.append(of_all.process(batch))
    visits.append(by_host.finish())
    hours.append(of_all.finish())

    changes = [change for table in visits for change in table["change"].to_pylist()]
    stand = latest(visits)
    print(f"{by_host.metrics.records_in} lines, {by_host.metrics.late_dropped} too late")
    print(f"{len(stand)} visits; on the way, {changes.count('retract')} were taken back")

    print("\nLongest visits        from   to     pages   kB  enters       leaves")
    for row in sorted(stand, key=lambda row: (-row["pages"], row["host"]))[:6]:
        last = row["window_end"] - timedelta(minutes=30)
        when = f"{row['window_start']:%H:%M}  {last:%H:%M}"
        much = f"{row['pages']:6} {row['sent'] / 1000:4.0f}"
        print(f"{row['host']:20}  {when} {much}  {row['enters']:12} {row['leaves']}")

    print("\nHour    hits  visitors  favourite")
    for row in pa.concat_tables(hours).to_pylist():
        print(f"{row['window_start']:%H:%M} {row['hits']:7} {row['visitors']:9}  {row['favourite']}")


if __name__ == "__main__":
    main()
