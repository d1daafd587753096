"""Every technique gives the oracle's rows on every workload that it accepts."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import muntin as mt
from muntin.techniques import (
    AggregateBuckets,
    AggregateTree,
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
    UnsupportedWorkload,
)
from tests.oracle import agrees
from tests.packed import packed
from tests.windows_oracle import Record, Spec, one_shot
from tests.workloads import CALLS, SMALL, VALUES, WINDOWS, batch_of, query_of

TECHNIQUES: dict[str, Technique] = {
    "Naive": Naive(),
    "TupleBuffer": TupleBuffer(),
    "AggregateTree": AggregateTree(),
    "AggregateBuckets": AggregateBuckets(),
    "TupleBuckets": TupleBuckets(),
    "Panes": Panes(),
    "Panes, eager": Panes(store="eager"),
    "Pairs": Pairs(),
    "PairsPlus": PairsPlus(),
    "ReactiveAggregator": ReactiveAggregator(),
    "ReactiveAggregator, batched": ReactiveAggregator(batched=True),
    "Cutty, lazy": Cutty(store="lazy"),
    "Cutty, eager": Cutty(store="eager"),
    "Slicing, lazy": Slicing(store="lazy"),
    "Slicing, eager": Slicing(store="eager"),
    "Slicing, lazy, on records": Slicing(store="lazy", keep_records=True),
    "Slicing, eager, on records": Slicing(store="eager", keep_records=True),
}


PERIODIC = [kind for kind in WINDOWS if kind != "session"]
# What to draw for a technique, so that it accepts most of it: window kinds, the most queries, delays.
SUITS: dict[str, tuple[list[str], int, list[int]]] = {
    "Panes": (PERIODIC, 1, [0]),
    "Panes, eager": (PERIODIC, 1, [0]),
    "Pairs": (PERIODIC, 4, [0]),
    "PairsPlus": (PERIODIC, 4, [0]),
    "Cutty, lazy": (list(WINDOWS), 4, [0]),
    "Cutty, eager": (list(WINDOWS), 4, [0]),
    "ReactiveAggregator": (list(WINDOWS), 4, [0]),
    "ReactiveAggregator, batched": (list(WINDOWS), 4, [0]),
}


@st.composite
def specs(draw: st.DrawFn, name: str, kinds: list[str]) -> Spec:
    kind = draw(st.sampled_from(kinds))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=2, unique=True))
    partial = kind.startswith("count") and draw(st.booleans())
    columns = {"_".join(call): call for call in calls}
    return Spec(name, kind, draw(WINDOWS[kind]), columns, emit_partial=partial)


@st.composite
def streams(draw: st.DrawFn, delays: list[int]) -> tuple[list[Record], int]:
    """Records in the order of arrival, and how far they lag."""
    delay = draw(st.sampled_from(delays))
    values = draw(st.sampled_from(VALUES))
    parts = packed([0, 0, 1, 1, 2, 3, 7, 30], range(delay + 1), values, SMALL)
    clock, records = draw(st.sampled_from([0, -20, 10**9])), []
    largest = None
    for gap, lag, v, w in draw(st.lists(parts, max_size=40)):
        clock += gap
        t = clock - lag
        largest = t if largest is None else max(largest, t)
        records.append(Record(max(t, largest - delay), v, w))
    return records, delay


def shown(row: Any) -> tuple:
    return row.query, row.start, row.end, row.id


def check(technique: Technique, queries: list[Spec], records: list[Record], delay: int) -> None:
    stream = Stream(batch_of(records, (), tie=False), time="t", delay=delay)
    rows = technique.run([query_of(spec) for spec in queries], stream)
    got = {shown(row): row.values for row in rows}
    assert len(got) == len(rows), "a window came out twice"
    expected = one_shot(queries, records)
    assert sorted(map(str, got)) == sorted(str(shown(row)) for row in expected)
    for row in expected:
        scale = sum(abs(a.record.v) for a in row.records if a.record.v is not None)
        for column, value in row.values.items():
            assert agrees(got[shown(row)][column], value, scale), (row, column, got[shown(row)])


@pytest.mark.parametrize("name", list(TECHNIQUES))
def test_a_technique_gives_the_oracles_rows(name: str) -> None:
    kinds, most, delays = SUITS.get(name, (list(WINDOWS), 4, [0, 3, 12]))
    accepted = 0

    @given(st.integers(1, most), st.data())
    def run(size: int, data: st.DataObject) -> None:
        nonlocal accepted
        queries = [data.draw(specs(f"q{place}", kinds)) for place in range(size)]
        records, delay = data.draw(streams(delays))
        try:
            check(TECHNIQUES[name], queries, records, delay)
        except UnsupportedWorkload:
            return
        accepted += bool(records)

    run()
    assert accepted >= 10


def test_marked_windows_are_ranges_of_records() -> None:
    query = Marked([0, 0, 2, 5], [3, 4, 6, 6]).agg(total=mt.sum("v"), name="q")
    stream = Stream({"ts": [1, 2, 3, 4, 5, 6], "v": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]})
    for technique in [Cutty("lazy"), Cutty("eager"), ReactiveAggregator(), TupleBuffer(), AggregateBuckets()]:
        rows = technique.run(query, stream)
        assert [(row.start, row.end, row.id, row.values["total"]) for row in rows] == [
            (1, 3, 0, 7.0),
            (1, 4, 1, 15.0),
            (3, 6, 2, 60.0),
            (6, 6, 3, 32.0),
        ]


@pytest.mark.parametrize(
    ("begins", "ends"),
    [([2, 0], [3, 4]), ([0, 1], [3, 2]), ([0], [0]), ([0], [9]), ([-1], [2]), ([0], [1, 2])],
)
def test_marks_that_are_none(begins: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match="marks are"):
        Cutty().run(Marked(begins, ends).agg(n=mt.count()), Stream({"ts": [1, 2, 3]}))


ORDERED, DISORDERED = {"ts": [1, 2, 3], "v": [1.0, 2.0, 3.0]}, {"ts": [1, 3, 2], "v": [1.0, 2.0, 3.0]}
SLIDING, SESSION = mt.sliding(4, every=2), mt.session(2)


@pytest.mark.parametrize(
    ("technique", "windows", "batch", "why"),
    [
        (Panes(), [SLIDING, SLIDING], ORDERED, "Panes serves one query"),
        (Panes(), [SESSION], ORDERED, "Panes needs periodic windows; a session is not"),
        (Pairs(), [SLIDING, SESSION], ORDERED, "Pairs needs periodic windows"),
        (PairsPlus(), [SLIDING], DISORDERED, "PairsPlus needs records in order"),
        (Cutty(), [SLIDING], DISORDERED, "Cutty needs records in order"),
        (ReactiveAggregator(), [SLIDING], DISORDERED, "ReactiveAggregator needs records in order"),
        (TupleBuckets(), [mt.count_sliding(3, 1)], DISORDERED, "does not know the count_sliding"),
        (AggregateBuckets(), [mt.count_tumbling(2)], DISORDERED, "does not know the count_tumbling"),
        (Slicing(keep_records=True), [SLIDING], DISORDERED, "here records are not kept. Edges are known"),
        (Slicing(), [mt.count_tumbling(2)], DISORDERED, "here records are kept"),
        (Slicing(), [Marked([0], [1])], ORDERED, "the operator finds windows itself"),
    ],
)
def test_what_a_technique_does_not_support_it_says(
    technique: Technique, windows: list[Any], batch: dict, why: str
) -> None:
    queries = [window.agg(total=mt.sum("v")) for window in windows]
    with pytest.raises(UnsupportedWorkload, match=why):
        technique.run(queries, Stream(batch, delay=1))


def test_order_is_what_buckets_of_aggregates_cannot_keep() -> None:
    with pytest.raises(UnsupportedWorkload, match="commutative"):
        AggregateBuckets().run(SLIDING.agg(x=mt.first("v")), Stream(DISORDERED, delay=1))


def test_a_record_that_lags_too_far_is_named() -> None:
    with pytest.raises(UnsupportedWorkload, match="record 2 lags more than 0 behind"):
        TupleBuffer().run(SLIDING.agg(n=mt.count()), Stream(DISORDERED))
