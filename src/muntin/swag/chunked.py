"""A deque of chunks with pointers into it: no operation ever copies or walks the window.

Chunks are linked both ways. Pointers can be read, written, compared, moved by one and put onto each
other, each in constant time (Definition 4 of the DABA paper). A pointer's position `at` is absolute, so
that comparing two is comparing integers: a round of DABA Lite in Python is mostly that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

CHUNK: Final = 64  # cells; a chunk is a list of them, and behind them its neighbours
MASK: Final = CHUNK - 1
_NEWER: Final = CHUNK
_OLDER: Final = CHUNK + 1
_EMPTY: Final = object()


def _new_chunk(older: list[Any] | None) -> list[Any]:
    return [_EMPTY] * CHUNK + [None, older]


class Pointer:
    """A place in the deque; `value` is what lies there."""

    __slots__ = ("at", "chunk")

    def __init__(self, chunk: list[Any], at: int) -> None:
        self.chunk = chunk
        self.at = at

    @property
    def value(self) -> Any:
        """What the cell holds."""
        return self.chunk[self.at & MASK]

    @value.setter
    def value(self, value: Any) -> None:
        self.chunk[self.at & MASK] = value

    def put(self, other: Pointer) -> None:
        """Move onto another pointer's place."""
        self.chunk = other.chunk
        self.at = other.at

    def copy(self) -> Pointer:
        """Return another pointer to this place."""
        return Pointer(self.chunk, self.at)

    def forward(self) -> None:
        """Move one cell towards the newer end."""
        self.at += 1
        if not self.at & MASK:
            self.chunk = self.chunk[_NEWER]

    def back(self) -> None:
        """Move one cell towards the older end."""
        if not self.at & MASK:
            self.chunk = self.chunk[_OLDER]
        self.at -= 1


class ChunkedDeque:
    """Cells from `start` up to `end`, which is one past the newest."""

    __slots__ = ("end", "start")

    def __init__(self) -> None:
        chunk = _new_chunk(None)
        self.start = Pointer(chunk, 0)
        self.end = Pointer(chunk, 0)

    def __len__(self) -> int:
        return self.end.at - self.start.at

    def push_back(self, value: Any) -> None:
        """Add a cell at the newer end."""
        end = self.end
        end.chunk[end.at & MASK] = value
        end.at += 1
        if not end.at & MASK:  # the end is always a real place
            chunk = _new_chunk(end.chunk)
            end.chunk[_NEWER] = chunk
            end.chunk = chunk

    def pop_front(self) -> None:
        """Drop the oldest cell."""
        start = self.start
        start.chunk[start.at & MASK] = _EMPTY
        start.at += 1
        if not start.at & MASK:
            start.chunk = start.chunk[_NEWER]
            start.chunk[_OLDER] = None

    def cells(self, begin: Pointer, end: Pointer) -> Iterator[Any]:
        """Return the values from one pointer up to another."""
        at = begin.copy()
        while at.at != end.at:
            yield at.value
            at.forward()

    def occupied(self) -> int:
        """Count the cells that hold something, by looking at all chunks."""
        count, chunk = 0, self.start.chunk
        while chunk is not None:
            count += sum(cell is not _EMPTY for cell in chunk[:CHUNK])
            chunk = chunk[_NEWER]
        return count
