"""Sketches: their error bounds, and that slices, batches, snapshots and workers change nothing about them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import subprocess
import sys
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import datasketches
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.algebra import sketch_states
from muntin.spark.packing import from_blob, has_panes
from tests.mixed_workloads import mixed, mixed_tables
from tests.sketch_calls import CALLS, sketched
from tests.spark.test_workers import Drawn, check_stream, check_table, job_of, packed, streams, with_buckets
from tests.test_operator import check, check_rows, told
from tests.windows_oracle import Spec, one_shot
from tests.workloads import Workload, batch_of, query_of, tables, workloads

# ---- few values: every sketch is exact ----


@settings(max_examples=120)
@given(workload=sketched(workloads()))
def test_operator_agrees_with_the_oracle(workload: Workload) -> None:
    check(workload)


@settings(max_examples=120)
@given(workload=sketched(mixed()))
def test_windows_of_every_kind_agree_with_the_oracle(workload: Workload) -> None:
    check(workload)


@settings(max_examples=60)
@given(workload=sketched(st.one_of(tables(), mixed_tables())))
def test_aggregate_agrees_with_the_oracle(workload: Workload) -> None:
    (batch, _) = workload.calls
    queries = [query_of(spec) for spec in workload.queries]
    table = batch_of(batch.records, workload.keys, False, batch.form, workload.marked)
    rows = mt.aggregate(table, queries, time="t", key=list(workload.keys) or None, columns="all")
    got = told(rows, workload.keys)
    check_rows(got, one_shot(workload.queries, batch.records), workload.queries, "mt.aggregate")


@settings(max_examples=50)
@given(sketched(st.one_of(tables(), mixed_tables())), st.integers(1, 4))
def test_tables_on_workers(workload: Workload, partitions: int) -> None:
    check_table(workload, partitions)


@st.composite
def sketched_streams(draw: st.DrawFn) -> Drawn:
    """Micro-batches whose queries ask for sketches."""
    drawn = draw(streams(every_kind=draw(st.booleans())))
    pool = {spec.name: spec for specs, _ in drawn.batches for spec in specs}
    for name, spec in pool.items():
        calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=2, unique=True))
        pool[name] = dataclasses.replace(spec, aggregates={"_".join(call): call for call in calls})
    batches = [([pool[spec.name] for spec in specs], records) for specs, records in drawn.batches]
    return dataclasses.replace(drawn, batches=batches)


@settings(max_examples=60)
@given(sketched_streams())
def test_streams_on_workers(drawn: Drawn) -> None:
    check_stream(drawn)


# ---- many values: error bounds ----

SIZE = 40_000
AGGREGATES = {
    "distinct": mt.approx_count_distinct("v"),
    "ranks": mt.approx_quantile("v", [0.01, 0.25, 0.5, 0.75, 0.99]),
    "top": mt.approx_top_k("v", 5),
    "counts": mt.count_min_sketch("v"),
    "members": mt.bloom_filter("v"),
}
BY_CONTENT = ("distinct", "counts", "members")  # which depend on nothing but the values
WINDOWS = {
    "tumbling": mt.tumbling(8_000),
    "sliding": mt.sliding(12_000, every=5_000),
    "session": mt.session(40),
    "count_sliding": mt.count_sliding(15_000, every=10_000),
    "last_span": mt.last_span(9_000, every=15_000),
    "last_n": mt.last_n(12_000, every=8_000),
    "punctuation": mt.punctuation(when="p"),
}


def stream(seed: int) -> pa.Table:
    """Skewed integers, out of order by up to 200, with gaps between sessions."""
    random = np.random.default_rng(seed)
    steps = np.where(random.random(SIZE) < 1e-4, 100, random.integers(0, 2, SIZE))
    times = np.cumsum(steps)
    lagging = np.where(random.random(SIZE) < 0.05, random.integers(0, 200, SIZE), 0)
    often, seldom = random.zipf(1.5, SIZE) % 50, random.integers(0, 20_000, SIZE)
    values = np.where(random.random(SIZE) < 0.5, often, seldom)
    marks = np.arange(SIZE) % 15_000 == 0
    nulls = random.random(SIZE) < 0.01
    columns = {"t": times - lagging, "v": pa.array(values, mask=nulls), "p": marks}
    return pa.table(columns)


def inside(name: str, row: dict[str, Any], table: pa.Table) -> list[int]:
    """The values in a window, by its definition."""
    order = np.argsort(table["t"].to_numpy(), kind="stable")
    times, marks = table["t"].to_numpy()[order], np.flatnonzero(table["p"].to_numpy()[order])
    place, begin, end = row["window_id"], row["window_start"], row["window_end"]
    at = np.arange(SIZE)
    match name:
        case "tumbling" | "sliding" | "session":
            chosen = (begin <= times) & (times < end)
        case "count_sliding":
            chosen = (10_000 * place <= at) & (at < 10_000 * place + 15_000)
        case "last_span":
            last = 15_000 * (place + 1) - 1
            chosen = (at <= last) & (times > times[last] - 9_000)
        case "last_n":
            chosen = (times < end) & (at >= np.sum(times < end) - 12_000)
        case "punctuation":
            chosen = np.searchsorted(marks, at, side="right") - 1 == place
    values = table["v"].take(pa.array(order[chosen])).to_pylist()
    return [value for value in values if value is not None]


def check_bounds(row: dict[str, Any], values: list[int]) -> None:
    """Each answer within its bound: five standard errors, or twice what 99 of 100 keep."""
    size, counts, ordered = len(values), Counter(values), np.sort(values)
    assert abs(row["distinct"] - len(counts)) <= max(1, 5 * 0.0163 * len(counts))
    for share, value in zip([0.01, 0.25, 0.5, 0.75, 0.99], row["ranks"], strict=True):
        low, high = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
        assert low / size - 0.03 <= share <= high / size + 0.03
    most = counts.most_common(1)[0][1]
    assert most <= row["top"][0]["count"] <= most + 0.0035 * size
    for pair in row["top"]:
        assert counts[pair["value"]] <= pair["count"] <= counts[pair["value"]] + 0.0035 * size
    for value in (*sorted(counts)[:30], -1):
        assert counts[value] <= mt.count_min_estimate(row["counts"], value) <= counts[value] + 0.02 * size
    assert all(mt.bloom_contains(row["members"], value) for value in sorted(counts)[::7])
    wrong = sum(mt.bloom_contains(row["members"], value) for value in range(-500, 0))
    expected = 500 * (1 - math.exp(-7 * len(counts) / 65536)) ** 7
    assert wrong <= expected + 5 * math.sqrt(expected) + 3


def run(operator: mt.WindowOperator, table: pa.Table, cuts: list[int], restore: bool) -> pa.Table:
    """The folded rows of a stream cut into batches; with a snapshot after each, if wanted."""
    tables = []
    for begin, end in itertools.pairwise([0, *cuts, len(table)]):
        tables.append(operator.process(table.slice(begin, end - begin)))
        if restore:
            operator = mt.WindowOperator.restore(operator.snapshot())
    tables.append(operator.finish())
    rows: dict[Any, Any] = {}
    for row in pa.concat_tables(tables).to_pylist():
        who = row["window_start"] if row["window_id"] is None else row["window_id"]
        rows[who, row["window_end"] if row["window_id"] is None else None] = row
    kept = [row for row in rows.values() if row["change"] != "retract"]
    return sorted(kept, key=lambda row: (row["window_start"], row["window_end"]))


@pytest.mark.parametrize("name", WINDOWS)
def test_answers_keep_their_bounds(name: str) -> None:
    table = stream(7)
    query = WINDOWS[name].agg(**AGGREGATES)
    whole = mt.aggregate(table, query, time="t", columns="all").to_pylist()
    want = [inside(name, row, table) for row in whole]
    assert any(len(set(values)) > 3000 for values in want)
    for row, values in zip(whole, want, strict=True):
        check_bounds(row, values)
    for store, cuts, restore in (
        ("lazy", [11, 20_000, 20_001, 33_000], False),
        ("eager", [25_000], True),
        ("sliding", list(range(2_500, SIZE, 2_500)), False),
    ):
        operator = mt.WindowOperator([query], time="t", watermark=100, lateness=150, store=store)
        got = run(operator, table, cuts, restore)
        assert len(got) == len(whole)
        for row, one_go, values in zip(got, whole, want, strict=True):
            check_bounds(row, values)
            assert all(row[column] == one_go[column] for column in BY_CONTENT)


def test_what_depends_on_values_alone_does_not_depend_on_their_order() -> None:
    random = np.random.default_rng(3)
    query = mt.tumbling(100).agg(**AGGREGATES)
    for size in (300, 383, 384, 385, 386, 5_000, 40_000):
        values = random.integers(-(2**62), 2**62, size)
        answers = []
        for order in (np.arange(size), random.permutation(size), np.argsort(values)):
            operator = mt.WindowOperator([query], time="t")
            for part in np.array_split(values[order], random.integers(1, 9)):
                operator.process({"t": np.zeros(len(part), int), "v": part})
            (row,) = operator.finish().to_pylist()
            answers.append([row[column] for column in BY_CONTENT])
        assert answers[0] == answers[1] == answers[2]


def test_floats_and_texts_keep_their_bounds() -> None:
    random = np.random.default_rng(5)
    numbers = random.integers(0, 8_000, 20_000)
    query = mt.tumbling(10**6).agg(**{k: v for k, v in AGGREGATES.items() if k != "ranks"})
    for values in (numbers / 7, [f"user {n}" for n in numbers.tolist()]):
        (row,) = mt.aggregate({"t": np.arange(20_000), "v": values}, query, time="t").to_pylist()
        counts = Counter(values if isinstance(values, list) else values.tolist())
        assert abs(row["distinct"] - len(counts)) <= 5 * 0.0163 * len(counts)
        for value in list(counts)[:200]:
            assert mt.bloom_contains(row["members"], value)
            estimate = mt.count_min_estimate(row["counts"], value)
            assert counts[value] <= estimate <= counts[value] + 0.02 * 20_000
        for pair in row["top"]:
            assert counts[pair["value"]] <= pair["count"] <= counts[pair["value"]] + 0.0035 * 20_000


def test_most_frequent_values_are_found_among_many_others() -> None:
    random = np.random.default_rng(11)
    values = np.concatenate([np.repeat(np.arange(8), 2_000), random.integers(100, 10**9, 100_000)])
    values = random.permutation(values)
    query = mt.sliding(60_000, every=20_000).agg(top=mt.approx_top_k("v", 8))
    rows = mt.aggregate({"t": np.arange(len(values)), "v": values}, query, time="t").to_pylist()
    whole = [row for row in rows if 0 <= row["window_start"] and row["window_end"] <= len(values)]
    assert whole
    for row in whole:
        assert {pair["value"] for pair in row["top"]} == set(range(8))


def windows_of_pieces(values: np.ndarray, aggregate: mt.Aggregate) -> Any:
    """The answer over all values, which come in batches and lie in many slices."""
    query = mt.tumbling(100).agg(x=aggregate)
    edges = mt.tumbling(9).agg(n=mt.count())
    operator = mt.WindowOperator([query, edges], time="t", watermark="manual")
    random = np.random.default_rng(17)
    for part in np.array_split(values, 5):
        operator.process({"t": random.integers(0, 100, len(part)), "v": part})
    (row,) = [row for row in operator.finish().to_pylist() if row["query"] == "q0"]
    return row["x"]


def test_how_many_values_are_exact() -> None:
    random = np.random.default_rng(13)
    values = random.permutation(5_000)[:200]
    ranked = np.sort(values).tolist()
    assert windows_of_pieces(values, mt.approx_quantile("v", [0.1, 0.5])) == [ranked[19], ranked[99]]
    assert windows_of_pieces(values, mt.approx_count_distinct("v")) == 200
    values = random.permutation(np.repeat(np.arange(768), np.arange(768) % 5 + 1))
    counts = Counter(values.tolist())
    top = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:500]
    got = windows_of_pieces(values, mt.approx_top_k("v", 500))
    assert [(pair["value"], pair["count"]) for pair in got] == top


def test_importing_muntin_does_not_load_the_library() -> None:
    code = "import sys, muntin; print('datasketches' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- keys of values ----


def test_equal_values_count_once() -> None:
    table = {"t": [0] * 6, "v": [0.0, -0.0, math.nan, -math.nan, 1.0, None]}
    (row,) = mt.aggregate(table, mt.tumbling(1).agg(**AGGREGATES), time="t").to_pylist()
    assert row["distinct"] == 3
    assert [mt.count_min_estimate(row["counts"], v) for v in (-0.0, 0, math.nan, 1, 2)] == [2, 2, 2, 1, 0]
    assert [mt.bloom_contains(row["members"], v) for v in (-0.0, math.nan, 1.0, 2.0)] == [True] * 3 + [False]
    assert repr(row["top"][:2]) == repr([{"value": 0.0, "count": 2}, {"value": math.nan, "count": 2}])
    assert repr(row["ranks"]) == "[0.0, 0.0, 1.0, nan, nan]"


TYPES = {
    "bool": (pa.bool_(), [True, False, True]),
    "int8": (pa.int8(), [1, -2, 1]),
    "uint64": (pa.uint64(), [2**63, 2**64 - 1, 2**63]),
    "float32": (pa.float32(), [0.1, 0.5, 0.1]),
    "decimal": (pa.decimal128(38, 2), [Decimal("1.50"), Decimal(10**35), Decimal("1.50")]),
    "string": (pa.string(), ["", "ä", ""]),
    "large_string": (pa.large_string(), ["x", "y", "x"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", "y", "x"]),
    "binary": (pa.binary(), [b"\x00\xff", b"", b"\x00\xff"]),
    "fixed binary": (pa.binary(2), [b"ab", b"cd", b"ab"]),
    "date": (pa.date32(), [date(2026, 1, 1), date(1900, 1, 1), date(2026, 1, 1)]),
    "timestamp": (pa.timestamp("ms", "UTC"), [5, -1, 5]),
    "duration": (pa.duration("ns"), [5, 7, 5]),
    "time": (pa.time32("s"), [5, 7, 5]),
}


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_all_plain_types(name: str) -> None:
    kind, values = TYPES[name]
    table = pa.table({"t": [0, 1, 2, 3], "v": pa.array([*values, None], kind)})
    calls = {k: v for k, v in AGGREGATES.items() if k != "ranks"}
    rows = mt.aggregate(table, mt.tumbling(10).agg(**calls), time="t")
    (row,) = rows.to_pylist()
    plain = table["v"].combine_chunks()
    plain = plain.dictionary_decode() if name == "dictionary" else plain
    assert rows.schema.field("top").type == pa.list_(
        pa.struct([("value", plain.type), ("count", pa.int64())])
    )
    assert row["distinct"] == 2
    assert row["top"] == [
        {"value": plain[0].as_py(), "count": 2},
        {"value": plain[1].as_py(), "count": 1},
    ]
    assert [mt.count_min_estimate(row["counts"], plain[i]) for i in range(3)] == [2, 1, 2]
    assert all(mt.bloom_contains(row["members"], plain[i]) for i in range(3))


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())])])
def test_nested_columns_are_refused(kind: pa.DataType) -> None:
    for aggregate in AGGREGATES.values():
        with pytest.raises(TypeError, match=r"needs plain values .* column 'v' holds"):
            mt.aggregate(
                pa.table({"t": [0], "v": pa.nulls(1, kind)}), mt.tumbling(1).agg(x=aggregate), time="t"
            )


def test_quantiles_are_of_numbers() -> None:
    for column in (["a"], [date(2026, 1, 1)]):
        with pytest.raises(TypeError, match="needs numbers"):
            mt.aggregate({"t": [0], "v": column}, mt.tumbling(1).agg(x=mt.approx_quantile("v")), time="t")


def test_answers_over_no_value() -> None:
    table = pa.table({"t": [0, 1, 31], "v": pa.array([None, None, 4], pa.int64())})
    query = mt.tumbling(10).agg(**AGGREGATES, emit_empty=True)
    rows = mt.aggregate(table, query, time="t").to_pylist()
    assert len(rows) == 4
    for row in rows[:3]:
        assert [row[name] for name in AGGREGATES] == [0, None, None, None, None]
        assert mt.count_min_estimate(row["counts"], 4) == 0
        assert not mt.bloom_contains(row["members"], 4)
    assert rows[3]["distinct"] == 1


# ---- how much is done ----


def test_numbers_of_a_slice_are_taken_in_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = datasketches.kll_doubles_sketch

    class Counting:
        """A sketch that says how it was updated."""

        def __init__(self, k: int) -> None:
            self.sketch = real(k)

        def update(self, values: Any) -> None:
            sizes.append(np.size(values))
            self.sketch.update(values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.sketch, name)

    monkeypatch.setattr(datasketches, "kll_doubles_sketch", Counting)
    query = mt.tumbling(100).agg(q=mt.approx_quantile("v"))
    table = {"t": np.arange(1_000), "v": np.arange(1_000.0)}
    rows = mt.aggregate(table, query, time="t")
    assert sizes == [100] * 10
    assert rows["q"].to_pylist() == [float(start + 49) for start in range(0, 1_000, 100)]


def test_windows_are_merged_from_slices_not_from_values(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    real = sketch_states.Registers.merged.__func__

    def counting(cls: Any, states: Any) -> Any:
        merged.append(len(states))
        return real(cls, states)

    monkeypatch.setattr(sketch_states.Registers, "merged", classmethod(counting))
    query = mt.sliding(1_000, every=100).agg(d=mt.approx_count_distinct("v"))
    table = {"t": np.arange(20_000), "v": np.arange(20_000)}
    operator = mt.WindowOperator([query], time="t", store="lazy")
    rows = pa.concat_tables([operator.process(table), operator.finish()])
    assert merged == [min(10, k, 209 - k + 1) for k in range(1, 210)][1:-1]
    merged.clear()
    assert mt.aggregate(table, query, time="t")["d"].to_pylist() == rows["d"].to_pylist()
    assert sum(merged) < 209 * 6  # pairs of slices, and pairs of pairs, are shared


def test_states_in_slices_are_never_changed() -> None:
    for aggregate, value in itertools.product(AGGREGATES.values(), (3, 4.5)):
        column = aggregate.prepared(np.array([value, 7, value]))
        state, other = aggregate.of(column), aggregate.of(column[:1])
        before = aggregate.to_bytes(state), aggregate.to_bytes(other)
        aggregate.plus(state, column)
        aggregate.merged([state, other, state])
        assert before == (aggregate.to_bytes(state), aggregate.to_bytes(other))


def test_slices_of_single_records_are_small() -> None:
    query = mt.rolling(rows=50).agg(counts=mt.count_min_sketch("v"), members=mt.bloom_filter("v"))
    operator = mt.WindowOperator([query], time="t")
    values = np.arange(300) % 40
    rows = operator.process({"t": np.arange(300), "v": values})
    assert len(operator.snapshot()) < 20_000  # where two sketches of each record would take millions
    for end, row in enumerate(rows.to_pylist()):
        window = values[max(0, end - 49) : end + 1].tolist()
        assert [mt.count_min_estimate(row["counts"], v) for v in range(40)] == [
            window.count(v) for v in range(40)
        ]
        assert [mt.bloom_contains(row["members"], v) for v in range(45)] == [v in window for v in range(45)]


# ---- snapshots and workers ----


def test_snapshots_need_no_queries_and_hold_the_library_s_bytes() -> None:
    query = mt.tumbling(10_000).agg(**AGGREGATES, name="all")
    operator = mt.WindowOperator([query], time="t")
    operator.process({"t": np.arange(5_000), "v": np.arange(5_000)})
    blob = operator.snapshot()
    again = mt.WindowOperator.restore(blob)
    assert len(blob) < 60_000  # far less than the records
    assert "approx_quantile('v', (0.01, 0.25, 0.5, 0.75, 0.99))" in again.explain()
    again = mt.WindowOperator.restore(again.snapshot())
    (row,) = operator.finish().to_pylist()
    (other,) = again.finish().to_pylist()
    assert row == other


def test_states_of_another_format_are_refused() -> None:
    aggregate = mt.approx_count_distinct("v")
    blob = aggregate.to_bytes(aggregate.lift(1))
    assert aggregate.from_bytes(blob) == aggregate.lift(1)
    with pytest.raises(ValueError, match="has format 63, and this muntin reads format 01"):
        aggregate.from_bytes(b"c" + blob[1:])
    seen = mt.bloom_filter()
    with pytest.raises(ValueError, match="no answer of bloom_filter"):
        seen.from_bytes(b"mtbloom\x02" + seen.to_bytes(seen.lift(1))[8:])


def test_workers_send_sketches_not_records() -> None:
    calls = {"_".join(call): call for call in CALLS}
    job = job_of([Spec("q", "sliding", (300, 100, 0), calls)], (), late=True)
    assert job.ahead
    assert not job.own_objects()
    records = pa.table({"t": np.arange(900), "v": np.arange(900) / 2, "w": np.arange(900) % 7})
    batches = with_buckets(records.cast(pa.schema([(c, job.types[c]) for c in records.column_names])), job)
    (blob,) = packed(batches, job)["blob"].to_pylist()
    panes = from_blob(blob)
    assert has_panes(panes)
    assert len(panes) == 9
    binary = [column for column in panes.schema if column.type == pa.large_binary()]
    assert len(binary) == len(calls)


# ---- beside the operator ----

MAKE = {
    "distinct": mt.approx_count_distinct,
    "middle": mt.approx_quantile,
    "top": lambda: mt.approx_top_k(k=2),
    "counts": mt.count_min_sketch,
    "members": mt.bloom_filter,
}
STRUCTURES = ["Recalculate", "TwoStacks", "TwoStacksLite", "Daba", "DabaLite", "FlatFit", "BInt"]


@pytest.mark.parametrize("name", MAKE)
def test_laws(name: str) -> None:
    aggregate = MAKE[name]()
    mt.check_aggregate(aggregate, [3, 1, 4, 1, 5])
    mt.check_aggregate(aggregate, [1.5, -0.0, math.nan, 0.0])
    if name != "middle":
        mt.check_aggregate(aggregate, ["a", "", "b", "a"])
    assert pickle.loads(pickle.dumps(aggregate)) == aggregate


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", MAKE)
def test_sliding_window_aggregators(name: str, structure: str) -> None:
    aggregate = MAKE[name]()
    window = getattr(mt.swag, structure)(aggregate)
    random, kept = np.random.default_rng(1), []
    for value in random.integers(0, 9, 60).tolist():
        window.insert(value)
        kept.append(value)
        if len(kept) > 20:
            window.evict()
            kept.pop(0)
        column = aggregate.prepared(np.array(kept))
        assert window.query() == aggregate.lower(aggregate.of(column))


def test_the_reactive_aggregators_and_bulk_runs() -> None:
    values = [5, 3, 5, 1]
    tree = mt.swag.FlatFat(mt.approx_count_distinct(), values)
    assert tree.aggregate() == 3
    fiba = mt.swag.Fiba(mt.approx_quantile(q=0.5))
    fiba.insert_many([4, 1, 3, 2], values)
    assert fiba.query() == 3.0
    assert mt.swag.slide(mt.approx_count_distinct(), values, window=3).tolist() == [1, 2, 2, 3]
    blobs = mt.swag.slide(mt.bloom_filter(), values, window=2)
    assert [mt.bloom_contains(blob, 3) for blob in blobs] == [False, True, True, False]


def test_only_changes_are_told_also_of_answers_with_nan() -> None:
    query = mt.tumbling(10).agg(
        q=mt.approx_quantile("v", [0.5, 1]), top=mt.approx_top_k("v", 2), emit="on_change"
    )
    operator = mt.WindowOperator([query], time="t")
    told = [operator.process({"t": [t, t + 1], "v": [1.0, math.nan]}).num_rows for t in (0, 10, 20)]
    operator = mt.WindowOperator.restore(operator.snapshot())
    told.append(operator.process({"t": [30], "v": [2.0]}).num_rows)
    told.append(operator.finish().num_rows)
    assert told == [0, 1, 0, 0, 1]


def test_what_users_get_wrong() -> None:
    for q in (2, -0.1, "a", [0.5, None], True, math.nan):
        with pytest.raises(ValueError, match="q is a number from 0 to 1"):
            mt.approx_quantile("v", q)
    with pytest.raises(ValueError, match="at least one q"):
        mt.approx_quantile("v", [])
    for k in (0, 501, 1.5, True):
        with pytest.raises(ValueError, match="k is a whole number from 1 to 500"):
            mt.approx_top_k("v", k)
    with pytest.raises(TypeError, match="Arrow scalar of its column's type"):
        mt.bloom_contains(None, date(2026, 1, 1))
    for blob in (b"", b"x" * 10_904, b"x" * 8_200, "text"):
        with pytest.raises(ValueError, match="no answer of count_min_sketch"):
            mt.count_min_estimate(blob, 1)
        with pytest.raises(ValueError, match="no answer of bloom_filter"):
            mt.bloom_contains(blob, 1)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch_states.library.cache_clear()
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for make in (mt.approx_count_distinct, mt.approx_quantile, mt.approx_top_k, mt.count_min_sketch):
        with pytest.raises(ImportError, match=r"pip install muntin\[sketches\]"):
            make("v")
    assert mt.bloom_filter("v").columns == ("v",)


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        (pa.array([Decimal("0.5")]), 0.5),
        (pa.array([0.5]), Decimal("0.5")),
        (pa.array([2.0**70]), 2**70),
        (pa.array([2**63], pa.uint64()), 2.0**63),
        (pa.array([Decimal(2**63)]), 2**63),
        (pa.array([Decimal(2**63 + 1)]), 2**63 + 1),
    ],
)
def test_equal_numbers_of_other_types_are_found(column: pa.Array, asked: Any) -> None:
    query = mt.tumbling(10).agg(seen=mt.bloom_filter("v"), n=mt.count_min_sketch("v"))
    (row,) = mt.aggregate({"t": [1], "v": column}, query, time="t").to_pylist()
    assert mt.bloom_contains(row["seen"], asked)
    assert mt.count_min_estimate(row["n"], asked) == 1
