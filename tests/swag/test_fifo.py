"""Every first-in, first-out aggregator equals Recalculate, and keeps its invariants at every step."""

import collections

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
from tests.swag.workloads import AGGREGATES, PAIRS

ids = [f"{cls.__name__}-{name}" for cls, name in PAIRS]


def machine(cls, make, values):
    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.tested = cls(make())
            self.yardstick = mt.swag.Recalculate(make())
            self.records = collections.deque()

        @rule(value=values)
        def insert(self, value):
            self.tested.insert(value)
            self.yardstick.insert(value)
            self.records.append(value)
            self.tested.check_invariants(list(self.records))

        @rule(many=st.lists(values, min_size=5, max_size=40))
        def fill(self, many):
            for value in many:
                self.insert(value)

        @precondition(lambda self: self.records)
        @rule()
        def evict(self):
            self.tested.evict()
            self.yardstick.evict()
            self.records.popleft()
            self.tested.check_invariants(list(self.records))

        @precondition(lambda self: self.records)
        @rule(data=st.data())
        def drain(self, data):
            for _ in range(data.draw(st.integers(1, len(self.records)))):
                self.evict()

        @invariant()
        def equals_recalculate(self):
            assert len(self.tested) == len(self.yardstick) == len(self.records)
            assert close(self.tested.query(), self.yardstick.query())
            self.tested.check_invariants(list(self.records))
            self.tested.check_invariants()

    return Machine


@pytest.mark.parametrize(("cls", "name"), PAIRS, ids=ids)
def test_equals_recalculate(cls, name):
    make, values = AGGREGATES[name]
    steps = settings(max_examples=max(12, settings().max_examples // 8), stateful_step_count=20)
    run_state_machine_as_test(machine(cls, make, values), settings=steps)


def test_recalculate_is_the_definition():
    w = mt.swag.Recalculate(mt.sum())
    assert w.query() is None
    for v in [1, None, 3]:
        w.insert(v)
    assert w.query() == 4
    w.evict()
    w.check_invariants([None, 3])
    assert (w.query(), len(w), w.stored_partials) == (3, 2, 2)


def values_for(name, n):
    sample = {"concat": lambda k: "abc"[k % 3], "argmin": lambda k: (k % 5, "xyz"[k % 3])}
    return [sample.get(name, lambda k: k * 7919 % 23)(k) for k in range(n)]


@pytest.mark.parametrize(("cls", "name"), PAIRS, ids=ids)
def test_fill_and_drain(cls, name):
    """Up to n, down to nothing, and again: the dynamic windows of Fig. 11."""
    make, _ = AGGREGATES[name]
    tested, yardstick = cls(make()), mt.swag.Recalculate(make())
    for n in (1, 2, 3, 64, 65, 150):
        for value in values_for(name, n):
            tested.insert(value)
            yardstick.insert(value)
        assert close(tested.query(), yardstick.query())
        for _ in range(n):
            tested.evict()
            yardstick.evict()
            assert close(tested.query(), yardstick.query())
        tested.check_invariants([])


@pytest.mark.parametrize(("cls", "name"), PAIRS, ids=ids)
def test_oscillating(cls, name):
    """A window that breathes between 1 and 40 records: flips are hit at every size."""
    make, _ = AGGREGATES[name]
    tested, records = cls(make()), collections.deque()
    stream = iter(values_for(name, 3000))
    for size in [40, 1, 40, 20, 30, 2, 33, 17, 18, 17, 18, 40, 39, 1, 2, 1]:
        while len(records) < size:
            value = next(stream)
            tested.insert(value)
            records.append(value)
        while len(records) > size:
            tested.evict()
            records.popleft()
        tested.check_invariants(list(records))
        yardstick = mt.swag.Recalculate(make())
        for value in records:
            yardstick.insert(value)
        assert close(tested.query(), yardstick.query())


@pytest.mark.parametrize(
    "cls",
    [
        mt.swag.Recalculate,
        mt.swag.TwoStacks,
        mt.swag.TwoStacksLite,
        mt.swag.Daba,
        mt.swag.DabaLite,
        mt.swag.FlatFit,
        mt.swag.BInt,
    ],
    ids=lambda c: c.__name__,
)
def test_maxcount_trace_of_the_paper(cls):
    """Section 2.3: evict twice, insert 2, insert 6."""
    w = cls(mt.max_count())
    for value in [4, 5, 3, 4, 0, 4, 4]:
        w.insert(value)
    assert w.query() == 1  # max=5
    w.evict()
    assert w.query() == 1
    w.evict()
    assert w.query() == 3  # 3, 4, 0, 4, 4: max=4
    w.insert(2)
    assert w.query() == 3
    w.insert(6)
    assert w.query() == 1  # max=6
    w.check_invariants([3, 4, 0, 4, 4, 2, 6])


def test_subtract_survives_what_is_not_finite():
    """No inverse is used across infinities and NaN, nor past the digits that a sum can keep."""
    w = mt.swag.SubtractOnEvict(mt.sum())
    for value in [float("inf"), 1.0, float("nan"), 2.0, 1e300, 1e200, 3.0]:
        w.insert(value)
    for want in ["nan", "nan", "1e+300", "1e+300", "1e+200", "3.0"]:
        w.evict()
        assert f"{w.query():.4}" == want or str(w.query()) == want
    w = mt.swag.SubtractOnEvict(mt.variance())
    for value in [1e12, *[float(k % 2) for k in range(10)]]:
        w.insert(value)
    w.evict()
    assert w.query() == pytest.approx(5 / 18, rel=1e-9)


def test_subtract_does_not_recompute_without_need():
    w = mt.swag.SubtractOnEvict(mt.sum())
    for k in range(1000):
        w.insert(0.1 * (k % 7))
    before = w.combines
    for k in range(5000):
        w.insert(0.1 * (k % 11))
        w.evict()
    assert w.combines - before == 10_000
