"""Compiled runs over whole columns equal one record at a time, which equals the definition."""

import datetime
import math

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.algebra import RowAggregate
from tests.aggregates import Affine, Concat, Listed, SumOfSquares, Union
from tests.oracle import agrees, answer
from tests.swag.workloads import FIFO, accepts

ALL = [mt.swag.Recalculate, *FIFO, mt.swag]  # mt.swag.slide: the block kernel
NAMES = [
    "count", "sum", "product", "mean", "geomean", "min", "max", "min_count", "max_count",
    "variance", "stddev", "relative_variation", "first", "last",
]  # fmt: skip


def name_of(cls):
    return getattr(cls, "__name__", str(cls)).rpartition(".")[2]


# Each kernel takes a second or two to compile, so not all are: each algorithm with a scalar state, one
# without an identity whose answers may be null, and one of mixed types; each aggregate with two
# algorithms, one of which needs the identity. Between them, all types of columns.
KINDS = ("f8", "i8", "f8?", "i8?")
TRIO = ("sum", "variance", "max_count", "max")
CASES = sorted(
    {
        (name_of(c), n, kind)
        for c in ALL
        for n in TRIO
        for kind in ("f8", "i8?")
        if c is mt.swag or accepts(c, getattr(mt, n)())
        if n != "max" or c is mt.swag.SlickDeque
    }
    | {("TwoStacksLite", n, kind) for n in NAMES for kind in ("f8", "i8?")}
    | {("DabaLite", n, kind) for n in NAMES for kind in ("i8", "f8?")}
)
BY_NAME = {name_of(c): c for c in ALL}


def items(kind):
    """Values of a type of column: with what is not finite among floats, and nulls where it says so."""
    if kind[0] == "i":
        item = st.integers(-50, 50)
    else:
        item = st.one_of(
            st.floats(-100, 100).map(lambda x: x if abs(x) > 1e-100 else 0.0),
            st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e9, 1e9 + 1]),
            st.sampled_from([1.0, math.nan, math.inf, -math.inf]),
        )
    return st.one_of(st.none(), item) if kind.endswith("?") else item


def arrow(values, kind):
    return pa.array(values, {"f8": pa.float64(), "i8": pa.int64()}[kind[:2]])


def check(got, values, name, windows):
    assert len(got) == len(values)
    for i, answered in enumerate(got.tolist()):
        inside = values[windows(i) : i + 1]
        scale = math.fsum(abs(v) for v in inside if v is not None and math.isfinite(v))
        want = answer(name, inside)
        if name == "mean" and want is not None and math.isnan(want) != math.isnan(answered):
            assert any(v is not None and math.isinf(v) for v in inside)
            continue  # inf - inf: the oracle's order is its own
        assert agrees(answered, want, scale), (i, answered, want, inside)


@pytest.mark.parametrize(("algorithm", "name", "kind"), CASES, ids=map("-".join, CASES))
@settings(max_examples=max(50, settings().max_examples // 2))
@given(window=st.integers(1, 70), data=st.data())
def test_count_windows(algorithm, name, kind, window, data):
    values = data.draw(st.lists(items(kind), min_size=1, max_size=60))
    if name in ("geomean", "product", "stddev"):
        values = [v if v is None or math.isfinite(v) else 3.0 for v in values]
    got = BY_NAME[algorithm].slide(getattr(mt, name)(), arrow(values, kind), window=window)
    check(got, values, name, lambda i: max(0, i - window + 1))


@pytest.mark.parametrize("name", ["sum", "max"])
@pytest.mark.parametrize("cls", ALL, ids=name_of)
@given(values=st.lists(items("f8?"), min_size=1, max_size=60), length=st.integers(1, 30), data=st.data())
def test_time_windows(cls, name, values, length, data):
    if cls is not mt.swag and not accepts(cls, getattr(mt, name)()):
        return
    steps = data.draw(st.lists(st.integers(0, 12), min_size=len(values), max_size=len(values)))
    times = np.cumsum(steps) - 100
    got = cls.slide(getattr(mt, name)(), arrow(values, "f8?"), times=times, length=length)
    check(got, values, name, lambda i: next(k for k in range(i + 1) if times[k] > times[i] - length))


ANY_AGGREGATE = [c for c in ALL if c not in (mt.swag.SubtractOnEvict, mt.swag.SlickDeque)]


@pytest.mark.parametrize("cls", ANY_AGGREGATE, ids=name_of)
@settings(max_examples=20)
@given(values=st.lists(st.integers(0, 60), min_size=1, max_size=80), window=st.integers(1, 90))
def test_non_commutative_aggregates_compile_in_order(cls, values, window):
    got = cls.slide(Affine(), values, window=window)
    tested = mt.swag.Recalculate(Affine())
    for i, value in enumerate(values):
        tested.insert(value)
        if len(tested) > window:
            tested.evict()
        assert got[i] == tested.query()
    assert got.dtype == np.int64


@pytest.mark.parametrize("cls", [c for c in ALL if c is not mt.swag.SubtractOnEvict], ids=name_of)
def test_two_columns(cls):
    values = np.array([3.0, 1.0, np.nan, 1.0, 2.0, 0.5])
    callers = np.arange(6) * 10
    got = cls.slide(mt.argmin(), (values, callers), window=3)
    assert got.tolist() == [0, 10, 10, 10, 30, 50]
    pairs = list(zip(values.tolist(), "abcdef", strict=True))
    assert cls.slide(mt.argmin(), pairs, window=3).tolist() == list("abbbdf")
    assert cls.slide(mt.argmax(), (values, list("abcdef")), window=2).tolist() == list("aaccee")


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_objects_take_the_slow_path(cls):
    if cls is not mt.swag.SlickDeque and cls is not mt.swag.SubtractOnEvict:
        assert cls.slide(Union(), [1, 2, 1], window=2).tolist() == [[1], [1, 2], [1, 2]]
        assert cls.slide(Listed(), [1, 2, 1], window=2).tolist() == [[1], [1, 2], [2, 1]]
        assert cls.slide(Listed(), pa.array([None, 2]), window=1).tolist() == ["nothing", [2]]
    if cls is not mt.swag.SlickDeque:
        assert cls.slide(Concat(), list("abc"), window=2).tolist() == ["a", "ab", "bc"]
    if cls is not mt.swag.SubtractOnEvict:
        assert cls.slide(mt.max(), ["b", None, "a"], window=2).tolist() == ["b", "b", "a"]
    assert cls.slide(mt.count(), ["b", None, "a"], window=2).tolist() == [1, 2, 2]


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_user_written_aggregates_compile(cls):
    if cls is mt.swag.SlickDeque:
        return
    got = cls.slide(SumOfSquares(), np.arange(6), window=2)
    assert got.tolist() == [0, 1, 5, 13, 25, 41]


class Bits(RowAggregate):
    """A small set as a row of bytes."""

    width, dtype, commutative = 7, "u1", True

    def lift_into(row, v):
        row[v % 7] = 1

    def combine_into(row, a, b):
        for k in range(7):
            row[k] = a[k] | b[k]

    def lower(row):
        return float(row.sum())


@pytest.mark.parametrize("cls", ANY_AGGREGATE, ids=name_of)
@pytest.mark.parametrize("window", [1, 2, 5, 16, 100])
def test_rows_by_reference(cls, window):
    values = np.array([k * k % 11 for k in range(50)])
    got = cls.slide(Bits(), values, window=window)
    want = [len({int(v) % 7 for v in values[max(0, i - window + 1) : i + 1]}) for i in range(50)]
    assert got.tolist() == want
    times = np.arange(50) // 3
    got = cls.slide(Bits(), values, times=times, length=window)
    want = [
        len({int(values[k]) % 7 for k in range(i + 1) if times[k] > times[i] - window}) for i in range(50)
    ]
    assert got.tolist() == want


def test_null_answers_are_masked_with_nan_beneath():
    got = mt.swag.DabaLite.slide(mt.variance(), [1.0, 3.0, 5.0], window=2)
    assert got.tolist() == [None, 2.0, 2.0]
    assert np.isnan(np.asarray(got)[0])
    assert type(mt.swag.DabaLite.slide(mt.variance(ddof=0), [1.0, 3.0], window=2)) is np.ndarray
    got = mt.swag.slide(mt.sum(), pa.array([None, 1, None]), window=1)
    assert got.tolist() == [None, 1, None]
    assert mt.swag.slide(mt.count(), pa.array([None, 1]), window=1).tolist() == [1, 1]
    assert mt.swag.slide(mt.count("v"), pa.array([None, 1]), window=1).tolist() == [0, 1]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3], "i2"),
        np.array([1, 2, 3], "u8"),
        np.ma.MaskedArray([1, 2, 3], [False] * 3),
        pa.array([1, 2, 3], pa.int8()),
        pa.chunked_array([[1], [2, 3]]),
        range(1, 4),
        np.arange(1, 7)[::2] // 2 + 1,
    ],
    ids=lambda v: type(v).__name__,
)
def test_ways_to_give_values(values):
    assert mt.swag.slide(mt.sum(), values, window=2).tolist() == [1, 3, 5]


def test_value_types():
    assert mt.swag.slide(mt.max(), np.array([1.5, 0.5], "f4"), window=2).dtype == np.float64
    assert mt.swag.slide(mt.sum(), np.array([True, False, True]), window=3).tolist() == [1, 1, 2]
    assert mt.swag.slide(mt.max(), np.array([2**63 + 1], "u8"), window=1).tolist() == [2**63 + 1]
    assert mt.swag.slide(mt.sum(), [], window=3).tolist() == []
    assert mt.swag.slide(mt.sum(), np.ma.MaskedArray([1, 2], [True, False]), window=2).tolist() == [None, 2]
    with pytest.raises(OverflowError, match="64-bit range"):
        mt.swag.slide(mt.sum(), np.array([2**62, 2**62]), window=2)
    assert mt.swag.slide(mt.sum(), np.array([2**62, 2**62, -(2**62)]), window=1).tolist() == [
        2**62,
        2**62,
        -(2**62),
    ]


def test_ways_to_give_times():
    stamps = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:05", "2026-01-01T00:00:12"], "datetime64[ms]")
    length = datetime.timedelta(seconds=10)
    for times in (
        stamps,
        pa.array(stamps),
        stamps.astype("datetime64[us]").tolist(),
        pa.chunked_array([stamps]),
    ):
        assert mt.swag.DabaLite.slide(mt.sum(), [1, 2, 3], times=times, length=length).tolist() == [1, 3, 5]
    got = mt.swag.slide(
        mt.sum(), [1, 2, 3], times=[-9, -9, 2**61], length=np.timedelta64(1, "s") // np.timedelta64(1, "s")
    )
    assert got.tolist() == [1, 3, 3]
    assert mt.swag.slide(mt.sum(), [], times=[], length=1).tolist() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either window="),
        ({"window": 2, "times": [1, 2, 3], "length": 1}, "give either window="),
        ({"times": [1, 2, 3]}, "give either window="),
        ({"window": 0}, "at least 1 record"),
        ({"window": 1.5}, "whole number of records"),
        ({"window": True}, "whole number of records"),
        ({"times": [1, 2], "length": 1}, "3 values but 2 times"),
        ({"times": [1, 3, 2], "length": 1}, "times must not go back, but record 2 is at 2 after 3"),
        ({"times": [1.0, 2.0, 3.0], "length": 1}, "integers or timestamps, not float64"),
        ({"times": pa.array([1, None, 3]), "length": 1}, "times have nulls"),
        ({"times": np.array(["NaT"] * 3, "datetime64[s]"), "length": 1}, "times have nulls"),
        ({"times": [1, 2, 2**62], "length": 1}, "within 2"),
        ({"times": [1, 2, 3], "length": 0}, "above zero"),
        ({"times": [1, 2, 3], "length": datetime.timedelta(1)}, "whole number where times are integers"),
        (
            {"times": np.arange(3).astype("datetime64[s]"), "length": 5},
            "timedelta where times are timestamps",
        ),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mt.swag.DabaLite.slide(mt.sum(), [1, 2, 3], **arguments)


def test_wrong_values_are_named():
    with pytest.raises(TypeError, match="takes numbers, not 'a'"):
        mt.swag.slide(mt.sum(), ["a", "b"], window=2)
    with pytest.raises(TypeError, match="array or a sequence, not int"):
        mt.swag.slide(mt.sum(), 5, window=2)
    with pytest.raises(ValueError, match="one column, not an array of shape"):
        mt.swag.slide(mt.sum(), np.zeros((2, 2)), window=2)
    with pytest.raises(ValueError, match="columns must be of one length"):
        mt.swag.slide(mt.argmax(), ([1, 2], [1]), window=2)


def test_sums_stay_within_the_contract_over_long_streams():
    """1e-12 of the sum of |x|, also where huge values leave a window of tiny ones."""
    rng = np.random.default_rng(7)
    values = np.where(np.arange(50_000) % 2 == 0, rng.normal(size=50_000) * 1e15, rng.normal(size=50_000))
    values[20_000:] = rng.normal(size=30_000) * 1e-3
    window = 1000
    for cls in (mt.swag.SubtractOnEvict, mt.swag.TwoStacksLite, mt.swag.DabaLite, mt.swag):
        got = cls.slide(mt.sum(), values, window=window)
        for i in [*range(0, 50_000, 997), 20_998, 20_999, 21_000, 49_999]:
            inside = values[max(0, i - window + 1) : i + 1]
            assert abs(got[i] - math.fsum(inside)) <= 1e-12 * np.abs(inside).sum(), (cls, i)
