"""Sorted keys of numbers: many are sorted digit by digit, in the order that comparing gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.kernels import ranks

WHOLE = st.integers(-(2**62), 2**62)
FEW = st.integers(-3, 3)


@given(values=st.one_of(st.lists(WHOLE, min_size=1, max_size=60), st.lists(FEW, min_size=1, max_size=60)))
def test_many_keys_are_sorted_as_few_are(values: list[int]) -> None:
    array = np.array(values, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        few, bits = ranks._sorted_keys(array)
        patch.setattr(ranks, "_MANY", 1)
        many, also = ranks._sorted_keys(array)
    assert (many.tolist(), also) == (few.tolist(), bits)


@pytest.mark.parametrize("size", [8192, 20_001])
@pytest.mark.parametrize("spread", [1, 37, 2**12, 2**12 + 1, 2**24, 2**62])
def test_values_are_ranked_as_numpy_ranks_them(size: int, spread: int) -> None:
    values = np.random.default_rng(size).integers(-spread, spread, size)
    rank, places = ranks._ranked(values)
    wanted = np.argsort(values, kind="stable")
    assert places.tolist() == wanted.tolist()
    assert rank[wanted].tolist() == list(range(size))


def test_floats_of_all_kinds_are_ranked() -> None:
    chance = np.random.default_rng(3)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1.7e308]
    floats = np.concatenate([chance.standard_normal(9_000) * 10.0 ** chance.integers(-300, 300, 9_000), odd])
    keys = ranks.as_keys(floats)
    _, places = ranks._ranked(keys)
    assert places.tolist() == np.argsort(keys, kind="stable").tolist()
