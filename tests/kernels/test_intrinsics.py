"""Checked arithmetic is exact, or raises."""

import operator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

LIMIT = 2**63
integers = st.one_of(
    st.integers(-LIMIT, LIMIT - 1),
    st.integers(-10, 10),
    st.integers(-(2**32) - 5, 2**32 + 5),
    st.sampled_from([LIMIT - 1, -LIMIT, 2**31, 2**32, 3037000499, 3037000500, -3037000500]),
)


@pytest.fixture(scope="module")
def compiled():
    from numba import njit

    from muntin.kernels.intrinsics import checked_add, checked_mul, checked_sub

    @njit
    def add(a, b):
        return checked_add(a, b)

    @njit
    def sub(a, b):
        return checked_sub(a, b)

    @njit
    def mul(a, b):
        return checked_mul(a, b)

    return {operator.add: add, operator.sub: sub, operator.mul: mul}


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_integers(compiled, operation):
    @given(integers, integers)
    def exact_or_raises(a, b):
        want = operation(a, b)
        if -LIMIT <= want < LIMIT:
            assert compiled[operation](np.int64(a), np.int64(b)) == want
        else:
            with pytest.raises(OverflowError, match="left the 64-bit range"):
                compiled[operation](np.int64(a), np.int64(b))

    exact_or_raises()


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_floats_are_as_they_were(compiled, operation):
    assert compiled[operation](1e308, 1e308) == operation(1e308, 1e308)
    assert compiled[operation](2.5, 3) == operation(2.5, 3)
