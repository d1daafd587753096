"""Reading a source that may be silent: with a thread of its own, until it ends or Ctrl-C is pressed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Interrupts:
    """Ctrl-C while a stream runs: the first press ends the reading, the second one does what it always does.

    A press breaks off only the waiting for the source. While records are processed, and while whoever reads
    the rows is at work, it is noted. A handler that the user has set is left alone.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.wake: Callable[[], Any] | None = None  # called at a press outside of reading()
        self._reading = False
        self._before: Any = None

    def begin(self) -> None:
        """Listen, where that can be: signals come to the main thread."""
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if _is_usual(handler):
                self._before = handler
                signal.signal(signal.SIGINT, self._press)

    def end(self) -> None:
        """Listen no more."""
        if self._before is not None and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) == self._press:
                signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _press(self, number: int, frame: Any) -> None:
        if self.pressed:
            self._before(number, frame)
            return
        self.pressed = True
        if self._reading:
            raise KeyboardInterrupt
        if self.wake is not None:
            self.wake()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let a press break off what is done here."""
        self._reading = True
        try:
            yield
        finally:
            self._reading = False


def _is_usual(handler: Any) -> bool:
    """Tell whether Ctrl-C does what it does by default: in Python, in asyncio, or in a stream around."""
    owner = getattr(getattr(handler, "func", handler), "__self__", None)
    return handler is signal.default_int_handler or isinstance(owner, (asyncio.Runner, Interrupts))


class Ahead:
    """The items of a source that a thread reads, at most so many ahead; None where none came for a while.

    Records are read ahead up to `most`; a batch is handed over before the next one is read.

    >>> list(Ahead([1, 2, 3], patience=10.0, most=2, is_record=lambda item: True))
    [1, 2, 3]
    """

    def __init__(
        self, source: Iterable[Any], patience: float, most: int, is_record: Callable[[Any], bool]
    ) -> None:
        self._source, self._patience, self._most, self._is_record = source, patience, most, is_record
        self._items: deque[Any] = deque()
        self._some, self._room = threading.Event(), threading.Event()
        self._ended = self._closed = False
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        # As a daemon: a source that is silent for ever must not keep a program from its end.
        threading.Thread(target=self._read, daemon=True, name="muntin-source").start()
        items = self._items
        while True:
            ended = self._ended
            while items:
                yield items.popleft()
            self._room.set()
            if ended:
                break
            self._some.clear()
            if not (items or self._ended or self._some.wait(self._patience)):
                yield None
        if self._error is not None:
            raise self._error

    def left(self) -> Iterator[Any]:
        """Return what was read, and not handed over, by the time that reading ended."""
        self.close()
        while self._items:
            yield self._items.popleft()

    def close(self) -> None:
        """Read no more; a source that is silent is let go when it speaks."""
        self._closed = True
        self._room.set()

    def _read(self) -> None:
        items, some, most = self._items, self._some, 1
        try:
            for number, item in enumerate(self._source):
                if not number and self._is_record(item):
                    most = self._most
                items.append(item)
                if not some.is_set():
                    some.set()
                if item.__class__ is not dict or len(items) >= most:
                    self._room.clear()
                    if items and not self._closed:
                        self._room.wait()
                if self._closed:
                    return
        except BaseException as error:  # for whoever takes the items
            self._error = error
        finally:
            self._ended = True
            some.set()
