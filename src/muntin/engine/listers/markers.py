"""Windows that several of a key may be open of, first in, first out: punctuation, landmarks, measures."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Flags, Indices, Times, frozen
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers import lister_loops
from muntin.engine.listers.base import (
    FAR,
    FLAG,
    Batch,
    Fill,
    Found,
    Lister,
    Signal,
    Types,
    numbered,
    passed,
    room,
)
from muntin.engine.rows import NEVER
from muntin.engine.store.ordered import Ordered
from muntin.windows.grid import end


class QueueLister(Lister):
    """Keeps open windows by key, in the order in which they began."""

    open_columns: ClassVar[tuple[str, ...]] = ("code", "begin")
    open_by: ClassVar[str | None] = "begin"
    fills: ClassVar[dict[str, Fill]] = {"number": ("i8", 0)}

    def queue(self, batch: Batch, run: Indices, at: Indices, **more: Indices) -> tuple[Indices, Indices]:
        """Put windows that begin with records into the queue; return the run of each, and where to look.

        A window that began earlier may end from the first record of its key on; its run is -1 if there is
        none. `more` are further columns of new windows.
        """
        new = {"code": batch.codes[run], "begin": at + batch.base[run], **more}
        old_run = batch.run_of(self.opened["code"])
        order = np.argsort(np.concatenate([self.opened["code"], new["code"]]), kind="stable")
        self.opened = {name: np.concatenate([held, new[name]])[order] for name, held in self.opened.items()}
        looks = np.concatenate([batch.bounds[old_run], at + 1])[order]
        return np.concatenate([old_run, run])[order], looks

    def leave(self, which: NDArray[np.bool_]) -> dict[str, Indices]:
        """Take windows out of the queue."""
        gone = {name: held[which] for name, held in self.opened.items()}
        self.overwrite(self.keyed["number"], gone["code"])  # they are numbered next
        self.opened = {name: held[~which] for name, held in self.opened.items()}
        return gone

    def rest(self, seen: Indices) -> Found | None:
        """Return all that are open."""
        gone = self.leave(np.ones(len(self.opened["code"]), bool))
        return self.found(gone, seen[gone["code"]]) if len(gone["code"]) else None

    def found(self, gone: dict[str, Indices], ends: Times) -> Found:
        """Return windows that have left the queue."""
        return Found(gone["code"], gone["begin"], ends, numbered(gone["code"], self.keyed["number"]))

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return the keys that have a window open, or had one."""
        del seen, reach
        remembered: NDArray[np.bool_] = self.keyed["number"] > 0
        remembered[self.opened["code"]] = True
        return remembered

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return where the oldest open window of each key begins."""
        del reach, ordered
        needed = np.full(len(seen), FAR)
        code, begin = self.opened["code"][::-1], self.opened["begin"][::-1]
        needed[code] = begin  # the oldest one of a key is written last
        return needed


def run_at(batch: Batch, at: Indices) -> Indices:
    """Return the run of records at some places."""
    if len(batch.codes) == 1:
        return np.zeros(len(at), np.int64)
    return np.searchsorted(batch.bounds, at, side="right") - 1


class PunctuationLister(QueueLister):
    """From records where one flag is set to the next where the other is."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Both flags."""
        return (FLAG, FLAG)

    def read(self, columns: Columns, count: int) -> Values:
        """Return both flags."""
        ends = self.rule.end if hasattr(self.rule, "end") else self.rule.until
        return Values((columns.flags(self.rule.when), columns.flags(ends)), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        opening, closing = batch.values[self.signal].columns
        opens, closes = np.flatnonzero(opening.view(bool)), np.flatnonzero(closing.view(bool))
        marks[opens] = 1
        marks[closes] = 1
        run, looks = self.queue(batch, run_at(batch, opens), opens)
        if not len(closes):
            return None
        next_close = np.searchsorted(closes, looks)
        at = closes[np.minimum(next_close, len(closes) - 1)]
        ended = (run >= 0) & (next_close < len(closes)) & (at < batch.bounds[run + 1])
        if not ended.any():
            return None
        return self.found(self.leave(ended), (at + batch.base[run])[ended])


class LengthLister(QueueLister):
    """From a landmark on, for so long."""

    open_columns: ClassVar[tuple[str, ...]] = ("code", "begin", "due")

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Where landmarks are."""
        return (FLAG,)

    def read(self, columns: Columns, count: int) -> Values:
        """Return where landmarks are."""
        return Values((columns.flags(self.rule.when),), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        (flags,) = batch.values[self.signal].columns
        opens = np.flatnonzero(flags.view(bool))
        marks[opens] = 1
        due = batch.times[opens] + self.rule.length
        run, looks = self.queue(batch, run_at(batch, opens), opens, due=due)
        return self._ended(batch, marks, run, looks)

    def _ended(self, batch: Batch, marks: Flags, run: Indices, looks: Indices) -> Found | None:
        stops, at = batch.bounds[run + 1], np.empty(len(run), np.int64)
        lister_loops.run("first_not_before", batch.times, looks, stops, self.opened["due"], at)
        ended = (run >= 0) & (at < stops)
        if not ended.any():
            return None
        marks[at[ended]] = 1
        return self.found(self.leave(ended), (at + batch.base[run])[ended])

    def found(self, gone: dict[str, Indices], ends: Times) -> Found:
        """Return windows that have left the queue."""
        number = numbered(gone["code"], self.keyed["number"])
        return Found(gone["code"], gone["begin"], ends, number, None, gone["due"])

    def pass_time(self, bound: float, seen: Indices) -> Found | None:
        """Return windows whose time is over."""
        over = self.opened["due"] <= bound
        if not over.any():
            return None
        gone = self.leave(over)
        return self.found(gone, seen[gone["code"]])


class GrowingLister(Lister):
    """From the last landmark to each end of a step with records."""

    fills: ClassVar[dict[str, Fill]] = {
        "begin": ("i8", -1),
        "landmark": ("i8", 0),
        "step": ("i8", NEVER),
    }

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Landmarks and what ends them as one number."""
        return (Signal("u1", high=3),)

    def read(self, columns: Columns, count: int) -> Values:
        """Return landmarks and what ends them as one number."""
        flags = columns.flags(self.rule.when)
        if self.rule.until is not None:
            flags = flags | columns.flags(self.rule.until) * np.uint8(2)
        return Values((frozen(flags),), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        (flags,) = batch.values[self.signal].columns
        out, keyed = room(batch), self.keyed
        length = -1 if self.rule.length is None else self.rule.length
        told = (batch.codes, batch.bounds, batch.base, keyed["begin"], keyed["landmark"], keyed["step"])
        count = lister_loops.run("stretches", flags, batch.times, self.rule.every, length, *told, marks, out)
        if not count:
            return None
        code, begin, last, stop = out[:, :count].copy()
        return Found(code, begin, last, None, None, stop)

    def pass_time(self, bound: float, seen: Indices) -> Found | None:
        """Return the windows of steps that have ended."""
        return passed(self, bound, seen, self._passed)

    def _passed(self, code: Codes, last: Times, stop: Times) -> Found | None:
        begin = self.keyed["begin"][code]
        held = begin >= 0
        if self.rule.length is not None:
            held &= stop <= self.keyed["landmark"][code] + self.rule.length
        return Found(code, begin, last, None, None, stop).take(held)

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: the end of time ends all steps."""
        del seen
        return None

    def _open(self, reach: float) -> NDArray[np.bool_]:
        """Return the keys whose last landmark may have windows to come."""
        held: NDArray[np.bool_] = self.keyed["begin"] >= 0
        if self.rule.length is not None:
            held &= self.keyed["landmark"] + self.rule.length >= reach
        return held

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return the keys that have a landmark, or a step that has not ended."""
        del seen
        return self._open(reach) | (self.keyed["step"] > NEVER)

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the last landmark of each key, while windows from there on may come."""
        del seen, ordered
        return np.where(self._open(reach), self.keyed["begin"], FAR)


class MeasureLister(QueueLister):
    """Windows on a grid over another measure."""

    open_columns: ClassVar[tuple[str, ...]] = ("code", "begin", "window")
    open_by = "window"
    fills: ClassVar[dict[str, Fill]] = {
        "number": ("i8", 0),
        "highest": ("i8", -(2**63)),  # the last window that has begun
        "first": ("f8", np.nan),
        "last": ("f8", -np.inf),
        "last_whole": ("i8", -(2**63)),
    }

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The measure as whole numbers, and as it is."""
        return (Signal("i8", high=FAR), Signal("f8"))

    def read(self, columns: Columns, count: int) -> Values:
        """Return the measure as whole numbers, rounded down, and as it is."""
        name = self.rule.measure
        array = columns[name]
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"the measure {name!r} is null in row {row}; every record needs one.")
        data = array.to_numpy(zero_copy_only=False)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            row = int(np.flatnonzero(~np.isfinite(data))[0])
            raise ValueError(f"the measure {name!r} is {data[row]} in row {row}; it must be finite.")
        if len(data) and (data.max() >= FAR or data.min() <= -FAR):
            raise ValueError(f"the measure {name!r} holds a value that is 2^62 or more from zero.")
        whole = np.floor(data).astype(np.int64) if data.dtype.kind == "f" else data.astype(np.int64)
        return Values((whole, data.astype(np.float64)), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        grid = self.rule.grid
        whole, exact = batch.values[self.signal].columns
        self._check(batch, whole, exact)
        begins, runs = batch.bounds[:-1], batch.codes
        highest = grid.high(whole)
        before = np.empty(len(whole), np.int64)
        before[1:] = highest[:-1]
        before[begins] = self.keyed["highest"][runs]
        lowest = np.maximum(grid.low(whole), before + 1)
        self.keyed["highest"][runs] = highest[batch.bounds[1:] - 1]
        counts = np.maximum(highest - lowest + 1, 0)
        opens = np.flatnonzero(counts)
        counts = counts[opens]
        marks[opens] = 1
        at = np.repeat(opens, counts)
        k = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + lowest[at]
        run, looks = self.queue(batch, run_at(batch, at), at, window=k)
        stops, places = batch.bounds[run + 1], np.empty(len(run), np.int64)
        lister_loops.run("first_not_before", whole, looks, stops, end(grid, self.opened["window"]), places)
        ended = (run >= 0) & (places < stops)
        if not ended.any():
            return None
        marks[places[ended]] = 1
        return self.found(self.leave(ended), (places + batch.base[run])[ended])

    def wrong(self, seen: Indices, types: Types) -> str | None:
        """Return what of its state cannot be: each window is begun once."""
        code, window = self.opened["code"], self.opened["window"]
        if (window > self.keyed["highest"][code]).any():
            return "a window that has not begun"
        return super().wrong(seen, types)

    def _check(self, batch: Batch, whole: Indices, exact: NDArray[np.float64]) -> None:
        """Refuse a measure that goes back."""
        begins, codes = batch.bounds[:-1], batch.codes
        back = np.zeros(len(whole), bool)
        back[1:] = (whole[1:] < whole[:-1]) | (exact[1:] < exact[:-1])
        back[begins] = (whole[begins] < self.keyed["last_whole"][codes]) | (
            exact[begins] < self.keyed["last"][codes]
        )
        if back.any():
            i = int(np.flatnonzero(back)[0])
            raise ValueError(
                f"the measure {self.rule.measure!r} goes back to {exact[i]:g} in the record of time "
                f"{int(batch.times[i])}; within a key it must never fall from a record to the next."
            )
        first = self.keyed["first"]
        unseen = np.isnan(first[codes])
        first[codes[unseen]] = exact[begins[unseen]]
        lasts = batch.bounds[1:] - 1
        self.keyed["last"][codes], self.keyed["last_whole"][codes] = exact[lasts], whole[lasts]

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return all keys: their measures may not go back."""
        del reach
        return seen > 0

    def found(self, gone: dict[str, Indices], ends: Times) -> Found:
        """Return windows that have left the queue, without those that may have begun before the query."""
        grid = self.rule.grid
        bounds = (grid.start(gone["window"]), end(grid, gone["window"]))
        windows = Found(gone["code"], gone["begin"], ends, None, None, None, bounds)
        return windows.take(bounds[0] > self.keyed["first"][gone["code"]]) if self.late else windows
