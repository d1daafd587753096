"""What the demo computes: four streams, and the windows over each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import muntin as mt


@dataclass(frozen=True)
class Stream:
    """A generated stream, the records of it that are looked at, and the queries over them."""

    name: str
    source: str
    key: Sequence[str]
    where: str | None
    queries: Sequence[mt.Query]
    options: Mapping[str, Any]


STREAMS = (
    Stream(
        "players",
        "football",
        ["player"],
        "team IS NOT NULL",
        [
            mt.sliding("10s", every="1s").agg(
                speed=mt.mean("speed"), top=mt.max("speed"), name="speed of the last 10 s"
            ),
            mt.sliding("1m", every="5s").agg(
                speed=mt.mean("speed"), spread=mt.stddev("speed"), name="speed of the last minute"
            ),
            mt.cumulate("1m", step="10s").agg(metres=mt.sum("step"), name="way within the minute"),
            mt.cumulate("1h", step="30s").agg(metres=mt.sum("step"), name="way within the match"),
            mt.count_sliding(400, every=100).agg(
                top=mt.max("speed"), strength=mt.mean("acceleration"), name="last 400 records"
            ),
            mt.sliding("30s", every="5s").agg(
                median=mt.median("speed"), high=mt.quantile("speed", 0.9), name="quantiles of speed"
            ),
            mt.on("way", mt.tumbling(50)).agg(
                speed=mt.mean("speed"), top=mt.max("speed"), name="each 50 metres"
            ),
        ],
        {"hertz": 20},
    ),
    Stream(
        "possession",
        "football",
        ["team", "player"],
        "has_ball",
        [
            mt.session("1s").agg(records=mt.count(), top=mt.max("speed"), name="ball possession"),
            mt.tumbling("1m").agg(records=mt.count(), name="possession by the minute"),
        ],
        {"hertz": 20},
    ),
    Stream(
        "machines",
        "factory",
        ["machine"],
        None,
        [
            mt.tumbling("1s").agg(
                variation=mt.relative_variation("mf01"), power=mt.mean("mf01"), name="power of a second"
            ),
            mt.sliding("10s", every="1s").agg(
                power=mt.mean("mf03"),
                spread=mt.stddev("mf03"),
                peak=mt.max("mf03"),
                name="power of the last 10 s",
            ),
            mt.sliding("1m", every="10s").agg(
                power=mt.mean("mf02"), peak=mt.max("mf02"), name="power of the last minute"
            ),
            mt.tumbling("500ms").agg(line=mt.m4("mf02"), name="power as a line"),
            mt.count_tumbling(500).agg(peak=mt.max("mf01"), name="each 500 readings"),
            mt.threshold_frame("mf01", ">", 14_000, min_records=10).agg(
                records=mt.count(), peak=mt.max("mf01"), name="surges of power"
            ),
            mt.delta_frame("mf03", by=400).agg(
                records=mt.count(), power=mt.mean("mf03"), name="steady power"
            ),
        ],
        {"machines": 3},
    ),
    Stream(
        "valves",
        "factory",
        ["machine"],
        "bm08",
        [
            mt.session("500ms").agg(records=mt.count(), power=mt.mean("mf01"), name="valve open"),
            mt.cumulate("1m", step="15s").agg(records=mt.count(), name="open within the minute"),
        ],
        {"machines": 3},
    ),
)
