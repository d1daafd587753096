"""Whatever breaks a call off leaves the operator as it was before; repeating the call gives the right rows.

Interruptions are raised at random lines of the library, within its rollbacks too, and by a timer's signal
wherever that falls, compiled loops included.
"""

import contextlib
import gc
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.slicing import transaction
from tests.aggregates import Listed, SumOfSquares
from tests.mixed_workloads import mixed
from tests.test_operator import check_rows, operator_of, run_oracle, told
from tests.windows_oracle import Row
from tests.workloads import Add, Advance, Call, Finish, Process, Remove, Restore, Workload, batch_of, query_of

LIBRARY = str(Path(mt.__file__).parent)
ERRORS = (KeyboardInterrupt, MemoryError)
WORKLOADS = settings().max_examples * 3 // 2  # each call of each is broken off once
ROUNDS = 40  # of each family of windows, a call that a timer breaks off


class Lines:
    """Counts the lines of the library that run, and raises an error at one of them."""

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.count, self._at, self._error = 0, at, error

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(LIBRARY) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._at:
                raise self._error  # Python then traces no further
        return self._line

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        before = sys.gettrace()  # what measures coverage, if anything does
        sys.settrace(self.trace)
        try:
            yield
        finally:
            sys.settrace(before)


def perform(operator: Any, call: Call, workload: Workload) -> list[Row]:
    """Make a call of a workload."""
    match call:
        case Process(records, form):
            batch = batch_of(records, workload.keys, workload.tie, form, workload.marked)
            return told(operator.process(batch), workload.keys)
        case Advance(to):
            return told(operator.advance(to), workload.keys)
        case Add(spec):
            operator.add(query_of(spec, workload.seconds))
        case Remove(name):
            operator.remove(name)
        case Restore():
            operator.snapshot()
        case Finish():
            return told(operator.finish(), workload.keys)
    return []


def seen(operator: Any, combines: int | None = None) -> tuple:
    """What can be seen of an operator's state; combines tell also of what was done again after a rollback."""
    metrics = operator.metrics
    if combines is not None:
        metrics = replace(metrics, combines=combines, update_combines=combines, final_combines=combines)
    return metrics, operator.watermark, [name for name, _ in operator._queries]


def check_interrupted(workload: Workload, chance: random.Random, counts: Counter, undoing: list[int]) -> None:
    """Break every call off at a random line, see that nothing has changed, and make it again."""
    operator, twin = operator_of(workload), operator_of(workload)
    for call, want in zip(workload.calls, run_oracle(workload), strict=True):
        before, lines = seen(operator), Lines()
        with lines.traced():
            perform(twin, call, workload)
        error = chance.choice(ERRORS)
        undoing[:] = [chance.randrange(1, 60)] if chance.random() < 0.2 else []
        rows = None
        with contextlib.suppress(*ERRORS), Lines(chance.randrange(lines.count) + 1, error).traced():
            rows = perform(
                operator, call, workload
            )  # may run through: what is compiled by now takes fewer lines
        undoing.clear()
        counts["interrupted"] += rows is None
        if rows is None and seen(operator) != before:
            counts["as after"] += 1  # it fell on the return
            assert seen(operator, combines=0) == seen(twin, combines=0)
            continue
        rows = perform(operator, call, workload) if rows is None else rows
        check_rows(rows, want.rows, want.queries, f"{type(call).__name__} repeated")


@pytest.fixture
def undoing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the next rollback is to be broken off, in lines; empty: nowhere."""
    armed: list[int] = []
    roll_back = transaction._roll_back

    def broken_off(*arguments: Any) -> None:
        if armed:
            sys.settrace(Lines(armed.pop()).trace)
        roll_back(*arguments)

    monkeypatch.setattr(transaction, "_roll_back", broken_off)
    return armed


def test_calls_broken_off_at_any_line_change_nothing(undoing: list[int]):
    counts: Counter = Counter()

    @settings(max_examples=WORKLOADS)
    @given(workload=mixed(), seed=st.integers(0, 2**32))
    def each(workload: Workload, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # records that break the promise of order are meant
            check_interrupted(workload, random.Random(seed), counts, undoing)

    each()
    print(counts)
    assert counts["interrupted"] > 10 * WORKLOADS
    assert counts["as after"] <= counts["interrupted"] // 100


# ---- by a signal ----

COUNTED = {"n": mt.count(), "total": mt.sum("v"), "high": mt.max("v")}
FAMILIES: dict[str, dict[str, Any]] = {
    "grid": {"queries": [mt.sliding(600, every=60).agg(**COUNTED), mt.tumbling(45).agg(**COUNTED)]},
    "own": {"queries": mt.sliding(600, every=60).agg(squares=SumOfSquares("v"), all=Listed("v"))},
    "median": {"queries": mt.sliding(900, every=300).agg(m=mt.median("v"), d=mt.count_distinct("v"))},
    "first": {"queries": mt.tumbling(100).agg(first=mt.first("v"), m4=mt.m4("v"))},
    "sketch": {"queries": mt.tumbling(400).agg(d=mt.approx_count_distinct("v"))},
    "eager": {"queries": mt.sliding(600, every=60).agg(**COUNTED), "store": "eager"},
    "session": {"queries": mt.session(3).agg(**COUNTED)},
    "count": {"queries": mt.count_sliding(500, every=50).agg(**COUNTED)},
    "rolling": {"queries": mt.rolling(20).agg(**COUNTED)},
    "last_n": {"queries": mt.last_n(30, every=50).agg(**COUNTED)},
    "frames": {
        "queries": [
            mt.threshold_frame("v", ">", 500).agg(**COUNTED),
            mt.delta_frame("v", by=300).agg(n=mt.count()),
        ]
    },
    "state": {"queries": mt.state_window("flag").agg(**COUNTED)},
    "user": {
        "queries": mt.user_window(
            lambda s, t, row: (s + 1, int(s % 40 == 0), int(s % 40 == 0 and s > 0)), state=0, columns=["v"]
        ).agg(n=mt.count())
    },
    "where": {"queries": [mt.tumbling(60).agg(**COUNTED), mt.session(3).agg(n=mt.count(), where="v > 500")]},
}


def batches(count: int, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Records of 50 keys, about 20 a tick, up to 30 ticks out of order."""
    chance, clock = np.random.default_rng(seed), 0
    for _ in range(count):
        times = clock + np.arange(size) // 20 - chance.integers(0, 30, size)
        clock += size // 20
        values = chance.integers(0, 1000, size)
        yield {"ts": times, "k": chance.integers(0, 50, size), "v": values, "flag": values > 800}


class Alarm:
    """Raises an error by a timer's signal, and notes how long it waited until it was raised."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error, self._due, self.waited = error, 0.0, 0.0

    def ring(self, number: int, frame: FrameType | None) -> None:
        self.waited = time.perf_counter() - self._due
        raise self._error

    @contextlib.contextmanager
    def after(self, seconds: float) -> Iterator[None]:
        old = signal.signal(signal.SIGALRM, self.ring)
        gc.disable()  # Python drops what is raised within a callback of the collector
        self._due = time.perf_counter() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            gc.enable()


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_broken_off_by_a_signal_change_nothing(family: str):
    chance, counts = random.Random(family), Counter()
    operator, twin = (
        mt.WindowOperator(time="ts", key="k", watermark=40, lateness=20, **FAMILIES[family]) for _ in range(2)
    )
    for number, batch in enumerate(batches(ROUNDS + 3, 1000, seed=7)):
        begin = time.perf_counter()
        want = twin.process(batch)
        took = time.perf_counter() - begin
        if number < 3:  # loops are compiled
            operator.process(batch)
            continue
        before, alarm, rows = seen(operator), Alarm(chance.choice(ERRORS)), None
        with contextlib.suppress(*ERRORS), alarm.after(1e-5 + chance.random() * took):
            rows = operator.process(batch)
        assert alarm.waited < 1.0, "a compiled loop kept a signal waiting"
        counts["interrupted"] += rows is None
        if rows is None and seen(operator) == before:
            rows = operator.process(batch)
        elif rows is None:
            counts["as after"] += 1
            rows = want
        assert rows.equals(want), f"batch {number}"
        assert seen(operator, combines=0) == seen(twin, combines=0)
    assert counts["interrupted"] >= ROUNDS // 4
    assert counts["as after"] <= 1
    assert operator.finish().equals(twin.finish())


# ---- several threads ----


def test_calls_of_several_threads_wait_for_one_another():
    operator = mt.WindowOperator(mt.tumbling(1000).agg(n=mt.count()), time="ts", watermark="manual")
    threads = [
        threading.Thread(target=lambda: [operator.process({"ts": np.arange(100)}) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert operator.metrics.records_in % 100 == 0  # never in the middle of a call
    for thread in threads:
        thread.join()
    assert operator.finish()["n"].to_pylist() == [4 * 50 * 100]


def test_a_call_that_was_broken_off_does_not_keep_others_waiting():
    operator = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    operator.process({"ts": [1]})
    operator._call = transaction.Call()  # as if its thread had been stopped while it returned
    assert operator.process({"ts": [12]})["n"].to_pylist() == [1]


class Meddling(mt.Aggregate):
    """Calls its own operator."""

    operator: Any = None

    def lift(v):
        return Meddling.operator.metrics.records_in

    def combine(a, b):
        return a + b

    def lower(a):
        return a


def test_a_function_that_calls_its_own_operator_is_refused():
    operator = Meddling.operator = mt.WindowOperator(mt.tumbling(10).agg(x=Meddling("v")), time="ts")
    with pytest.raises(ValueError, match="calls must follow one another"):
        operator.process({"ts": [1, 2], "v": ["a", "b"]})
    assert operator.metrics.records_in == 0
