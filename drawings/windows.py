"""The time line of each window: a small stream, and the windows that the library reports over it as bars."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import muntin as mt
from drawings.canvas import ACCENT, COLOURS, INK, WIDTH, Canvas

Row = Mapping[str, Any]
Ends = Literal["bounds", "records", "closed"]  # which times a bar reaches over

_MARGIN, _BAR, _STEP = 34, 18, 24
STREAM = {"t": [1, 2, 4, 7, 8, 11, 13, 14, 17], "v": [3, 1, 4, 1, 5, 9, 2, 6, 5]}


@dataclass(frozen=True)
class Picture:
    """A stream, queries over it, and how both are drawn."""

    name: str
    records: Mapping[str, Sequence[Any]]
    queries: Sequence[mt.Query]
    low: float = 0
    high: float = 20
    tick: float = 5
    label: Callable[[Row], object] = lambda record: record["v"]
    marked: Callable[[Row], bool] | None = None
    height: str | None = None  # a column to draw records by
    bound: float | None = None  # a value of it that matters
    ends: Ends = "bounds"
    place: str = "t"  # the column along which records lie
    bounds: tuple[str, str] = ("window_start", "window_end")
    axis: str = "t"
    ticks: Mapping[float, str] | None = None  # where there are others than each `tick`
    answer: Callable[[Any], str] = str


def _day(value: Any) -> float:
    """Return days since the start of 2026, or a plain number as it is."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - datetime.datetime(2026, 1, 1)) / datetime.timedelta(days=1)
    return float(value)


def _rows(picture: Picture, query: mt.Query) -> list[dict[str, Any]]:
    """Return the windows of a query, by where they start."""
    time = "ts" if "ts" in picture.records else "t"
    found = mt.aggregate(dict(picture.records), query, time=time).to_pylist()
    return sorted(found, key=lambda row: tuple(row[name] for name in picture.bounds))


def draw(picture: Picture) -> str:
    """Return the drawing."""
    canvas = Canvas("; ".join(map(repr, picture.queries)))
    scale = (WIDTH - 2 * _MARGIN) / (picture.high - picture.low)

    def x(place: Any) -> float:
        return _MARGIN + (min(max(_day(place), picture.low), picture.high) - picture.low) * scale

    y = 26.0
    for query in picture.queries:
        canvas.text(_MARGIN, y, repr(query), "code")
        y += 18
    y = _records(canvas, picture, x, y)
    top, y = y, _axis(canvas, picture, x, y)
    for number, query in enumerate(picture.queries):
        y = _bars(canvas, picture, _rows(picture, query), x, y, COLOURS[number]) + 8
    lines = Canvas("")
    for place in _ticks(picture):
        lines.line(x(place), top, x(place), y - 4, "grid")
    canvas.marks = lines.marks + canvas.marks
    return canvas.svg(y)


def _ticks(picture: Picture) -> Mapping[float, str]:
    if picture.ticks is not None:
        return picture.ticks
    count = int((picture.high - picture.low) / picture.tick) + 1
    return {place: f"{place:g}" for place in (picture.low + k * picture.tick for k in range(count))}


def _records(canvas: Canvas, picture: Picture, x: Callable[[Any], float], y: float) -> float:
    columns = picture.records
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    tall = 70.0 if picture.height else 0.0
    heights = [r[picture.height] for r in records] if picture.height else [0]
    most = max([*heights, picture.bound or 0])
    least = min([*heights, picture.bound or most])

    def at(value: float) -> float:
        return y + 14 + tall * (1 - (value - least) / ((most - least) or 1))

    if picture.bound is not None:
        canvas.line(_MARGIN, at(picture.bound), WIDTH - _MARGIN, at(picture.bound), "accent")
    for record in records:
        middle = at(record[picture.height]) if picture.height else y + 14
        stroke, fill = (ACCENT, "#ffccbc") if picture.marked and picture.marked(record) else (INK, "#eceff1")
        canvas.dot(x(record[picture.place]), middle, picture.label(record), fill, stroke)
    return y + tall + 34


def _axis(canvas: Canvas, picture: Picture, x: Callable[[Any], float], y: float) -> float:
    canvas.line(_MARGIN, y, WIDTH - _MARGIN, y)
    for place, words in _ticks(picture).items():
        canvas.line(x(place), y - 3, x(place), y + 3)
        canvas.text(x(place), y + 15, words, "small")
    canvas.text(WIDTH - 16, y + 4, picture.axis)
    return y + 26


def _bars(
    canvas: Canvas, picture: Picture, rows: Sequence[Row], x: Callable[[Any], float], y: float, colour: str
) -> float:
    """Draw windows, each in the first line where there is room; return where the next may be drawn."""
    lines: list[float] = []
    for row in rows:
        left, right = (x(row[name]) for name in picture.bounds)
        if picture.ends == "records":
            left, right = left - 12, right + 12
        elif picture.ends == "closed":
            right += 12
        line = next((k for k, end in enumerate(lines) if end <= left + 0.5), len(lines))
        lines[line : line + 1] = [right]
        top = y + line * _STEP
        canvas.box(left + 1, top, right - left - 2, _BAR, colour)
        if picture.ends == "bounds":  # the start belongs to it, the end does not
            canvas.box(left, top, 3, _BAR, INK, round=0)
        answers = [row[name] for name in row if name in ("total", "n", "all", "peak", "avg", "days")]
        canvas.text((left + right) / 2, top + 13, picture.answer(answers[0]))
    return y + len(lines) * _STEP


def _total(window: Any) -> mt.Query:
    query: mt.Query = window.agg(total=mt.sum("v"))
    return query


def _listed(values: Any) -> str:
    return " ".join(str(value) for value in values)


def high(state: Any, t: int, row: Any) -> Any:  # noqa: ARG001
    """Begin a window at each rise to 5 or more, and end it at the next fall below."""
    high = row.v >= 5
    return high, 1 if high and not state else 0, 1 if state and not high else 0


class Shifts(mt.ContextFreeWindow):
    """Early and late shifts that overlap by two hours, of every ten."""

    def windows(self, t: int) -> list[tuple[int, int]]:
        """Return the shifts that hold a time."""
        day = t // 10 * 10
        near = [(day + s - 10 * back, day + e - 10 * back) for s, e in ((0, 6), (4, 10)) for back in (0, 1)]
        return [(start, end) for start, end in near if start <= t < end]

    def next_edge(self, t: int) -> int:
        """Return the next start or end of a shift."""
        return min(e for e in (t // 10 * 10 + h for h in (4, 6, 10)) if e > t)


class LastTwo(mt.ContextAwareWindow):
    """At each multiple of five, the last two records."""

    memory = 100

    def notify(self, edges: Any, record: Any) -> None:
        """Move the window that is being filled to the last two records."""
        edges.state = [*(edges.state or []), record.t][-2:]
        end = record.t // 5 * 5 + 5
        for window in edges.windows:
            if window[1] == end:
                edges.remove(*window)
        edges.add(edges.state[0], end)


_FLAGS: dict[str, list[Any]] = {
    "t": STREAM["t"],
    "v": STREAM["v"],
    "start": [False, True, False, False, False, True, False, False, False],
    "stop": [False, False, False, True, False, False, False, False, True],
}
_TEMP = {"t": [1, 2, 4, 6, 8, 10, 12, 14, 16, 18], "v": [70, 81, 85, 79, 88, 91, 84, 76, 78, 83]}
_STATE: dict[str, list[Any]] = {"t": STREAM["t"], "v": ["A", "A", "B", "B", "B", "A", "C", "C", "A"]}
_RIDE: dict[str, list[Any]] = {
    "t": [0, 5, 9, 14, 20, 26, 30],
    "km": [0.2, 0.6, 1.1, 1.9, 2.2, 2.8, 3.4],
    "v": [20, 24, 21, 28, 30, 26, 25],
}
_MONTHS: dict[str, list[Any]] = {
    "ts": [datetime.datetime(2026, m, d) for m, d in ((1, 4), (1, 25), (2, 9), (2, 20), (3, 3), (3, 29))],
    "v": [3, 1, 4, 1, 5, 9],
}


def _flagged(record: Row) -> bool:
    return bool(record["start"] or record.get("stop"))


def _flag(record: Row) -> str:
    return "S" if record["start"] else "E" if record["stop"] else str(record["v"])


def _start(record: Row) -> str:
    return "S" if record["start"] else str(record["v"])


PICTURES = (
    Picture("tumbling", STREAM, [_total(mt.tumbling(5))]),
    Picture("sliding", STREAM, [_total(mt.sliding(10, every=5))], low=-5),
    Picture("cumulate", STREAM, [_total(mt.cumulate(10, step=2))], tick=2),
    Picture(
        "calendar",
        _MONTHS,
        [mt.calendar("month").agg(total=mt.sum("v")), mt.calendar("quarter").agg(total=mt.sum("v"))],
        high=90,
        ticks={0: "1 January", 31: "1 February", 59: "1 March", 90: "1 April"},
        place="ts",
        axis="",
    ),
    Picture("session", STREAM, [_total(mt.session(2))]),
    Picture(
        "count", STREAM, [_total(mt.count_tumbling(3)), _total(mt.count_sliding(4, every=2))], ends="records"
    ),
    Picture("rolling", STREAM, [_total(mt.rolling(4))], low=-5, ends="closed"),
    Picture("last_n", STREAM, [mt.last_n(3, every=5).agg(all=mt.collect("v"))], answer=_listed),
    Picture(
        "last_span",
        STREAM,
        [mt.last_span(6, every=3).agg(all=mt.collect("v"))],
        ends="closed",
        answer=_listed,
    ),
    Picture(
        "punctuation",
        _FLAGS,
        [_total(mt.punctuation("start")), _total(mt.punctuation("start", end="stop"))],
        label=_flag,
        marked=_flagged,
        ends="records",
    ),
    Picture(
        "landmark",
        {name: _FLAGS[name] for name in ("t", "v", "start")},
        [_total(mt.landmark("start", length=6)), _total(mt.landmark("start", every=5))],
        label=_start,
        marked=_flagged,
    ),
    Picture(
        "threshold_frame",
        _TEMP,
        [mt.threshold_frame("v", ">", 80, min_records=2).agg(peak=mt.max("v"))],
        height="v",
        bound=80,
        marked=lambda record: record["v"] > 80,
        ends="records",
    ),
    Picture("delta_frame", _TEMP, [mt.delta_frame("v", by=8).agg(n=mt.count())], height="v", ends="records"),
    Picture("aggregate_frame", STREAM, [_total(mt.aggregate_frame(mt.sum("v"), reaches=8))], ends="records"),
    Picture("state_window", _STATE, [mt.state_window("v").agg(n=mt.count())], ends="records"),
    Picture(
        "on",
        _RIDE,
        [mt.on("km", mt.tumbling(1)).agg(avg=mt.mean("v"))],
        high=4,
        tick=1,
        place="km",
        bounds=("measure_start", "measure_end"),
        axis="km",
        answer=lambda value: f"{value:g}",
    ),
    Picture(
        "user_window",
        STREAM,
        [_total(mt.user_window(high, state=False, columns=["v"]))],
        ends="records",
        marked=lambda record: record["v"] >= 5,
    ),
    Picture(
        "policy_window",
        STREAM,
        [
            mt.policy_window(trigger=mt.policies.every(3), evict=mt.policies.within(5)).agg(
                all=mt.collect("v")
            )
        ],
        ends="records",
        answer=_listed,
    ),
    Picture("context_free", STREAM, [_total(Shifts())], tick=2),
    Picture("context_aware", STREAM, [LastTwo().agg(all=mt.collect("v"))], answer=_listed),
)
