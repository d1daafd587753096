"""Quantiles, modes, distinct values and lists: of every type, however they are looked for, kept and moved."""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin as mt
from muntin.engine.partials.pool import Ranged
from muntin.engine.partials.value_counts import RunsField
from muntin.engine.partials.window_counts import WindowCounts
from tests.oracle import answer, quantile

DAY = datetime.date(2024, 2, 28)
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [3, -1, 3, 7, 0]),
    "uint64": (pa.uint64(), [2**64 - 1, 1, 1, 2**63, 5]),
    "float32": (pa.float32(), [0.5, -1.5, 0.5, 2.0, -0.0]),
    "bool": (pa.bool_(), [True, False, True, True, False]),
    "decimal": (
        pa.decimal128(10, 2),
        [decimal.Decimal(t) for t in ("1.10", "-2.00", "1.10", "0.05", "7.00")],
    ),
    "string": (pa.string(), ["oak", "ash", "oak", "", "yew"]),
    "large_string": (pa.large_string(), ["oak", "ash", "oak", "", "yew"]),
    "binary": (pa.binary(), [b"b", b"a", b"b", b"", b"c"]),
    "date32": (pa.date32(), [DAY + datetime.timedelta(days=n) for n in (3, 1, 3, 0, 9)]),
    "timestamp": (
        pa.timestamp("ms", "UTC"),
        [datetime.datetime(2024, 1, n, tzinfo=datetime.UTC) for n in (3, 1, 3, 2, 9)],
    ),
    "duration": (pa.duration("s"), [datetime.timedelta(seconds=n) for n in (3, 1, 3, 0, 9)]),
    "time64": (pa.time64("us"), [datetime.time(n) for n in (3, 1, 3, 0, 9)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["oak", "ash", "oak", "", "yew"]),
}
NUMBERS = ("int8", "uint64", "float32", "bool", "decimal")
AGGREGATES = {
    "mode": mt.mode("v"),
    "count_distinct": mt.count_distinct("v"),
    "collect": mt.collect("v"),
    "collect_distinct": mt.collect_distinct("v"),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("restored", [False, True])
def test_values_of_every_type(name: str, restored: bool) -> None:
    kind, values = TYPES[name]
    column = pa.array([*values[:3], None, *values[3:]], kind)
    asked = dict(AGGREGATES)
    if name in NUMBERS:
        asked |= {"median": mt.median("v"), "quartile": mt.quantile("v", q=0.25)}
    op = mt.WindowOperator(mt.sliding(6, every=3).agg(**asked), time="t")
    rows = []
    for place in range(6):
        rows += op.process({"t": [place], "v": column.slice(place, 1)}).to_pylist()
        if restored:
            op = mt.WindowOperator.restore(op.snapshot())
    table = op.finish()
    expected_type = kind.value_type if name == "dictionary" else kind
    assert table.schema.field("mode").type == expected_type
    assert table.schema.field("collect").type == pa.list_(expected_type)
    whole = next(row for row in [*rows, *table.to_pylist()] if row["window_start"] == 0)
    for call in AGGREGATES:
        assert whole[call] == answer(call, values), call
    if name in NUMBERS:
        assert whole["median"] == quantile(values, 0.5)
        assert whole["quartile"] == quantile(values, 0.25)


def test_texts_end_to_end() -> None:
    table = {"t": [3, 1, 2, 12], "v": ["c", "a", None, "d"]}
    query = mt.tumbling(10).agg(plain=mt.concat("v"), parted=mt.concat("v", sep=", "))
    rows = mt.aggregate(table, query, time="t").to_pylist()
    assert [(row["plain"], row["parted"]) for row in rows] == [("ac", "a, c"), ("d", "d")]


@pytest.mark.parametrize(
    ("aggregate", "column", "words"),
    [
        (mt.median("v"), ["a"], r"median\('v'\) needs numbers, but column 'v' holds string"),
        (mt.quantile("v", q=0.5), [DAY], r"needs numbers, but column 'v' holds date32"),
        (mt.mode("v"), [[1]], r"mode\('v'\) needs values with an order, but column 'v' holds list"),
        (mt.count_distinct("v"), [[1]], r"needs values with an order"),
        (mt.concat("v"), [1], r"concat\('v', sep=''\) needs texts, but column 'v' holds int64"),
    ],
)
def test_types_that_make_no_sense(aggregate: mt.Aggregate, column: list[Any], words: str) -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(a=aggregate), time="t")
    with pytest.raises(TypeError, match=words):
        op.process({"t": [1], "v": column})


@pytest.mark.parametrize("q", [-0.1, 1.5, math.nan, "half", True, None, [], [0.5, 2]])
def test_shares_that_are_none(q: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="from 0 to 1"):
        mt.quantile("v", q=q)


def test_a_number_beyond_64_bits_comes_late() -> None:
    query = mt.count_sliding(3, every=1).agg(m=mt.median("v"), c=mt.collect("v"), d=mt.mode("v"))
    op = mt.WindowOperator(query, time="t")
    op.process({"t": [0, 1], "v": pa.array([5, 7], pa.uint64())})
    rows = op.process({"t": [2, 3], "v": pa.array([2**64 - 1, 6], pa.uint64())}).to_pylist()
    assert [(row["m"], row["c"], row["d"]) for row in rows] == [
        (7.0, [5, 7, 2**64 - 1], 5),
        (7.0, [7, 2**64 - 1, 6], 6),
    ]


# ---- however windows lie ----


def windows_of(values: np.ndarray, bounds: list[int], low: list[int], high: list[int]) -> tuple[Any, Any]:
    """The field, and windows as ranges of slices between bounds."""
    from muntin.engine.ingest.batch import Values

    field = RunsField(("f8",))
    states = field.of_segments(Values((values,), None, len(values), ("f8",)), np.array(bounds))
    return field, Ranged(states, np.array(low), np.array(high))


@pytest.mark.parametrize("distinct", [3, 200, 10**6])
@pytest.mark.parametrize(("records", "step"), [(1, 1), (3, 2), (3, 40)])
def test_quantiles_of_windows_that_slide(distinct: int, records: int, step: int) -> None:
    """Each slice has so many records; some windows begin where the one before has ended."""
    rng = np.random.default_rng(distinct + step)
    values = rng.integers(-distinct, distinct, 60_000) / 4
    bounds = np.arange(0, 60_001, records)
    low = np.cumsum(rng.integers(0, step + 1, 5_000))
    low = low[low < len(bounds) - 2]
    high = np.maximum.accumulate(np.minimum(low + 1 + rng.integers(0, 50, len(low)), len(bounds) - 1))
    field, ranged = windows_of(values, bounds.tolist(), low.tolist(), high.tolist())
    shares = (0.0, 0.1, 0.5, 1.0)
    slid = WindowCounts(field, ranged)._slid(ranged, shares)
    assert slid is not None
    rows = field.answers(ranged, mt.quantile("v", q=list(shares))).data
    for w in range(0, len(low), 13):
        inside = sorted(values[bounds[low[w]] : bounds[high[w]]].tolist())
        want = [quantile(inside, share) for share in shares]
        assert slid[:, w].tolist() == want == rows[w]


@pytest.mark.parametrize("sort", ["floats", "integers", "nulls"])
@pytest.mark.parametrize("by", ["count", "time"])
def test_columns_in_a_sliding_window(sort: str, by: str) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(-50, 50, 400)
    values: list[Any] = (numbers if sort == "integers" else numbers / 7).tolist()
    if sort == "nulls":
        values = [None if v < -20 else v for v in values]
    given: dict[str, Any] = {"window": 7}
    if by == "time":
        given = {"times": np.cumsum(rng.integers(0, 4, 400)), "length": 9}
    for aggregate in (mt.median(), mt.quantile(q=0.9), mt.quantile(q=0), mt.quantile(q=[0.1, 0.5])):
        slid = mt.swag.slide(aggregate, values, **given)
        assert slid.tolist() == mt.swag.Recalculate.slide(aggregate, values, **given).tolist()


@pytest.mark.parametrize("largest", [1.0, 1e300, math.inf, math.nan])
def test_quantiles_that_slide_over_numbers_hardly_apart(largest: float) -> None:
    """Beside a large number, the leading bits of the others are all the same."""
    close = 1 + np.arange(400, 0, -1) * 2**-52
    values = np.append(np.append(close, largest), close)
    field, ranged = windows_of(values, list(range(802)), list(range(701)), list(range(101, 802)))
    slid = WindowCounts(field, ranged)._slid(ranged, (0.5,))
    assert slid is not None
    medians = [sorted(values[w : w + 101].tolist(), key=lambda v: (v != v, v))[50] for w in range(701)]
    assert slid[0].tolist() == medians


@pytest.mark.parametrize("ties", [1, 1000])
def test_large_batches_of_count_windows_come_in_parts(ties: int) -> None:
    rng = np.random.default_rng(ties)
    records = pa.table({"t": np.arange(150_000) // ties, "v": rng.random(150_000)})
    queries = [
        mt.count_sliding(1001, every=1).agg(m=mt.median("v"), name="fine"),
        mt.count_sliding(500, every=70).agg(m=mt.median("v"), n=mt.count(), name="coarse"),
    ]
    whole = mt.WindowOperator(queries, time="t").process(records)
    op = mt.WindowOperator(queries, time="t")
    parts = [op.process(records.slice(begin, 30_000)) for begin in range(0, len(records), 30_000)]
    for name in ("fine", "coarse"):
        some, other = (table.filter(pc.field("query") == name) for table in (whole, pa.concat_tables(parts)))
        assert some.equals(other)
    fine = whole.filter(pc.field("query") == "fine")
    assert fine["window_id"].to_pylist() == list(range(149_000))
    ends = whole["window_end"].to_numpy()
    assert (ends[1:] >= ends[:-1]).all()
    for w in range(0, 149_000, 4_999):
        assert fine["m"][w].as_py() == np.median(records["v"].to_numpy()[w : w + 1001])


@pytest.mark.parametrize("distinct", [3, 200, 10**6])
@pytest.mark.parametrize("slices", [4, 300])
@pytest.mark.parametrize("windows", [1, 2000])
def test_each_way_to_look_for_order_statistics(distinct: int, slices: int, windows: int) -> None:
    rng = np.random.default_rng(distinct + slices)
    values = rng.integers(0, distinct, 20_000).astype(float)
    bounds = sorted({0, 20_000, *rng.integers(0, 20_000, slices).tolist()})
    low = rng.integers(0, len(bounds) - 2, windows)
    high = np.minimum(low + 1 + rng.integers(0, slices, windows), len(bounds) - 1)
    field, ranged = windows_of(values, bounds, low.tolist(), high.tolist())
    medians = field.answers(ranged, mt.median("v")).data
    counts = field.answers(ranged, mt.count_distinct("v")).data
    modes = field.answers(ranged, mt.mode("v")).data
    rank = np.zeros(windows, np.int64)
    lowest = field.numbers(WindowCounts(field, ranged)._searched(ranged, rank)).tolist()
    assert lowest == field.numbers(WindowCounts(field, ranged)._picked(ranged, rank)).tolist()
    for w in range(0, windows, 97):
        inside = values[bounds[low[w]] : bounds[high[w]]]
        assert medians[w] == np.median(inside)
        assert counts[w] == len(set(inside.tolist()))
        assert modes[w] == min(Counter(inside.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[0]
        assert lowest[w] == inside.min()


def test_windows_that_slide_by_one_record() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 40, 3000)
    query = mt.count_sliding(500, every=1).agg(m=mt.median("v"), d=mt.count_distinct("v"), o=mt.mode("v"))
    op = mt.WindowOperator(query, time="t")
    rows = []
    for begin in range(0, 3000, 700):
        part = slice(begin, begin + 700)
        rows += op.process({"t": np.arange(3000)[part], "v": values[part]}).to_pylist()
    assert len(rows) == 2501
    for row in rows[::50]:
        inside = values[row["window_id"] : row["window_id"] + 500]
        assert row["m"] == np.median(inside)
        assert row["d"] == len(np.unique(inside))
        assert row["o"] == np.bincount(inside).argmax()


# ---- what is kept ----


def test_values_that_no_slice_has_are_left_behind() -> None:
    op = mt.WindowOperator(mt.tumbling(1000).agg(m=mt.median("v"), c=mt.count_distinct("v")), time="t")
    rng = np.random.default_rng(4)
    for begin in range(0, 2_000_000, 10_000):
        times = np.arange(begin, begin + 10_000)
        op.process({"t": times, "v": rng.random(10_000)})
    (field,) = op._engine.slices.fields.values()
    assert field.pool.used < 200_000
    assert op.metrics.state_bytes < 10_000_000


def test_repeated_values_are_kept_once() -> None:
    query = mt.tumbling(10**6).agg(m=mt.median("v"), o=mt.mode("v"))
    op = mt.WindowOperator(query, time="t")
    for begin in range(0, 100_000, 10_000):
        times = np.arange(begin, begin + 10_000)
        op.process({"t": times, "v": times % 7})
    assert len(op.snapshot()) < 20_000
    (row,) = op.finish().to_pylist()
    assert (row["m"], row["o"]) == (3.0, 0)


def test_queries_over_one_column_share_its_runs() -> None:
    query = mt.tumbling(10).agg(m=mt.median("v"), q=mt.quantile("v", q=0.9), d=mt.count_distinct("v"))
    assert "Partials of a slice, after fusion: runs(v)" in str(mt.WindowOperator(query, time="t").explain())


def test_empty_windows() -> None:
    query = mt.tumbling(10).agg(
        m=mt.median("v"), d=mt.count_distinct("v"), c=mt.collect("v"), emit_empty=True
    )
    rows = mt.aggregate({"t": [1, 21], "v": [1.0, None]}, query, time="t").to_pylist()
    found = [(row["m"], row["d"], row["c"]) for row in rows]
    assert found == [(1.0, 1, [1.0]), (None, 0, None), (None, 0, None)]


@pytest.mark.parametrize("make", [mt.median, mt.mode, mt.count_distinct, mt.collect, mt.collect_distinct])
def test_laws_and_sliding_structures(make: Any) -> None:
    mt.check_aggregate(make(), [1.5, 2.5, math.nan, 0.0, -3.0])
    window = mt.swag.TwoStacks(make())
    for value in (3.0, 1.0, 2.0):
        window.insert(value)
    window.evict()
    assert window.query() == answer(make.__name__, [1.0, 2.0])


def test_windows_without_a_value() -> None:
    query = mt.tumbling(10).agg(**AGGREGATES, m=mt.median("v"), q=mt.quantile("v", q=[0.1, 0.9]))
    (row,) = mt.aggregate({"t": [1], "v": pa.array([None], pa.int64())}, query, time="t").to_pylist()
    assert row["count_distinct"] == 0
    assert all(row[name] is None for name in ("mode", "collect", "collect_distinct", "m", "q"))


def test_values_are_found_after_the_pool_was_packed() -> None:
    op = mt.WindowOperator(mt.sliding(4, every=2).agg(m=mt.median("v")), time="t", key="k")
    op.process({"t": [1, 1], "k": [1, 2], "v": [1.0, 5.0]})
    op.process({"t": [1, 2], "k": [1, 2], "v": [2.0, 6.0]})
    op.snapshot()  # packs
    assert op.finish()["m"].to_pylist() == [1.5, 5.5, 6.0]


# ---- what a review found ----


def test_a_quantile_lies_between_its_neighbours() -> None:
    table = {"t": [1, 2, 3, 4], "v": [1 / 3] * 4}
    query = mt.tumbling(10).agg(q=mt.quantile("v", q=[0.92, 0.93, 0.94]))
    assert mt.aggregate(table, query, time="t")["q"].to_pylist() == [[1 / 3] * 3]
    window = mt.swag.TwoStacks(mt.quantile(q=0.93))
    for value in table["v"]:
        window.insert(value)
    assert window.query() == 1 / 3


class Refusing(mt.Aggregate):
    """A sum that refuses a number."""

    commutative = True

    @staticmethod
    def lift(v: int) -> list[int]:
        if v == 666:
            raise ValueError("refused")
        return [v]

    @staticmethod
    def combine(a: list[int], b: list[int]) -> list[int]:
        return a + b


def test_a_refused_batch_leaves_nothing_in_a_pool() -> None:
    query = mt.tumbling(10**6).agg(m=mt.median("v"), b=Refusing("w"))
    op = mt.WindowOperator(query, time="t")
    op.process({"t": [1], "v": [1.0], "w": [1]})
    before = op.metrics.state_bytes
    with pytest.raises(ValueError, match="refused"):
        op.process({"t": np.arange(2, 1002), "v": np.arange(1000.0), "w": np.full(1000, 666)})
    assert op.metrics.state_bytes == before


def test_single_records_into_a_large_slice_do_not_pile_up_copies() -> None:
    op = mt.WindowOperator(mt.tumbling(10**9).agg(m=mt.median("v")), time="t")
    op.process({"t": np.arange(100_000), "v": np.random.default_rng(1).random(100_000)})
    for t in range(100_000, 100_063):
        op.process({"t": [t], "v": [0.5]})
    (field,) = op._engine.slices.fields.values()
    assert field.pool.used < 500_000


def test_texts_that_no_slice_has_are_let_go() -> None:
    op = mt.WindowOperator(mt.tumbling(100).agg(x=mt.concat("v")), time="t")
    for begin in range(0, 5000, 100):
        op.process({"t": np.arange(begin, begin + 100), "v": ["text"] * 100})
    (field,) = op._engine.slices.fields.values()
    assert field.pool.used < 1000


def test_texts_are_explained_before_the_first_batch() -> None:
    assert "list(s)" in str(mt.WindowOperator(mt.tumbling(10).agg(x=mt.concat("s")), time="t").explain())


def test_one_name_for_numbers_and_for_more_than_64_bits() -> None:
    queries = [mt.tumbling(10).agg(x=mt.m4(name), name=name) for name in ("a", "b")]
    op = mt.WindowOperator(queries, time="t")
    small, large = pa.array([1], pa.uint64()), pa.array([2**63], pa.uint64())
    op.process({"t": [1], "a": small, "b": small})
    op.process({"t": [11], "a": small, "b": large})
    assert [row["x"]["max"] for row in op.finish().to_pylist()] == [1, 2**63]


@pytest.mark.parametrize(
    "aggregate",
    [
        mt.collect("v"),
        mt.collect_distinct("v"),
        mt.concat("v"),
        mt.quantile("v", q=[0.5]),
        mt.bloom_filter("v"),
    ],
)
def test_frames_that_reach_no_number(aggregate: mt.Aggregate) -> None:
    with pytest.raises(TypeError, match="are no numbers"):
        mt.aggregate_frame(aggregate, reaches=3)


class Fractions(mt.Aggregate):
    """A sum of fractions, which JSON does not know."""

    commutative = True

    @staticmethod
    def lift(v: int) -> Fraction:
        return Fraction(v, 3)

    @staticmethod
    def combine(a: Fraction, b: Fraction) -> Fraction:
        return a + b

    @staticmethod
    def dump(state: Fraction) -> list[int]:
        return [state.numerator, state.denominator]

    @staticmethod
    def load(dumped: list[int]) -> Fraction:
        return Fraction(*dumped)


@pytest.mark.parametrize("aggregate", [mt.approx_count_distinct("v"), Fractions("v"), mt.median("v")])
def test_frames_keep_states_of_any_kind_in_snapshots(aggregate: mt.Aggregate) -> None:
    query = mt.aggregate_frame(aggregate, reaches=3).agg(n=mt.count())
    whole, parts = mt.WindowOperator(query, time="t"), mt.WindowOperator(query, time="t")
    batches = [{"t": [t], "v": [t % 7]} for t in range(30)]
    expected = [row for batch in batches for row in whole.process(batch).to_pylist()]
    found = []
    for batch in batches:
        found += parts.process(batch).to_pylist()
        parts = mt.WindowOperator.restore(parts.snapshot(), queries=[query])
    assert found == expected
    assert len(found) > 1
