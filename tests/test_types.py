"""Every aggregate over every type of Arrow: right against plain Python, or refused in one sentence."""

from __future__ import annotations

import dataclasses
import decimal
import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.plan.decisions import merges_ahead
from muntin.spark.combining import Combine
from muntin.spark.job import make_job
from muntin.spark.packing import BUCKET, Pack
from tests.oracle import agrees, answer

D = decimal.Decimal
SMALL = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]  # each fits eight bits; some occur twice
SIGNED = [-v if k % 3 == 0 else v for k, v in enumerate(SMALL)]
TICKS = [1_700_000_000 + 7 * v for v in SMALL]  # of any unit
SECONDS = [40_000 + 7 * v for v in SMALL]  # within a day
SPREAD = [10, 12, 11, 15, 13, 18, 21, 20, 25, 30, 33, 31]  # times of the records
WORDS = ["elm", "ash", "oak", "ash", "fir", "yew", "bay", "box", "fir", "elm", "fir", "tea"]
TEXTS = [word.encode() for word in WORDS]

NUMBERS: dict[pa.DataType, list[Any]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), SIGNED),
    pa.int64(): [v * 10**15 for v in SIGNED],
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32()), SMALL),
    pa.uint64(): [v if k else 2**63 + 5 for k, v in enumerate(SMALL)],
    **{kind: [v / 4 for v in SIGNED] for kind in (pa.float32(), pa.float64())},
    pa.bool_(): [v % 2 == 0 for v in SMALL],
    pa.decimal128(20, 3): [D(v) * D("1000000000000.001") for v in SIGNED],
    pa.decimal128(5, 2): [D(v) / 100 for v in SIGNED],
}
TIMES: dict[pa.DataType, list[Any]] = {
    pa.date32(): [19_000 + v for v in SMALL],
    pa.date64(): [86_400_000 * (19_000 + v) for v in SMALL],
    **{pa.timestamp(unit): TICKS for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "Europe/Paris"): TICKS,
    **{pa.duration(unit): TICKS for unit in ("s", "ms", "us", "ns")},
    **{pa.time32("s"): SECONDS, pa.time32("ms"): SECONDS, pa.time64("us"): TICKS, pa.time64("ns"): TICKS},
}
OTHERS: dict[pa.DataType, list[Any]] = {
    pa.string(): WORDS,
    pa.large_string(): WORDS,
    pa.string_view(): WORDS,
    pa.dictionary(pa.int32(), pa.string()): WORDS,
    pa.binary(): TEXTS,
    pa.large_binary(): TEXTS,
    pa.binary(3): TEXTS,
}
NESTED: dict[pa.DataType, list[Any]] = {
    pa.list_(pa.int64()): [[v, None] for v in SMALL],
    pa.struct([("x", pa.int64()), ("y", pa.string())]): [
        {"x": v, "y": w} for v, w in zip(SMALL, WORDS, strict=True)
    ],
}
ALL = {**NUMBERS, **TIMES, **OTHERS, **NESTED}
OUTPUT = {pa.dictionary(pa.int32(), pa.string()): pa.string(), pa.string_view(): pa.string()}

NUMERIC = ["sum", "mean", "product", "geomean", "variance", "stddev", "relative_variation"]
ORDERED = ["min", "max", "min_count", "max_count", "argmin", "argmax", "m4"]
SELECTING = ["min", "max", "first", "last"]
ANY = ["count", "first", "last"]


def column(kind: pa.DataType, values: list[Any], nulls: bool) -> pa.Array:
    """The values as a column; with nulls, every third is one, and all of the last window."""
    values = [None if nulls and (k % 3 == 1 or k >= 9) else v for k, v in enumerate(values)]
    if pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, whole).view(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """A column as Python values, times as whole numbers."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_struct(kind):
        parts = [plain(array.field(k)) for k in range(kind.num_fields)]
        rows = [dict(zip((f.name for f in kind), row, strict=True)) for row in zip(*parts, strict=True)]
        return [row if ok else None for row, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return array.to_pylist()


def run(aggregate: mt.Aggregate, columns: dict[str, pa.Array], window: Any) -> pa.Table:
    """Two batches with a snapshot in between; records are a little out of order."""
    times = pa.array(SPREAD, pa.int64())
    table = pa.table({"t": times, **columns})
    operator = mt.WindowOperator(window.agg(out=aggregate), time="t", watermark=5)
    tables = [operator.process(table.slice(0, 7))]
    operator = mt.WindowOperator.restore(operator.snapshot())
    tables += [operator.process(table.slice(7)), operator.finish()]
    return pa.concat_tables(tables)


def want(name: str, values: list[Any], window: str) -> list[Any]:
    """The answers of plain Python, window by window."""
    order = sorted(range(12), key=SPREAD.__getitem__)
    groups = {"tumbling": [order[:6], order[6:9], order[9:]], "count": [order[:4], order[4:8], order[8:]]}
    found = []
    for places in groups[window]:
        taken = [(values[k], SPREAD[k]) for k in places] if name == "m4" else [values[k] for k in places]
        found.append(_answer(name, taken))
    return found


def _answer(name: str, values: list[Any]) -> Any:
    present = [v for v in values if v is not None]
    if name == "count":
        return len(present)
    exact = present and isinstance(present[0], D)
    if name in NUMERIC and exact:  # the oracle takes numbers of floating point, or integers
        if name == "sum":
            return sum(present)
        if name == "relative_variation":
            return float((max(present) - min(present)) / max(present))
        present = [Fraction(v) for v in present]
        if name == "mean":
            return float(sum(present) / len(present))
        return answer(name, [float(v) for v in present] if name == "geomean" else present)
    if name in NUMERIC:
        return answer(name, [int(v) if isinstance(v, bool) else v for v in present])
    return answer(name, values)


WINDOWS = {"tumbling": lambda: mt.tumbling(10), "count": lambda: mt.count_tumbling(4)}
CASES = [(name, kind) for name in (*NUMERIC, *ORDERED, *ANY) for kind in ALL if not name.startswith("arg")]


def refused(name: str, kind: pa.DataType) -> bool:
    return (name in NUMERIC and kind not in NUMBERS) or (name in ORDERED and kind in NESTED)


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("name", "kind"), [c for c in CASES if not refused(*c)], ids=str)
def test_right_over_every_type(name, kind, window, nulls):
    some = SMALL if name in NUMERIC and kind == pa.uint64() else ALL[kind]  # the sum must fit 64 bits
    values = column(kind, some, nulls)
    rows = run(getattr(mt, name)("v"), {"v": values}, WINDOWS[window]())
    answers = want(name, plain(values), window)
    got = plain(rows["out"])
    assert len(got) == len(answers)
    for one, other in zip(got, answers, strict=True):
        assert agrees(one, other, scale=1.0), f"{one!r} is not {other!r}"
    out = rows.schema.field("out").type
    selected = OUTPUT.get(kind, kind)
    if name in SELECTING:
        assert out == selected
    if name == "m4":
        assert [f.type for f in out] == [selected, pa.int64()] * 4
    if name == "sum" and pa.types.is_decimal(kind):
        assert out == pa.decimal128(38, kind.scale)


@pytest.mark.parametrize(("name", "kind"), [c for c in CASES if refused(*c)], ids=str)
def test_what_makes_no_sense_is_refused(name, kind):
    with pytest.raises(TypeError) as caught:
        run(getattr(mt, name)("v"), {"v": column(kind, ALL[kind], False)}, mt.tumbling(10))
    told = str(caught.value)
    assert told.startswith(f"{name}('v'"), told
    assert "column 'v'" in told, told
    assert str(OUTPUT.get(kind, kind)) in told, told
    assert told.endswith(".")
    assert "\n" not in told


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("kind", ALL, ids=str)
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_what_comes_with_an_extreme_may_be_anything(name, kind, nulls):
    values = column(kind, ALL[kind], nulls)
    rows = run(getattr(mt, name)("v", "w"), {"v": pa.array(SIGNED), "w": values}, mt.tumbling(10))
    assert rows.schema.field("out").type == OUTPUT.get(kind, kind)
    assert plain(rows["out"]) == want(name, list(zip(SIGNED, plain(values), strict=True)), "tumbling")


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("kind", ALL, ids=str)
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_extremes_of_every_type_with_an_order(name, kind, nulls):
    values = column(kind, ALL[kind], nulls)
    columns = {"v": values, "w": pa.array(WORDS)}
    if kind in NESTED:
        with pytest.raises(TypeError, match=rf"{name}\('v', 'w'\) needs values with an order.*column 'v'"):
            run(getattr(mt, name)("v", "w"), columns, mt.tumbling(10))
        return
    rows = run(getattr(mt, name)("v", "w"), columns, mt.tumbling(10))
    assert plain(rows["out"]) == want(name, list(zip(plain(values), WORDS, strict=True)), "tumbling")


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("kind", [k for k in ALL if k not in NESTED], ids=str)
def test_workers_on_spark(kind, nulls):
    """As partials where they are merged before the shuffle, and as records."""
    values = column(kind, ALL[kind], nulls)
    kind = OUTPUT.get(kind, kind)
    types = {"t": pa.int64(), "v": kind}
    table = pa.table({"t": pa.array(sorted(SPREAD), pa.int64()), "v": values.cast(kind)})
    table = table.append_column(BUCKET, pa.array([0] * 12, pa.int32()))
    for names in (["min", "max"], ["first", "last", "m4"]):
        query = mt.tumbling(10).agg(**{name: getattr(mt, name)("v") for name in names})
        job = make_job(query, types.__getitem__, time="t", key=None, tie=None, lateness=0, buckets=1)
        job = dataclasses.replace(job, ahead=merges_ahead(query, late=False))
        packed = pa.Table.from_batches(list(Pack(job, ticks=False)(iter(table.to_batches()))))
        rows = Combine(job, job.output_schema())(packed)
        taken = list(zip(sorted(SPREAD), plain(values), strict=True))
        for name in names:
            for row, got in zip(rows["window_start"].to_pylist(), plain(rows[name]), strict=True):
                inside = [(v, t) for t, v in taken if row <= t < row + 10]
                want = answer(name, inside if name == "m4" else [v for v, _ in inside])
                assert agrees(got, want), (name, got, want)


CLOCKS = [pa.int32(), pa.int64(), pa.uint16(), *(k for k in TIMES if pa.types.is_timestamp(k))]


@pytest.mark.parametrize("kind", CLOCKS, ids=str)
def test_times_of_m4_have_the_type_of_the_time_column(kind):
    ticks = SMALL if pa.types.is_integer(kind) else TICKS
    times = pa.array(ticks, kind) if pa.types.is_integer(kind) else pa.array(ticks, pa.int64()).view(kind)
    window = mt.session(1000) if pa.types.is_integer(kind) else mt.session("1h")
    out = mt.aggregate(
        {"t": times, "v": SIGNED, "w": WORDS}, window.agg(m=mt.m4("v"), s=mt.m4("w")), time="t"
    )
    ordered = sorted(range(12), key=ticks.__getitem__)
    for name, values in (("m", SIGNED), ("s", WORDS)):
        assert [f.type for f in out.schema.field(name).type][1::2] == [kind] * 4
        assert plain(out[name]) == [answer("m4", [(values[k], ticks[k]) for k in ordered])]


@pytest.mark.parametrize(("function", "want"), [(mt.sum, 2**33 + 1), (mt.mean, float(2**32) + 0.5)])
def test_an_integer_beyond_64_bits_leaves_earlier_sums_alone(function: Any, want: Any) -> None:
    operator = mt.WindowOperator(mt.tumbling(10).agg(a=function("v")), time="t", watermark=100)
    operator.process({"t": [1, 2], "v": pa.array([2**33, 1], pa.uint64())})
    rows = operator.process({"t": [200], "v": pa.array([2**63], pa.uint64())})
    assert rows["a"].to_pylist() == [want]


def test_unsigned_numbers_beyond_those_with_a_sign():
    large = pa.array([2**63 + 5, 2**63 + 6, 7], pa.uint64())
    query = mt.tumbling(10).agg(mean=mt.mean("v"), low=mt.min("v"), high=mt.max("v"))
    (row,) = mt.aggregate({"t": [1, 2, 3], "v": large}, query, time="t").to_pylist()
    assert row["mean"] == pytest.approx((2**64 + 18) / 3, rel=1e-15)
    assert (row["low"], row["high"]) == (7, 2**63 + 6)
    with pytest.raises(OverflowError):
        mt.aggregate({"t": [1, 2, 3], "v": large}, mt.tumbling(10).agg(a=mt.sum("v")), time="t")


def test_a_column_of_nulls_alone():
    for name in (*NUMERIC, *ORDERED[:4], "first", "last", "m4"):
        out = mt.aggregate(
            {"t": [1, 2], "v": pa.nulls(2)}, mt.tumbling(10).agg(a=getattr(mt, name)("v")), time="t"
        )
        assert out.column("a").to_pylist() == [None]


def test_decimals_of_38_digits_are_added_up_exactly():
    values = [D("12345678901234567890123456789012345.678"), D("0.001"), D("-3.002"), D("7.5")]
    query = mt.sliding(2, every=1).agg(a=mt.sum("v"), m=mt.mean("v"), s=mt.stddev("v"))
    columns = {"t": [1, 2, 3, 4], "v": pa.array(values, pa.decimal128(38, 3))}
    rows = mt.aggregate(columns, query, time="t").to_pylist()
    for row in rows:
        inside = [v for t, v in enumerate(values, 1) if row["window_start"] <= t < row["window_end"]]
        exact = sum(map(Fraction, inside))
        assert Fraction(row["a"]) == exact
        assert row["m"] == float(exact / len(inside))
    large = pa.array([D("99999999999999999999999999999999999.999")] * 2, pa.decimal128(38, 3))
    with pytest.raises(OverflowError, match=r"a sum of decimals does not fit decimal128\(38, 3\)"):
        mt.aggregate({"t": [1, 2], "v": large}, mt.tumbling(10).agg(a=mt.sum("v")), time="t")


def test_nan_is_the_largest_for_m4():
    values = [math.nan, 2.0, math.nan, 1.0, 1.0]
    out = mt.aggregate({"t": [1, 2, 3, 4, 5], "v": values}, mt.tumbling(10).agg(m=mt.m4("v")), time="t")
    (found,) = out.column("m").to_pylist()
    assert agrees(found, answer("m4", list(zip(values, range(1, 6), strict=True))))
    assert (found["min_time"], found["max_time"], found["last_time"]) == (4, 1, 5)
