import pytest

import muntin as mt
from muntin.algebra import RowAggregate
from tests.aggregates import Affine, Concat, SumOfSquares, Union

FLOATS = [3.5, -2.0, 0.0, 7.25, 1e6]


@pytest.mark.parametrize(
    "name",
    [
        "count",
        "sum",
        "product",
        "mean",
        "min",
        "max",
        "min_count",
        "max_count",
        "variance",
        "stddev",
        "relative_variation",
        "first",
        "last",
    ],
)
def test_built_in_aggregates_keep_their_laws(name):
    mt.check_aggregate(getattr(mt, name), FLOATS)
    mt.check_aggregate(getattr(mt, name)("v"), [1, 2, 3, 2])


def test_more_that_keep_their_laws():
    mt.check_aggregate(mt.geomean, [1.0, 2.0, 4.5])
    mt.check_aggregate(mt.argmax, [(1, "a"), (2, "b"), (2, "c")])
    mt.check_aggregate(Concat, ["a", "bc", "", "d"])
    mt.check_aggregate(Affine, range(8))
    mt.check_aggregate(SumOfSquares, FLOATS)
    mt.check_aggregate(Union, range(4))


class Average(mt.Aggregate):
    def combine(a, b):
        return (a + b) / 2


class Second(mt.Aggregate):
    commutative = True

    def combine(a, b):
        return b


class WrongIdentity(mt.Aggregate):
    identity = 1

    def combine(a, b):
        return a + b


class WrongInverse(mt.Aggregate):
    def combine(a, b):
        return max(a, b)

    def invert(a, b):
        return a - b


class WrongOldest(mt.Aggregate):
    def combine(a, b):
        return a + b

    def invert_oldest(a, b):
        return a[: len(b)]


class NotSelective(mt.Aggregate):
    selective = True

    def combine(a, b):
        return a + b


@pytest.mark.parametrize(
    ("aggregate", "samples", "message"),
    [
        (
            Average,
            [1, 2, 6],
            r"Average is not associative: \(1 \+ 1\) \+ 2 gives 1.5 but 1 \+ \(1 \+ 2\) gives 1.25",
        ),
        (Second, [1, 2], r"Second is not commutative: 1 \+ 2 gives 2 but 2 \+ 1 gives 1"),
        (WrongIdentity, [5], r"has no identity 1: combined after 5 it gives 6"),
        (WrongInverse, [3, 2], r"breaks its invert: \(3 \+ 3\) - 3 gives 0, not 3"),
        (WrongOldest, ["ab", "c"], "breaks its invert_oldest"),
        (NotSelective, [3, 2], "is not selective: 3 .* which is neither"),
    ],
)
def test_a_broken_law_is_named_with_its_values(aggregate, samples, message):
    with pytest.raises(mt.LawViolation, match=message):
        mt.check_aggregate(aggregate, samples)


def test_needs_an_aggregate_and_samples():
    with pytest.raises(ValueError, match="at least one sample"):
        mt.check_aggregate(SumOfSquares, [])
    with pytest.raises(TypeError, match="takes an aggregate or its class"):
        mt.check_aggregate(int, [1])


def test_rows_keep_their_laws():
    class Bits(RowAggregate):
        width, dtype, commutative = 3, "u8", True

        def lift_into(row, v):
            row[v % 3] = 1 << v

        def combine_into(row, a, b):
            for k in range(3):
                row[k] = a[k] | b[k]

        def lower(row):
            return int(row.sum())

    mt.check_aggregate(Bits, range(6))
