"""Listers: which stretches of a key's records are windows, found by reading them in canonical order.

A lister has a state for each key, and goes on from batch to batch. What may still change is read by a copy of
it, again and again, from where the rest is settled.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.columnar import Codes, Flags, Indices, Times
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers import lister_loops
from muntin.engine.rows import NEVER
from muntin.engine.store.ordered import Ordered
from muntin.engine.transaction import Transactional

Types = Mapping[str, pa.DataType]
FAR = 2**62  # past all positions


def runs(code: Codes) -> tuple[Indices, Indices]:
    """Return the keys of records that lie by key, and the bounds of their runs."""
    begins = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    return code[begins], np.append(begins, len(code))


@dataclass(frozen=True)
class Batch:
    """Records by key, in canonical order: those of key codes[r] lie from bounds[r] to bounds[r + 1]."""

    times: Times
    codes: Codes
    bounds: Indices
    base: Indices  # record i of run r has the position i + base[r]
    values: Mapping[int, Values]

    def __len__(self) -> int:
        return len(self.times)

    def each_code(self) -> Indices:
        """Return the key of each record."""
        return np.repeat(self.codes, np.diff(self.bounds))

    def positions(self) -> Indices:
        """Return the position of each record."""
        return np.arange(len(self)) + np.repeat(self.base, np.diff(self.bounds))

    def run_of(self, codes: Codes) -> Indices:
        """Return the run of each of some keys; -1: it has none."""
        at = np.searchsorted(self.codes, codes)
        at[at == len(self.codes)] = 0
        return np.where(self.codes[at] == codes, at, -1) if len(self.codes) else np.full(len(codes), -1)

    def places(self, codes: Codes, positions: Indices) -> Indices:
        """Return where records lie; -1: not here."""
        run = self.run_of(codes)
        at = positions - self.base[run]
        here = (run >= 0) & (at >= self.bounds[run]) & (at < self.bounds[run + 1])
        return np.where(here, at, -1)


@dataclass(frozen=True)
class Found:
    """Windows: stretches of positions, with a number and bounds where records do not tell them."""

    code: Codes
    begin: Indices
    end: Times
    id: Indices | None = None  # None: none has one
    start: Times | None = None  # None: the time of the first record
    stop: Times | None = None  # None: the time of the last record
    measure: tuple[Indices, Indices] | None = None

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Indices | NDArray[np.bool_]) -> Found:
        """Return some of the windows, in this order."""

        def taken(column: Indices | None) -> Indices | None:
            return None if column is None else column[at]

        measure = None if self.measure is None else (self.measure[0][at], self.measure[1][at])
        columns = (self.code[at], self.begin[at], self.end[at])
        return Found(*columns, taken(self.id), taken(self.start), taken(self.stop), measure)


def together(found: list[Found]) -> Found:
    """Return the windows of one query end to end."""
    if len(found) == 1:
        return found[0]

    def joined(columns: list[Any]) -> Any:
        return None if columns[0] is None else np.concatenate(columns)

    names = ("code", "begin", "end", "id", "start", "stop")
    columns: dict[str, Any] = {name: joined([getattr(some, name) for some in found]) for name in names}
    measured = [some.measure for some in found if some.measure is not None]
    if measured:
        columns["measure"] = tuple(np.concatenate(side) for side in zip(*measured, strict=True))
    return Found(**columns)


Fill = tuple[str, Any]  # a type code and what keys begin with


class Signal(NamedTuple):
    """A column that a lister has read of records, as it is kept with them."""

    kind: str | None  # the type code; None: objects, or numbers
    column: str | None = None  # of the stream, whose values it holds
    read: bool = True  # its values are those that fields read, not those that users see
    high: int | None = None  # what numbers are not larger than


FLAG = Signal("u1", high=1)


class Lister(Transactional, ABC):
    """Finds the windows of one query."""

    fills: ClassVar[dict[str, Fill]] = {}  # what is held for each key
    open_columns: ClassVar[tuple[str, ...]] = ()  # what is held for each open window
    open_by: ClassVar[str | None] = None  # the one of them that tells those of a key apart, ascending
    only_settled: ClassVar[bool] = False  # sees records once nothing can come before them

    def __init__(self, rule: Any, number: int, *, late: bool) -> None:
        self.rule = rule
        self.number = number  # of the query
        self.late = late  # the query was added to a stream that ran
        self.keyed: dict[str, NDArray[Any]] = {
            n: np.full(1, fill, kind) for n, (kind, fill) in self.fills.items()
        }
        self.opened: dict[str, Indices] = {name: np.empty(0, np.int64) for name in self.open_columns}

    @property
    def signal(self) -> int:
        """Where records have what this lister reads: a number that no field has."""
        return -1 - self.number

    def read(self, columns: Columns, count: int) -> Values:
        """Return what it reads of a batch's columns, in a form that can be kept with records."""
        del columns
        return Values((), None, count, ())

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The columns of what it reads."""
        return ()

    def wrong(self, seen: Indices, types: Types) -> str | None:
        """Return what of its state cannot be after so many records of each key; None: nothing is known."""
        del types
        begin = self.keyed["begin"][: len(seen)] if "begin" in self.keyed else np.full(len(seen), -1)
        later = (begin >= 0) & (begin >= seen)
        return "a window that begins after all records" if later.any() else None

    def count_open(self) -> None:
        """Find anew what follows from the windows that are open."""

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        for name, (kind, fill) in self.fills.items():
            held = self.keyed[name]
            if keys > len(held):
                grown = np.full(max(keys, 2 * len(held)), fill, kind)
                grown[: len(held)] = held
                self.keyed = {**self.keyed, name: grown}

    def overwrite_keys(self, codes: Codes) -> None:
        """Save what is held for keys whose records are about to be read."""
        for held in self.keyed.values():
            self.overwrite(held, codes)

    def copy(self) -> Lister:
        """Return a lister that goes on by itself."""
        twin = copy.copy(self)
        twin.leave_transaction()
        twin.keyed = {name: held.copy() for name, held in self.keyed.items()}
        twin.opened = dict(self.opened)  # columns are replaced, never written to
        return twin

    @abstractmethod
    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records; return windows that have ended, and mark records before which slices are cut."""

    def look_back(self, batch: Batch, ordered: Ordered) -> Found | None:
        """Return windows that begin in hindsight, given a cell for each record."""
        del batch, ordered
        return None

    def pass_time(self, bound: float, seen: Indices) -> Found | None:
        """Return windows that end by time alone, at the bound or before; `seen` counts a key's records."""
        del bound, seen
        return None

    @abstractmethod
    def rest(self, seen: Indices) -> Found | None:
        """Return the windows that are open when the stream ends."""

    @abstractmethod
    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return for each key the least position that a window to come may hold; None: no limit."""

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return of which keys it must remember something once their slices are gone; `seen` counts records.

        Where nothing else is said, of all: a running number, a position, or what a function keeps.
        """
        del reach
        return seen > 0

    def let_go(self, waiting: Values | None) -> Values | None:
        """Forget what no key needs, nor a record that waits; return what such records have, as it is then."""
        return waiting

    def keep_keys(self, live: Indices) -> None:
        """Keep the state of these keys, which are numbered anew, in this order."""
        self.keyed = {name: held[live] for name, held in self.keyed.items()}
        if "code" in self.opened:
            self.opened = {**self.opened, "code": np.searchsorted(live, self.opened["code"])}

    def oldest_held(self, seen: Indices) -> Indices:
        """Return for each key the position of the oldest record that is held, where records are."""
        oldest = np.full(len(seen), FAR)
        oldest[self.opened["code"][::-1]] = self.opened["position"][::-1]  # the oldest is written last
        return oldest

    def kept(self, name: str) -> NDArray[Any]:
        """Return what is held for each key as a snapshot can keep it."""
        return self.keyed[name]

    def restored(self, name: str, column: NDArray[Any]) -> NDArray[Any]:
        """Return what a snapshot kept as it is held."""
        del name
        return column

    @property
    def nbytes(self) -> int:
        """The bytes of its state."""
        return sum(c.nbytes for c in (*self.keyed.values(), *self.opened.values()))


def numbered(code: Codes, numbers: Indices) -> Indices:
    """Return running numbers of windows by key, going on from `numbers`, which are counted up.

    Windows of a key lie in the order in which they are to be numbered.
    """
    if not len(code):
        return code
    if (code == code[0]).all():
        first = int(numbers[code[0]])
        numbers[code[0]] += len(code)
        return np.arange(first, first + len(code))
    order = np.argsort(code, kind="stable")
    ranked = code[order]
    begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(np.append(begins, len(ranked)))
    rank = np.empty(len(code), np.int64)
    rank[order] = np.arange(len(ranked)) - np.repeat(begins, sizes)
    out: Indices = numbers[code] + rank
    numbers[ranked[begins]] += sizes
    return out


def room(batch: Batch) -> NDArray[np.int64]:
    """Return room for the windows of a batch: no record ends more than one."""
    return np.empty((4, len(batch) + 1), np.int64)


class RunLister(Lister):
    """Windows one after the other: a key has one open, or none."""

    fills: ClassVar[dict[str, Fill]] = {"begin": ("i8", -1), "number": ("i8", 0)}
    least = 1  # shorter windows count for nothing

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        out = room(batch)
        count = self.run(batch, marks, out)
        if not count:
            return None
        code, begin, end = out[0, :count].copy(), out[1, :count].copy(), out[2, :count].copy()
        return Found(code, begin, end, numbered(code, self.keyed["number"]))

    @abstractmethod
    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write key, begin and end of each window that ends."""

    def _columns(self, batch: Batch) -> tuple[NDArray[Any], ...]:
        columns: tuple[NDArray[Any], ...] = batch.values[self.signal].columns
        return columns

    def rest(self, seen: Indices) -> Found | None:
        """Return the open windows."""
        begin = self.keyed["begin"]
        code = np.flatnonzero((begin >= 0) & (seen[: len(begin)] - begin >= self.least))
        if not len(code):
            return None
        self.overwrite_keys(code)
        found = Found(code, begin[code], seen[code].copy(), numbered(code, self.keyed["number"]))
        begin[code] = -1
        return found

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return the keys that have a window open, or had one."""
        del seen, reach
        remembered: NDArray[np.bool_] = (self.keyed["begin"] >= 0) | (self.keyed["number"] > 0)
        return remembered

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return where open windows begin."""
        del seen, reach, ordered
        begin = self.keyed["begin"]
        return np.where(begin >= 0, begin, FAR)


class PartedLister(RunLister):
    """From each record with a flag to the next one: punctuation, landmarks."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The flags."""
        return (FLAG,)

    def read(self, columns: Columns, count: int) -> Values:
        """Return the flags."""
        return Values((columns.flags(self.rule.when),), None, count, ())

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write windows."""
        (flags,) = self._columns(batch)
        told = (batch.codes, batch.bounds, batch.base, self.keyed["begin"], marks, out)
        count: int = lister_loops.run("parted_runs", np.flatnonzero(flags.view(bool)), *told)
        return count


def passed(lister: Lister, bound: float, seen: Indices, make: Any) -> Found | None:
    """Return the windows of steps that have ended at a bound or before; the keys then have none."""
    steps = lister.keyed["step"]
    code = np.flatnonzero((steps <= bound) & (steps > NEVER))
    if not len(code):
        return None
    lister.overwrite(steps, code)
    stop = steps[code]
    steps[code] = NEVER
    found: Found | None = make(code, seen[code].copy(), stop)
    return found
