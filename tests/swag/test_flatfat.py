"""FlatFAT and the reactive aggregator: the figures of the paper, its bounds, and Recalculate as yardstick."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import muntin as mt
from muntin.algebra.laws import close
from tests.aggregates import Affine, Concat
from tests.swag.workloads import AGGREGATES

LETTERS = "abcdefgh"


def recalculated(make, records):
    w = mt.swag.Recalculate(make())
    for record in records:
        w.insert(record)
    return w.query()


def test_figure_3_building_eight_leaves_takes_seven_combines():
    tree = mt.swag.FlatFat(Concat(), LETTERS)
    assert (tree.combines, tree.aggregate(), tree.combines) == (7, LETTERS, 7)
    assert tree.stored_partials == 2 * 8 - 1


def test_figure_4_updating_leaves_1_2_4_7_takes_six():
    tree = mt.swag.FlatFat(Concat(), LETTERS)
    tree.update({0: "A", 1: "B", 3: "D", 6: "G"})
    assert (tree.combines, tree.aggregate()) == (7 + 6, "ABcDefGh")
    tree.check_invariants("ABcDefGh")


def test_prefix_of_seven_is_put_together_from_three_nodes():
    tree = mt.swag.FlatFat(Concat(), LETTERS)
    assert (tree.prefix(6), tree.combines) == ("abcdefg", 7 + 2)


def test_figure_5_the_inverted_buffer():
    """Four slots: 4, 7, 3, 2 arrive, 4 leaves, 9 takes its slot; the window is still 7, 3, 2, 9."""
    r = mt.swag.ReactiveAggregator(Concat())
    r._arrange([], 4)  # the figure's capacity; the default is 8
    slots = lambda: [r._tree[r.capacity + k] for k in range(4)]  # noqa: E731
    seen = []
    for step in ["4", "7", "3", "2", None, "9"]:
        r.insert(step) if step else r.evict()
        seen.append(r.trigger())
    assert seen == ["4", "47", "473", "4732", "732", "7329"]
    assert slots() == ["9", "7", "3", "2"]
    assert (r._front & 3, (r._end - 1) & 3) == (1, 0)  # F and B: inverted


@given(
    values=st.lists(st.integers(0, 50), min_size=1, max_size=70),
    data=st.data(),
)
def test_updates_within_the_bound(values, data):
    tree = mt.swag.FlatFat(Affine(), values)
    n = tree.capacity
    assert tree.combines == n - 1
    changes = data.draw(st.dictionaries(st.integers(0, len(values) - 1), st.integers(0, 50), min_size=1))
    tree.update(changes)
    m = len(changes)
    assert tree.combines - (n - 1) <= m * (1 + math.ceil(math.log2(n / m)))
    values = [changes.get(k, v) for k, v in enumerate(values)]
    tree.check_invariants(values)
    assert tree.aggregate() == recalculated(Affine, values)
    for i in range(len(values)):
        for ask, inside in ((tree.prefix, values[: i + 1]), (tree.suffix, values[i:])):
            before = tree.combines
            assert ask(i) == recalculated(Affine, inside)
            assert tree.combines - before <= math.log2(n)


def test_a_batch_of_changes_costs_less_than_one_by_one():
    batched, single = (mt.swag.FlatFat(mt.sum(), range(64)) for _ in range(2))
    batched.update(dict.fromkeys(range(16), 1))
    for k in range(16):
        single.update({k: 1})
    assert batched.aggregate() == single.aggregate()
    assert (batched.combines - 63, single.combines - 63) == (15 + 2, 16 * 6)


def test_small_and_empty():
    assert mt.swag.FlatFat(mt.sum(), []).aggregate() is None
    assert mt.swag.FlatFat(mt.count(), []).aggregate() == 0
    one = mt.swag.FlatFat(mt.sum(), [5])
    assert (one.prefix(0), one.suffix(0), one.combines, one.stored_partials) == (5, 5, 0, 1)
    assert mt.swag.FlatFat(mt.sum(), [None, None]).aggregate() is None


def test_a_failed_update_changes_nothing():
    tree = mt.swag.FlatFat(mt.sum(), [1, 2, 3])
    with pytest.raises(IndexError, match=r"place 3 is outside of 0\.\.2"):
        tree.update({0: 9, 3: 1})
    with pytest.raises(TypeError, match="takes numbers"):
        tree.update({0: 9, 1: "x"})
    assert tree.aggregate() == 6
    with pytest.raises(TypeError, match="whole number"):
        tree.prefix("0")


def reactive_machine(make, values, fifo):
    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.r = mt.swag.ReactiveAggregator(make())
            self.records = []

        @rule(many=st.lists(values, min_size=1, max_size=30))
        def insert(self, many):
            for value in many:
                before = self.r.capacity
                self.r.insert(value)
                if self.r.capacity != before:  # judged before the record that made it grow
                    assert 3 / 8 <= len(self.records) / self.r.capacity <= 1 / 2
                    assert not self.r._holes
                self.records.append(value)
                self.r.check_invariants(self.records)

        @precondition(lambda self: self.records)
        @rule(data=st.data())
        def evict(self, data):
            for _ in range(data.draw(st.integers(1, len(self.records)))):
                before = self.r.capacity
                self.r.evict()
                self.records.pop(0)
                self.check_resize(before)

        @precondition(lambda self: self.records and not fifo)
        @rule(data=st.data())
        def remove(self, data):
            for _ in range(data.draw(st.integers(1, min(5, len(self.records))))):
                i = data.draw(st.integers(0, len(self.records) - 1))
                before = self.r.capacity
                self.r.remove(i)
                self.records.pop(i)
                self.check_resize(before)

        def check_resize(self, before):
            self.r.check_invariants(self.records)
            if self.r.capacity != before:
                assert 3 / 8 <= len(self.r) / self.r.capacity <= 1 / 2
                assert not self.r._holes

        @rule()
        def trigger(self):
            assert close(self.r.trigger(), recalculated(make, self.records))
            self.r.check_invariants(self.records)
            assert self.r.stored_partials == 2 * self.r.capacity - 1
            assert not (fifo and self.r._markers)  # no marker is ever stored while it is first in, first out

        def teardown(self):
            self.trigger()

    return Machine


@pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "any order"])
@pytest.mark.parametrize("name", ["concat", "affine", "max_count", "sum", "mean", "argmin"])
def test_reactive_equals_recalculate(name, fifo):
    make, values = AGGREGATES[name]
    steps = settings(max_examples=max(30, settings().max_examples // 3), stateful_step_count=25)
    run_state_machine_as_test(reactive_machine(make, values, fifo), settings=steps)


def test_growing_doubles_and_leaves_half_free():
    r = mt.swag.ReactiveAggregator(mt.sum())
    for k in range(1000):
        before = r.capacity
        r.insert(k)
        if r.capacity != before:
            assert r.capacity == 2 * before
            assert (len(r) - 1) / r.capacity == 1 / 2
    assert r.trigger() == sum(range(1000))


def test_compacts_when_holes_fill_a_quarter():
    r = mt.swag.ReactiveAggregator(Concat())
    for letter in "abcdefgh":
        r.insert(letter)
    r.remove(3)
    r.remove(3)
    assert r._holes
    r.insert("i")  # full, but 6 of 8 are records: compacted, not doubled
    assert (r.capacity, r._holes, r.trigger()) == (8, [], "abcfghi")


def test_doubles_when_more_than_three_quarters_are_records():
    r = mt.swag.ReactiveAggregator(Concat())
    for letter in "abcdefgh":
        r.insert(letter)
    r.remove(3)
    r.insert("i")  # full, and 7 of 8 are records
    assert (r.capacity, r._holes, r.trigger()) == (16, [], "abcefghi")


def test_changes_wait_for_the_trigger():
    r = mt.swag.ReactiveAggregator(mt.sum())
    for k in range(7):
        r.insert(k)
    r.evict()
    assert r.combines == 0
    assert r.trigger() == 21
    once = r.combines
    assert r.trigger() == 21
    assert r.combines == once
    assert once <= 7


def test_reactive_mistakes():
    r = mt.swag.ReactiveAggregator(mt.sum())
    assert r.trigger() is None
    with pytest.raises(IndexError, match="empty window"):
        r.evict()
    r.insert(1)
    with pytest.raises(IndexError, match="no record 1 in a window of 1"):
        r.remove(1)
    with pytest.raises(TypeError, match="whole number"):
        r.remove("0")
    assert r.trigger() == 1
