"""The tap: what an operator's calls leave behind for whoever watches, at the cost of a few steps a call.

Its methods for the engine run in the thread that calls the operator, and wait for nobody: rows are handed
over as they are (Arrow tables do not change), numbers are looked at twice a second. What needs the operator
itself, as a look-up does, is done between two of its calls, or by the one who asks if there are none.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.operator import Metrics, QueryMetrics, WindowOperator

T = TypeVar("T")
EVERY = 0.5  # seconds between two looks at the operator
WAITING = 2_000_000  # rows that may wait for the server; more are counted, and not shown
_SAMPLE = 2048  # records whose lateness is looked at, of one batch a look
_CALLS = 1 << 16  # whose duration is remembered until it is read
_PATIENCE = 0.1  # seconds that a question waits for the next call, if calls are shorter
_IDLE = 1.0  # seconds after the last call from which on nobody is expected to call


@dataclass(frozen=True)
class Look:
    """How an operator was found after a call."""

    wall: float  # seconds since 1970
    metrics: Metrics
    queries: Mapping[str, QueryMetrics]  # by name
    watermark: Any
    newest: Any
    calls: int
    busy: int  # nanoseconds in calls so far


@dataclass(frozen=True)
class Sample:
    """Times of a batch's first records as they came, in ticks, and how the operator was found before it."""

    newest: Any
    watermark: Any
    times: NDArray[np.int64]


class Question:
    """Something to be done with the operator, by whoever comes first."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._work, self._claim = work, threading.Lock()

    def do(self) -> None:
        """Answer it, unless somebody else does."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self.answer.set_result(self._work())
        except BaseException as error:
            self.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise  # Ctrl-C is for whoever called the operator


class Tap:
    """Sits beside an operator: `saw` is its watcher."""

    def __init__(self, operator: WindowOperator, time_column: str | None) -> None:
        self.operator = operator
        self.skipped = 0  # rows that were too many to be shown
        self.look: Look | None = None
        self._time_column = time_column
        self._rows: deque[pa.Table] = deque()
        self._put = self._taken = 0  # rows: one counts up here, the other where they are read
        self._durations: deque[int] = deque(maxlen=_CALLS)
        self._samples: deque[Sample] = deque(maxlen=64)
        self._questions: deque[Question] = deque()
        self._calls = self._busy = 0
        self._due = self._last = 0.0
        self._longest = 0  # nanoseconds of the longest call since the last look
        self._sampling = False  # whether the next batch is
        self.example: Any = None  # a record of a batch, as it came

    # ---- in the thread that calls the operator ----

    def saw(self, batch: Any, rows: pa.Table, nanoseconds: int) -> None:
        """Take note of a call."""
        self._calls += 1
        self._busy += nanoseconds
        self._durations.append(nanoseconds)
        if nanoseconds > self._longest:
            self._longest = nanoseconds
        if rows.num_rows:
            if self._put - self._taken < WAITING:
                self._rows.append(rows)
                self._put += rows.num_rows
            else:
                self.skipped += rows.num_rows
        if batch is not None and (self._sampling or self.example is None):
            self.example = _first(batch, 1)
        if self._sampling and batch is not None and self.look is not None:
            times = _sample(batch, self._time_column)
            self._samples.append(Sample(self.look.newest, self.look.watermark, times))
            self._sampling = False
        if self._questions:
            with contextlib.suppress(IndexError):  # another thread may have answered the last one
                self._questions.popleft().do()  # one a call: a batch is not held up for long
        self._last = time.monotonic()
        if self._last >= self._due:
            self.take_look()
            self._sampling, self._longest = True, nanoseconds

    def take_look(self) -> None:
        """Look at the operator's numbers."""
        operator = self.operator
        self.look = Look(
            time.time(),
            operator.metrics,
            operator.query_metrics,
            operator.watermark,
            operator.newest,
            self._calls,
            self._busy,
        )
        self._due = time.monotonic() + EVERY

    # ---- in other threads ----

    def take_rows(self) -> list[pa.Table]:
        """Return the rows that came since the last time."""
        tables = []
        while self._rows:
            tables.append(self._rows.popleft())
        self._taken += sum(table.num_rows for table in tables)
        return tables

    def take_durations(self) -> NDArray[np.int64]:
        """Return how long calls took since the last time, in nanoseconds; of very many, the last ones."""
        found = []
        while self._durations:
            found.append(self._durations.popleft())
        return np.array(found, np.int64)

    def take_samples(self) -> list[Sample]:
        """Return times of records of some batches."""
        found = []
        while self._samples:
            found.append(self._samples.popleft())
        return found

    def up_to_date(self) -> bool:
        """Tell whether no call came since the last look."""
        return self.look is not None and self.look.calls == self._calls

    def ask(self, work: Callable[[], T]) -> T:
        """Do something with the operator between two of its calls, and return what came of it."""
        question = Question(work)
        self._questions.append(question)
        idle = time.monotonic() - self._last > _IDLE + self._longest / 1e9
        try:
            result: T = question.answer.result(0 if idle else max(_PATIENCE, 3 * self._longest / 1e9))
        except concurrent.futures.TimeoutError:
            question.do()  # nobody calls the operator any more
            with contextlib.suppress(ValueError):  # it was taken up just now
                self._questions.remove(question)
            result = question.answer.result()
        return result


def _first(batch: Any, count: int) -> Any:
    """Return the first records of a batch; None of one that is not of a kind that can be cut."""
    if isinstance(batch, (pa.Table, pa.RecordBatch)):
        return batch.slice(0, count)
    if hasattr(batch, "iloc"):
        return batch.iloc[:count]
    try:
        return {name: column[:count] for name, column in batch.items()} if isinstance(batch, dict) else None
    except (TypeError, LookupError):  # the operator takes more than is worth cutting
        return None


def _sample(batch: Any, column: str | None) -> NDArray[np.int64]:
    """Return the first times of a batch, in ticks; none of a batch that is not of a kind that can be cut."""
    some = None if column is None else _first(batch, _SAMPLE)
    try:
        times = None if some is None else some[column]
        if times is None:
            return np.empty(0, np.int64)
        found = times if isinstance(times, (pa.Array, pa.ChunkedArray)) else pa.array(np.asarray(times))
        return np.asarray(found.cast(pa.int64()))
    except (pa.ArrowException, TypeError, ValueError, LookupError):  # not worth more than a sample
        return np.empty(0, np.int64)


def ticks(time_: Any) -> int | None:
    """Return a time of an operator in ticks; None for none and for the end of time.

    >>> ticks(pa.scalar(5, pa.timestamp("s"))), ticks(7), ticks(None), ticks(math.inf)
    (5, 7, None, None)
    """
    if time_ is None or time_ == math.inf:
        return None
    return int(time_.value) if isinstance(time_, pa.Scalar) else int(time_)
