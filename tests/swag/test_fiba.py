"""FiBA equals a sorted list, keeps its shape and partials, and stays within its bounds."""

import bisect
import math

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import muntin as mt
from muntin.algebra.laws import close
from tests.aggregates import Concat
from tests.swag.test_flatfat import recalculated
from tests.swag.workloads import AGGREGATES

times = st.integers(-40, 40)


def machine(make, values):
    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.f = mt.swag.Fiba(make())
            self.records = []  # (t, value), in order

        def expect(self, t, value):
            self.records.insert(bisect.bisect_right(self.records, t, key=lambda r: r[0]), (t, value))

        @rule(t=times, value=values)
        def insert(self, t, value):
            self.f.insert(t, value)
            self.expect(t, value)

        @rule(many=st.lists(st.tuples(times, values), max_size=120))
        def insert_many(self, many):
            self.f.insert_many([t for t, _ in many], [v for _, v in many])
            for t, value in many:
                self.expect(t, value)

        @precondition(lambda self: self.records)
        @rule(data=st.data())
        def evict(self, data):
            for _ in range(data.draw(st.integers(1, len(self.records)))):
                self.f.evict()
                self.records.pop(0)
                self.f.check_invariants()

        @rule(t=times)
        def evict_until(self, t):
            self.f.evict_until(t)
            self.records = [r for r in self.records if r[0] >= t]

        @rule(t0=times, t1=times)
        def range_query(self, t0, t1):
            inside = [v for t, v in self.records if t0 <= t < t1]
            assert close(self.f.range(t0, t1), recalculated(make, inside))

        @invariant()
        def equals_a_sorted_list(self):
            assert len(self.f) == len(self.records)
            self.f.check_invariants(self.records)
            assert close(self.f.query(), recalculated(make, [v for _, v in self.records]))

    return Machine


@pytest.mark.parametrize("name", ["concat", "affine", "max_count", "sum", "argmin", "variance"])
def test_equals_a_sorted_list(name):
    make, values = AGGREGATES[name]
    steps = settings(max_examples=max(40, settings().max_examples // 2), stateful_step_count=15)
    run_state_machine_as_test(machine(make, values), settings=steps)


def test_in_order_takes_amortized_constant_combines():
    costs = []
    for n in (1 << 8, 1 << 13):
        f = mt.swag.Fiba(mt.sum())
        f.insert_many(range(n), [1] * n)
        before = f.combines
        for t in range(n, 4 * n):
            f.insert(t, 1)
            f.evict()
        costs.append((f.combines - before) / (3 * n))
        f.check_invariants()
    assert costs[0] < 20  # nodes hold up to 7 records, and are combined anew
    assert costs[1] == pytest.approx(costs[0], rel=0.1)


def test_the_cost_grows_with_the_distance_not_with_the_window():
    costs = {}
    for n in (1 << 10, 1 << 14):
        f = mt.swag.Fiba(mt.sum())
        f.insert_many(range(0, 2 * n, 2), [1] * n)
        for distance in (10, 1000):
            before = f.combines
            for k in range(50):
                f.insert(2 * n - 2 * distance - 2 * k % 20 - 1, 1)
            costs[n, distance] = (f.combines - before) / 50
    assert costs[1 << 14, 10] <= 1.5 * costs[1 << 10, 10]
    assert costs[1 << 14, 10] < costs[1 << 14, 1000]


def test_bulk_operations_combine_less_than_one_by_one():
    single, bulk = mt.swag.Fiba(mt.sum()), mt.swag.Fiba(mt.sum())
    n = 5000
    for t in range(n):
        single.insert(t, t)
    bulk.insert_many(range(n), range(n))
    assert single.query() == bulk.query() == sum(range(n))
    assert bulk.combines < single.combines / 2
    before = single.combines, bulk.combines
    for _ in range(n // 2):
        single.evict()
    bulk.evict_until(n // 2)
    assert single.query() == bulk.query()
    assert bulk.combines - before[1] < (single.combines - before[0]) / 50
    bulk.check_invariants()


def test_range_takes_logarithmic_combines():
    f = mt.swag.Fiba(mt.sum())
    n = 1 << 14
    f.insert_many(range(n), [1] * n)
    for t0, t1 in [(0, n), (1, n - 1), (100, 9000), (-5, 3), (n // 2, n // 2 + 1)]:
        before = f.combines
        assert f.range(t0, t1) == max(0, min(t1, n) - max(t0, 0))
        assert f.combines - before <= 2 * 8 * math.log(n, 4)


def test_equal_times_keep_the_order_of_arrival():
    f = mt.swag.Fiba(Concat())
    for letter in "abcdefghijklmnopqrstuvwxyz":
        f.insert(5, letter)
    f.insert_many([5, 4, 5], ["A", "0", "B"])
    assert f.query() == "0abcdefghijklmnopqrstuvwxyzAB"
    assert f.range(5, 6) == "abcdefghijklmnopqrstuvwxyzAB"
    f.evict_until(5)
    assert f.query() == "abcdefghijklmnopqrstuvwxyzAB"


def test_mistakes_leave_it_unharmed():
    f = mt.swag.Fiba(mt.sum())
    assert (f.query(), f.range(0, 1)) == (None, None)
    with pytest.raises(IndexError, match="empty window"):
        f.evict()
    f.insert(1, 10)
    for mistake, message in [
        (lambda: f.insert(None, 1), "needs a time"),
        (lambda: f.insert(float("nan"), 1), "needs a time"),
        (lambda: f.insert("noon", 1), "times must be of one kind"),
        (lambda: f.insert(2, "x"), "takes numbers"),
        (lambda: f.insert_many([1, 2], [1]), "2 times but 1 values"),
        (lambda: f.insert_many([1, 2], [1, "x"]), "takes numbers"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            mistake()
        f.check_invariants([(1, 10)])
    assert f.query() == 10
    assert f.range(5, 2) is None
