"""Slice edges match window edges and the other way round, whatever queries come and go."""

import itertools

import numpy as np
import pytest

import muntin as mt
from muntin.engine.engine import Engine
from muntin.engine.rows import NEVER
from muntin.engine.slices.edges import EdgeGrid
from muntin.engine.slices.position.shift import Shift


def engine_of(operator) -> Engine:
    return operator._engine


def edges_of(grids, low: int, high: int) -> set[int]:
    """All starts and ends of windows between two times, one by one."""
    found = set()
    for grid in grids:
        for k in range(grid.low(low) - 2, grid.high(high) + 3):
            found.update((grid.start(k), k * grid.pitch + grid.first_end))
    return {edge for edge in found if low <= edge <= high}


def check_edges(operator, times) -> None:
    """Each slice starts at the last edge before its records, and has no other edge among them."""
    engine = engine_of(operator)
    engine.evict(operator._keys)
    store = engine.slices.of_kind("grid")[None].store
    grids = [planned.window for planned in engine.slices.of_kind("grid")[None].queries]
    edges = np.array(sorted(edges_of(grids, min(times) - 50, max(times) + 50)))
    starts, first, last = (store.column(name) for name in ("start", "first", "last"))
    assert (edges[np.searchsorted(edges, first, side="right") - 1] == starts).all()
    assert (edges[np.searchsorted(edges, last, side="right") - 1] == starts).all()
    assert len(set(starts.tolist())) == len(starts)  # no two slices where one would do


@pytest.mark.parametrize("store", ["lazy", "eager", "sliding"])
def test_edges_match_while_queries_come_and_go(store):
    queries = [
        mt.sliding(12, every=5).agg(n=mt.count(), name="wide"),
        mt.tumbling(3, offset=1).agg(n=mt.count(), name="narrow"),
    ]
    operator = mt.WindowOperator(queries, time="t", watermark="manual", store=store)
    times = list(range(100, 160))
    operator.process({"t": times})
    check_edges(operator, times)
    operator.remove("narrow")
    check_edges(operator, times)
    slices = operator.metrics.slices
    assert slices < 60 / 2
    operator.add(mt.cumulate(8, step=2).agg(n=mt.count(), name="growing"))
    assert operator.metrics.slices == slices  # it adds no edge to what was there before it


def test_slices_know_their_records():
    operator = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t", watermark="manual")
    operator.process({"t": [14, 12, 17, 31]})
    store = engine_of(operator).slices.of_kind("grid")[None].store
    assert [store.column(name).tolist() for name in ("start", "first", "last", "rows")] == [
        [10, 30],
        [12, 31],
        [17, 31],
        [3, 1],
    ]


def test_in_order_only_starts_remain_edges():
    query = mt.sliding(12, every=5).agg(n=mt.count())  # starts at 0, 5, ..; ends at 2, 7, ..
    ordered, manual = (
        mt.WindowOperator(query, time="t", watermark=watermark) for watermark in ("in_order", "manual")
    )
    for operator in (ordered, manual):
        operator.process({"t": list(range(40))})
        engine_of(operator).evict(operator._keys)
    starts = engine_of(ordered).slices.of_kind("grid")[None].store.column("start")
    assert (starts % 5 == 0).all()
    assert set((engine_of(manual).slices.of_kind("grid")[None].store.column("start") % 5).tolist()) == {0, 2}


def test_runs_of_sessions_merge_and_begin_in_gaps_only():
    operator = mt.WindowOperator(mt.session(5).agg(total=mt.sum("v")), time="t", watermark="manual")
    operator.process({"t": [0, 20, 40], "v": [1.0, 2.0, 4.0]})
    store = engine_of(operator).slices.of_kind("session")[None].store
    combines = operator.metrics.update_combines
    operator.process({"t": [30], "v": [8.0]})  # a new run between others: nothing is combined
    assert operator.metrics.update_combines == combines
    operator.process({"t": [25, 35], "v": [16.0, 32.0]})  # bridges three
    live = store.column("rows") > 0
    assert store.column("first")[live].tolist() == [0, 20]
    assert store.column("last")[live].tolist() == [0, 40]
    assert operator.finish()["total"].to_pylist() == [1.0, 62.0]


def test_few_progressions_and_many_have_the_same_edges():
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 6))
        origins = np.where(rng.random(count) < 0.5, NEVER, rng.integers(-30, 30, count)).tolist()
        periods = rng.integers(1, 12, count).tolist()
        grid = EdgeGrid([(p, int(rng.integers(0, p)), o) for p, o in zip(periods, origins, strict=True)])
        for t in rng.integers(-40, 40, 20).tolist():
            assert grid._around_few(t) == grid._around(t)


# ---- count windows under disorder ----


def records(times, values) -> dict:
    return {"ts": list(times), "v": [float(v) for v in values], "w": [int(v) for v in values]}


@pytest.mark.parametrize(
    ("aggregate", "anew"),
    [(mt.sum("w"), 1), (mt.count(), 1), (mt.max("v"), 11), (mt.min_count("v"), 1), (mt.sum("v"), 11)],
)
def test_a_late_record_moves_one_record_per_slice(monkeypatch, aggregate, anew):
    computed = []
    monkeypatch.setattr(Shift, "_computed", spy(Shift._computed, computed))
    query = mt.count_tumbling(4).agg(value=aggregate)
    operator = mt.WindowOperator(query, time="ts", watermark=0, lateness=1000)
    operator.process(records(range(0, 80, 2), np.arange(40) % 4 + 1))
    computed.clear()
    rows = operator.process(records([1], [0])).to_pylist()
    assert [row["window_id"] for row in rows] == list(range(10))
    assert {row["change"] for row in rows} == {"update"}
    # Each slice loses its last record, the largest; and there is a new slice.
    assert sum(int(which.sum()) for which in computed) == anew


def test_a_record_of_the_latest_slice_is_simply_added(monkeypatch):
    computed = []
    monkeypatch.setattr(Shift, "_computed", spy(Shift._computed, computed))
    query = mt.count_tumbling(4).agg(value=mt.max("v"), emit_partial=True)
    operator = mt.WindowOperator(query, time="ts", watermark=0, lateness=1000)
    operator.process(records(range(0, 12, 2), range(6)))
    computed.clear()
    operator.process(records([9], [7]))
    assert not any(which.any() for which in computed)
    assert operator.finish()["value"].to_pylist() == [7.0]


def spy(function, seen):
    def spied(self, number, partials, which):
        seen.append(which.copy())
        return function(self, number, partials, which)

    return spied


@pytest.mark.parametrize("watermark", ["in_order", "manual"])
def test_few_records_of_many_keys_are_cut_like_many(watermark):
    keys, rng = 600, np.random.default_rng(3)
    times = np.concatenate([np.arange(keys) % 5, np.sort(rng.integers(5, 40, 60))])
    if watermark == "manual":
        times = rng.permutation(times)
    records = {
        "t": times,
        "k": np.append(np.arange(keys), rng.integers(0, 9, 60)),
        "v": np.arange(keys + 60.0),
    }
    queries = [mt.tumbling(7).agg(a=mt.collect("v")), mt.session(4).agg(a=mt.collect("v"))]
    setting = {"time": "t", "key": "k"}
    operator = mt.WindowOperator(queries, **setting, watermark=watermark)
    if watermark == "in_order":
        records = {name: column[np.argsort(times, kind="stable")] for name, column in records.items()}
    cuts = [0, keys, *range(keys + 1, keys + 60), keys + 60]
    parts = [{n: c[low:high] for n, c in records.items()} for low, high in itertools.pairwise(cuts)]
    rows = [row for part in parts for row in operator.process(part).to_pylist()]
    rows += operator.finish().to_pylist()
    columns = ("query", "k", "window_start", "a")
    got = sorted(tuple(row[name] for name in columns) for row in rows)
    want = mt.aggregate(records, queries, **setting).to_pylist()
    assert got == sorted(tuple(row[name] for name in columns) for row in want)
