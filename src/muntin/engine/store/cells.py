"""The aggregate store: a cell of partials per slice and key, in columns.

Cells lie in the order in which they were made: by time, as long as records are in order. Each key's
cells are linked from the latest to ever older ones. No Python object per cell or key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times, distinct, frozen
from muntin.engine import loops, tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import FieldPartials, States
from muntin.engine.store import cell_loops
from muntin.engine.store.folding import Folds
from muntin.engine.store.ordered import Ordered, RecordColumns, search
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional

_COLUMNS = ("code", "start", "first", "last", "rows", "fresh", "older")
_ROOM = 64
NEW, BEHIND = -1, -2  # no cell yet; one before others


class AggregateStore(Transactional):
    """Cells of one family of windows, and the folds over ranges of them."""

    often = ("count", "in_order", "folds", "_columns", "_states", "_latest", "_fresh")

    def __init__(self, fields: Mapping[int, FieldPartials]) -> None:
        self.fields = dict(fields)
        self.count = 0
        self.in_order = True  # no cell was put between others, and none is gone
        self._columns: dict[str, Indices] = {name: np.empty(_ROOM, np.int64) for name in _COLUMNS}
        self._states = {number: partials.allocate(_ROOM) for number, partials in self.fields.items()}
        self._latest = np.full(1, -1, np.int64)
        self._fresh: tuple[Any, ...] | None = ()  # the cells with fresh records; None: any may have some
        self._ordered: Ordered | None = None
        self._gathered: dict[int, States] = {}
        self.folds = Folds(self)

    def column(self, name: str) -> Indices:
        """Return a column of the cells: code, start, first, last, rows or fresh."""
        return self._columns[name][: self.count]

    def states(self, number: int) -> States:
        """Return the partials of a field."""
        return self._states[number][: self.count]

    def rolled_back(self) -> None:
        """Drop what was derived from cells that are no more."""
        self._changed()
        self._fresh = None
        self.folds = self.folds.emptied()
        if not isinstance(self._columns, RecordColumns):
            self._columns["fresh"][: self.count] = 0  # no record is, between two calls

    # ---- update and merge ----

    def add(self, panes: Panes, gap: int | None = None, *, tied: bool = False) -> Indices:
        """Put panes into their cells: by slice, or with a gap into runs.

        Returns the cells where that was not at the end, so that an order of records may be lost; with
        `tied`, equal times count as that, too.
        """
        if gap is None and self.in_order and len(panes):
            older = self._follow(panes)
            if older is not None:
                return self._append(panes, older)
        self._reserve(len(panes), int(panes.code.max()) + 1 if len(panes) else 0)
        at, blank = np.empty(len(panes), np.int64), np.empty(len(panes), bool)
        behind = np.empty(len(panes), bool)
        kept = gone = np.empty(0, np.int64)
        own = [self._columns[name] for name in _COLUMNS[:6]]
        self.overwrite(self._latest, panes.code)
        # Loops write down how the cells were that they change, as they go.
        undo = np.empty((len(panes) if gap is None else self.count + 2 * len(panes), 6), np.int64)
        undone = np.zeros(1, np.int64)
        self.undo_by(_put_cells, self._columns, undo, undone)
        if gap is None:
            outcome = cell_loops.run(
                "find_cells",
                *(panes.code, panes.start, panes.first, panes.last, panes.rows),
                *(self._latest, self._columns["older"], *own, self.count, at, blank, behind, tied),
                *(undo, undone),
            )
            self.count, between = outcome
        else:
            pairs = np.empty((2, self.count + len(panes)), np.int64)
            self.count, merged, between = cell_loops.run(
                "find_runs",
                *(panes.code, panes.first, panes.last, panes.rows, gap),
                *(self._latest, self._columns["older"], *own, self.count, at, blank, behind, tied, *pairs),
                *(undo, undone),
            )
            kept, gone = pairs[0, :merged], pairs[1, :merged]
        self.in_order &= not between and not len(kept)
        self._note_fresh(at, kept)
        changed = np.concatenate([at[~blank], kept])
        for number, partials in self.fields.items():
            self.overwrite(self._states[number], changed)
            partials.merge(self._states[number], at, blank, panes.states[number])
            for into, out_of in zip(kept.tolist(), gone.tolist(), strict=True):
                self._merge_cells(number, partials, into, out_of)
        self._changed()
        if len(kept):
            self.folds.forget()
        elif len(at):
            self.folds.touch(at, panes.code, self._columns["start"][at], self.count, between=bool(between))
        if not len(kept):
            return distinct(np.sort(at[behind])) if behind.any() else at[:0]
        touched = distinct(np.sort(np.concatenate([at[behind], kept])))
        alive: Indices = touched[self.column("rows")[touched] > 0]
        return alive

    def _follow(self, panes: Panes) -> Indices | None:
        """Link panes that are all new slices of their keys, later than those before; None if they are not."""
        self._reserve(0, int(panes.code.max()) + 1)
        self.overwrite(self._latest, panes.code)
        older = np.empty(len(panes), np.int64)
        told = (panes.code, panes.start, self._columns["start"], self.count, self._latest, older)
        return older if cell_loops.run("follow", *told) else None

    def _append(self, panes: Panes, older: Indices) -> Indices:
        """Put panes that follow all cells behind them; the first ones become the cells, without a copy."""
        first, count = self.count, self.count + len(panes)
        new = {name: getattr(panes, name) for name in ("code", "start", "first", "last", "rows")}
        new |= {"fresh": panes.rows.copy(), "older": older}
        if first:
            self._reserve(len(panes), 0)
            for name, column in new.items():
                self._columns[name][first:count] = column
            for number in self.fields:
                self._states[number][first:count] = panes.states[number]
        else:
            self._columns = new
            found = {number: panes.states[number] for number in self.fields}
            self._states = {n: s.copy() if s is panes.rows else s for n, s in found.items()}
        self.count = count
        self._note_fresh(slice(first, count))
        self._changed()
        self.folds.touch(np.arange(first, self.count), panes.code, panes.start, self.count, between=False)
        return np.empty(0, np.int64)

    def append_records(self, start: int, times: Times, values: Mapping[int, Values], kept: int) -> None:
        """Put records of the only key behind its latest cells, each into a cell of its own, from a start on.

        Only so many of the cells before are kept.
        """
        let_go = self.count - kept
        old = {number: self.states(number)[let_go:] for number in self.fields}
        self._states = {n: partials.followed(old[n], values[n]) for n, partials in self.fields.items()}
        times = np.concatenate([self.column("first")[let_go:], times])
        self._columns = RecordColumns(start - kept, times)
        self.count = len(times)
        self._latest = np.full(1, self.count - 1, np.int64)
        self._changed()
        self.folds.take(np.arange(let_go, let_go + kept))
        self.folds.touch_since(kept, start, self.count)

    def place_of(self, code: int, start: int) -> int:
        """Return a key's latest cell, if it has this start; NEW if it has an earlier one; else BEHIND."""
        at = int(self._latest[code]) if code < len(self._latest) else -1
        if at < 0 or self._columns["start"][at] < start:
            return NEW
        return at if self._columns["start"][at] == start else BEHIND

    def run_of(self, code: int, t: int, gap: int) -> int:
        """Return a key's latest run, if a record at t joins it alone; NEW if it is past; else BEHIND."""
        at = int(self._latest[code]) if code < len(self._latest) else -1
        if at < 0 or self._columns["last"][at] + gap < t:
            return NEW
        return at if self._columns["first"][at] <= t else BEHIND

    def spans_of(self, code: int) -> Iterator[tuple[int, int]]:
        """Return the times of the first and the last record of a key's cells, from the latest cell on."""
        at = int(self._latest[code]) if code < len(self._latest) else -1
        while at >= 0:
            if self._columns["rows"][at]:
                yield int(self._columns["first"][at]), int(self._columns["last"][at])
            at = int(self._columns["older"][at])

    def add_one(self, at: int, code: int, start: int, t: int, values: Mapping[int, Values]) -> int:
        """Put a record into a cell, or a NEW one; return the number of combines."""
        new = at == NEW
        columns = self._columns
        if new:
            self._reserve(1, code + 1)
            columns = self._columns
            at = self.count
            self.count += 1
            columns["code"][at], columns["start"][at], columns["fresh"][at] = code, start, 0
            columns["first"][at], columns["last"][at], columns["rows"][at] = t, t, 1
            columns["older"][at] = self._latest[code]
            self.overwrite(self._latest, code)
            self._latest[code] = at
        else:
            self.undo_by(_put_cell, columns, at, *(columns[name][at] for name in ("first", "last", "rows")))
            columns["rows"][at] += 1
            columns["first"][at] = min(t, columns["first"][at])
            columns["last"][at] = max(t, columns["last"][at])
        for number, partials in self.fields.items():
            if not new:
                self.overwrite(self._states[number], slice(at, at + 1))
            partials.add_one(values[number], self._states[number], at, new)
        self._changed()
        self.folds.touch_one(at, code, int(columns["start"][at]), self.count)
        return 0 if new else 1

    def _merge_cells(self, number: int, partials: FieldPartials, into: int, out_of: int) -> None:
        """Merge the older cell `out_of` with the newer one `into`, which stays."""
        states = self._states[number]
        older, newer = states[out_of : out_of + 1].copy(), states[into : into + 1].copy()
        partials.merge(older, np.zeros(1, np.int64), np.zeros(1, bool), newer)
        states[into] = older[0]

    def replace(self, number: int, at: Indices, states: States) -> None:
        """Set partials that were computed anew."""
        self.overwrite(self._states[number], at)
        self._states[number][at] = states
        self._gathered.pop(number, None)
        self.folds.touch(at, self.column("code")[at], self.column("start")[at], self.count, between=False)

    def replace_cells(self, at: Indices, panes: Panes) -> None:
        """Hold panes instead of some cells."""
        others = self.column("rows") > 0
        others[at] = False
        kept = np.flatnonzero(others)
        columns = {name: np.append(self.column(name)[kept], getattr(panes, name)) for name in _COLUMNS[:5]}
        order = np.lexsort((columns["start"], columns["code"]))
        none = np.zeros(len(order), np.int64)
        states = {n: np.concatenate([self.states(n)[kept], panes.states[n]])[order] for n in self.fields}
        self.load({n: c[order] for n, c in columns.items()} | {"fresh": none, "older": none}, states)

    def bound(self, at: Indices, first: Times, last: Times, rows: Indices) -> None:
        """Set the times of the first and last records of cells, and their number."""
        for name, column in (("first", first), ("last", last), ("rows", rows)):
            self.overwrite(self._columns[name], at)
            self._columns[name][at] = column
        self._changed()

    def settle(self) -> None:
        """Forget which records are fresh: the call that brought them is over."""
        for cells in (slice(0, self.count),) if self._fresh is None else self._fresh:
            self._columns["fresh"][cells] = 0
        self._fresh = ()
        self._ordered = None

    def _note_fresh(self, *cells: Any) -> None:
        """Take note of cells with fresh records, unless there are many groups of them."""
        if self._fresh is not None:
            self._fresh = (*self._fresh, *cells) if len(self._fresh) < tuning.FRESH_GROUPS else None

    def _changed(self) -> None:
        self._ordered = None
        self._gathered = {}

    def _reserve(self, cells: int, codes: int) -> None:
        room = len(self._columns["first"])
        if self.count + cells > room:
            room = max(2 * room, self.count + cells)
            old, self._columns = self._columns, {name: np.empty(room, np.int64) for name in _COLUMNS}
            for name, column in self._columns.items():
                column[: self.count] = old[name][: self.count]
            self._states = {n: self._grown(p, self.states(n), room) for n, p in self.fields.items()}
        if codes > len(self._latest):
            latest = np.full(max(2 * len(self._latest), codes), -1, np.int64)
            latest[: len(self._latest)] = self._latest
            self._latest = latest

    @staticmethod
    def _grown(partials: FieldPartials, states: States, room: int) -> States:
        """Return partials with room for so many."""
        grown = partials.allocate(room)
        grown[: len(states)] = states
        return grown

    # ---- cells by key and time ----

    def by_time(self) -> bool:
        """Tell whether the cells lie by time: there is but one key, and none was put between others."""
        return self.in_order and (len(self._latest) == 1 or not self.count)

    def ordered(self) -> Ordered:
        """Return the cells by key, then time."""
        if self._ordered is None:
            self._ordered = self._order()
        return self._ordered

    def _order(self) -> Ordered:
        if self.by_time():
            ordered = Ordered(self.column, None, self.count)
            if isinstance(self._columns, RecordColumns):
                ordered.base = self._columns.start
            return ordered
        code, rows = self.column("code"), self.column("rows")
        if self.in_order:
            places = np.empty(self.count, np.int64)
            loops.run("group", code, np.bincount(code, minlength=1), places)
        else:
            places = np.lexsort((self.column("start"), code))
            places = places[rows[places] > 0]
        return Ordered(self.column, places, len(places))

    def ordered_states(self, number: int) -> States:
        """Return the partials of a field by key, then time."""
        places = self.ordered().places
        if places is None:
            return self.states(number)
        if number not in self._gathered:
            self._gathered[number] = self.states(number)[places]
        return self._gathered[number]

    def find(self, code: Codes, start: Times) -> Indices:
        """Return the places of cells; -1 where there is none."""
        ordered = self.ordered()
        at = search(ordered, code, start)
        found = at < len(ordered)
        found[found] = (ordered.code[at[found]] == code[found]) & (ordered.start[at[found]] == start[found])
        places = np.full(len(code), -1)
        places[found] = at[found] if ordered.places is None else ordered.places[at[found]]
        return places

    def older(self) -> Indices:
        """Return for each cell the one of its key before it; -1: none."""
        return self._columns["older"][: self.count]

    def last_time(self, code: int) -> int | None:
        """Return the time of a key's last record; None: it has none here."""
        at = int(self._latest[code]) if 0 <= code < len(self._latest) else -1
        return None if at < 0 else int(self._columns["last"][at])

    def chain(self, code: int, past: int, rows: int) -> Indices:
        """Return the latest cells of a key, oldest first: those past a time, and so many before its last."""
        at, room = int(self._latest[code]) if 0 <= code < len(self._latest) else -1, 64
        older, first = frozen(self._columns["older"]), frozen(self._columns["first"])
        while True:
            out = np.empty(room, np.int64)
            count = cell_loops.run("walk_back", older, first, at, past, rows, out)
            if count < room:
                return out[:count][::-1]
            room *= 8

    # ---- letting go, and cutting anew ----

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Let go of all other cells."""
        if not self.in_order:
            kept = kept & (self.column("rows") > 0)
        if not kept.all():
            self._take(np.flatnonzero(kept))

    def _take(self, places: Indices) -> None:
        self._fresh = None
        old, self._columns = self._columns, {}
        latest = len(places) and places[0] == self.count - len(places)
        if latest and isinstance(old, RecordColumns):
            self._columns = old.since(int(places[0]))
        else:
            for name in _COLUMNS:
                self._columns[name] = np.empty(max(_ROOM, len(places)), np.int64)
                np.take(old[name], places, out=self._columns[name][: len(places)], mode="clip")
        room = max(_ROOM, len(places))
        self._states = {n: self._grown(p, self._states[n][places], room) for n, p in self.fields.items()}
        self.count = len(places)
        if self.by_time():
            if not isinstance(self._columns, RecordColumns):
                self._columns["older"][: self.count] = np.arange(-1, self.count - 1)
            self._latest = np.full(len(self._latest), -1, np.int64)  # there may have been other keys
            self._latest[0] = self.count - 1
            self._changed()
        else:
            self._relink()
        self.folds.take(places)

    def _relink(self) -> None:
        """Link each key's cells anew, in columns that nobody else has, and see whether they lie in order."""
        code = self.column("code")
        order = np.lexsort((self.column("start"), code))
        same = code[order[1:]] == code[order[:-1]]
        self.in_order = bool((order[1:][same] > order[:-1][same]).all())
        older = self._columns["older"]
        older[order[:1]] = -1
        older[order[1:]] = np.where(same, order[:-1], -1)
        self._latest = np.full(len(self._latest), -1, np.int64)
        last = np.append(~same, True) if len(order) else np.empty(0, bool)
        self._latest[code[order[last]]] = order[last]
        self._changed()

    def recut(self, starts: Times) -> None:
        """Give cells other starts, and merge those of a key that now share one."""
        order = np.lexsort((self.column("start"), self.column("code")))
        order = order[self.column("rows")[order] > 0]
        if not len(order):
            return
        code, start = self.column("code")[order], starts[order]
        begins = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (start[1:] != start[:-1])))
        ends = np.append(begins[1:], len(order))
        merged = {
            number: partials.each_range(self._states[number][order], begins, ends)[0]
            for number, partials in self.fields.items()
        }
        columns = {
            "code": code[begins],
            "start": start[begins],
            "first": self.column("first")[order][begins],
            "last": np.maximum.reduceat(self.column("last")[order], begins),
            "rows": np.add.reduceat(self.column("rows")[order], begins),
            "fresh": np.add.reduceat(self.column("fresh")[order], begins),
            "older": np.zeros(len(begins), np.int64),
        }
        self.load(columns, merged)

    def load(self, columns: Mapping[str, Indices], states: Mapping[int, States]) -> None:
        """Hold these cells and no others."""
        self._fresh = None
        self.count = len(columns["code"])
        room = max(_ROOM, self.count)
        self._columns = {name: np.empty(room, np.int64) for name in _COLUMNS}
        for name, column in self._columns.items():
            column[: self.count] = columns[name]
        self._states = {n: self._grown(p, states[n], room) for n, p in self.fields.items()}
        codes = int(columns["code"].max()) + 1 if self.count else 1
        if codes > len(self._latest):
            self._latest = np.full(codes, -1, np.int64)
        self._relink()
        self.folds.forget()

    def renumber(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one."""
        self._columns = {name: column.copy() for name, column in self._columns.items()}
        self._columns["code"][: self.count] = codes[self.column("code")]
        self._latest = np.full(max(1, int(codes.max()) + 1 if len(codes) else 1), -1, np.int64)
        self._relink()
        self.folds.forget()

    # ---- fields that come and go ----

    def set_fields(self, fields: Mapping[int, FieldPartials]) -> None:
        """Keep the partials of fields that stay, make room for new ones, drop the rest."""
        self.save()
        room = len(self._columns["first"])
        old, self.fields = self.fields, dict(fields)
        states = {}
        for number, partials in self.fields.items():
            kept = self._states.get(number) if number in old else None
            states[number] = partials.allocate(room) if kept is None else kept
        self._states = states
        self._changed()
        self.folds = Folds(self)

    def convert(self, number: int, partials: FieldPartials, states: States) -> None:
        """Hold a field's partials in another form from now on."""
        self.save()
        self.fields = {**self.fields, number: partials}
        self.place(number, states)
        self.folds = Folds(self)

    def place(self, number: int, states: States) -> None:
        """Hold these partials of a field instead of those there are."""
        grown = self._grown(self.fields[number], states, len(self._columns["first"]))
        self._states = {**self._states, number: grown}
        self._changed()

    # ---- what it holds ----

    def copy(self) -> AggregateStore:
        """Return a store with the same cells, to be changed by itself."""
        twin = AggregateStore(self.fields)
        twin._columns = {name: self._columns[name].copy() for name in _COLUMNS}
        twin._states = {number: states.copy() for number, states in self._states.items()}
        twin._latest, twin.count, twin.in_order = self._latest.copy(), self.count, self.in_order
        return twin

    @property
    def cell_bytes(self) -> int:
        """The bytes of one cell; what is made of its time when it is asked for does not count."""
        return self.bytes_of(self._states)

    def bytes_of(self, fields: Iterable[int]) -> int:
        """Return the bytes of one cell with the partials of these fields alone."""
        columns = 1 if isinstance(self._columns, RecordColumns) else len(_COLUMNS)
        return 8 * columns + sum(self._states[n].nbytes // len(self._states[n]) for n in fields)


def _put_cell(columns: Mapping[str, Indices], at: int, first: int, last: int, rows: int) -> None:
    """Put a cell back as it was."""
    columns["first"][at], columns["last"][at], columns["rows"][at] = first, last, rows


def _put_cells(columns: Mapping[str, Indices], undo: NDArray[np.int64], undone: Indices) -> None:
    """Put cells back as a loop found them, the first change of each last."""
    cells, *rest = undo[: undone[0]][::-1].T
    for name, old in zip(("start", "first", "last", "rows", "older"), rest, strict=True):
        columns[name][cells] = old
