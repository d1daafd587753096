"""A deque of chunks with pointers into it: no operation ever copies or walks the window.

Chunks are linked both ways. Pointers can be read, written, compared, moved by one and put onto each
other, each in constant time (Definition 4 of the DABA paper).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

CHUNK: Final = 64
_EMPTY: Final = object()


class Chunk:
    """A stretch of cells, and its neighbours."""

    __slots__ = ("cells", "newer", "older")

    def __init__(self, older: Chunk | None) -> None:
        self.cells: list[Any] = [_EMPTY] * CHUNK
        self.older = older
        self.newer: Chunk | None = None


class Pointer:
    """A place in the deque; `value` is what lies there."""

    __slots__ = ("chunk", "slot")

    def __init__(self, chunk: Chunk, slot: int) -> None:
        self.chunk = chunk
        self.slot = slot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pointer) and self.slot == other.slot and self.chunk is other.chunk

    __hash__ = None  # type: ignore[assignment]  # pointers move

    @property
    def value(self) -> Any:
        """What the cell holds."""
        return self.chunk.cells[self.slot]

    @value.setter
    def value(self, value: Any) -> None:
        self.chunk.cells[self.slot] = value

    def put(self, other: Pointer) -> None:
        """Move onto another pointer's place."""
        self.chunk, self.slot = other.chunk, other.slot

    def copy(self) -> Pointer:
        """Return another pointer to this place."""
        return Pointer(self.chunk, self.slot)

    def forward(self) -> None:
        """Move one cell towards the newer end."""
        self.slot += 1
        if self.slot == CHUNK:
            assert self.chunk.newer is not None, "a pointer went past the end"
            self.chunk, self.slot = self.chunk.newer, 0

    def back(self) -> None:
        """Move one cell towards the older end."""
        self.slot -= 1
        if self.slot < 0:
            assert self.chunk.older is not None, "a pointer went before the start"
            self.chunk, self.slot = self.chunk.older, CHUNK - 1


class ChunkedDeque:
    """Cells from `start` up to `end`, which is one past the newest."""

    __slots__ = ("_length", "end", "start")

    def __init__(self) -> None:
        chunk = Chunk(None)
        self.start = Pointer(chunk, 0)
        self.end = Pointer(chunk, 0)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push_back(self, value: Any) -> None:
        """Add a cell at the newer end."""
        end = self.end
        end.chunk.cells[end.slot] = value
        if end.slot == CHUNK - 1:  # the end is always a real place
            end.chunk.newer = Chunk(end.chunk)
        end.forward()
        self._length += 1

    def pop_front(self) -> None:
        """Drop the oldest cell."""
        start = self.start
        start.value = _EMPTY
        start.forward()
        if start.slot == 0:
            start.chunk.older = None
        self._length -= 1

    def cells(self, begin: Pointer, end: Pointer) -> Iterator[Any]:
        """Return the values from one pointer up to another."""
        at = begin.copy()
        while at != end:
            yield at.value
            at.forward()

    def occupied(self) -> int:
        """Count the cells that hold something, by looking at all chunks."""
        count, chunk = 0, self.start.chunk
        while chunk is not None:
            count += sum(cell is not _EMPTY for cell in chunk.cells)
            chunk = chunk.newer  # type: ignore[assignment]
        return count
