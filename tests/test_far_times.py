"""Times near 2^62, and windows that begin or end beyond: as the oracle says, whose integers have no end."""

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from tests.oracle_grids import PER_SECOND, grid_windows
from tests.test_operator import check
from tests.windows_oracle import Record, Spec
from tests.workloads import Advance, Finish, Process, Restore, Workload

FAR = 2**62  # times are nearer to zero

# ---- random workloads ----

_lengths = st.one_of(
    st.integers(1, 12),
    st.builds(lambda n, d: n - d, st.sampled_from([2**58, 2**60, 2**61, FAR]), st.integers(1, 9)),
)


@st.composite
def grids(draw: st.DrawFn, *, own: bool = True) -> tuple[str, tuple[Any, ...]]:
    """A grid, perhaps of very long windows."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "cumulate", *(["own"] if own else [])]))
    length = draw(_lengths)
    offset = draw(st.sampled_from([0, 0, 3, -5, length - 1]))
    match kind:
        case "tumbling":
            return kind, (length, offset)
        case "sliding":
            every = length // draw(st.integers(1, 3)) + draw(st.integers(-2, 2))
            return kind, (length, min(max(1, every), FAR - 1), offset)
        case "cumulate":
            parts = draw(st.integers(1, 4))
            return kind, (max(1, length // parts) * parts, max(1, length // parts))
    begin = draw(st.integers(0, length))
    return kind, (length + 1, ((begin, begin + draw(st.integers(1, length))),))


OTHERS = ("session", "rolling", "last_n", "last_span", "aware")
LANDMARKS = ("landmark_length", "landmark_every", "landmark_length_every")


@st.composite
def specs(draw: st.DrawFn, name: str) -> Spec:
    """A query of a kind whose bounds may lie beyond the times of its records."""
    kind = draw(st.sampled_from(["grid", "grid", "grid", "on", *OTHERS, *LANDMARKS]))
    length = draw(_lengths)
    params: tuple[Any, ...]
    match kind:
        case "grid":
            kind, params = draw(grids())
        case "on":
            params = ("m", *draw(grids(own=False)))
        case "landmark_length_every":
            params = ("p", length, draw(_lengths))
        case "landmark_length" | "landmark_every":
            params = ("p", length)
        case "last_n" | "aware":
            params = (2, length)
        case "last_span":
            params = (length, 2)
        case _:
            params = (length,)
    return Spec(name, kind, params, {"n": ("count",), "top": ("max", "w")})


@st.composite
def far(draw: st.DrawFn) -> Workload:
    """A run over times at one end of all times, or at both."""
    queries = [draw(specs(f"q{k}")) for k in range(draw(st.integers(1, 3)))]
    sides = draw(st.sampled_from([[-1], [1], [1], [-1, 1], [-1, 0, 1]]))
    times = st.builds(lambda side, n: side * (FAR - 1 - n) or n, st.sampled_from(sides), st.integers(0, 15))
    stream = sorted(draw(st.lists(times, max_size=12)))
    policies: list[Any] = ["in_order", "manual", 0]
    if draw(st.booleans()):
        draw(st.randoms(use_true_random=False)).shuffle(stream)
        policies = ["manual", 0, 5] if sides == [1] else ["manual", 0]  # no watermark is before all times
    policy = draw(st.sampled_from(policies))
    keys = draw(st.sampled_from([[()], [("a",), ("b",)]]))
    in_order = sorted(range(len(stream)), key=lambda i: (stream[i], i))
    measured = sorted(draw(st.lists(times, min_size=len(stream), max_size=len(stream))))
    measures = dict(zip(in_order, measured, strict=True))
    records = [
        Record(t, 0.0, k % 4, draw(st.sampled_from(keys)), p=draw(st.booleans()), m=measures[k])
        for k, t in enumerate(stream)
    ]
    calls: list[Any] = []
    while records:
        size = draw(st.sampled_from([1, 1, 2, 5, 12]))
        calls += [Process(records[:size]), *draw(st.sampled_from([[], [], [Restore()]]))]
        records = records[size:]
    if policy == "manual":
        calls.append(Advance(min(FAR - 1, max(stream, default=0) + draw(st.integers(0, 3)))))
    lateness = 0 if policy == "in_order" else draw(st.sampled_from([0, 4, 20]))
    store = draw(st.sampled_from(["auto", "lazy", "eager", "sliding"]))
    named = ("k",) if keys[0] else ()
    return Workload(queries, [*calls, Finish()], policy, lateness, named, store=store, marked=True)


@settings(max_examples=settings().max_examples * 2)
@given(workload=far())
def test_far_times_agree_with_the_oracle(workload):
    check(workload)


# ---- calendars ----


def windows(unit: str, tz: str, resolution: str, *times: int) -> list[tuple[int, int, int]]:
    """The windows of some times, with how many of them each holds."""
    table = {"t": pa.array(times, pa.int64()).cast(pa.timestamp(resolution, tz))}
    rows = mt.aggregate(table, mt.calendar(unit, tz).agg(n=mt.count()), time="t")
    bounds = [rows[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    return list(zip(*bounds, rows["n"].to_pylist(), strict=True))


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("t", [FAR - 1, 1 - FAR])
def test_calendar_windows_that_reach_beyond_all_nanoseconds_are_emitted(unit, tz, t):
    ((start, end),) = grid_windows(Spec("q", "calendar", (unit, tz, "ns"), {}), t)
    assert start <= -FAR or end >= FAR
    assert windows(unit, tz, "ns", t) == [(start, end, 1)]


@pytest.mark.parametrize("resolution", ["s", "ms", "us"])
def test_the_last_week_of_the_calendar_is_emitted(resolution):
    scale = PER_SECOND[resolution]
    t = 253_244_404_800 * scale  # the last but one day of 9994, in a week that ends in 9995
    ((start, end),) = grid_windows(Spec("q", "calendar", ("week", "UTC", resolution), {}), t)
    assert windows("week", "UTC", resolution, t) == [(start, end, 1)]
    operator = mt.WindowOperator(mt.calendar("week").agg(n=mt.count()), time="t", watermark="manual")
    operator.process({"t": pa.array([t], pa.timestamp(resolution))})
    assert operator.advance(pa.scalar(end - 1, pa.timestamp(resolution))).num_rows == 0
    assert operator.advance(pa.scalar(end, pa.timestamp(resolution)))["n"].to_pylist() == [1]


def test_a_calendar_at_the_end_of_all_nanoseconds_in_many_calls():
    query = mt.calendar("day").agg(n=mt.count(), emit_empty=True)
    operator = mt.WindowOperator(query, time="t", watermark="1d", lateness="2d")
    day, rows = 86400 * 10**9, []
    for t in (FAR - 5 * day, FAR - 2 * day, FAR - 3 * day, FAR - 1):
        rows += operator.process({"t": pa.array([t], pa.timestamp("ns"))})["n"].to_pylist()
        operator = mt.WindowOperator.restore(operator.snapshot())
    assert rows == [1, 0, 1, 1]  # days 0 and 1; day 2, which came late; day 3
    assert operator.finish()["n"].to_pylist() == [0, 1]


# ---- a grid of one's own ----


class Long(mt.ContextFreeWindow):
    """One window around zero."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def windows(self, t: int) -> list[tuple[int, int]]:
        return [(self.start, self.end)] if self.start <= t < self.end else []

    def next_edge(self, t: int) -> int:
        return next((edge for edge in (self.start, self.end) if edge > t), 2**80)


def long_window(start: int, end: int) -> list[tuple[int, int, int]]:
    rows = mt.aggregate({"t": [1 - FAR, 5, FAR - 1]}, Long(start, end).agg(n=mt.count()), time="t")
    return [tuple(row[name] for name in ("window_start", "window_end", "n")) for row in rows.to_pylist()]


def test_an_own_window_may_begin_and_end_beyond_all_times():
    assert long_window(0, 2**63 - 1) == [(0, 2**63 - 1, 2)]
    assert long_window(1 - 2**63, 0) == [(1 - 2**63, 0, 1)]
    assert long_window(-FAR, FAR - 1) == [(-FAR, FAR - 1, 2)]


@pytest.mark.parametrize("bounds", [(0, 2**63), (-(2**63), 6), (-FAR - 1, FAR)])
def test_an_own_window_that_64_bits_do_not_hold_is_refused(bounds):
    with pytest.raises(ValueError, match=r"gives \[-?\d+, \d+\), which 64 bits do not hold"):
        long_window(*bounds)


class Beyond(mt.ContextAwareWindow):
    """From each record on, for so long."""

    length = 1

    def notify(self, edges: Any, record: Any) -> None:
        edges.add(record.t, record.t + self.length)


def test_an_aware_window_that_64_bits_do_not_hold_is_refused():
    operator = mt.WindowOperator(Beyond().agg(n=mt.count()), time="t")
    operator.process({"t": [FAR - 2]})
    Beyond.length = 2**63
    with pytest.raises(ValueError, match="integers of 64 bits"):
        operator.process({"t": [FAR - 1]})
    Beyond.length = 1
    assert operator.process({"t": [FAR - 1]})["window_end"].to_pylist() == [FAR - 1]
    assert operator.finish()["window_end"].to_pylist() == [FAR]


# ---- many at once ----


def test_rows_from_one_end_of_time_to_the_other_come_in_order():
    times = [*range(1 - FAR, 2000 - FAR), *range(FAR - 2000, FAR)]
    queries = [mt.tumbling(n).agg(n=mt.count(), name=f"by {n}") for n in range(1, 11)]
    rows = mt.aggregate({"t": times}, queries, time="t").to_pylist()
    order = [(row["window_end"], row["window_start"], int(row["query"][3:])) for row in rows]
    assert order == sorted(order)
    want = {(s, s + n, n) for n in range(1, 11) for t in times for s in [t // n * n]}
    assert {(start, end, n) for end, start, n in order} == want
    assert sum(row["n"] for row in rows) == 10 * len(times)


def test_records_of_many_keys_at_both_ends_of_time():
    times = [*range(1 - FAR, 200 - FAR), *range(FAR - 200, FAR)]
    table = {"t": times[::-1], "k": [t % 3 for t in times]}
    for length in (10, 2**61 + 1, FAR - 1):
        rows = mt.aggregate(table, mt.tumbling(length, 7).agg(n=mt.count()), time="t", key="k").to_pylist()
        got = {(row["k"], row["window_start"]): row["n"] for row in rows}
        want: dict[tuple[int, int], int] = {}
        for t, k in zip(table["t"], table["k"], strict=True):
            start = (t - 7) // length * length + 7
            want[k, start] = want.get((k, start), 0) + 1
        assert got == want


def test_measures_at_both_ends():
    rows = mt.aggregate(
        {"t": [1, 2, 3], "m": [1 - FAR, 0, FAR - 1]},
        [mt.on("m", mt.tumbling(2**61)).agg(n=mt.count()), mt.tumbling(5).agg(n=mt.count())],
        time="t",
    )
    bounds = zip(rows["measure_start"].to_pylist(), rows["measure_end"].to_pylist(), strict=True)
    assert list(bounds) == [(-FAR, -(2**61)), (0, 2**61), (2**61, FAR), (None, None)]
