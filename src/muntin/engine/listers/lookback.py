"""Windows that look back, and so begin in hindsight: rolling, last_span, last_n, policies."""

from __future__ import annotations

from typing import Any, ClassVar

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
    numbered,
    passed,
    room,
)
from muntin.engine.rows import NEVER
from muntin.engine.store.ordered import Ordered
from muntin.windows.policies import EVICTIONS


class LookBackLister(Lister):
    """At each record, or each so many: those up to it within a stretch of time, or a number of them."""

    fills: ClassVar[dict[str, Fill]] = {"last": ("i8", NEVER), "ordinal": ("i8", 0)}

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Find nothing yet: windows begin in hindsight."""
        del batch, marks
        return None

    def look_back(self, batch: Batch, ordered: Ordered) -> Found | None:
        """Return the window of each record, or each so many."""
        rule = self.rule
        numbers = np.empty(len(batch), np.int64)
        if rule.rolling:
            told = (self.keyed["last"], self.keyed["ordinal"], numbers)
            lister_loops.run("equal_times", batch.times, batch.codes, batch.bounds, *told)
        code, at, times = batch.each_code(), batch.positions(), batch.times
        if rule.every > 1:
            chosen = (at + 1) % rule.every == 0
            code, at, times = code[chosen], at[chosen], times[chosen]
        if not len(at):
            return None
        if not rule.rolling:
            numbers = (at + 1) // rule.every - 1
        if rule.kept:
            return self._known(code, at, times, numbers, ordered)
        if rule.rows is not None:
            return Found(code, np.maximum(at + 1 - rule.rows, 0), at + 1, numbers)
        begin = self._begins(code, at, times - rule.length, ordered)
        return Found(code, begin, at + 1, numbers, times - rule.length, times)

    def _known(self, code: Codes, at: Indices, times: Times, numbers: Indices, ordered: Ordered) -> Found:
        """Return what is known at records, which may be nothing: an empty window lies at its record."""
        rule = self.rule
        end = (at - numbers if rule.before else at + 1) - rule.back
        if rule.rows is not None:
            begin, start = np.maximum(end - rule.rows, 0), times.copy()
        else:
            start = times - rule.length if rule.since is None else rule.since.start(rule.since.high(times))
            begin = self._begins(code, at, start if rule.since is None else start - 1, ordered)
        empty = begin >= end
        begin, end = np.where(empty, at, begin), np.where(empty, at, end)
        if rule.rows is not None:
            some = np.flatnonzero(~empty)
            place = np.empty(len(some), np.int64)
            lister_loops.run("locate", ordered.code, ordered.start, code[some], begin[some], place)
            start[some] = ordered.first[place]
        return Found(code, begin, end, numbers, start, times)

    @staticmethod
    def _begins(code: Codes, at: Indices, before: Indices, ordered: Ordered) -> Indices:
        """Return the first position of a key with a time past another, for records at some positions."""
        low, high, place = (np.empty(len(at), np.int64) for _ in range(3))
        lister_loops.run("locate", ordered.code, ordered.start, code, np.full(len(at), NEVER), low)
        lister_loops.run("locate", ordered.code, ordered.start, code, at, high)
        lister_loops.run("first_not_before", ordered.first, low, high, before + 1, place)
        begins: Indices = ordered.start[place]
        return begins

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: each window ends with its record."""
        del seen
        return None

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return the keys that a record of the same time may still come for; by position, all."""
        had: NDArray[np.bool_] = seen > 0
        forgetful = self.rule.rolling and not self.rule.kept
        return had & (self.keyed["last"] >= reach) if forgetful else had

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the last records, by number or by time."""
        rule = self.rule
        if rule.rows is not None:
            if not rule.kept:
                return np.asarray(seen - rule.rows + 1)
            equal = self.keyed["ordinal"] + 1 if rule.before else 0  # records of the time of the last one
            return np.asarray(seen - equal - rule.back - rule.rows)
        needed = np.full(len(seen), FAR)
        late = np.flatnonzero(ordered.first > self._past(reach, ordered))[::-1]
        needed[ordered.code[late]] = ordered.start[late]  # the first one of a key is written last
        return needed

    def _past(self, reach: float, ordered: Ordered) -> Any:
        """Return the time after which records may still be looked back to, for all cells or each of them."""
        rule = self.rule
        if not rule.kept or reach <= NEVER:
            return reach - (0 if rule.length is None else rule.length)
        from_time = np.minimum(reach, self.keyed["last"][ordered.code]).astype(np.int64)
        return (
            from_time - rule.length
            if rule.since is None
            else rule.since.start(rule.since.high(from_time)) - 1
        )


class PolicyLister(Lister):
    """At each record that triggers, what eviction has left."""

    only_settled = True
    fills: ClassVar[dict[str, Fill]] = {"number": ("i8", 0)}
    open_columns: ClassVar[tuple[str, ...]] = ("code", "position", "time", "value")  # of records held
    open_by = "position"

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Where records trigger and evict, and what they are compared by."""
        return (FLAG, FLAG, Signal("f8"))

    def read(self, columns: Columns, count: int) -> Values:
        """Return where records trigger and evict, and what they are compared by."""
        trigger, evict = self.rule.trigger, self.rule.evict
        none = frozen(np.zeros(count, np.uint8))
        triggers = columns.flags(trigger.column) if trigger.name == "when" else none
        evictions = columns.flags(evict.column) if evict.name == "when" else none
        values = np.zeros(count)
        if evict.name == "delta":
            usable = columns.usable(evict.column, count).view(bool)
            data = columns.read(evict.column).data
            if data.dtype == np.int64 and len(data) and max(int(data.max()), -int(data.min())) > 2**53:
                raise ValueError(
                    f"{evict!r} compares integers up to 2^53, and {evict.column!r} holds a larger one."
                )
            values = np.where(usable, data, np.nan)
        return Values((triggers, evictions, frozen(values)), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Take records in, and see which trigger."""
        del marks
        triggers, evictions, values = batch.values[self.signal].columns
        held, trigger, evict = self.opened, self.rule.trigger, self.rule.evict
        fresh = {"code": batch.each_code(), "position": batch.positions(), "time": batch.times}
        fresh["value"] = np.ascontiguousarray(values).view(np.int64)  # columns hold 64 bits of any kind
        before = len(held["code"])
        order = np.argsort(np.concatenate([held["code"], fresh["code"]]), kind="stable")
        every = {name: np.concatenate([column, fresh[name]])[order] for name, column in held.items()}
        flags = [np.append(np.zeros(before, np.uint8), f)[order] for f in (triggers, evictions)]
        kept, out = np.zeros(len(order), bool), np.empty((4, len(batch)), np.int64)
        count = lister_loops.run(
            "policy_runs",
            *(every["code"], every["position"], every["time"], every["value"].view(np.float64)),
            *(order >= before, *flags, trigger.amount if trigger.name == "every" else 0),
            *(EVICTIONS.index(evict.name), *self._amounts(), kept, out),
        )
        self.opened = {name: column[kept] for name, column in every.items()}
        if not count:
            return None
        code, begin, end = out[0, :count].copy(), out[1, :count].copy(), out[2, :count].copy()
        return Found(code, begin, end, numbered(code, self.keyed["number"]))

    def _amounts(self) -> tuple[int, float]:
        """Return how many records or ticks are kept, or how far values may lie apart."""
        evict = self.rule.evict
        return (0, float(evict.amount)) if evict.name == "delta" else (int(evict.amount or 0), 0.0)

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: what is held at the end has not triggered."""
        del seen
        return None

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the oldest record that is held."""
        del reach, ordered
        return self.oldest_held(seen)


class LatestLister(Lister):
    """At each step with records, the last n before its end."""

    fills: ClassVar[dict[str, Fill]] = {"step": ("i8", NEVER)}

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Read records."""
        del marks
        out = room(batch)
        told = (batch.codes, batch.bounds, batch.base, self.keyed["step"], out)
        count = lister_loops.run("step_ends", batch.times, self.rule.every, *told)
        return self._found(*(out[row, :count].copy() for row in (0, 2, 3))) if count else None

    def _found(self, code: Codes, end: Times, stop: Times) -> Found:
        return Found(code, np.maximum(end - self.rule.n, 0), end, None, None, stop)

    def pass_time(self, bound: float, seen: Indices) -> Found | None:
        """Return the windows of steps that have ended."""
        return passed(self, bound, seen, self._found)

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: the end of time ends all steps."""
        del seen
        return None

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the last n positions."""
        del reach, ordered
        return np.asarray(seen - self.rule.n)
