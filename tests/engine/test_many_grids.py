"""Many windows on grids over one key: listed by end, one span of time after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import muntin as mt
from muntin.engine import tuning
from muntin.engine.slices.grid import window_loops, windows
from muntin.engine.store import folding
from tests.oracle import agrees, answer

Grid = tuple[str, int, int]  # kind, length, and every or step
AGGREGATES = {
    "differences of prefixes": {"sum": mt.sum("v"), "count": mt.count()},
    "pairs of pairs, or stacks": {"min": mt.min("v"), "max": mt.max("v")},
    "both": {"sum": mt.sum("v"), "max": mt.max("v")},
    "runs": {"median": mt.median("v")},
    "lists": {"collect": mt.collect("v")},
}


def window_of(grid: Grid) -> Any:
    kind, length, every = grid
    if kind == "cumulate":
        return mt.cumulate(length, step=every)
    return mt.tumbling(length) if kind == "tumbling" else mt.sliding(length, every=every)


def windows_at(grid: Grid, t: int) -> Iterator[tuple[int, int]]:
    """The windows that hold a time."""
    kind, length, every = grid
    if kind == "cumulate":
        start = t // length * length
        ends = (start + step for step in range(every, length + 1, every))
        yield from ((start, end) for end in ends if t < end)
        return
    every = length if kind == "tumbling" else every
    k = t // every
    while k * every + length > t:
        yield k * every, k * every + length
        k -= 1


def expected(grids: list[Grid], times: list[int], values: list[int], names: Any) -> list[list[Any]]:
    """All windows by end, start and query."""
    rows = []
    for q, grid in enumerate(grids):
        held: dict[tuple[int, int], list[int]] = {}
        for t, v in sorted(zip(times, values, strict=True), key=lambda record: record[0]):
            for bounds in windows_at(grid, t):
                held.setdefault(bounds, []).append(v)
        rows += [[end, start, q, *(answer(name, vs) for name in names)] for (start, end), vs in held.items()]
    return sorted(rows, key=lambda row: row[:3])


@st.composite
def grids(draw: Any) -> list[Grid]:
    def grid() -> Grid:
        kind = draw(st.sampled_from(["tumbling", "tumbling", "sliding", "cumulate"]))
        every = draw(st.integers(1, 12))
        length = every * draw(st.integers(1, 5)) if kind == "cumulate" else draw(st.integers(1, 40))
        return kind, length, every

    return [grid() for _ in range(draw(st.sampled_from([1, 3, 17, 40])))]


@st.composite
def streams(draw: Any) -> list[int]:
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 5, 60, 3_000]), max_size=120))
    return list(itertools.accumulate(steps, initial=draw(st.integers(-200, 200))))


def check(
    some: list[Grid],
    times: list[int],
    aggregates: dict[str, Any],
    *,
    session: bool = False,
    swapped: bool = False,
    store: Any = "auto",
) -> None:
    """Compare all rows, and their order, with what they should be."""
    values = [7919 * k % 101 - 50 for k in range(len(times))]
    if swapped:  # neighbours
        order = [k ^ 1 if k ^ 1 < len(times) else k for k in range(len(times))]
        times, values = [times[k] for k in order], [values[k] for k in order]
    queries = [window_of(grid).agg(**aggregates) for grid in some]
    queries += [mt.session(10).agg(rows=mt.count())] if session else []
    operator = mt.WindowOperator(queries, time="t", watermark=3_000 if swapped else "in_order", store=store)
    tables = [operator.process({"t": times, "v": values}), operator.finish()]
    numbers = {f"q{k}": k for k in range(len(queries))}
    got = []
    for table in tables:
        rows = table.to_pylist()
        bounds = [(row["window_end"], row["window_start"], numbers[row["query"]]) for row in rows]
        assert bounds == sorted(bounds)
        got += [
            [*which, *(row[name] for name in aggregates)]
            for which, row in zip(bounds, rows, strict=True)
            if which[2] < len(some)
        ]
    assert agrees(got, expected(some, times, values, aggregates))


FAR = 2**62  # times are nearer
FAR_GRIDS = {
    "ends beyond all times": ([("tumbling", n, 1) for n in range(2, 60)], [FAR - 1]),
    "ends about the largest time": ([("tumbling", n, 1) for n in range(1, 41)], range(FAR - 200, FAR)),
    "spans of all times": (
        [("sliding", 2**60 + n, 2**58) for n in range(40)],
        [1 - FAR, -(2**61), 0, 5, 2**60, 2**61, FAR - 1],
    ),
    "long windows": ([("tumbling", 2**56 + n, 1) for n in range(30)], range(-15 * 2**58, 15 * 2**58, 2**55)),
    "the longest": ([("sliding", FAR - 1, 2**57)], range(-31 * 2**57, 32 * 2**57, 2**57)),
}


@pytest.mark.parametrize(("some", "times"), FAR_GRIDS.values(), ids=FAR_GRIDS)
def test_far_times_and_long_windows(some: list[Grid], times: Any) -> None:
    check(some, list(times), AGGREGATES["both"])


@pytest.mark.parametrize("aggregates", AGGREGATES.values(), ids=AGGREGATES)
@given(
    some=grids(),
    times=streams(),
    session=st.booleans(),
    swapped=st.booleans(),
    at_hand=st.sampled_from([4, 64, 4096]),
    many=st.sampled_from([2, 4096]),
    store=st.sampled_from(["auto", "auto", "lazy", "eager", "sliding"]),
)
@example([("tumbling", 7, 1)] * 17, list(range(50)), False, False, 4, 2, "auto")  # twins
@example([("sliding", n, 1) for n in range(1, 41)], list(range(0, 4000, 40)), True, True, 4, 2, "auto")
def test_many_grids(
    aggregates: dict[str, Any],
    some: list[Grid],
    times: list[int],
    session: bool,
    swapped: bool,
    at_hand: int,
    many: int,
    store: Any,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "WINDOWS_AT_HAND", at_hand)
        patch.setattr(tuning, "MANY_ROWS", many)
        check(some, times, aggregates, session=session, swapped=swapped, store=store)


def test_few_queries_that_are_left_of_many_go_query_by_query(monkeypatch: pytest.MonkeyPatch) -> None:
    slid: list[int] = []
    slide = folding.Folds.slide

    def counted(self: Any, number: int, query: int, *ranges: Any) -> Any:
        slid.append(query)
        return slide(self, number, query, *ranges)

    monkeypatch.setattr(folding.Folds, "slide", counted)
    queries = [mt.sliding(150 + k, every=1).agg(m=mt.max("v")) for k in range(16)]
    queries.append(mt.sliding(1, every=10**6, offset=5).agg(m=mt.max("v")))  # its window does not change
    operator = mt.WindowOperator(queries, time="t", watermark=0, lateness=10)
    operator.process({"t": [0, 5, 14], "v": [1, 1, 1]})
    slid.clear()
    times = np.append(12, np.arange(14, 1014))
    assert operator.process({"t": times, "v": times}).num_rows > 16_000
    assert slid == list(range(16))


# ---- the loops ----


def columns(rows: list[tuple[int, int, int]]) -> list[Any]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def test_streaks_of_rows_are_merged() -> None:
    rows = [(3, 1, 0), (5, 0, 1), (5, 2, 0), (4, 4, 0), (5, 0, 0), (5, 0, 2), (1, 1, 1)]
    begins = np.zeros(4, np.int64)
    assert window_loops.streaks(*columns(rows), begins) == 3
    assert begins[:3].tolist() == [0, 3, 6]
    order = np.empty(len(rows), np.int64)
    window_loops.merge(*columns(rows), begins[:3].copy(), np.array([3, 6, 7]), order)
    assert [rows[k] for k in order] == sorted(rows)


def test_more_streaks_than_there_is_room_for() -> None:
    begins = np.zeros(2, np.int64)
    assert window_loops.streaks(*columns([(3, 0, 0), (2, 0, 0), (1, 0, 0), (0, 0, 0)]), begins) == 3


def test_ends_that_crowd_one_stretch_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    end = np.arange(3_000, 0, -1)
    counts, order = np.array([0, 3_000, 3_000]), np.arange(3_000)
    assert not window_loops.sort_stretches(end, counts, order)
    counts, order = np.array([0, 3, 3]), np.arange(3)
    assert window_loops.sort_stretches(np.array([2, 3, 1]), counts, order)
    assert order.tolist() == [2, 0, 1]

    records = {"t": list(range(500)), "v": [1] * 500}
    queries = [mt.tumbling(length).agg(n=mt.sum("v")) for length in range(1, 40)]
    wanted = mt.aggregate(records, queries, time="t").to_pylist()
    tried: list[Any] = []
    monkeypatch.setattr(windows, "_by_end", lambda *told: tried.append(told))
    assert mt.aggregate(records, queries, time="t").to_pylist() == wanted
    assert tried
