"""The history of a line: any stretch at any width, in bounded room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.dashboard import history
from muntin.dashboard.history import VALUES, History, Slices
from muntin.dashboard.hub import Hub


def of_points(times: list[int], values: list[float], length: int, code: int = 0) -> Slices:
    """Slices of a grid, as the operator gives them."""
    op = mt.WindowOperator(mt.tumbling(length).agg(line=mt.m4("v"), name="q"), time="t", key="k")
    hub = Hub(op)
    hub.watch()
    op.process({"t": times, "v": values, "k": [code] * len(times)})
    op.finish()
    hub.update()
    return hub.slices_of_line("q", "line", [0])


def four(times: np.ndarray, values: np.ndarray) -> list[tuple[int, float]]:
    """M4 of points in order, by its definition."""
    least, most = int(values.argmin()), int(values.argmax())
    return sorted({(int(times[i]), float(values[i])) for i in (0, least, most, len(times) - 1)})


points = st.lists(st.tuples(st.integers(0, 400), st.integers(-50, 50)), min_size=1, max_size=80)


@given(points, st.sampled_from([1, 4, 10]), st.integers(1, 60), st.integers(0, 300), st.integers(1, 200))
def test_a_view_is_m4_of_each_column(
    found: list[tuple[int, int]], length: int, width: int, low: int, span: int
) -> None:
    distinct = sorted(dict(found).items())
    times, values = (np.array(side) for side in zip(*distinct, strict=True))
    slices = of_points(times.tolist(), values.astype(float).tolist(), length)
    view = history.view(slices, low, low + span, width)
    drawn = list(zip(view.time.tolist(), view.value.tolist(), strict=True))
    assert drawn == sorted(drawn, key=lambda point: point[0])
    if not view.exact:
        assert view.step < length
        return
    column = (times - view.origin) // view.step
    expected = [
        p for k in np.unique(column) for p in four(times[column == k], values[column == k].astype(float))
    ]
    inside = [p for p in expected if low <= p[0] < low + span]
    assert set(inside) <= set(drawn)
    counted = np.bincount(np.array([(t - view.origin) // view.step + 1 for t, _ in drawn]).clip(0))
    assert counted[1:].max(initial=0) <= 5  # four, and a neighbour beyond the view in its column
    before, after = times[times < low], times[times >= low + span]
    if len(before):
        assert any(t < low for t, _ in drawn)
    if len(after):
        assert any(t >= low + span for t, _ in drawn)


def test_revisions_replace_and_retractions_take_away() -> None:
    kept = History(1000)
    one = history.numbers(
        np.zeros(2, np.int32), np.array([0, 10]), np.array([10, 20]), np.array([10, 20]), np.array([1.0, 2.0])
    )
    kept.append(one)
    again = history.numbers(
        np.zeros(1, np.int32), np.array([0]), np.array([10]), np.array([10]), np.array([5.0])
    )
    kept.append(again)
    assert kept.of_keys([0])["last"].tolist() == [5.0, 2.0]
    gone = Slices({**one.take(slice(1, 2)).columns, "gone": np.ones(1, bool)})
    kept.append(gone)
    assert kept.of_keys([0])["last"].tolist() == [5.0]


@pytest.mark.parametrize("length", [0, 5])
def test_room_is_bounded_and_no_peak_is_lost(length: int) -> None:
    """The past gets coarser: the greatest and the least stay, and so does the time that is covered."""
    rng = np.random.default_rng(1)
    kept, value = History(2000), rng.normal(size=100_000)
    value[[17, 60_001]] = [99.0, -99.0]
    times = np.arange(100_000)
    for part in np.array_split(times, 100):
        if length:
            cut = part[part % length == 0]
            groups = [np.arange(t, min(t + length, part[-1] + 1)) for t in cut]
            rows = [[value[g[0]], value[g].min(), value[g].max(), value[g[-1]]] for g in groups]
            at = [[g[0], g[value[g].argmin()], g[value[g].argmax()], g[-1]] for g in groups]
            columns = {name: np.array(rows)[:, k] for k, name in enumerate(VALUES)}
            columns |= {f"{name}_time": np.array(at)[:, k] for k, name in enumerate(VALUES)}
            columns |= {"a": cut, "start": cut, "b": cut + length, "end": cut + length}
            columns |= {"code": np.zeros(len(cut), np.int32), "gone": np.zeros(len(cut), bool)}
            kept.append(Slices(columns))
        else:
            kept.append(history.numbers(np.zeros(len(part), np.int32), part, part, part, value[part]))
        assert len(kept) <= 2000
    slices = kept.of_keys([0])
    assert kept.merged > 3
    assert slices["max"].max() == 99.0
    assert slices["max_time"][slices["max"].argmax()] == 17
    assert slices["min"].min() == -99.0
    assert (slices["first_time"].min(), slices["last_time"].max()) == (0, 99_999)
    view = history.view(slices, 0, 100_000, 100)
    assert view.value.max() == 99.0
    # What came last is as fine as it came.
    assert (slices["last_time"] - slices["first_time"])[-100:].max() <= max(0, length - 1)


def test_merged_slices_hold_what_their_records_would_give() -> None:
    """A view over merged slices that says it is exact is that of all points."""
    rng = np.random.default_rng(2)
    times, value = np.arange(20_000), rng.normal(size=20_000)
    op = mt.WindowOperator(mt.tumbling(10, offset=3).agg(line=mt.m4("v"), name="q"), time="t")
    hub = Hub(op)
    hub.watch()
    op.process({"t": times, "v": value})
    op.finish()
    hub.update()
    line = hub.lines["q", "line"]
    line.capacity = 500
    line._hold(line._compacted(line.slices()))
    assert line.merged
    view = history.view(line.of_keys([0]), 0, 20_000, 20)
    assert view.exact
    column = (times - view.origin) // view.step
    expected = {p for k in np.unique(column) for p in four(times[column == k], value[column == k])}
    assert set(zip(view.time.tolist(), view.value.tolist(), strict=True)) == expected


def test_many_keys_with_one_slice_each_give_up_the_oldest() -> None:
    kept = History(64)
    for start in range(0, 2000, 50):
        codes = np.arange(start, start + 50, dtype=np.int32)
        times = np.full(50, start)
        kept.append(history.numbers(codes, times, times, times, np.ones(50)))
        assert len(kept) <= 64
    assert kept.of_keys([1999])["last"].tolist() == [1.0]


def test_a_long_line_is_coarse_at_once_and_exact_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.dashboard.history.COARSE", 50)
    op = mt.WindowOperator(mt.tumbling(2).agg(line=mt.m4("v"), name="q"), time="t")
    hub = Hub(op)
    hub.watch()
    op.process({"t": list(range(1000)), "v": [float(t % 7) for t in range(1000)]})
    op.finish()
    hub.update()
    (first_last, coarse), (last, exact) = hub.views("q", "line", [0], 0, 1000, 100)
    assert (first_last, last) == (False, True)
    assert 0 < len(coarse.time) < len(exact.time)
    assert exact.exact


def test_lines_of_removed_queries_are_let_go() -> None:
    op = mt.WindowOperator(
        [mt.tumbling(2).agg(n=mt.count(), name="a"), mt.tumbling(4).agg(n=mt.count(), name="b")], time="t"
    )
    hub = Hub(op)
    hub.watch()
    op.process({"t": list(range(50))})
    hub.update()
    assert {query for query, _ in hub.lines} == {"a", "b"}
    hub.remove("b")
    hub.update()
    assert {query for query, _ in hub.lines} == {"a"}
    assert [query["name"] for query in hub.described()["queries"]] == ["a"]
