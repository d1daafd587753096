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
from muntin.engine import transaction
from muntin.engine.slices.window_manager import WindowManager
from tests.aggregates import Listed, SumOfSquares
from tests.mixed_workloads import mixed
from tests.test_operator import check_rows, operator_of, run_oracle, told
from tests.windows_oracle import Row
from tests.workloads import (
    Add,
    Advance,
    Call,
    Finish,
    OwnGrid,
    Process,
    Remove,
    Restore,
    Workload,
    batch_of,
    query_of,
)

LIBRARY = str(Path(mt.__file__).parent)
ERRORS = (KeyboardInterrupt, MemoryError)
# Together at least 2,000 calls are broken off: AT_LINES, and BY_SIGNAL for each of the 14 families.
WORKLOADS = settings().max_examples * 2  # each call of each is broken off once
AT_LINES, BY_SIGNAL = 1_600, 30
ROUNDS = 40  # of each family of windows, a call that a timer breaks off; more until there are BY_SIGNAL
LARGE = 200_000  # records of a batch in which no loop may keep a signal waiting


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


def test_a_grid_of_ones_own_asks_again_after_a_call_that_broke_off(monkeypatch: pytest.MonkeyPatch):
    operator = mt.WindowOperator(mt.tumbling(5).agg(n=mt.count()), time="t")
    operator.process({"t": [0]})
    operator.add(OwnGrid(10, ((3, 18),)).agg(n=mt.count(), name="own"))

    def broken(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WindowManager, "advance", broken)
        with pytest.raises(KeyboardInterrupt):
            operator.process({"t": [3]})
    operator.process({"t": [3]})
    assert operator.finish()["query"].to_pylist() == ["q0", "own"]


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
    assert counts["interrupted"] >= AT_LINES
    assert counts["as after"] <= counts["interrupted"] // 100


class Long(mt.ContextFreeWindow):
    """Windows of 1,000 ticks from 1,000 on, of ten before."""

    def windows(self, t):
        size = 10 if t < 1000 else 1000
        return [(t // size * size, t // size * size + size)]

    def next_edge(self, t):
        size = 10 if t < 1000 else 1000
        return t // size * size + size


def test_what_a_users_grid_was_asked_in_a_call_that_broke_off_changes_no_metric():
    bad = mt.tumbling(10).agg(s=Breaking("v"))
    op = mt.WindowOperator([Long().agg(n=mt.count()), bad], time="ts", watermark="manual")
    op.process({"ts": [1, 11, 21], "v": ["a", "b", "c"]})
    op.advance(25)
    before = op.metrics
    with pytest.raises(ValueError, match="lift"):
        op.process({"ts": [1001, 1002], "v": ["a", "break"]})
    assert op.metrics == before


def test_windows_that_a_users_grid_told_a_call_that_broke_off_are_emitted_later():
    bad = mt.tumbling(10).agg(s=Breaking("v"))
    op = mt.WindowOperator([Long().agg(n=mt.count()), bad], time="ts", watermark="manual")
    op.process({"ts": [1], "v": ["a"]})
    with pytest.raises(ValueError, match="lift"):
        op.process({"ts": [1001, 1002], "v": ["a", "break"]})
    op.process({"ts": [1001, 1002], "v": ["a", "b"]})
    rows = op.finish().to_pylist()
    assert [(row["window_start"], row["n"]) for row in rows if row["n"]] == [(0, 1), (1000, 2)]


class Breaking(mt.Aggregate):
    """Refuses one value."""

    def lift(v):
        return {"a": 1, "b": 2, "c": 3}[v]

    def combine(a, b):
        return a + b

    def lower(a):
        return a


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
    for number, batch in enumerate(batches(10 * ROUNDS, 1000, seed=7)):
        if number >= ROUNDS + 3 and counts["interrupted"] >= BY_SIGNAL:
            break
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
    assert counts["interrupted"] >= BY_SIGNAL
    assert counts["as after"] <= 1
    assert operator.finish().equals(twin.finish())


@pytest.mark.parametrize("family", FAMILIES)
def test_no_loop_over_a_large_batch_keeps_a_signal_waiting(family: str):
    chance = random.Random(family)
    operator, twin = (
        mt.WindowOperator(time="ts", key="k", watermark=40, lateness=20, **FAMILIES[family]) for _ in range(2)
    )
    first, *rest = batches(4, LARGE, seed=3)
    operator.process(first)
    begin = time.perf_counter()
    twin.process(first)
    took = time.perf_counter() - begin
    for batch in rest:
        alarm, rows = Alarm(KeyboardInterrupt), None
        with contextlib.suppress(KeyboardInterrupt), alarm.after(chance.random() * took):
            rows = operator.process(batch)
        assert alarm.waited < 1.0
        rows = operator.process(batch) if rows is None else rows
        assert rows.equals(twin.process(batch))


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


def test_threads_that_bring_new_keys_to_a_running_operator_wait_for_one_another():
    """So much changes in each call that two at once would hang in a compiled loop, or lose records."""
    query = mt.sliding(1000, every=10).agg(n=mt.count(), s=mt.sum("v"), m=mt.median("v"))
    one, twin = (mt.WindowOperator(query, time="ts", key="k", watermark="manual") for _ in range(2))
    rng = np.random.default_rng(1)
    batches = [
        {
            "ts": rng.integers(0, 3000, 500),
            "k": rng.integers(0, 100, 500) + 40 * k,
            "v": rng.integers(0, 9, 500),
        }
        for k in range(33)
    ]
    one.process(batches[0])
    threads = [
        threading.Thread(target=lambda own=own: [one.process(batch) for batch in own], daemon=True)
        for own in (batches[1 + k :: 4] for k in range(4))
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads)
    for batch in batches:
        twin.process(batch)
    order = [(name, "ascending") for name in ("k", "window_start")]
    columns = [*(name for name, _ in order), "n", "s", "m"]
    got, want = (op.finish().select(columns).sort_by(order) for op in (one, twin))
    assert got == want


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
