"""The smallest inputs of bugs that were found: each gave another answer, or none, once."""

import copy
import datetime
import math
import operator
import threading

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.algebra import RowAggregate, fuse
from tests.aggregates import SumOfSquares

one = 1.0  # a name that generated code has, too


def present(x, y):
    return x * y


class NamesOfItsOwn(mt.Aggregate):
    identity = 0.0

    def lift(v):
        return present(one, 10.0)

    def combine(a, b):
        return a + b


def test_a_users_names_are_not_replaced_by_generated_ones():
    assert mt.swag.DabaLite.slide(NamesOfItsOwn(), [1.0, 2.0, 3.0], window=2).tolist() == [10.0, 20.0, 20.0]


@pytest.mark.parametrize("cls", [mt.swag.TwoStacksLite, mt.swag.DabaLite, mt.swag.Recalculate, mt.swag])
def test_users_integers_do_not_wrap(cls):
    big = 4_000_000_000
    assert cls.slide(SumOfSquares(), np.array([big, 1]), window=2).tolist() == [big**2, big**2 + 1]

    class Cubes(mt.Aggregate):
        def lift(v):
            return v**3

        def combine(a, b):
            return a - b

    assert cls.slide(Cubes(), [2**20, 2**21, -5], window=1).tolist() == [2**60, 2**63, -125]
    assert cls.slide(Cubes(), [-(2**20), 2**20, 2**20], window=3).tolist() == [-(2**60), -(2**61), -3 * 2**60]

    class Unsigned(mt.Aggregate):
        def lift(v):
            return np.uint64(v) << np.uint64(62)

        def combine(a, b):
            return a | b

    assert [int(x) for x in cls.slide(Unsigned(), [1, 2], window=2)] == [1 << 62, 3 << 62]


@pytest.mark.parametrize("cls", [mt.swag.SubtractOnEvict, mt.swag.SlickDeque])
def test_a_users_inverse_does_not_keep_the_rounding_of_large_values(cls):
    assert cls.slide(SumOfSquares(), [1e10, 1.0, 1.0, 1.0], window=2).tolist() == [1e20, 1e20, 2.0, 2.0]
    w = cls(SumOfSquares())
    for value in [1e10, 1.0, 1.0]:
        w.insert(value)
    w.evict()
    assert w.query() == 2.0


class Centroid(RowAggregate):
    """Reads a[0] after it has written row[0]: wrong where row is a."""

    width, dtype = 2, "f8"

    def lift_into(row, v):
        row[0] = 1.0
        row[1] = v

    def combine_into(row, a, b):
        row[0] = a[0] + b[0]
        row[1] = (a[0] * a[1] + b[0] * b[1]) / row[0]

    def lower(row):
        return row[1]


def test_rows_that_are_read_after_they_were_written_are_noticed():
    with pytest.raises(mt.LawViolation, match="into the row of a: it reads what it has written"):
        mt.check_aggregate(Centroid, [1.0, 2.0, 5.0])


class LargeCount(RowAggregate):
    width, dtype = 1, "i8"

    def lift_into(row, v):
        row[0] = v

    def combine_into(row, a, b):
        row[0] = a[0] + b[0]

    def lower(row):
        return row[0]


def test_answers_of_rows_keep_their_type():
    got = mt.swag.DabaLite.slide(LargeCount(), [2**53, 1], window=2)
    assert (got.tolist(), got.dtype) == ([2**53, 2**53 + 1], np.int64)


def test_means_of_many_negative_integers():
    n = 3_000_001
    assert mt.swag.slide(mt.mean(), np.full(n, -1), window=n)[-1] == -1.0


def test_relative_variation_beyond_64_bits():
    assert mt.swag.slide(mt.relative_variation(), np.array([-(2**63), 2**62]), window=2)[-1] == 3.0


def test_answers_of_objects():
    assert mt.swag.slide(mt.argmax(), [(1, -5), (2, -7)], window=1).tolist() == [-5, -7]
    assert mt.swag.slide(mt.argmax(), [(1, True), (2, False)], window=1).tolist() == [True, False]
    assert mt.swag.slide(mt.max(), [2**70, 1], window=2).tolist() == [2**70, 2**70]
    assert mt.swag.slide(mt.min(), [2**63, -1], window=2).tolist() == [2**63, -1]
    assert mt.swag.slide(mt.max(), [None, None], window=2).tolist() == [None, None]
    assert mt.swag.slide(mt.argmax(), [(None, 1), (1, None)], window=1).tolist() == [None, None]


def seconds(*numbers, unit="s"):
    return np.array(numbers).astype(f"datetime64[{unit}]")


def test_times_of_any_unit():
    slide, length = mt.swag.slide, datetime.timedelta
    assert slide(mt.sum(), [1, 2, 3], times=seconds(0, 1, 2), length=length(seconds=1.5)).tolist() == [
        1,
        3,
        5,
    ]
    assert slide(mt.sum(), [1, 2, 3], times=seconds(0, 1, 2), length=length(seconds=0.5)).tolist() == [
        1,
        2,
        3,
    ]
    tens = seconds(0, 1, 2, unit="10s")
    assert slide(mt.sum(), [1, 2, 3], times=tens, length=length(seconds=20)).tolist() == [1, 3, 5]
    swapped = seconds(0, 5, 12).astype(">M8[s]")
    assert slide(mt.sum(), [1, 2, 3], times=swapped, length=length(seconds=10)).tolist() == [1, 3, 5]
    assert slide(mt.sum(), [1, 2, 3], times=np.array([0, 5, 12], ">i4"), length=10).tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match="within 2"):
        slide(mt.sum(), [1, 2], times=seconds(-(2**62), 2**62), length=length(seconds=1))


@pytest.mark.parametrize("window", [2**62, 2**63, 2**63 + 5, 10**30])
def test_windows_larger_than_any_stream(window):
    for cls in (mt.swag.TwoStacksLite, mt.swag.DabaLite, mt.swag.BInt, mt.swag):
        assert cls.slide(mt.sum(), [1.0, 2.0, 3.0], window=window).tolist() == [1.0, 3.0, 6.0]


def test_an_identity_that_the_state_cannot_hold():
    class Highest(mt.Aggregate):
        identity = -math.inf

        def combine(a, b):
            return max(a, b)

    for cls in (mt.swag.DabaLite, mt.swag.TwoStacks):
        assert cls.slide(Highest(), [1, 3, 2, 1], window=2).tolist() == [1, 3, 3, 2]
        assert cls.slide(Highest(), [1.5, 3, 2, 1], window=2).tolist() == [1.5, 3, 3, 2]


def test_functions_that_are_not_pythons_own():
    class Largest(mt.Aggregate):
        combine = max

    class Total(mt.Aggregate):
        combine = operator.add

    assert mt.swag.slide(Largest(), [1.0, 3.0, 2.0], window=2).tolist() == [1.0, 3.0, 3.0]
    assert mt.swag.slide(Total(), [1, 3, 2], window=2).tolist() == [1, 4, 5]


def test_candidates_are_judged_by_state_not_by_answer():
    class Where(mt.Aggregate):
        selective = True

        def lift(v, place):
            return v, place

        def combine(a, b):
            return (a[0], a[1]) if a[0] >= b[0] else (b[0], b[1])

        def lower(s):
            return s[1]

    w = mt.swag.SlickDeque(Where())
    for record in [(5, "x"), (3, "x"), (4, "y")]:
        w.insert(record)
    assert w.query() == "x"
    for cls in (mt.swag.SlickDeque, mt.swag.DabaLite):
        assert math.copysign(1, cls.slide(mt.max(), [0.0, -0.0], window=2)[1]) == 1.0


def test_classes_of_one_name_are_fields_of_their_own():
    def make(k):
        class Scaled(mt.Aggregate):
            def lift(v):
                return v * k

            def combine(a, b):
                return a + b

        return Scaled

    assert len(fuse([make(2)("v"), make(3)("v")]).fields) == 2
    scaled = make(2)
    assert len(fuse([scaled("v"), scaled("v")]).fields) == 1


def test_nulls_in_any_column_of_a_users_aggregate():
    class Dot(mt.Aggregate):
        def lift(v, w):
            return v * w

        def combine(a, b):
            return a + b

    w = mt.swag.DabaLite(Dot())
    for record in [(2.0, 3.0), (None, 1.0), (5.0, None)]:
        w.insert(record)
    assert w.query() == 6.0
    columns = (pa.array([2.0, None, 5.0]), pa.array([3.0, 1.0, None]))
    assert mt.swag.slide(Dot(), columns, window=3).tolist() == [6.0, 6.0, 6.0]


def test_defaults_of_lift_are_not_columns():
    class Scaled(mt.Aggregate):
        def lift(v, k=2.0):
            return v * k

        def combine(a, b):
            return a + b

    assert Scaled("v").arity == 1
    assert mt.swag.slide(Scaled(), [1.0, 2.0], window=2).tolist() == [2.0, 6.0]


def test_either_inverse_serves_both_ends_of_a_commutative_aggregate():
    class Total(mt.Aggregate):
        commutative = True

        def combine(a, b):
            return a + b

        def invert_oldest(a, b):
            return a - b

    algebra = Total().algebra()
    assert algebra.invert is algebra.invert_oldest


def test_laws_are_judged_by_what_went_in():
    mt.check_aggregate(mt.sum, [1e16, 1.0, -1e16])

    class InPlace(mt.Aggregate):
        def lift(v):
            return [v]

        def combine(a, b):
            a.extend(b)
            return a

    with pytest.raises(mt.LawViolation, match="changes its arguments"):
        mt.check_aggregate(InPlace, [1, 2])


def test_aggregates_can_be_copied():
    for aggregate in (mt.mean("v"), mt.variance("v", ddof=0), mt.argmax("v", "w"), mt.count()):
        other = copy.deepcopy(aggregate)
        assert other == aggregate
        assert other.lift is aggregate.lift
    assert mt.variance("v", ddof=np.int64(0)) == mt.variance("v", ddof=0)


def test_first_use_in_many_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    values, answers = np.arange(50.0), []

    def work():
        answers.append(mt.swag.FlatFit.slide(mt.min_count(), values, window=7)[-1])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 8
