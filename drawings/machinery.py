"""How it works: slices that windows share, the trees that decide what is kept, and the three stores."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import muntin as mt
from drawings.canvas import COLOURS, INK, WIDTH, Canvas
from drawings.windows import STREAM
from muntin.engine.plan.decisions import Characteristics, Decisions, decide

_MARGIN = 34


def machinery() -> dict[str, str]:
    """Return the drawings by the name of their file."""
    return {
        "slices.svg": slices(),
        "tree-records.svg": tree(
            "Must records be kept?", _KEPT, lambda d: "keep" if d.keep_records else "drop"
        ),
        "tree-splits.svg": tree("Are slices split?", _SPLIT, lambda d: d.splits),
        "tree-removal.svg": tree("How does a record leave a slice?", _REMOVED, lambda d: d.removal),
        "stores.svg": stores(),
    }


# ---- slices ----

_QUERIES = (mt.sliding(8, every=4), mt.tumbling(10))


def slices() -> str:
    """Return a stream, its slices with their sums, and the windows of two queries over them."""
    canvas = Canvas("Two queries share the slices of one stream")
    queries = [window.agg(total=mt.sum("v"), name=f"q{k}") for k, window in enumerate(_QUERIES)]
    op = mt.WindowOperator(queries, time="t", watermark="manual")
    op.process(STREAM)
    rows = [r for r in mt.aggregate(STREAM, queries, time="t").to_pylist() if 0 <= r["window_start"] < 15]
    edges = sorted({r[name] for r in rows for name in ("window_start", "window_end") if r[name] <= 20})
    pairs = list(itertools.pairwise(edges))
    scale = (WIDTH - 2 * _MARGIN) / 20

    def x(t: float) -> float:
        return _MARGIN + min(t, 20) * scale

    for t, v in zip(STREAM["t"], STREAM["v"], strict=True):
        canvas.dot(x(t), 26, v)
    canvas.text(_MARGIN, 62, "slices: each record joins one, each holds one partial sum", "small left")
    for start, end in pairs:
        part = op.lookup(start, end, name="q0").to_pylist()[0]
        assert (part["window_start"], part["window_end"]) == (start, end)
        canvas.box(x(start) + 1, 68, x(end) - x(start) - 2, 24, "#cfd8dc", INK)
        canvas.text((x(start) + x(end)) / 2, 84, part["total"])
    y = 110.0
    for number, query in enumerate(queries):
        canvas.text(_MARGIN, y, repr(query), "small left")
        y = _windows(canvas, [r for r in rows if r["query"] == query.name], x, y + 6, COLOURS[number]) + 18
    under = Canvas("")
    for edge in edges:
        under.line(x(edge), 92, x(edge), y - 20, "grid")
    canvas.marks = under.marks + canvas.marks
    return canvas.svg(y - 10)


def _windows(
    canvas: Canvas, rows: Sequence[Mapping[str, Any]], x: Callable[[float], float], y: float, colour: str
) -> float:
    ends: list[float] = []
    for row in sorted(rows, key=lambda r: r["window_start"]):
        line = next((k for k, end in enumerate(ends) if end <= row["window_start"]), len(ends))
        ends[line : line + 1] = [row["window_end"]]
        left, right, top = x(row["window_start"]), x(row["window_end"]), y + 24 * line
        canvas.box(left + 1, top, right - left - 2, 18, colour)
        canvas.text((left + right) / 2, top + 13, row["total"])
    return y + 24 * len(ends)


# ---- decision trees ----


@dataclass(frozen=True)
class Question:
    """What is asked, what each answer says of the workload, and what is asked next (None: nothing)."""

    words: str
    branches: tuple[tuple[str, dict[str, Any], Question | None], ...]


def _yes_no(words: str, field: str, yes: Question | None, no: Question | None) -> Question:
    return Question(words, (("yes", {field: True}, yes), ("no", {field: False}, no)))


_START = Characteristics(
    in_order=False,
    context="context free",
    session=False,
    measure="time",
    commutative=True,
    invertible=False,
    selective=False,
)
_AWARE, _FORWARD = {"context": "forward context aware"}, {"context": "forward context free"}
_BY_COUNT = Question(
    "windows by count?", (("yes", {"measure": "count"}, None), ("no", {"measure": "time"}, None))
)
_KEPT = _yes_no(
    "records in order?",
    "in_order",
    Question("edges set in hindsight?", (("yes", _AWARE, None), ("no", _FORWARD, None))),
    _yes_no(
        "commutative?",
        "commutative",
        Question(
            "edges known ahead?",
            (
                ("yes", {"context": "context free"}, _BY_COUNT),
                ("no", _FORWARD, _yes_no("a session?", "session", None, None)),
            ),
        ),
        None,
    ),
)
_SPLIT = Question(
    "when are edges known?",
    (
        ("ahead", {"context": "context free"}, None),
        (
            "on the way",
            _FORWARD,
            _yes_no("records in order?", "in_order", None, _yes_no("a session?", "session", None, None)),
        ),
        ("in hindsight", _AWARE, None),
    ),
)
_REMOVED = Question(
    "windows by count?",
    (
        (
            "yes",
            {"measure": "count"},
            _yes_no(
                "records in order?",
                "in_order",
                None,
                _yes_no(
                    "has an inverse?",
                    "invertible",
                    None,
                    _yes_no("keeps one record?", "selective", None, None),
                ),
            ),
        ),
        ("no", {"measure": "time"}, None),
    ),
)
_BOX, _ACROSS, _DOWN = (156, 28), 226, 38


def tree(title: str, root: Question, answer: Callable[[Decisions], str]) -> str:
    """Return a tree from left to right; what its leaves say is what the library decides."""
    canvas = Canvas(title)
    canvas.text(16, 24, title, "left")
    rows = _branch(canvas, root, _START, answer, 0, 0)
    return canvas.svg(44 + rows * _DOWN, 16 + _depth(root) * _ACROSS + _BOX[0])


def _depth(node: Question | None) -> int:
    return 0 if node is None else 1 + max(_depth(below) for _, _, below in node.branches)


def _branch(
    canvas: Canvas,
    node: Question | None,
    known: Characteristics,
    answer: Callable[[Decisions], str],
    depth: int,
    row: int,
) -> int:
    """Draw what is below a node, from a row on; return how many rows it took."""
    left, width = 16 + depth * _ACROSS, _BOX[0]
    if node is None:
        said = answer(decide(known))
        canvas.box(left, 38 + row * _DOWN, width - 20, _BOX[1], "#ffe0b2" if said != "drop" else "#c8e6c9")
        canvas.text(left + (width - 20) / 2, 56 + row * _DOWN, said)
        return 1
    taken = 0
    middle = 38 + row * _DOWN + _BOX[1] / 2
    for words, facts, below in node.branches:
        y = 38 + (row + taken) * _DOWN + _BOX[1] / 2
        bend = left + width + 10
        canvas.line(left + width, middle, bend, middle, "link")
        canvas.line(bend, middle, bend, y, "link")
        canvas.line(bend, y, left + _ACROSS, y, "link")
        canvas.text(bend + 3, y - 4, words, "small left")
        taken += _branch(canvas, below, dataclasses.replace(known, **facts), answer, depth + 1, row + taken)
    canvas.box(left, 38 + row * _DOWN, width, _BOX[1], "#eceff1", INK)
    canvas.text(left + width / 2, 56 + row * _DOWN, node.words)
    return taken


# ---- stores ----

_PARTS = (8, 6, 9, 8, 5, 3, 1, 4)
_FIRST, _LAST = 1, 6  # the slices of the window, both included


def stores() -> str:
    """Return how each store makes up a window of six slices out of eight."""
    canvas = Canvas("Three stores over the same slices")
    total = mt.swag.FlatFat(mt.sum(), list(_PARTS[_FIRST : _LAST + 1])).aggregate()
    y = _lazy(canvas, 30, total)
    y = _eager(canvas, y + 26, total)
    y = _sliding(canvas, y + 26, total)
    return canvas.svg(y + 8)


def _x(place: float) -> float:
    return 170 + place * 62


def _row(canvas: Canvas, y: float, values: Sequence[Any], used: Sequence[int], width: float = 1) -> None:
    for place, value in enumerate(values):
        fill = COLOURS[0] if place in used else "#eceff1"
        canvas.box(_x(place * width) + 2, y, 62 * width - 4, 22, fill, INK)
        canvas.text(_x(place * width) + 31 * width, y + 15, value)


def _lazy(canvas: Canvas, y: float, total: int) -> float:
    canvas.text(16, y + 15, "lazy", "left")
    canvas.text(16, y + 31, "every slice anew", "small left")
    used = range(_FIRST, _LAST + 1)
    _row(canvas, y, _PARTS, used)
    canvas.text(_x(0), y + 38, f"{' + '.join(str(_PARTS[k]) for k in used)} = {total}", "small left")
    return y + 42


def _eager(canvas: Canvas, y: float, total: int) -> float:
    canvas.text(16, y + 15, "eager", "left")
    canvas.text(16, y + 31, "nodes of a tree,", "small left")
    canvas.text(16, y + 44, "kept up to date", "small left")
    levels = [list(_PARTS)]
    while len(levels[0]) > 1:
        below = levels[0]
        levels.insert(0, [below[k] + below[k + 1] for k in range(0, len(below), 2)])
    used = {1: [], 2: [1, 2], 3: [_FIRST, _LAST], 0: []}
    for depth, values in enumerate(levels):
        _row(canvas, y + 26 * depth, values, used[depth], len(_PARTS) / len(values))
    taken = [levels[3][1], levels[2][1], levels[2][2], levels[3][6]]
    assert sum(taken) == total
    canvas.text(_x(0), y + 118, f"{' + '.join(map(str, taken))} = {total}", "small left")
    return y + 122


def _sliding(canvas: Canvas, y: float, total: int) -> float:
    canvas.text(16, y + 15, "sliding", "left")
    canvas.text(16, y + 31, "prefixes, if there", "small left")
    canvas.text(16, y + 44, "is an inverse", "small left")
    prefixes = [sum(_PARTS[: k + 1]) for k in range(len(_PARTS))]
    _row(canvas, y, prefixes, [_FIRST - 1, _LAST])
    assert prefixes[_LAST] - prefixes[_FIRST - 1] == total
    canvas.text(_x(0), y + 38, f"{prefixes[_LAST]} - {prefixes[_FIRST - 1]} = {total}", "small left")
    y += 58
    canvas.text(16, y + 15, "sliding", "left")
    canvas.text(16, y + 31, "two stacks, if not", "small left")
    turn = 4
    front = [max(_PARTS[k:turn]) for k in range(turn)]
    back = [max(_PARTS[turn : k + 1]) for k in range(turn, len(_PARTS))]
    _row(canvas, y, front + back, [_FIRST, _LAST])
    largest = mt.swag.FlatFat(mt.max(), list(_PARTS[_FIRST : _LAST + 1])).aggregate()
    assert max(front[_FIRST], back[_LAST - turn]) == largest
    said = f"the largest: max({front[_FIRST]}, {back[_LAST - turn]}) = {largest}"
    canvas.text(
        _x(0), y + 38, said + "; front: from here to the middle, back: from the middle to here", "small left"
    )
    return y + 42
