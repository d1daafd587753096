"""Numbers that are hard to add: large values with a small spread, huge ones beside tiny ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import muntin as mt


def exact_variance(values: np.ndarray) -> float:
    exact = [Fraction(v) for v in values.tolist()]
    mean = sum(exact) / len(exact)
    return float(sum((v - mean) ** 2 for v in exact) / (len(exact) - 1))


def near_a_billion(count: int) -> np.ndarray:
    return 1e9 + np.random.default_rng(7).standard_normal(count)


VARIANCES = {
    "tumbling": lambda: mt.tumbling(500),
    "sliding": lambda: mt.sliding(700, every=100),
    "session": lambda: mt.session(10),
    "count_tumbling": lambda: mt.count_tumbling(333),
    "count_sliding": lambda: mt.count_sliding(400, every=150),
}


@pytest.mark.parametrize("store", ["auto", "eager", "sliding"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "out of order"])
@pytest.mark.parametrize("window", VARIANCES)
def test_variances_of_large_values_with_a_unit_spread(window, shuffled, store):
    times, values = np.arange(5000), near_a_billion(5000)
    arrival = np.argsort(times + np.random.default_rng(2).integers(0, 60, 5000) * shuffled, kind="stable")
    query = VARIANCES[window]().agg(
        var=mt.variance("v"), dev=mt.stddev("v"), first=mt.first("t"), n=mt.count()
    )
    operator = mt.WindowOperator(query, time="t", watermark=60 if shuffled else "in_order", store=store)
    tables = [operator.process({"t": times[part], "v": values[part]}) for part in np.array_split(arrival, 13)]
    rows = [row for table in (*tables, operator.finish()) for row in table.to_pylist()]
    assert rows
    for row in rows:
        inside = values[row["first"] : row["first"] + row["n"]]
        if len(inside) == 1:
            assert row["var"] is None
            continue
        want = exact_variance(inside)
        assert row["var"] == pytest.approx(want, rel=1e-9, abs=0)
        assert row["dev"] == pytest.approx(math.sqrt(want), rel=1e-9, abs=0)


def test_a_variance_is_right_after_a_far_larger_value_has_left():
    values = near_a_billion(400)
    values[50] = 1e18
    query = mt.count_sliding(40, every=1).agg(var=mt.variance("v"))
    rows = mt.aggregate({"t": np.arange(400), "v": values}, query, time="t")["var"].to_pylist()
    for begin in (51, 60, 120, 355):
        assert rows[begin] == pytest.approx(exact_variance(values[begin : begin + 40]), rel=1e-9, abs=0)


@pytest.mark.parametrize("store", ["auto", "sliding"])
def test_sliding_sums_of_ten_million_huge_and_tiny_values(store):
    count, length, every = 10_000_000, 50_000, 10_000
    chance = np.random.default_rng(11)
    values = chance.standard_normal(count)
    values[::2] *= 1e15
    values[1::2] *= 1e-9
    query = mt.sliding(length, every=every).agg(total=mt.sum("v"))
    operator = mt.WindowOperator(query, time="t", store=store)
    starts, totals = [], []
    for begin in range(0, count, 1_000_000):
        part = slice(begin, begin + 1_000_000)
        rows = operator.process({"t": np.arange(begin, begin + 1_000_000), "v": values[part]})
        starts += rows["window_start"].to_pylist()
        totals += rows["total"].to_pylist()
    found = dict(zip(starts, totals, strict=True))
    for start in chance.choice(sorted(s for s in found if s >= 0), 60, replace=False).tolist():
        inside = values[start : start + length]
        off = abs(found[start] - math.fsum(inside))
        assert off <= 1e-12 * math.fsum(np.abs(inside)), (start, off)


def test_sums_that_cancel_to_a_tiny_rest():
    """What is left of huge values that cancel out is exact, as long as it is within the error of the sum."""
    values = np.tile([1e16, 1.0, -1e16, 1e-3], 25_000)
    query = mt.sliding(4000, every=400).agg(total=mt.sum("v"))
    rows = mt.aggregate({"t": np.arange(len(values)), "v": values}, query, time="t").to_pylist()
    for row in rows[::7]:
        inside = values[max(0, row["window_start"]) : row["window_end"]]
        bound = 1e-12 * math.fsum(np.abs(inside))
        assert abs(row["total"] - math.fsum(inside)) <= bound
