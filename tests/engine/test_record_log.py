"""Records that are kept: whatever their chunks, they read as a plain sorted list, and are seldom merged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.slices.record_log import Chunk, RecordLog, WaitingRecords

KEYS = 4


class Record(NamedTuple):
    """A record of the model."""

    code: int
    time: int
    tie: int
    seq: int
    overdue: bool
    fresh: bool
    value: int | None
    extra: int | None  # of a field that is there at times; None: it was not when the record came


def stretch_of(records: list[Record]) -> tuple[Stretch, Any]:
    """Return records as a batch has them, and their ties."""
    times, codes, ties = (np.array([r[k] for r in records], np.int64) for k in (1, 0, 2))
    valid = np.array([r.value is not None for r in records])
    data = np.array([r.value or 0 for r in records], np.int64)
    values = Values((data,), None if valid.all() else valid, len(records), ("i8",))
    extra = Values((np.array([r.extra or 0 for r in records], np.int64),), None, len(records), ("i8",))
    return Stretch(times, codes, KEYS, {0: values, 1: extra}, True, 0, 0), ties


def read(chunk: Chunk, *, extra: bool, tied: bool) -> list[tuple[Any, ...]]:
    """Return the records of a chunk in its order."""
    if not len(chunk):
        return []
    values = chunk.values[0]
    valid = np.ones(len(chunk), bool) if values.valid is None else values.valid
    there = chunk.values.get(1)
    known = np.zeros(len(chunk), bool)
    if there is not None:
        known = np.ones(len(chunk), bool) if there.valid is None else there.valid
    return [
        (
            *(int(column[i]) for column in (chunk.codes, chunk.times)),
            int(chunk.tie[i]) if tied and chunk.tie is not None else 0,
            bool(chunk.overdue[i]),
            bool(chunk.is_fresh()[i]),
            int(values.columns[0][i]) if valid[i] else None,
            int(there.columns[0][i]) if extra and there is not None and known[i] else None,
        )
        for i in range(len(chunk))
    ]


class Model:
    """A plain list beside a log, on which the same is done."""

    def __init__(self, log: RecordLog, *, tied: bool) -> None:
        self.log, self.tied = log, tied
        self.records: list[Record] = []
        self.extra, self.seq = False, 0

    def add(self, drawn: list[tuple[int, int, int, int | None]], *, overdue: bool) -> None:
        """Add records."""
        new = []
        for code, time, tie, value in drawn:
            self.seq += 1
            extra = self.seq if self.extra else None
            new.append(Record(code, time, tie if self.tied else 0, self.seq, overdue, True, value, extra))
        self.records += new
        stretch, ties = stretch_of(new)
        self.log.add(stretch, ties if self.tied else None, overdue=overdue)

    def settle(self) -> None:
        """Settle all."""
        self.log.settle()
        self.records = [r._replace(fresh=False) for r in self.records]

    def keep(self, wanted: Callable[[int, int], bool]) -> None:
        """Keep records by key and time."""
        self.records = [r for r in self.records if wanted(r.code, r.time)]
        self.log.keep(lambda chunk: np.fromiter(map(wanted, chunk.codes, chunk.times), bool))

    def set_extra(self, *, there: bool) -> None:
        """Let the second field come or go; what it held before is then gone."""
        self.extra = there
        self.log.set_fields((0, 1) if there else (0,))
        if not there:
            self.records = [r._replace(extra=None) for r in self.records]

    def listed(self, records: list[Record]) -> list[tuple[Any, ...]]:
        """Return records as `read` does."""
        return [(r.code, r.time, r.tie, r.overdue, r.fresh, r.value, r.extra) for r in records]

    def read(self, chunk: Chunk) -> list[tuple[Any, ...]]:
        """Return the records of a chunk."""
        return read(chunk, extra=self.extra, tied=self.tied)

    def check(self) -> None:
        """Compare all records."""
        assert len(self.log) == len(self.records)
        assert self.read(self.log.whole()) == self.listed(sorted(self.records, key=lambda r: r[:4]))
        assert sorted(self.log.codes().tolist()) == sorted(r.code for r in self.records)
        assert all(len(chunk) for chunk in self.log.chunks)

    def check_within(self, spans: list[tuple[int, int, int]]) -> None:
        """Compare the records of spans."""
        codes, first, length = (np.array([span[k] for span in spans], np.int64) for k in range(3))
        found, which = self.log.within(codes, first, first + length)
        ordered = sorted(self.records, key=lambda r: r[:4])
        wanted = [
            (w, r)
            for w, (code, begin, some) in enumerate(spans)
            for r in ordered
            if r.code == code and begin <= r.time <= begin + some
        ]
        assert which.tolist() == [w for w, _ in wanted]
        assert self.read(found) == self.listed([r for _, r in wanted])

    def check_until(self, bound: float) -> None:
        """Compare the records up to a time."""
        assert isinstance(self.log, WaitingRecords)
        some = [r for r in self.records if r.time <= bound]
        assert self.read(self.log.until(bound)) == self.listed(sorted(some, key=lambda r: r[:4]))
        assert self.log.any_fresh(bound) == any(r.fresh for r in some)
        assert self.log.low == min((r.time for r in self.records), default=math.inf)


records = st.tuples(
    st.integers(0, KEYS - 1), st.integers(-8, 8), st.integers(0, 2), st.none() | st.integers(-99, 99)
)
bounds = st.integers(-9, 9) | st.sampled_from([math.inf, -math.inf])
span = st.tuples(st.integers(0, KEYS), st.integers(-9, 9), st.integers(0, 9))


@given(st.data(), st.booleans(), st.booleans())
def test_log_reads_as_a_sorted_list(data: st.DataObject, tied: bool, waiting: bool) -> None:
    """A log in whatever chunks holds what a plain list holds."""
    model = Model((WaitingRecords if waiting else RecordLog)((0,)), tied=tied)
    verbs = ["add", "add", "add", "few", "settle", "keep", "extra", "drop" if waiting else "within"]
    for verb in data.draw(st.lists(st.sampled_from(verbs), max_size=25)):
        if verb == "add":
            model.add(data.draw(st.lists(records, min_size=1, max_size=3)), overdue=data.draw(st.booleans()))
        elif verb == "few":
            for record in data.draw(st.lists(records, min_size=4, max_size=9)):
                model.add([record], overdue=False)
        elif verb == "settle":
            model.settle()
        elif verb == "keep":
            code, time = data.draw(st.integers(0, KEYS)), data.draw(st.integers(-9, 9))
            model.keep(lambda c, t, code=code, time=time: c != code and t >= time)
        elif verb == "extra":
            model.set_extra(there=not model.extra)
        elif verb == "drop":
            bound, equal = data.draw(bounds), data.draw(st.booleans())
            model.check_until(bound)
            assert isinstance(model.log, WaitingRecords)
            model.log.drop(bound, equal=equal)
            model.records = [r for r in model.records if r.time > bound or (r.time == bound and not equal)]
        else:
            model.check_within(data.draw(st.lists(span, min_size=1, max_size=4)))
        model.check()


@given(st.lists(records, min_size=1, max_size=20), st.booleans())
def test_log_renumbers_and_loads(drawn: list[tuple[int, int, int, int | None]], waiting: bool) -> None:
    """Keys get other numbers, values of a field are replaced, and what is dumped is loaded."""
    made = WaitingRecords if waiting else RecordLog
    model = Model(made((0,)), tied=True)
    for record in drawn:
        model.add([record], overdue=False)
    model.log.renumber(np.arange(KEYS) + 3)
    model.records = [r._replace(code=r.code + 3) for r in model.records]
    held = model.log.values_of(0)
    assert held is not None
    numbers = Values((held.columns[0] + 1,), held.valid, held.count, held.kinds)
    model.log.replace(0, numbers)
    model.records = [r._replace(value=None if r.value is None else r.value + 1) for r in model.records]
    model.check()
    twin = made((0,))
    twin.load(model.log.whole())
    assert model.read(twin.whole()) == model.read(model.log.whole())


class Counting(RecordLog):
    """A log that counts how many records it puts in order."""

    sorted = 0

    def in_order(self, chunk: Chunk) -> Chunk:
        """Count."""
        self.sorted += len(chunk)
        return super().in_order(chunk)


@pytest.mark.parametrize("first", [0, 20_000])
def test_records_one_by_one_are_merged_seldom(first: int) -> None:
    """A record costs as many merges as there are sizes of chunks, not as many as there are records."""
    log, count = Counting((0,)), 4_000
    value = Values((np.zeros(1, np.int64),), None, 1, ("i8",))
    if first:
        many = Values((np.zeros(first, np.int64),), None, first, ("i8",))
        log.add(Stretch(np.arange(first), np.zeros(1, np.int64), 1, {0: many}, False, 0, 0), None)
    log.sorted = 0
    rng = np.random.default_rng(5)
    for t in rng.integers(0, 50_000, count):
        log.add(Stretch(np.array([t]), np.zeros(1, np.int64), 1, {0: value}, False, 0, 0), None)
        log.settle()
        assert len(log.chunks) <= 3 * (1 + math.log(len(log), 4))
    assert len(log) == first + count
    assert log.sorted <= count * (1 + math.ceil(math.log(count, 4)))


def test_records_that_leave_in_turn_are_seldom_copied() -> None:
    """Where the watermark follows the records, those that still wait are not copied for each that leaves."""
    log, width = WaitingRecords((0,)), 4_096
    value = Values((np.zeros(width, np.int64),), None, width, ("i8",))
    log.add(Stretch(np.arange(width), np.zeros(1, np.int64), 1, {0: value}, False, 0, 0), None)
    (chunk,) = log.chunks
    copies = 0
    for t in range(width):
        log.drop(t, equal=True)
        if log.chunks and not np.shares_memory(chunk.times, log.chunks[0].times):
            (chunk,), copies = log.chunks, copies + 1
    assert not len(log)
    assert copies <= math.log2(width)
    assert log.nbytes == 0


@pytest.mark.parametrize("window", [mt.count_tumbling(2), mt.state_window("v"), mt.rolling(2)])
def test_records_above_the_watermark_wait_unread(window: mt.Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that brings records which must wait reads none that wait already."""
    operator = mt.WindowOperator(window.agg(n=mt.count()), time="t", watermark="manual")
    operator.process({"t": [5], "v": [1]})
    operator.advance(3)
    with monkeypatch.context() as patched:
        patched.setattr(WaitingRecords, "until", None)
        for t in (9, 4, 7, 6):
            assert operator.process({"t": [t], "v": [1]}).num_rows == 0
    got = operator.finish().to_pylist()
    want = mt.aggregate({"t": [4, 5, 6, 7, 9], "v": [1] * 5}, window.agg(n=mt.count()), time="t").to_pylist()
    assert [(row["window_start"], row["n"]) for row in got] == [
        (row["window_start"], row["n"]) for row in want
    ]
