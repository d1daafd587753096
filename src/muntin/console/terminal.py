"""What a program does with its terminal: Ctrl-C as an event, and the errors of others out of the way."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any


@contextlib.contextmanager
def interruption() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event: work stops between two steps. The second ends it at once."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(*_: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def errors_into(log: IO[bytes]) -> Iterator[None]:
    """Let what is started within, which is Java, write its errors into a file instead of the terminal."""
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
