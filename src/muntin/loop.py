"""The loop: an operator over a source of batches or records, with its rows as they come."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.engine.ingest.inputs import is_record
from muntin.engine.ingest.times import NANOSECONDS
from muntin.files import write_whole
from muntin.reading import Ahead, Interrupts
from muntin.windows.durations import Duration

if TYPE_CHECKING:
    from muntin.operator import WindowOperator

_MOST = 100_000  # records that are gathered for one call, however fast they come
_NOTHING = object()


class Stream:
    """The rows of a source, for `for` or, where the source is asynchronous, `async for`; read once."""

    def __init__(self, run: Run) -> None:
        self._run: Run | None = run

    def _begin(self, asynchronous: bool) -> Run:
        run = self._run
        if run is None:
            raise RuntimeError("a stream is read once: call stream() again for another.")
        if run.asynchronous != asynchronous:
            word = "async for" if run.asynchronous else "for"
            kind = "asynchronous" if run.asynchronous else "not asynchronous"
            raise TypeError(f"the source is {kind}: write `{word} rows in op.stream(...)`.")
        self._run = None  # what runs is let go with the loop that reads it
        return run

    def __iter__(self) -> Iterator[Any]:
        return _rows(self._begin(asynchronous=False))

    def __aiter__(self) -> AsyncIterator[Any]:
        return _rows_async(self._begin(asynchronous=True))


class Run:
    """A source on its way through an operator: what is processed when, and what is saved."""

    def __init__(
        self,
        operator: WindowOperator,
        source: Any,
        *,
        batch: Any,
        idle: Any,
        on_late: Callable[[pa.Table], Any] | None,
        checkpoint: Any,
        every: Any,
        delay: Duration | None,
        resume: Callable[[bytes], None],
    ) -> None:
        size = Duration.of(batch, "batch")
        self.most = _MOST if size.integer is None else size.integer
        self.span = math.inf if size.nanoseconds is None else size.nanoseconds / 1e9
        self.idle = None if idle is None else _seconds(idle, "idle")
        self._every, self._delay = _seconds(every, "every"), delay
        self._operator, self._on_late = operator, on_late
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._resume, self._source = resume, source
        self.asynchronous = hasattr(source, "__aiter__") or inspect.isasyncgenfunction(source)
        if not (self.asynchronous or isinstance(source, Iterable) or callable(source)):
            raise TypeError(
                "a source is an iterable of batches or records, an asynchronous one, or a function that "
                f"returns one, not {type(source).__name__}."
            )
        self.interrupts = Interrupts()
        self._ahead: Ahead | None = None
        self._closed = False
        self.error: BaseException | None = None  # of the source
        self._heard = self._saved = time.monotonic()

    def begin(self) -> Any:
        """Go on where the checkpoint was taken, if there is one; return what to read."""
        if self._checkpoint is not None and self._checkpoint.exists():
            self._resume(self._checkpoint.read_bytes())
        self.interrupts.begin()
        self._heard = self._saved = time.monotonic()
        if callable(self._source) and not isinstance(self._source, (Iterable, AsyncIterable)):
            return self._source(self._operator.metrics.records_in)
        return self._source

    def close(self) -> None:
        """Read no more; a loop that waits for rows ends."""
        self._closed = True
        self.interrupts.end()
        if self._ahead is not None:
            self._ahead.close()

    @property
    def stopped(self) -> bool:
        """Whether reading is over before the source is."""
        return self._closed or self.interrupts.pressed

    def due_at_first(self) -> float:
        """Return when the first batch is due: with the first record, unless batches are counted."""
        return 0.0 if self.span < math.inf else math.inf

    def hear(self) -> None:
        """Note that something came."""
        self._heard = time.monotonic()

    @property
    def silence(self) -> float:
        """For how many seconds nothing has come."""
        return time.monotonic() - self._heard

    # ---- reading ----

    def batches(self, source: Iterable[Any]) -> Iterator[list[Any]]:
        """Return what is to be processed, when it is to be; an empty list where nothing came for a while."""
        if self.idle is not None:  # someone must look at the clock while the source is silent
            self._ahead = Ahead(source, min(self.idle, self.span), self.most, self.is_record)
            source = self._ahead
        items, held = iter(source), list[Any]()
        more, due = True, self.due_at_first()
        while more and not self.stopped:
            waited = len(held)
            more = self._gather(items, held, due)
            quiet = bool(held) and held[-1] is None
            if quiet:
                held.pop()
            if len(held) > waited:
                self.hear()
            if held and (not quiet or time.monotonic() >= due or self.silence >= (self.idle or 0.0)):
                yield held  # before silence lets time pass them by
                held, due = [], time.monotonic() + self.span
            elif quiet and not held:
                yield []
        if self._ahead is not None and not self._closed:
            held += [item for item in self._ahead.left() if item is not None]
        if held:
            yield held

    def _gather(self, items: Iterator[Any], held: list[Any], due: float) -> bool:
        """Read until a batch is due, or nothing came (None); tell whether there may be more."""
        append, clock = held.append, time.monotonic
        with self.interrupts.reading():
            try:
                if not held:
                    first = next(items, _NOTHING)
                    if first is _NOTHING:
                        return False
                    append(first)
                    if not self.is_record(first) or clock() >= due or self.most == 1:
                        return True
                for item in itertools.islice(items, self.most - len(held)):
                    append(item)
                    if item.__class__ is not dict or clock() >= due:
                        return True
                return len(held) >= self.most
            except KeyboardInterrupt:
                self.interrupts.pressed = True
            except Exception as error:
                self.error = error
        return False

    def is_record(self, item: Any) -> bool:
        """Tell whether an item is one record, which waits for others to be processed with."""
        return item.__class__ is dict and is_record(item, self._operator.time)

    # ---- processing ----

    def rows(self, items: list[Any]) -> Iterator[Any]:
        """Process what was read, neighbouring records together; return the rows, where there are some."""
        at = 0
        while at < len(items):
            end = at + 1
            if self.is_record(items[at]):
                end = next((k for k in range(end, len(items)) if items[k].__class__ is not dict), len(items))
            alone = end == at + 1
            rows = self._operator.process(items[at] if alone else items[at:end])
            at = end
            if self._on_late is not None:
                late = self._operator.take_late()
                if late.num_rows:
                    self._on_late(late)
            if len(rows):
                yield rows
        if not items:
            yield from self._silence()

    def _silence(self) -> Iterator[Any]:
        """Let time go on without records once none came for a while."""
        operator, newest = self._operator, self._operator.newest
        silence = self.silence
        if self.idle is None or newest is None or silence < self.idle:
            return
        if operator.time is None:
            rows = operator.advance()
        else:
            watermark = _later(newest, silence, self._delay)
            if not _is_after(watermark, operator.watermark):
                return
            rows = operator.advance(watermark)
        if len(rows):
            yield rows

    def save(self, *, now: bool = False) -> None:
        """Write a checkpoint, if it is time to; the rows so far are with whoever reads them."""
        if self._checkpoint is None or not (now or time.monotonic() - self._saved >= self._every):
            return
        blob = self._operator.snapshot()
        write_whole(self._checkpoint, lambda file: file.write(blob))
        self._saved = time.monotonic()

    def last_rows(self) -> Iterator[Any]:
        """End: with the open windows if the source came to its end, else with what broke it off."""
        if self._closed:
            return
        self.save(now=True)
        if self.error is not None:
            raise self.error
        if not self.stopped:
            rows = self._operator.finish()
            if len(rows):
                yield rows


def _rows(run: Run) -> Iterator[Any]:
    try:
        for items in run.batches(run.begin()):
            yield from run.rows(items)
            run.save()
        yield from run.last_rows()
    finally:
        run.close()


async def _rows_async(run: Run) -> AsyncIterator[Any]:
    reader: asyncio.Task[None] | None = None
    try:
        wire = _Wire(run)
        reader = asyncio.ensure_future(wire.read(run.begin()))
        async for items in wire.batches():
            for rows in run.rows(items):
                yield rows
            run.save()
        for rows in run.last_rows():
            yield rows
    finally:
        run.close()
        if reader is not None:
            reader.cancel()


class _Wire:
    """What an asynchronous source has given and is not processed yet; no more than one batch of it."""

    def __init__(self, run: Run) -> None:
        self._run, self._items, self._ended = run, deque[Any](), False
        self._some, self._full, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        run.interrupts.wake = lambda: loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._some.set()
        self._full.set()

    async def read(self, source: Any) -> None:
        """Read; wait where a batch is full."""
        most: float = math.inf  # until the first item tells
        try:
            async for item in source:
                if item is not None and most == math.inf:
                    most = self._run.most if self._run.is_record(item) else 1
                self._items.append(item)
                self._some.set()
                if self._run.stopped:
                    return
                if item.__class__ is not dict or len(self._items) >= most:
                    self._room.clear()
                    self._full.set()
                    await self._room.wait()
        except Exception as error:
            self._run.error = error
        finally:
            self._ended = True
            self._wake()

    async def batches(self) -> AsyncIterator[list[Any]]:
        """Return what is to be processed, when it is to be; an empty list where nothing came for a while."""
        due = self._run.due_at_first()
        while not (self._ended or self._run.stopped):
            await _within(self._some, self._run.idle)
            if self._items:
                wait = min(due - time.monotonic(), math.inf if self._run.idle is None else self._run.idle)
                await _within(self._full, None if wait == math.inf else wait)
            yield self._taken()
            due = time.monotonic() + self._run.span
        while self._items:  # also what came while the last ones were dealt with
            yield self._taken()

    def _taken(self) -> list[Any]:
        items = [item for item in self._items if item is not None]
        self._items.clear()
        self._some.clear()
        self._full.clear()
        if self._ended:
            self._wake()
        if not self._run.stopped:
            self._room.set()
        if items:
            self._run.hear()
        return items


async def _within(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, or as long as that; None: however long it takes."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _seconds(value: Any, what: str) -> float:
    duration = Duration.of(value, what)
    if duration.nanoseconds is None:
        raise TypeError(f"{what} is a duration such as '30s', not {value!r}.")
    return duration.nanoseconds / 1e9


def _later(newest: Any, silence: float, delay: Duration | None) -> Any:
    """Return the watermark after a silence: the newest time, and on with the clock where times are stamps."""
    if isinstance(newest, int):
        return newest
    waits = 0 if delay is None else delay.nanoseconds or 0
    nanoseconds = newest.value * NANOSECONDS[newest.type.unit] + max(0, int(silence * 1e9) - waits)
    return pa.scalar(nanoseconds // NANOSECONDS[newest.type.unit], newest.type)


def _is_after(watermark: Any, before: Any) -> bool:
    if before is None:
        return True
    return bool(watermark > before) if isinstance(watermark, int) else watermark.value > before.value
