"""Keys that nothing is needed of any more are forgotten; those of a refused batch were never there."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.engine.engine import Engine
from muntin.engine.ingest.keys import KeyTable
from tests.aggregates import Picky
from tests.mixed_workloads import mixed
from tests.test_empty_windows import silent
from tests.test_filters import with_conditions
from tests.test_operator import check, told


@pytest.fixture(scope="module")
def forgetful() -> Iterator[None]:
    """Engines that let go after each call of all that they may, however little it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "evict_now_and_then", lambda self, keys, records=0: self.evict(keys))
        patch.setattr(KeyTable, "mostly_gone", lambda self, live: live < len(self))
        yield


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("shard", range(2))
@settings(max_examples=settings().max_examples * 2)
@given(workload=mixed())
def test_what_is_forgotten_is_not_missed(shard, workload):
    check(workload)


@pytest.mark.usefixtures("forgetful")
@given(workload=mixed(("rolling", "landmark_length_every", "landmark_until_every", "threshold_frame")))
def test_what_windows_that_can_forget_do_forget_is_not_missed(workload):
    check(workload)


@pytest.mark.usefixtures("forgetful")
@given(workload=silent())
def test_what_is_forgotten_is_not_missed_where_empty_windows_come_out(workload):
    check(workload)


@pytest.mark.usefixtures("forgetful")
@settings(max_examples=settings().max_examples // 2)
@given(workload=with_conditions(mixed()))
def test_what_is_forgotten_is_not_missed_under_conditions(workload):
    check(workload)


# ---- how much is remembered ----

NUMBERS = {"n": mt.count()}
FORGETTING = [
    mt.tumbling(10).agg(**NUMBERS),
    mt.sliding(20, every=5).agg(**NUMBERS),
    mt.session(5).agg(**NUMBERS),
    mt.rolling(50).agg(**NUMBERS),
    mt.rolling(rows=1).agg(**NUMBERS),
    mt.landmark("p", length=20, every=10).agg(**NUMBERS),
    mt.landmark("p", until="q", every=10).agg(**NUMBERS),
    mt.threshold_frame("v", ">", 1.0).agg(**NUMBERS),  # of keys that never were above it
    mt.punctuation("never").agg(**NUMBERS),
]
REMEMBERING = [
    mt.count_tumbling(3).agg(**NUMBERS),
    mt.rolling(rows=2).agg(**NUMBERS),
    mt.last_span(20, every=3).agg(**NUMBERS),
    mt.last_n(3, every=10).agg(**NUMBERS),
    mt.landmark("p", every=10).agg(**NUMBERS),
    mt.punctuation("p").agg(**NUMBERS),
    mt.landmark("p", length=20).agg(**NUMBERS),
    mt.threshold_frame("v", "<", 1.0).agg(**NUMBERS),
    mt.state_window("v").agg(**NUMBERS),
    mt.on("t", mt.tumbling(5)).agg(**NUMBERS),
    mt.tumbling(10).agg(**NUMBERS, emit_empty=True),
    mt.tumbling(10).agg(**NUMBERS, emit="on_change"),
]
KEYS = 1000  # of a round


def rounds(query: Any, count: int, **setting: Any) -> Iterator[mt.WindowOperator]:
    """An operator after each of some rounds, in which all keys are new."""
    operator = mt.WindowOperator(query, time="t", key="k", **setting)
    flags = np.arange(2 * KEYS) % 2 == 0
    for number in range(count):
        times = 1000 * number + np.arange(2 * KEYS) * 900 // (2 * KEYS)
        keys = number * KEYS + np.arange(2 * KEYS) // 2
        batch = {"t": times, "k": keys, "v": np.zeros(2 * KEYS), "p": flags, "q": ~flags}
        operator.process({**batch, "never": np.zeros(2 * KEYS, bool)})
        yield operator


@pytest.mark.parametrize("setting", [{}, {"watermark": 20}, {"watermark": 20, "lateness": 30}], ids=str)
@pytest.mark.parametrize("query", FORGETTING, ids=str)
def test_windows_that_can_forget_keys_hold_no_more_than_they_need(query, setting):
    for number, operator in enumerate(rounds(query, 8, **setting)):
        if number in (1, 7):
            assert len(operator.snapshot()) < 40_000
            assert operator.metrics.keys < 200
            assert operator.metrics.state_bytes < 60_000
            assert mt.WindowOperator.restore(operator.snapshot()).metrics == operator.metrics


@pytest.mark.parametrize("query", FORGETTING, ids=str)
def test_keys_are_forgotten_without_a_snapshot(query):
    *_, operator = rounds(query, 16)
    assert len(operator._keys) < 8 * KEYS


@pytest.mark.parametrize("query", REMEMBERING, ids=str)
def test_windows_that_need_their_keys_remember_all(query):
    *_, operator = rounds(query, 3)
    assert operator.metrics.keys == 3 * KEYS


def test_rolling_remembers_keys_as_far_as_it_looks_back():
    operator = mt.WindowOperator(mt.rolling(5).agg(**NUMBERS), time="t", key="k", watermark="manual")
    operator.process({"t": [1, 2, 3], "k": [0, 1, 2]})
    operator.process({"t": [4, 5, 6, 7], "k": [0, 1, 3, 4]})
    assert operator.metrics.keys == 5
    operator.advance(9)
    assert operator.metrics.keys == 3  # a record at 9 sees 5, not 4


def test_a_key_that_was_late_for_all_windows_is_not_remembered():
    operator = mt.WindowOperator(mt.count_tumbling(3).agg(**NUMBERS), time="t", key="k", watermark=0)
    operator.process({"t": [100], "k": [0]})
    operator.process({"t": [1] * 50, "k": list(range(1, 51))})
    assert operator.metrics.late_dropped == 50
    assert operator.metrics.keys == 1
    operator.snapshot()
    assert len(operator._keys) == 1


def test_states_that_no_key_is_in_are_forgotten():
    operator = mt.WindowOperator(mt.state_window("s").agg(**NUMBERS), time="t", watermark=5, lateness=5)
    sizes = []
    for number in range(20):
        times = [500 * number + k for k in range(500)]
        operator.process({"t": times, "s": [f"state {t}" for t in times]})
        sizes.append(len(operator.snapshot()))
        operator = mt.WindowOperator.restore(operator.snapshot())
    assert max(sizes) < 2 * sizes[0]
    operator.process({"t": [10_000, 10_001], "s": ["state 9999", "new"]})
    rows = [(row.start, row.end, row.id) for row in told(operator.finish(), ())]
    assert rows[-3:] == [(9998, 9998, 9998), (9999, 10_000, 9999), (10_001, 10_001, 10_000)]


# ---- refused batches ----


@pytest.mark.parametrize("where", [None, "v > 0"])
@pytest.mark.parametrize("window", [mt.rolling(10), mt.count_tumbling(2), mt.tumbling(10)], ids=str)
def test_keys_of_a_refused_batch_were_never_there(window, where):
    query = window.agg(total=Picky("v"), where=where)
    operator = mt.WindowOperator(query, time="t", key="k")
    operator.process({"t": [1], "k": ["a"], "v": [1.0]})
    before = (operator.metrics, operator.snapshot())
    for _ in range(2):
        with pytest.raises(ValueError, match="999"):
            operator.process({"t": [2, 2, 2], "k": ["b", "a", "c"], "v": [1.0, 2.0, 999.0]})
        assert (operator.metrics, operator.snapshot()) == before
    operator.process({"t": [3, 3, 3, 3], "k": ["c", "a", "c", "d"], "v": [1.0, 2.0, 4.0, 8.0]})
    assert operator.metrics.keys == 3
    if window.kind == "tumbling":
        totals = {row["k"]: row["total"] for row in operator.finish().to_pylist()}
        assert totals == {"a": 3.0, "c": 5.0, "d": 8.0}


def test_the_key_table_goes_back_to_what_it_was():
    keys, steps = KeyTable(["k"]), []
    keys.encode([pa.array(["a", "b", "c"])])
    keys.begin(steps)
    keys.encode([pa.array(["d", "a", "e"])])
    for function, *arguments in reversed(steps):
        function(*arguments)
    assert keys.columns()[0].to_pylist() == ["a", "b", "c"]
    assert keys.encode([pa.array(["e", "c"])]).tolist() == [3, 2]
    assert keys.find([pa.array(["d"])]) is None
