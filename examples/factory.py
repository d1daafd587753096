"""Frames over the sensors of a factory: windows that the values themselves mark off.

A machine as in the DEBS 2012 challenge sends power and valves 100 times a second. Surges are stretches above
a threshold, steady stretches those in which power stays near where it was, and states are what three sensors
say together. A last query asks how much power each portion of a million units lasted for. All share one pass.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from muntin import generate

QUERIES = [
    mt.threshold_frame("mf01", ">", 14_000, min_records=10).agg(
        records=mt.count(), peak=mt.max("mf01"), name="surges"
    ),
    mt.delta_frame("mf03", by=700).agg(records=mt.count(), power=mt.mean("mf03"), name="steady"),
    mt.state_window("additives").agg(records=mt.count(), which=mt.first("additives"), name="additives"),
    mt.aggregate_frame(mt.sum("mf01"), reaches=10_000_000).agg(used=mt.sum("mf01"), name="portions"),
]
TITLES = {
    "surges": "Surges of phase 1 above 14,000: highest power",
    "steady": "Phase 3 within 700 of where it began: mean power",
    "additives": "Which additives flow: sensors 5, 6, 7",
    "portions": "Each ten million of phase 1: how much it was",
}


def readings(seconds: float = 40.0) -> pa.Table:
    """Return readings as they arrive, and beside them which additives flow, as a word of three letters."""
    table = generate.Arrivals(generate.Factory(seconds=seconds, seed=4)).table()
    letters = [
        pc.if_else(table[name], letter, "-") for name, letter in (("bm05", "A"), ("bm06", "B"), ("bm07", "C"))
    ]
    return table.append_column("additives", pc.binary_join_element_wise(*letters, ""))


def main() -> None:
    """Print the first frames of each kind."""
    table = readings()
    op = mt.WindowOperator(QUERIES, time="ts", key="machine", watermark="2s")
    parts = [op.process(table.slice(start, 500)) for start in range(0, table.num_rows, 500)]
    rows = pa.concat_tables([*parts, op.finish()]).to_pylist()
    begin = pc.min(table["ts"]).as_py()
    print(f"{op.metrics.records_in:,} readings, {op.metrics.late_dropped} too late")
    for name, title in TITLES.items():
        own = [row for row in rows if row["query"] == name]
        print(f"\n{title} ({len(own)} in all)")
        for row in own[:5]:
            start, end = ((row[bound] - begin).total_seconds() for bound in ("window_start", "window_end"))
            answer = next(
                row[column] for column in ("peak", "power", "which", "used") if row[column] is not None
            )
            shown = answer if isinstance(answer, str) else f"{answer:,.0f}"
            print(f"  {start:6.2f} to {end:6.2f} s   {shown}")


if __name__ == "__main__":
    main()
