"""Which aggregators meet which aggregates, over which values."""

from __future__ import annotations

import hypothesis.strategies as st

import muntin as mt
from tests.aggregates import Affine, Concat, SumOfSquares, Union

FIFO = [
    mt.swag.SubtractOnEvict,
    mt.swag.TwoStacks,
    mt.swag.TwoStacksLite,
    mt.swag.Daba,
    mt.swag.DabaLite,
    mt.swag.FlatFit,
    mt.swag.BInt,
    mt.swag.SlickDeque,
]

_small = st.integers(-9, 9)
_nullable = st.one_of(st.none(), _small)

# name: (aggregate, values). Non-commutative, non-invertible and invertible ones; nulls; ties.
AGGREGATES = {
    "concat": (Concat, st.text(alphabet="abc", min_size=1, max_size=2)),
    "affine": (Affine, st.integers(0, 50)),
    "union": (Union, _small),
    "squares": (SumOfSquares, _small),
    "max": (mt.max, _nullable),
    "max_count": (mt.max_count, _nullable),
    "argmin": (mt.argmin, st.tuples(_nullable, st.text(alphabet="xyz", max_size=1))),
    "first": (mt.first, _nullable),
    "last": (mt.last, _nullable),
    "sum": (mt.sum, _nullable),
    "mean": (mt.mean, _nullable),
    "variance": (mt.variance, st.one_of(st.none(), st.integers(10**9, 10**9 + 3).map(float))),
    "count": (mt.count, _nullable),
}


def accepts(cls, aggregate) -> bool:
    """Tell whether an aggregator takes an aggregate: two demand more than associativity."""
    if cls is mt.swag.SubtractOnEvict:
        return aggregate.invertible
    return cls is not mt.swag.SlickDeque or aggregate.invertible or aggregate.selective


PAIRS = [(cls, name) for cls in FIFO for name, (make, _) in AGGREGATES.items() if accepts(cls, make())]
