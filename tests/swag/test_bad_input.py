"""One clear sentence for each mistake, and the window unharmed."""

import numpy as np
import pytest

import muntin as mt
from muntin.algebra.laws import close
from tests.aggregates import Concat, Union
from tests.swag.workloads import FIFO

ALL = [mt.swag.Recalculate, *FIFO]


@pytest.mark.parametrize("cls", [*ALL, mt.swag.Fiba, mt.swag.ReactiveAggregator], ids=lambda c: c.__name__)
def test_what_is_no_aggregate(cls):
    with pytest.raises(TypeError, match=rf"{cls.__name__} needs an aggregate such as mt.max\(\), not 'max'"):
        cls("max")
    with pytest.raises(TypeError, match=r"call max\(\) to make one"):
        cls(mt.max)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_empty_windows(cls):
    for make, want in [(mt.sum, None), (mt.count, 0)]:
        w = cls(make())
        assert (w.query(), len(w)) == (want, 0)
        with pytest.raises(IndexError, match="evict from an empty window"):
            w.evict()
        w.insert(3)
        w.evict()
        assert w.query() == want
        with pytest.raises(IndexError):
            w.evict()
        w.insert(4)
        assert w.query() == (4 if make is mt.sum else 1)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_a_refused_value_leaves_the_window_as_it_was(cls, size):
    for make, wrong in [(mt.sum, "x"), (mt.sum, [1]), (mt.max, "x"), (mt.max, (1, 2))]:
        if cls is mt.swag.SubtractOnEvict and make is mt.max:
            continue
        w = cls(make())
        records = [3, 1, 2, 5, 4][:size]
        for record in records:
            w.insert(record)
        if make is mt.sum or size:
            with pytest.raises(TypeError, match=r"takes numbers|cannot combine"):
                w.insert(wrong)
        w.check_invariants(records)
        w.insert(7)
        assert close(
            w.query(), make().lower(7) if not records else (sum if make is mt.sum else max)([*records, 7])
        )


def test_messages_name_value_and_reason():
    w = mt.swag.DabaLite(mt.mean())
    with pytest.raises(TypeError, match=r"mean\(\) takes numbers, not 'x'\."):
        w.insert("x")
    w = mt.swag.DabaLite(mt.max())
    w.insert(1)
    with pytest.raises(TypeError, match=r"max\(\) cannot combine 'x' with the int values before it\."):
        w.insert("x")
    w = mt.swag.DabaLite(mt.argmax())
    with pytest.raises(TypeError, match=r"argmax\(\) takes a tuple of 2 values, not 3"):
        w.insert(3)
    with pytest.raises(TypeError, match=r"SubtractOnEvict needs an inverse .* max\(\) has none; DabaLite"):
        mt.swag.SubtractOnEvict(mt.max())
    with pytest.raises(TypeError, match=r"SlickDeque needs .* max_count\(\) is neither; DabaLite"):
        mt.swag.SlickDeque(mt.max_count())
    with pytest.raises(TypeError, match="needs an inverse"):
        mt.swag.SubtractOnEvict.slide(mt.max(), ["a"], window=1)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_numpy_scalars_do_not_wrap(cls):
    w = cls(mt.sum())
    for _ in range(2):
        w.insert(np.int64(2**62))
    with pytest.raises(OverflowError, match="64-bit range"):
        w.query()
    w.evict()
    assert w.query() == 2**62


def test_nulls_take_part_in_the_window_but_not_in_the_aggregate():
    w = mt.swag.DabaLite(mt.min())
    for value in [None, 4, None]:
        w.insert(value)
    assert (w.query(), len(w)) == (4, 3)
    w.evict()
    w.evict()
    assert (w.query(), len(w)) == (None, 1)
    for aggregate, want in [(mt.count(), 2), (mt.count("v"), 1)]:
        w = mt.swag.DabaLite(aggregate)
        w.insert(None)
        w.insert(7)
        assert w.query() == want
    w = mt.swag.DabaLite(mt.argmax())
    w.insert((None, "a"))
    assert w.query() is None
    w.insert((1, None))
    assert w.query() is None


def test_states_of_any_kind():
    for cls in (
        mt.swag.Daba,
        mt.swag.DabaLite,
        mt.swag.TwoStacks,
        mt.swag.TwoStacksLite,
        mt.swag.FlatFit,
        mt.swag.BInt,
    ):
        w = cls(Union())
        for value in [3, 1, 3]:
            w.insert(value)
        w.evict()
        assert w.query() == [1, 3]
        w = cls(Matrices())
        for value in [1, 2, 3]:
            w.insert(value)
        w.evict()
        assert w.query().tolist() == [[7, 2], [3, 1]]
    w = mt.swag.SubtractOnEvict(Concat())
    for letter in "abc":
        w.insert(letter)
    w.evict()
    assert w.query() == "bc"


class Matrices(mt.Aggregate):
    """Products of 2 x 2 matrices: not commutative, a state that is an array."""

    def lift(v):
        return np.array([[v, 1], [1, 0]])

    def combine(a, b):
        return a @ b
