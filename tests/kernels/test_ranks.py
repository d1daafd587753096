"""Quantiles of ranges that go forward, against sorting each of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.kernels import rank_loops, ranks
from tests.oracle import quantile

TINY = 2.0**-52
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e300, math.inf, -math.inf]),
    st.integers(0, 40).map(lambda k: 1 + k * TINY),  # their leading bits are the same beside large ones
)
SHARES = (0.0, 0.25, 0.5, 1 / 3, 1.0)


@st.composite
def slides(draw: st.DrawFn) -> tuple[list[float], list[int], list[int]]:
    """Values, and ranges of them that begin and end one after the other, none of them empty."""
    values = draw(st.lists(NUMBERS, min_size=1, max_size=90))
    count = draw(st.integers(1, 30))
    begin = sorted(draw(st.lists(st.integers(0, len(values) - 1), min_size=count, max_size=count)))
    lengths = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    end = np.maximum.accumulate([min(len(values), b + n) for b, n in zip(begin, lengths, strict=True)])
    return values, begin, end.tolist()


def slid(
    values: np.ndarray, total: np.ndarray, begin: list[int], end: list[int], base: int = 0
) -> np.ndarray:
    ranges = np.array(begin, np.int64), np.array(end, np.int64)
    keys = ranks.as_keys(values) if values.dtype == np.float64 else values
    return ranks.slide(keys, total, *ranges, SHARES, floats=values.dtype == np.float64, base=base)


def check(got: Any, values: list[float], begin: list[int], end: list[int]) -> None:
    for w, (first, last) in enumerate(zip(begin, end, strict=True)):
        want = [quantile(values[first:last], share) for share in SHARES]
        assert got[:, w].tolist() == pytest.approx(want, rel=1e-15, abs=0, nan_ok=True), (first, last)


@settings(max_examples=300, deadline=None)
@given(slides(), st.integers(-3, 3))
def test_values_of_one_record_each(workload, base):
    values, begin, end = workload
    lead = max(base, 0)  # values before the first range
    array = np.array([7.0] * lead + values)
    shifted = [b + lead - base for b in begin], [e + lead - base for e in end]
    check(slid(array, np.arange(len(array) + 1), *shifted, base=base), values, begin, end)


@settings(max_examples=150, deadline=None)
@given(slides(), st.data())
def test_values_of_several_records(workload, data):
    values, begin, end = workload
    counts = data.draw(st.lists(st.integers(1, 4), min_size=len(values), max_size=len(values)))
    got = slid(np.array(values), np.append(0, np.cumsum(counts)), begin, end)
    repeated = [[v] * n for v, n in zip(values, counts, strict=True)]
    for w, (first, last) in enumerate(zip(begin, end, strict=True)):
        whole = [v for some in repeated[first:last] for v in some]
        want = [quantile(whole, share) for share in SHARES]
        assert got[:, w].tolist() == pytest.approx(want, rel=1e-15, abs=0, nan_ok=True)


def test_integers():
    values = np.array([2**62, -(2**62), 5, 5, -1, 2**62 + 1])
    got = slid(values, np.arange(7), [0, 1, 2], [3, 5, 6])
    assert got[2].tolist() == [5.0, 2.0, 5.0]


def test_values_that_differ_only_in_bits_that_are_not_sorted_by():
    """There are too many of them to be put right one by one."""
    values = np.append(-1e308, 1 + TINY * np.arange(2000, 0, -1))
    keys, bits = ranks._sorted_keys(ranks.as_keys(values))
    assert not rank_loops.run("rank", keys, bits, ranks.as_keys(values), np.empty(len(values), np.int32))
    begin, end = list(range(0, 1500, 100)), list(range(501, 2001, 100))
    check(slid(values, np.arange(len(values) + 1), begin, end), values.tolist(), begin, end)


def test_keys_are_in_the_order_of_floats():
    floats = np.array([-np.inf, -1.5, -5e-324, 0.0, 5e-324, 1.0, 1.5, np.inf, np.nan])
    keys = ranks.as_keys(floats)
    assert (np.diff(keys) > 0).all()
    assert np.array_equal(ranks.as_floats(keys), floats, equal_nan=True)
    others = np.array([-0.0, -np.nan, np.copysign(np.nan, -1)])
    assert ranks.as_keys(others).tolist() == [keys[3], keys[-1], keys[-1]]
