"""Covariance, correlation, regression, weighted and decayed means, and rates, against NumPy and pandas."""

from __future__ import annotations

import datetime
import math
import pickle
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

import muntin as mt
from tests.algebra.test_builtin import over
from tests.oracle import OVER_PAIRS, agrees, answer, ewm, rate

PAIRED = {
    "covariance": mt.covariance,
    "correlation": mt.correlation,
    "regression": mt.regression,
    "weighted_mean": mt.weighted_mean,
}
finite = st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-3 else 0.0)
pairs = st.lists(st.tuples(finite, finite), min_size=1, max_size=30)


def in_trees(aggregate: mt.Aggregate, values: list[tuple[Any, ...]], cut: int) -> Any:
    """Combine in another grouping than from left to right."""

    def fold(items: list[tuple[Any, ...]]) -> Any:
        if len(items) == 1:
            return aggregate.lift(*items[0])
        middle = 1 + cut % (len(items) - 1)
        return aggregate.combine(fold(items[:middle]), fold(items[middle:]))

    return aggregate.lower(fold(values))


def stream(seed: int, count: int = 400, far: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count) + far
    return pd.DataFrame(
        {
            "t": np.cumsum(rng.integers(0, 3, count)),
            "x": x,
            "y": 3 * (x - far) + rng.normal(size=count) - far,
            "w": rng.uniform(0, 5, count),
            "c": np.cumsum(rng.integers(-2, 9, count)).clip(0),
        }
    )


# ---- definitions ----


@pytest.mark.parametrize("name", PAIRED)
@given(values=pairs, cut=st.integers(0, 100))
def test_equals_its_definition_in_any_grouping(name: str, values: list[Any], cut: int) -> None:
    if name == "weighted_mean":
        values = [(a, abs(b)) for a, b in values]
    aggregate, want = PAIRED[name](), answer(name, values)
    scale = math.prod(1 + math.fsum(abs(pair[k]) for pair in values) for k in (0, 1))
    if name in ("covariance", "weighted_mean"):
        assert agrees(over(aggregate, values), want, scale)
        assert agrees(in_trees(aggregate, values, cut), want, scale)
        return
    # A slope divides by what is left of the spread of x, and so do its errors.
    spread = np.ptp([pair[1] for pair in values]), np.ptp([pair[0] for pair in values])
    if want is not None and min(spread) > 1e-3 * (1 + max(abs(v) for pair in values for v in pair)):
        assert agrees(over(aggregate, values), want, scale)
        assert agrees(in_trees(aggregate, values, cut), want, scale)


@given(
    values=st.lists(st.one_of(finite, st.sampled_from([math.inf, math.nan])), min_size=1, max_size=20),
    alpha=st.sampled_from([0.01, 0.3, 0.5, 0.99, 1.0]),
    cut=st.integers(0, 100),
)
def test_ewm_equals_its_definition_in_any_grouping(values: list[float], alpha: float, cut: int) -> None:
    want = values[-1] if alpha == 1.0 else ewm(values, alpha)
    scale = math.fsum(abs(v) for v in values if math.isfinite(v))
    aggregate = mt.ewm(alpha=alpha)
    assert agrees(in_trees(aggregate, [(v,) for v in values], cut), want, scale)


@pytest.mark.parametrize("cut", [1, 7, 4000])
def test_ewm_never_forgets_what_is_not_finite(cut: int) -> None:
    """In the middle of a segment so long that its weight would be nothing."""
    values = [(math.inf,), *[(1.0,)] * 5000]
    halves = [values[:cut], values[cut:]]
    aggregate = mt.ewm(alpha=0.5)
    states = [aggregate.lift(*half[0]) for half in halves]
    for k, half in enumerate(halves):
        for value in half[1:]:
            states[k] = aggregate.combine(states[k], aggregate.lift(*value))
    assert aggregate.lower(aggregate.combine(*states)) == math.inf


@given(
    values=st.lists(st.tuples(st.integers(-5, 50), st.integers(0, 3)), min_size=1, max_size=20),
    cut=st.integers(0, 100),
)
def test_rate_equals_its_definition_in_any_grouping(values: list[tuple[int, int]], cut: int) -> None:
    times = np.cumsum([step for _, step in values]).tolist()
    timed = [(v, t) for (v, _), t in zip(values, times, strict=True)]
    assert agrees(in_trees(mt.rate(), timed, cut), rate(timed))


def test_a_counter_that_is_reset_counts_from_zero() -> None:
    table = {"t": [0, 10, 20, 30], "c": [5, 9, 2, 4]}
    out = mt.aggregate(table, mt.tumbling(100).agg(r=mt.rate("c")), time="t")
    assert out["r"].to_pylist() == [(4 + 2 + 2) / 30]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_rates_are_per_second_whatever_the_unit_of_time(unit: str) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = pa.array([start, start + datetime.timedelta(seconds=4)], pa.timestamp(unit, "UTC"))
    table = pa.table({"t": times, "c": [10, 18]})
    query = mt.tumbling("1m").agg(r=mt.rate("c"))
    assert mt.aggregate(table, query, time="t")["r"].to_pylist() == [2.0]
    op = mt.WindowOperator(query, time="t")
    op.process(table.slice(0, 1))
    op = mt.WindowOperator.restore(op.snapshot())
    assert [*op.process(table.slice(1))["r"].to_pylist(), *op.finish()["r"].to_pylist()] == [2.0]


def test_a_rate_needs_two_times() -> None:
    query = mt.session(1).agg(r=mt.rate("c"))
    out = mt.aggregate({"t": [0, 0, 10, 11], "c": [1, 5, None, 7]}, query, time="t")
    assert out["r"].to_pylist() == [None, None]


def test_rates_of_large_integers_are_exact() -> None:
    table = {"t": [0, 1, 2], "c": [2**62, 2**62 + 1, 2**62 + 4]}
    assert mt.aggregate(table, mt.tumbling(10).agg(r=mt.rate("c")), time="t")["r"].to_pylist() == [2.0]
    far = {"t": [0, 1], "c": [-(2**63), 2**63 - 1]}
    assert mt.aggregate(far, mt.tumbling(10).agg(r=mt.rate("c")), time="t")["r"].to_pylist() == [2.0**64]


# ---- against pandas and NumPy ----


@pytest.mark.parametrize("far", [0.0, 1e6, -1e9])
def test_rolling_covariance_and_correlation_are_those_of_numpy(far: float) -> None:
    df = stream(1, far=far)
    query = mt.rolling(rows=50).agg(
        cov=mt.covariance("x", "y"), corr=mt.correlation("x", "y"), line=mt.regression("y", "x")
    )
    out = mt.aggregate(df, query, time="t", returns="pyarrow").to_pylist()
    for i in range(2, len(df)):
        x, y = (df[name].to_numpy()[max(0, i - 49) : i + 1] for name in "xy")
        x, shifted = x - far, y + far  # NumPy would lose digits
        cov = np.cov(x, shifted)
        assert math.isclose(out[i]["cov"], cov[0, 1], rel_tol=1e-6, abs_tol=1e-9 * (1 + abs(far)))
        assert math.isclose(out[i]["corr"], cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1]), rel_tol=1e-6)
        assert math.isclose(out[i]["line"]["slope"], cov[0, 1] / cov[0, 0], rel_tol=1e-6, abs_tol=1e-9)
        slope, intercept = np.polyfit(x, shifted, 1)
        assert math.isclose(
            out[i]["line"]["intercept"],
            intercept - far - slope * far,
            abs_tol=1e-9 * (1 + abs(far)),
            rel_tol=1e-6,
        )
        assert math.isclose(out[i]["line"]["r2"], out[i]["corr"] ** 2, rel_tol=1e-9)


def test_pandas_gives_the_same_rolling_covariance_and_correlation() -> None:
    df = stream(2)
    query = mt.rolling(rows=30).agg(cov=mt.covariance("x", "y"), corr=mt.correlation("x", "y"))
    out = mt.aggregate(df, query, time="t", returns="pyarrow").to_pandas()
    rolling = df["x"].rolling(30, min_periods=2)
    np.testing.assert_allclose(out["cov"], rolling.cov(df["y"]), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(out["corr"], rolling.corr(df["y"]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0])
def test_pandas_gives_the_same_decayed_means(alpha: float) -> None:
    df = stream(3, 2000)
    query = mt.rolling(rows=len(df)).agg(e=mt.ewm("x", alpha=alpha))
    got = mt.aggregate(df, query, time="t", returns="pyarrow").to_pandas()["e"]
    np.testing.assert_allclose(got, df["x"].ewm(alpha=alpha, adjust=True).mean(), rtol=1e-9, atol=1e-12)


def test_numpy_gives_the_same_weighted_means() -> None:
    df = stream(4)
    query = mt.sliding(40, every=10).agg(m=mt.weighted_mean("x", "w"))
    for row in mt.aggregate(df, query, time="t", returns="pyarrow").to_pylist():
        inside = df[(df.t >= row["window_start"]) & (df.t < row["window_end"])]
        assert math.isclose(row["m"], np.average(inside.x, weights=inside.w), rel_tol=1e-9, abs_tol=1e-12)


# ---- nulls, zeros and what is refused ----


def test_a_null_in_either_column_leaves_a_record_out() -> None:
    table = {"t": [1, 2, 3, 4, 5], "a": [1.0, None, 2.0, 4.0, 9.0], "b": [1, 5, None, 3, 4]}
    aggregates = {name: make("a", "b") for name, make in PAIRED.items()}
    batch = mt.aggregate(table, mt.tumbling(10).agg(**aggregates), time="t").to_pylist()[0]
    for name in PAIRED:
        assert agrees(batch[name], answer(name, [(1.0, 1), (4.0, 3), (9.0, 4)]), 100.0), name


def test_nulls_that_come_later() -> None:
    batches = [
        {"t": [1, 2], "a": [1.0, 4.0], "b": [1, 3]},
        {"t": [3], "a": [7.0], "b": pa.array([None], pa.int64())},
        {"t": [4], "a": pa.array([None], pa.float64()), "b": [8]},
        {"t": [5], "a": [9.0], "b": [4]},
    ]
    aggregates = {name: make("a", "b") for name, make in PAIRED.items()}
    op = mt.WindowOperator(mt.tumbling(10).agg(**aggregates), time="t")
    for batch in batches:
        op.process(batch)
        op = mt.WindowOperator.restore(op.snapshot())
    (row,) = op.finish().to_pylist()
    for name in PAIRED:
        assert agrees(row[name], answer(name, [(1.0, 1), (4.0, 3), (9.0, 4)]), 100.0), name


def test_users_aggregates_of_two_columns_skip_nulls_in_either() -> None:
    class Dot(mt.Aggregate):
        commutative = True

        def lift(a: Any, b: Any) -> Any:
            return a * b

        def combine(a: Any, b: Any) -> Any:
            return a + b

    table = {"t": [1, 2, 3], "a": [1.0, 2.0, None], "b": [3.0, None, 5.0]}
    assert mt.aggregate(table, mt.tumbling(10).agg(d=Dot("a", "b")), time="t")["d"].to_pylist() == [3.0]


def test_what_divides_by_nothing_is_null() -> None:
    table = {"t": [1, 2], "a": [2.0, 4.0], "b": [3.0, 3.0], "w": [0.0, 0.0]}
    query = mt.tumbling(10).agg(
        corr=mt.correlation("a", "b"),
        flat=mt.regression("b", "a"),
        steep=mt.regression("a", "b"),
        mean=mt.weighted_mean("a", "w"),
        cov=mt.covariance("a", "b"),
    )
    (row,) = mt.aggregate(table, query, time="t").to_pylist()
    assert (row["corr"], row["mean"], row["cov"]) == (None, None, 0.0)
    assert row["flat"] == {"slope": 0.0, "intercept": 3.0, "r2": None}
    assert row["steep"] == {"slope": None, "intercept": None, "r2": None}


def test_one_pair_is_not_enough() -> None:
    query = mt.tumbling(10).agg(**{name: make("a", "b") for name, make in PAIRED.items()})
    (row,) = mt.aggregate({"t": [1], "a": [2.0], "b": [3.0]}, query, time="t").to_pylist()
    assert [row[name] for name in PAIRED] == [None, None, None, 2.0]


def test_a_negative_weight_is_refused_and_nothing_has_changed() -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(m=mt.weighted_mean("v", "w"), n=mt.count()), time="t")
    op.process({"t": [1], "v": [4.0], "w": [1]})
    for w in ([2, -3], pa.array([2, Decimal(-3)], pa.decimal128(5, 0))):
        with pytest.raises(ValueError, match=r"record 1 of the batch .*'w' is -3: a weight is negative"):
            mt.WindowOperator(op.queries.values(), time="t").process({"t": [2, 3], "v": [1.0, 1.0], "w": w})
    with pytest.raises(ValueError, match="record 1 of the batch"):
        op.process({"t": [2, 3], "v": [1.0, 1.0], "w": [2, -3]})
    with pytest.raises(ValueError, match="record 0 of the batch"):
        op.process({"t": [2], "v": [1.0], "w": [-3]})
    op.process({"t": [2], "v": [None], "w": [-3]})  # skipped, since its value is null
    assert [tuple(row[name] for name in "mn") for row in op.finish().to_pylist()] == [(4.0, 2)]


def test_a_negative_weight_is_found_behind_a_condition() -> None:
    query = mt.tumbling(10).agg(m=mt.weighted_mean("v", "w"), where="v > 0")
    op = mt.WindowOperator(query, time="t")
    with pytest.raises(ValueError, match="record 2 of the batch"):
        op.process({"t": [1, 2, 3], "v": [-1.0, 1.0, 1.0], "w": [-1.0, 1.0, -1.0]})


def test_a_sliding_window_refuses_a_negative_weight() -> None:
    window = mt.swag.DabaLite(mt.weighted_mean())
    with pytest.raises(ValueError, match="a weight is negative"):
        window.insert((1.0, -1.0))


@pytest.mark.parametrize("alpha", [0, 1.5, -0.1, math.nan, "a", True, None])
def test_alpha_is_above_0_and_up_to_1(alpha: Any) -> None:
    with pytest.raises(ValueError, match="alpha"):
        mt.ewm("v", alpha=alpha)


def test_only_names_a_number_of_the_line() -> None:
    with pytest.raises(ValueError, match="only is one of 'slope', 'intercept', 'r2'"):
        mt.regression("y", "x", only="angle")  # type: ignore[arg-type]


def test_several_alphas_have_fields_of_their_own() -> None:
    query = mt.tumbling(10).agg(a=mt.ewm("v", 0.5), b=mt.ewm("v", 0.25), c=mt.ewm("v", 0.5))
    op = mt.WindowOperator(query, time="t")
    assert op.explain().as_dict()["fields"] == ["ewm(0.5)(v)", "ewm(0.25)(v)"]
    op.process({"t": [1, 2], "v": [0.0, 1.0]})
    (row,) = op.finish().to_pylist()
    assert (row["a"], row["c"]) == (2 / 3, 2 / 3)
    assert math.isclose(row["b"], 4 / 7)


@pytest.mark.parametrize(
    "aggregate",
    [mt.ewm("v", alpha=0.1), mt.rate("v"), mt.regression("v", "w", only="r2"), mt.weighted_mean("v", "w")],
    ids=repr,
)
def test_they_can_be_pickled_and_say_what_they_are(aggregate: mt.Aggregate) -> None:
    again = pickle.loads(pickle.dumps(aggregate))
    assert again == aggregate
    assert hash(again) == hash(aggregate)
    assert repr(again) == repr(aggregate)
    values = (2.0, 1) if aggregate.arity == 2 else (2.0,)
    assert again.lift(*values) == aggregate.lift(*values)


def test_regression_on_change_compares_structs_with_nulls() -> None:
    query = mt.tumbling(2).agg(line=mt.regression("y", "x"), emit="on_change")
    table = {"t": [0, 1, 2, 3, 4, 5], "y": [1.0, 1.0, 1.0, 1.0, 1.0, 3.0], "x": [2.0] * 4 + [2.0, 4.0]}
    op = mt.WindowOperator(query, time="t")
    rows = [*op.process(table).to_pylist(), *op.finish().to_pylist()]
    assert [row["window_start"] for row in rows] == [0, 4]


assert set(PAIRED) <= set(OVER_PAIRS)


FRAMED = {"t": [1, 2, 3, 4, 5, 6], "a": [1.0, None, 2.0, 3.0, 5.0, 9.0], "b": [1.0, 2.0, None, 3.0, 1.0, 2.0]}


@pytest.mark.parametrize(
    ("aggregate", "reaches", "ends"),
    [
        (mt.covariance("a", "b"), 1.5, [(1, 4), (5, 6)]),  # of (1, 1), (3, 3); then of (5, 1), (9, 2)
        (mt.weighted_mean("a", "b"), 2.5, [(1, 4), (5, 5), (6, 6)]),
        (mt.ewm("a", alpha=0.5), 2.5, [(1, 5), (6, 6)]),
    ],
    ids=repr,
)
def test_frames_go_by_records_without_nulls(aggregate: Any, reaches: float, ends: list[Any]) -> None:
    rows = mt.aggregate(FRAMED, mt.aggregate_frame(aggregate, reaches).agg(n=mt.count()), time="t")
    assert [(row["window_start"], row["window_end"]) for row in rows.to_pylist()] == ends


def test_users_aggregates_of_two_columns_in_frames() -> None:
    class Dot(mt.Aggregate):
        def lift(a: Any, b: Any) -> Any:
            return a * b

        def combine(a: Any, b: Any) -> Any:
            return a + b

    rows = mt.aggregate(FRAMED, mt.aggregate_frame(Dot("a", "b"), 10.0).agg(n=mt.count()), time="t")
    assert rows["window_end"].to_pylist() == [4, 6]  # 1 + 9, then 5 + 18


def test_frames_refuse_negative_weights_before_anything_has_changed() -> None:
    op = mt.WindowOperator(mt.aggregate_frame(mt.weighted_mean("a", "b"), 5.0).agg(n=mt.count()), time="t")
    op.process({"t": [1], "a": [1.0], "b": [1]})
    with pytest.raises(ValueError, match=r"record 1 of the batch .*'b' is -1: a weight is negative"):
        op.process({"t": [2, 3], "a": [1.0, 2.0], "b": [1, -1]})
    assert op.process({"t": [4], "a": [9.0], "b": [3]})["n"].to_pylist() == [2]


def test_frames_refuse_structs() -> None:
    with pytest.raises(TypeError, match="are no numbers"):
        mt.aggregate_frame(mt.regression("a", "b"), 5.0)


EVERY: dict[str, Any] = {name: make("a", "b") for name, make in PAIRED.items()}
EVERY |= {"ewm": mt.ewm("a", alpha=0.4), "rate": mt.rate("a"), "slope": mt.regression("a", "b", only="slope")}


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(10, 2), pa.bool_()],
    ids=str,
)
@pytest.mark.parametrize("nulls", [False, True])
def test_columns_of_any_numbers(kind: pa.DataType, nulls: bool) -> None:
    values = [1, 0, 1, None if nulls else 0, 1, 1]
    column = pa.array([None if v is None else Decimal(v) for v in values], pa.decimal128(10, 2))
    column = column if kind == column.type else column.cast(pa.int64()).cast(kind)
    table = {"t": [1, 2, 4, 5, 11, 12], "a": column, "b": [3, 1, 2, 2, 0, 5]}
    plain = {
        **table,
        "a": column.cast(pa.float64()) if kind != pa.float16() else pa.array(values, pa.float64()),
    }
    query = mt.tumbling(10).agg(**EVERY)
    got, want = (mt.aggregate(each, query, time="t").to_pylist() for each in (table, plain))
    for one, other in zip(got, want, strict=True):
        assert all(agrees(one[name], other[name], 10.0) for name in EVERY), (one, other)


@pytest.mark.parametrize("name", EVERY)
def test_texts_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match="needs numbers, but column 'a' holds string"):
        mt.aggregate({"t": [1], "a": ["x"], "b": [1]}, mt.tumbling(10).agg(out=EVERY[name]), time="t")


def test_unsigned_integers_beyond_63_bits_after_others() -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(**EVERY), time="t")
    large = pa.array([2**63 + 2048], pa.uint64())
    op.process({"t": [1, 2], "a": pa.array([5, 7], pa.uint64()), "b": [1, 2]})
    op.process({"t": [3], "a": large, "b": [3]})
    op = mt.WindowOperator.restore(op.snapshot())
    (row,) = op.finish().to_pylist()
    pairs = [(5.0, 1.0), (7.0, 2.0), (2.0**63 + 2048, 3.0)]
    for name in PAIRED:
        assert agrees(row[name], answer(name, pairs), 1e20), name
    assert math.isclose(row["rate"], (2.0**63 + 2048 - 5) / 2)
