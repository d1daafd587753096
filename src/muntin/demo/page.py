"""The demo's page: pictures of what the windows found, in one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from muntin.demo import charts
from muntin.demo.streams import STREAMS
from muntin.generate import Arrivals, Football

if TYPE_CHECKING:
    from muntin.spark import BatchMetrics

Results = Mapping[str, pa.Table]
_STYLE = """
body{font:15px/1.5 sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#222}
figure{margin:1.5em 0}figcaption{font-weight:bold}code{color:#555;font-size:13px}svg{width:100%}
"""


def write_page(path: Path, results: Results, batches: Sequence[BatchMetrics]) -> Path:
    """Write the page; return where it is."""
    pictures = {
        "speed of the last 10 s": _lines(results, "speed of the last 10 s", "player", "speed", "m/s"),
        "quantiles of speed": _quantiles(results),
        "way within the match": _ways(results),
        "ball possession": _spans(results, "ball possession", "player"),
        "power of a second": _lines(results, "power of a second", "machine", "variation", "share"),
        "power as a line": charts.lines(m4_lines(results), "mf02"),
        "power of the last 10 s": _lines(results, "power of the last 10 s", "machine", "peak", "peak"),
        "surges of power": _spans(results, "surges of power", "machine"),
        "valve open": _spans(results, "valve open", "machine"),
    }
    figures = [_figure(name, picture) for name, picture in pictures.items()] + _progress(batches)
    path.write_text(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>muntin demo</title>'
        f"<style>{_STYLE}</style></head><body><h1>muntin: windows over football and factory sensors</h1>\n"
        + "\n".join(figures)
        + "\n</body></html>\n"
    )
    return path


def write_first_picture(path: Path) -> Path:
    """Write a picture of a minute of the match, which needs no Spark and so is there at once."""
    stream = STREAMS[0]
    query = replace(stream.queries[0], where=stream.where)
    records = Arrivals(Football(seconds=60, hertz=5, seed=7), delay="2s").table()
    windows = mt.aggregate(records, query, time="ts", key=stream.key)
    path.write_text(_lines({str(query.name): windows}, str(query.name), "player", "speed", "m/s"))
    return path


def _figure(name: str, picture: str) -> str:
    said = next(repr(q) for s in STREAMS for q in s.queries if q.name == name)
    return f"<figure><figcaption>{escape(name)}</figcaption><code>{escape(said)}</code>{picture}</figure>"


def _seconds(windows: pa.Table, column: str) -> list[float]:
    """Return times in seconds since the first window begins."""
    first = pc.min(windows["window_start"].cast(pa.int64())).as_py() or 0
    return [(t - first) / 1e6 for t in windows[column].cast(pa.int64()).to_pylist()]


def _lines(results: Results, query: str, key: str, value: str, unit: str, most: int = 5) -> str:
    """Return the lines of the first few keys."""
    series: dict[str, list[tuple[float, float]]] = {}
    if query in results:
        windows = results[query]
        ends = _seconds(windows, "window_end")
        for name, end, number in zip(windows[key].to_pylist(), ends, windows[value].to_pylist(), strict=True):
            series.setdefault(name, []).append((end, number))
    return charts.lines({name: series[name] for name in sorted(series)[:most]}, unit)


def _quantiles(results: Results, most: int = 3) -> str:
    """Return two lines for each of the first few players: the speed of half the time, and of nine tenths."""
    series: dict[str, list[tuple[float, float]]] = {}
    if "quantiles of speed" in results:
        windows = results["quantiles of speed"]
        players = sorted(set(windows["player"].to_pylist()))[:most]
        for end, row in zip(_seconds(windows, "window_end"), windows.to_pylist(), strict=True):
            if row["player"] in players:
                series.setdefault(f"{row['player']}, 0.5", []).append((end, row["median"]))
                series.setdefault(f"{row['player']}, 0.9", []).append((end, row["high"]))
    return charts.lines({name: series[name] for name in sorted(series)}, "m/s")


def m4_lines(results: Results) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each machine's line: the four of each window, which draw it as all records would.

    Times are in seconds since the first point.
    """
    points: dict[str, set[tuple[float, float]]] = {}
    if "power as a line" in results:
        windows = results["power as a line"]
        line = windows["line"].combine_chunks()
        for part in ("first", "min", "max", "last"):
            times = line.field(f"{part}_time").cast(pa.int64()).to_numpy() / 1e6
            values = line.field(part).to_pylist()
            for name, time, value in zip(windows["machine"].to_pylist(), times.tolist(), values, strict=True):
                points.setdefault(name, set()).add((time, value))
    began = min((time for some in points.values() for time, _ in some), default=0.0)
    return {name: [(time - began, value) for time, value in sorted(points[name])] for name in sorted(points)}


def _ways(results: Results) -> str:
    """Return how far each player has come, by the last window of each: they are cumulative."""
    values: dict[str, float] = {}
    if "way within the match" in results:
        for row in results["way within the match"].to_pylist():
            values[row["player"]] = row["metres"]
    return charts.bars(values, "m")


def _spans(results: Results, query: str, key: str) -> str:
    rows: dict[str, list[tuple[float, float]]] = {}
    if query in results:
        windows = results[query]
        edges = zip(_seconds(windows, "window_start"), _seconds(windows, "window_end"), strict=True)
        for name, span in zip(windows[key].to_pylist(), edges, strict=True):
            rows.setdefault(name, []).append(span)
    return charts.spans(dict(sorted(rows.items())))


_MEASURES: dict[str, tuple[str, Callable[[BatchMetrics], float | None]]] = {
    "records a second, by micro-batch": ("1/s", lambda batch: batch.rows_per_second),
    "state": ("kB", lambda batch: (batch.observed.get("muntin.state_bytes") or 0) / 1000),
    "watermark lag": ("s", lambda batch: batch.watermark_lag),
}


def _progress(batches: Sequence[BatchMetrics]) -> list[str]:
    """Return how the streams got on, over real time."""
    if not batches:
        return []
    began = min(batch.started for batch in batches)
    figures = []
    for title, (unit, value) in _MEASURES.items():
        series: dict[str, list[tuple[float, float]]] = {}
        for batch in batches:
            number = value(batch)
            if number is not None and batch.rows:
                series.setdefault(batch.query, []).append(((batch.started - began).total_seconds(), number))
        figures.append(
            f"<figure><figcaption>{escape(title)}</figcaption>{charts.lines(series, unit)}</figure>"
        )
    return figures
