"""Windows that look back, and so begin in hindsight: rolling, last_span, last_n, policies."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import machines
from muntin.slicing.edges import NEVER
from muntin.slicing.fields import Values, frozen
from muntin.slicing.listers import (
    FAR,
    Batch,
    Columns,
    Fill,
    Flags,
    Found,
    Lister,
    numbered,
    passed,
    room,
)
from muntin.slicing.store import Ordered
from muntin.windows.policies import EVICTIONS

Places = NDArray[np.int64]


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
            machines.run("equal_times", batch.times, batch.codes, batch.bounds, *told)
        code, at, times = batch.each_code(), batch.positions(), batch.times
        if rule.every > 1:
            chosen = (at + 1) % rule.every == 0
            code, at, times = code[chosen], at[chosen], times[chosen]
        if not len(at):
            return None
        if not rule.rolling:
            numbers = (at + 1) // rule.every - 1
        if rule.rows is not None:
            return Found(code, np.maximum(at + 1 - rule.rows, 0), at + 1, numbers)
        begin = self._begins(code, at, times - rule.length, ordered)
        return Found(code, begin, at + 1, numbers, times - rule.length, times)

    @staticmethod
    def _begins(code: Places, at: Places, before: Places, ordered: Ordered) -> Places:
        """Return the first position of a key with a time past another, for records at some positions."""
        low, high, place = (np.empty(len(at), np.int64) for _ in range(3))
        machines.run("locate", ordered.code, ordered.start, code, np.full(len(at), NEVER), low)
        machines.run("locate", ordered.code, ordered.start, code, at, high)
        machines.run("first_not_before", ordered.first, low, high, before + 1, place)
        begins: Places = ordered.start[place]
        return begins

    def rest(self, seen: Places) -> Found | None:
        """Return nothing: each window ends with its record."""
        del seen
        return None

    def remembers(self, seen: Places, reach: float) -> NDArray[np.bool_]:
        """Return the keys that a record of the same time may still come for; by position, all."""
        had: NDArray[np.bool_] = seen > 0
        return had & (self.keyed["last"] >= reach) if self.rule.rolling else had

    def needed(self, seen: Places, reach: float, ordered: Ordered) -> Places | None:
        """Return the last records, by number or by time."""
        if self.rule.rows is not None:
            return np.asarray(seen - self.rule.rows + 1)
        needed = np.full(len(seen), FAR)
        late = np.flatnonzero(ordered.first > reach - self.rule.length)[::-1]
        needed[ordered.code[late]] = ordered.start[late]  # the first one of a key is written last
        return needed


class PolicyLister(Lister):
    """At each record that triggers, what eviction has left."""

    only_settled = True
    fills: ClassVar[dict[str, Fill]] = {"number": ("i8", 0)}
    open_columns: ClassVar[tuple[str, ...]] = ("code", "position", "time", "value")  # of records held

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
        count = machines.run(
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

    def rest(self, seen: Places) -> Found | None:
        """Return nothing: what is held at the end has not triggered."""
        del seen
        return None

    def needed(self, seen: Places, reach: float, ordered: Ordered) -> Places | None:
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
        count = machines.run("step_ends", batch.times, self.rule.every, *told)
        return self._found(*(out[row, :count].copy() for row in (0, 2, 3))) if count else None

    def _found(self, code: Places, end: Places, stop: Places) -> Found:
        return Found(code, np.maximum(end - self.rule.n, 0), end, None, None, stop)

    def pass_time(self, bound: float, seen: Places) -> Found | None:
        """Return the windows of steps that have ended."""
        return passed(self, bound, seen, self._found)

    def rest(self, seen: Places) -> Found | None:
        """Return nothing: the end of time ends all steps."""
        del seen
        return None

    def needed(self, seen: Places, reach: float, ordered: Ordered) -> Places | None:
        """Return the last n positions."""
        del reach, ordered
        return np.asarray(seen - self.rule.n)
