"""The dashboard of a football match: who runs how, who has the ball, how far they go.

Sensors in shoes and balls send positions, a fifth of them up to 2 s late, as in the DEBS 2013 challenge. One
operator answers three queries over the players' records. A second one takes what the first reports each
second, and puts together how long each player walks, trots, runs or sprints: windows over windows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from muntin import generate

PACES = ((1.8, "walks"), (2.2, "trots"), (3.0, "runs"), (99.0, "sprints"))  # up to so many metres a second

QUERIES = [
    mt.tumbling("1s").agg(speed=mt.mean("speed"), name="each second"),
    mt.sliding("30s", every="10s").agg(speed=mt.mean("speed"), top=mt.max("speed"), name="last 30 s"),
    mt.on("way", mt.tumbling(20)).agg(first=mt.min("ts"), last=mt.max("ts"), name="each 20 m"),
]
POSSESSION = mt.session("1s").agg(records=mt.count(), name="on the ball")


def match(seconds: float = 60.0) -> pa.Table:
    """Return the records of all players, in the order in which they arrive."""
    records = generate.Arrivals(generate.Football(seconds=seconds, hertz=10, seed=5)).table()
    return records.filter(pc.is_valid(records["team"]))


def in_batches(op: mt.WindowOperator, table: pa.Table, size: int = 2_000) -> pa.Table:
    """Return all rows of a stream that comes in batches."""
    parts = [op.process(table.slice(start, size)) for start in range(0, table.num_rows, size)]
    return pa.concat_tables([*parts, op.finish()])


def paces(seconds: pa.Table) -> pa.Table:
    """Return the stretches in which a player kept one pace."""
    speeds = seconds["speed"].to_pylist()
    names = [next(name for bound, name in PACES if speed <= bound) for speed in speeds]
    table = pa.table({"player": seconds["player"], "ts": seconds["window_start"], "pace": names})
    query = mt.state_window("pace").agg(pace=mt.first("pace"), seconds=mt.count())
    return mt.aggregate(table, query, time="ts", key="player")


def of(rows: pa.Table, query: str) -> pa.Table:
    """Return the rows of one query."""
    return rows.filter(pc.equal(rows["query"].cast(pa.string()), query))


def main() -> None:
    """Print the dashboard."""
    table = match()
    op = mt.WindowOperator(QUERIES, time="ts", key=["team", "player"], watermark="2s")
    rows = in_batches(op, table)
    print(f"{op.metrics.records_in:,} records, {op.metrics.windows_emitted:,} windows")

    print("\nFastest over 30 s           mean    top (m/s)")
    half_minutes = of(rows, "last 30 s").to_pylist()
    for row in sorted(half_minutes, key=lambda row: -row["speed"])[:5]:
        print(f"{row['player']:4} until {row['window_end']:%H:%M:%S} {row['speed']:13.2f} {row['top']:6.2f}")

    print("\nPace (s)       walks  trots   runs sprints  longest sprint")
    spent: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in paces(of(rows, "each second")).to_pylist():
        spent[row["player"]][row["pace"]].append(row["seconds"])
    for player in sorted(spent)[:5]:
        sums = [sum(spent[player][name]) for _, name in PACES]
        print(
            f"{player:12} "
            + "".join(f"{s:7}" for s in sums)
            + f"{max(spent[player]['sprints'], default=0):16}"
        )

    print("\nFastest 20 metres")
    legs = of(rows, "each 20 m").to_pylist()
    farthest = {row["player"]: row["measure_end"] for row in legs}  # not run to its end
    whole = [
        row for row in legs if 20 <= row["measure_start"] and row["measure_end"] < farthest[row["player"]]
    ]
    for row in sorted(whole, key=_took)[:3]:
        start, end = row["measure_start"], row["measure_end"]
        print(f"{row['player']:4} {start:4.0f} to {end:4.0f} m {_took(row):7.1f} s")

    print("\nOn the ball   times  seconds")
    ball = table.filter(table["has_ball"])
    visits = in_batches(
        mt.WindowOperator(POSSESSION, time="ts", key="team", watermark="2s"), ball
    ).to_pylist()
    for team in sorted({row["team"] for row in visits}):
        own = [row for row in visits if row["team"] == team]
        held = sum((row["window_end"] - row["window_start"]).total_seconds() - 1 for row in own)
        print(f"team {team:8} {len(own):5} {held:8.1f}")


def _took(row: dict[str, Any]) -> float:
    seconds: float = (row["last"] - row["first"]).total_seconds()
    return seconds


if __name__ == "__main__":
    main()
