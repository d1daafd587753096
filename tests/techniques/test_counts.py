"""How many slices, partials and combines techniques take: the figures and the table of the Cutty paper.

Figures 1 and 6 also speak of windows that only the operator finds; here their marks are given.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import muntin as mt
from muntin.techniques import (
    AggregateBuckets,
    Counts,
    Cutty,
    Marked,
    Naive,
    Pairs,
    PairsPlus,
    Panes,
    ReactiveAggregator,
    Slicing,
    Stream,
    Technique,
    TupleBuckets,
    TupleBuffer,
    records,
    sliced,
)
from muntin.techniques.stream import Workload


def stream(size: int, seed: int = 1) -> Stream:
    """Records at 0, 1, 2, ... with whole values, so that sums are exact."""
    values = np.random.default_rng(seed).integers(-99, 99, size).astype(float)
    return Stream({"ts": np.arange(size), "v": values})


def total(window: Any, name: str | None = None) -> Any:
    return window.agg(total=mt.sum("v"), name=name)


def counted(technique: Technique, window: Any, size: int) -> Counts:
    technique.run(total(window), stream(size))
    return technique.counts


# ---- figures ----


def test_figure_4_slices_begin_where_windows_begin() -> None:
    #   s1 s2 | s3 s4 s5 | s6 s7 | s8 | s9
    #   [1, 5] [1, 6]      two windows of the slice that begins with s1
    #           [3, 8]                      emitted upon s9, from P(s[3,5]), P(s[6,7]) and P(s[8,8])
    query = total(Marked([0, 0, 2, 5, 7, 8], [5, 6, 8, 9, 9, 9]))
    nine = Stream({"ts": np.arange(1, 10), "v": 2.0 ** np.arange(9)})
    workload = Workload(query, nine)
    assert Cutty().cuts(workload).tolist() == [0, 2, 5, 7, 8]
    lazy = Cutty(store="lazy")
    rows = lazy.run(query, nine)
    assert [(row.start, row.end, row.values["total"]) for row in rows[:3]] == [
        (1, 5, 31.0),
        (1, 6, 63.0),
        (3, 8, 252.0),
    ]
    # f(s[1,5]) = P(s[1,2]) + P(s[3,5]), the active one: 1. f(s[1,6]): 2, f(s[3,8]): 2. s[6,9]: 2, s[8,9]: 1.
    assert lazy.counts.merge == 1 + 2 + 2 + 2 + 1
    assert (lazy.counts.online, lazy.counts.update) == (9 - 5, 0)


def test_figure_5_begins_of_two_queries_are_marked_in_one_stream() -> None:
    queries = [total(mt.count_sliding(4, every=2), "a"), total(mt.count_sliding(5, every=3), "b")]
    workload = Workload(queries, stream(12))
    assert Cutty().cuts(workload).tolist() == [0, 2, 3, 4, 6, 8]
    windows = workload.windows
    marks = list(zip(windows.query.tolist(), windows.begin.tolist(), windows.end.tolist(), strict=True))
    assert marks[:3] == [(0, 0, 4), (1, 0, 5), (0, 2, 6)]  # window 1 ends with record 3: told by record 4
    rows = Cutty().run(queries, stream(12))
    values = stream(12).batch["v"]
    for row in rows:
        assert row.values["total"] == values[row.start : row.end + 1].sum()


def test_figure_6_windows_over_time_and_over_distance_share_slices() -> None:
    """Every 6 s of 10 s, and every 5 km of 10 km; the distances are given by their marks."""
    seconds = np.array([0, 1, 3, 4, 6, 7, 9, 11, 12, 14, 16, 18])
    km = np.array([0, 2, 3, 5, 6, 9, 10, 12, 14, 15, 19, 22])
    edges = range(0, 20, 5)
    begins = [int(np.searchsorted(km, edge)) for edge in edges]
    ends = [int(np.searchsorted(km, edge + 10)) for edge in edges]
    queries = [total(mt.sliding(10, every=6), "time"), total(Marked(begins, ends), "distance")]
    drive = Stream({"ts": seconds, "v": 2.0 ** np.arange(12)})
    begin_of_time = {int(np.searchsorted(seconds, edge)) for edge in (0, 6, 12, 18)}
    assert set(Cutty().cuts(Workload(queries, drive)).tolist()) == begin_of_time | set(begins)
    for technique in (Cutty("lazy"), Cutty("eager")):
        rows = technique.run(queries, drive)
        for row in rows:
            if row.query == "time":
                inside = (seconds >= row.start) & (seconds < row.end)
            else:
                inside = (np.arange(12) >= begins[row.id]) & (np.arange(12) < ends[row.id])
            assert row.values["total"] == drive.batch["v"][inside].sum()
        assert technique.counts.slices == len(begin_of_time | set(begins))


@pytest.mark.parametrize(
    ("technique", "in_a_slide"), [(Cutty(), 1), (Pairs(), 2), (PairsPlus(), 2), (Panes(), 3)]
)
def test_figure_7_slices_of_range_10_and_slide_3(technique: Any, in_a_slide: int) -> None:
    workload = Workload(total(mt.count_sliding(10, every=3)), stream(100))
    cuts = technique.cuts(workload)
    steady = cuts[(cuts >= 12) & (cuts < 12 + 30)]  # ten slides
    assert len(steady) == 10 * in_a_slide
    if in_a_slide == 2:
        assert sorted(set(np.diff(steady).tolist())) == [1, 2]  # 10 mod 3, and the rest of the slide


# ---- table 1 ----

GRID = [(r, s) for r in (1, 2, 7, 10, 16, 60, 100) for s in (1, 2, 3, 5, 7, 10, 20) if s <= r]


def power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


@pytest.mark.parametrize(("r", "s"), GRID)
def test_table_1_space(r: int, s: int) -> None:
    """Partials at their peak: as many as the table says at most, and not far below where it is exact."""
    size = 6 * r + 50
    slices = math.ceil(r / s)
    panes = r // math.gcd(r, s)
    window = mt.count_sliding(r, every=s)
    lazy = counted(Cutty("lazy"), window, size).partials
    assert slices <= lazy <= slices + 1
    pairs = counted(Pairs(), window, size).partials
    assert (r / s if r % s == 0 else 2 * (r // s)) <= pairs <= math.ceil(2 * r / s) + 1
    assert panes <= counted(Panes(), window, size).partials <= panes + 1
    # A tree over n leaves has room for a power of two of them, and less than as many inner nodes.
    eager = counted(Cutty("eager"), window, size).partials
    assert 2 * slices - 2 <= eager <= 2 * power_of_two(slices + 1)
    plus = counted(PairsPlus(), window, size).partials
    assert plus <= 2 * power_of_two(math.ceil(2 * r / s) + 1)
    eager_panes = counted(Panes("eager"), window, size).partials
    assert eager_panes <= 2 * power_of_two(panes + 1)
    tree = counted(ReactiveAggregator(), window, size)
    assert r <= tree.records <= power_of_two(r + s)
    assert tree.partials == 2 * tree.records - 1
    assert r <= counted(TupleBuffer(), window, size).records <= r + s


@pytest.mark.parametrize(("r", "s"), GRID)
def test_table_1_updates_and_merges(r: int, s: int) -> None:
    size = 6 * r + 50
    window = mt.count_sliding(r, every=s)
    windows = (size - r) // s + 1
    stores = [
        (Cutty("eager"), math.ceil(r / s) + 1),
        (PairsPlus(), math.ceil(2 * r / s) + 1),
        (Panes("eager"), r // math.gcd(r, s) + 1),
    ]
    for technique, leaves in stores:
        counts = counted(technique, window, size)
        levels = power_of_two(leaves).bit_length() - 1
        growth = 2 * power_of_two(leaves)  # each doubling combines all anew
        assert counts.online == size - counts.slices
        assert counts.update <= counts.slices * levels + growth
        assert counts.merge <= windows * (2 * levels + 1)
    for technique, slices in [
        (Cutty("lazy"), math.ceil(r / s)),
        (Pairs(), math.ceil(2 * r / s)),
        (Panes("lazy"), r // math.gcd(r, s)),
    ]:
        counts = counted(technique, window, size)
        assert counts.update == 0
        assert counts.merge <= windows * slices
    tree = counted(ReactiveAggregator(), window, size)
    levels = power_of_two(r + s).bit_length() - 1
    assert tree.update <= size * levels + 2 * power_of_two(r + s)
    assert tree.update >= size * (levels - 2) / 2 - 2 * power_of_two(r + s)  # tight: half of the levels
    assert tree.merge <= windows * (2 * levels + 1)


@pytest.mark.parametrize("seed", range(20))
def test_cutty_holds_no_more_partials_than_open_windows_plus_one(seed: int) -> None:
    """For windows in FIFO order, as those of one deterministic function are."""
    rng = np.random.default_rng(seed)
    begins = np.sort(rng.integers(0, 190, 30))
    ends = np.minimum(np.maximum.accumulate(begins + rng.integers(1, 60, 30)), 200)
    query = total(Marked(begins, ends))
    cutty = Cutty(store="lazy")
    cutty.run(query, stream(200))
    # A window counts until the record that ends it has been looked at.
    most_open = max(int(((begins <= p) & (p <= ends)).sum()) for p in range(201))
    assert cutty.counts.partials <= most_open + 1


def test_without_fifo_order_among_queries_there_may_be_more() -> None:
    """One long window is open, and each short one within has left a cut: the paper's bound is for FIFO."""
    queries = [total(mt.count_tumbling(100), "long"), total(mt.count_sliding(2, every=10), "short")]
    cutty = Cutty(store="lazy")
    cutty.run(queries, stream(100))
    assert cutty.counts.partials == 10


# ---- counters ----


def test_windows_that_are_folded_by_themselves_take_a_combine_per_record_and_window() -> None:
    window, size = mt.count_sliding(10, every=3), 100
    windows = [(b, b + 10) for b in range(0, size - 9, 3)]
    combines = sum(end - begin - 1 for begin, end in windows)
    for technique in (Naive(), TupleBuffer(), TupleBuckets()):
        assert counted(technique, window, size).merge == combines
    buckets = counted(AggregateBuckets(), window, size)
    assert (buckets.update, buckets.merge) == (combines, 0)
    assert buckets.partials == max(sum(b <= p < e for b, e in windows) for p in range(size)) == 4
    copies = [sum(max(0, min(e, p + 1) - b) for b, e in windows if p < e) for p in range(size)]
    assert counted(TupleBuckets(), window, size).records == max(copies)


def test_buckets_of_sessions_are_merged_when_a_record_connects_them() -> None:
    #   0     6        one bucket each; 3 joins the first, and with it the second: 1 + 1 combines
    late = Stream({"ts": [0, 6, 3, 20], "v": [1.0, 2.0, 4.0, 8.0]}, delay=3)
    query = total(mt.session(3))
    aggregates, tuples = AggregateBuckets(), TupleBuckets()
    for technique in (aggregates, tuples):
        rows = technique.run(query, late)
        assert [(row.start, row.end, row.values["total"]) for row in rows] == [(0, 9, 7.0), (20, 23, 8.0)]
    assert (aggregates.counts.update, aggregates.counts.partials) == (2, 2)
    assert (tuples.counts.merge, tuples.counts.records) == (2, 3)


def test_a_buffer_per_query_holds_the_records_of_each() -> None:
    queries = [total(mt.count_tumbling(50), "a"), total(mt.count_tumbling(20), "b")]
    naive, shared = Naive(), TupleBuffer()
    assert naive.run(queries, stream(200)) == shared.run(queries, stream(200))
    assert (naive.counts.records, shared.counts.records) == (70, 50)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_compiled_rings_count_as_the_tree_in_python_does(
    seed: int, batched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    queries = [
        total(mt.count_sliding(int(rng.integers(1, 90)), every=int(rng.integers(1, 60))), f"q{k}")
        for k in range(int(rng.integers(1, 4)))
    ]
    one, many = ReactiveAggregator(batched=batched), ReactiveAggregator(batched=batched)
    rows = one.run(queries, stream(500))
    monkeypatch.setattr(records, "_MANY", 1)
    assert many.run(queries, stream(500)) == rows
    assert many.counts == one.counts


@pytest.mark.parametrize("make", [lambda: Cutty("lazy"), lambda: Cutty("eager"), Pairs, PairsPlus])
@pytest.mark.parametrize("seed", range(10))
def test_compiled_slices_count_as_those_in_python_do(
    seed: int, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(100, 700))
    length, every = rng.integers(1, 90), rng.integers(1, 60)
    one, many = make(), make()
    windows = [
        mt.count_sliding(int(length), every=int(every)),
        mt.sliding(int(length), every=int(every)),
        mt.cumulate(60, step=20),
        mt.session(4) if isinstance(one, Cutty) else mt.tumbling(33),
    ]
    queries = [total(windows[k], f"q{k}") for k in rng.permutation(4)[: rng.integers(1, 5)]]
    gaps = Stream({"ts": np.cumsum(rng.integers(0, 6, size)), "v": stream(size).batch["v"]})
    rows = one.run(queries, gaps)
    monkeypatch.setattr(sliced, "_MANY", 1)
    assert many.run(queries, gaps) == rows
    assert many.counts == one.counts


def test_slices_of_the_operator_are_counted_as_those_of_others() -> None:
    window = mt.sliding(1000, every=100)
    lazy, eager = (counted(Slicing(store=store), window, 50_000) for store in ("lazy", "eager"))
    cutty = counted(Cutty("lazy"), window, 50_000)
    assert (lazy.online, lazy.update, lazy.merge) == (cutty.online, cutty.update, cutty.merge)
    assert lazy.partials == cutty.partials
    assert lazy.merge > eager.merge
    assert lazy.records == eager.records == 0
