"""How windows are folded from slices: lazily, from trees, or sliding along.

lazy: each window by itself when it ends. eager: FlatFAT over each key's slices, kept up to date. sliding:
prefixes of each key's slices where there is an inverse, two stacks for each query elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.fields import CompiledField, States

if TYPE_CHECKING:
    from muntin.slicing.store import AggregateStore

Places = NDArray[np.int64]
_BEFORE = -(2**63)


def each(store: AggregateStore, number: int, low: Places, high: Places) -> tuple[States, int]:
    """Fold each range by itself."""
    return store.fields[number].each_range(store.ordered_states(number), low, high)


class Prefixes:
    """Prefixes of each key's partials, in the order in which cells were made; for one field."""

    def __init__(self, partials: CompiledField) -> None:
        self.partials = partials
        self._prefixes = partials.allocate(0)
        self._valid = 0  # cells before this one have not changed since

    def touch(self, first: int) -> None:
        """Take note that a cell has changed."""
        self._valid = min(self._valid, first)

    def fold(self, store: AggregateStore, number: int, low: Places, high: Places) -> tuple[States, int]:
        """Fold ranges as differences of prefixes; those that would be inexact each by itself."""
        ordered = store.ordered()
        if store.in_order:
            states, older = store.states(number), store.older()
            places = ordered.places
        else:  # cells were put between others: prefixes are made anew
            self._valid = 0
            states, places = store.ordered_states(number), None
            older = np.arange(-1, len(states) - 1)
            older[np.flatnonzero(ordered.code[1:] != ordered.code[:-1]) + 1] = -1
        if len(self._prefixes) < len(states):
            grown = self.partials.allocate(2 * len(states))
            grown[: self._valid] = self._prefixes[: self._valid]
            self._prefixes = grown
        combines = self.partials.scan(states, older, self._valid, self._prefixes)
        self._valid = len(states)
        newest, oldest = (high - 1, low) if places is None else (places[high - 1], places[low])
        before = older[oldest]
        out = self.partials.between(self._prefixes, newest, before)
        combines += int(np.count_nonzero(before >= 0))
        doubtful = self.partials.doubtful(self._prefixes[: len(states)], out, before)
        if doubtful is not None:
            at = np.flatnonzero(doubtful)
            out[at], more = each(store, number, low[at], high[at])
            combines += more
        return out, combines


class Stacks:
    """Two stacks per key, for one field and one query."""

    def __init__(self, partials: CompiledField) -> None:
        self.partials = partials
        self._front = partials.allocate(0)
        self.forget()

    def forget(self) -> None:
        """Begin anew: slices have changed."""
        self._split = np.full(1, _BEFORE)
        self._upto = np.full(1, _BEFORE)
        self._back = self.partials.allocate(1)

    def take(self, places: Places) -> None:
        """Follow cells to other places."""
        room = self.partials.allocate(int(places.max()) + 1 if len(places) else 0)
        room[: len(self._front)] = self._front[: len(room)]
        self._front = room[places]

    def touch(self, codes: Places, starts: Places) -> None:
        """Take note that cells have changed: keys whose stacks hold one begin anew."""
        known = codes < len(self._upto)
        codes, starts = codes[known], starts[known]
        self._split[codes[starts < self._upto[codes]]] = _BEFORE

    def fold(self, store: AggregateStore, number: int, low: Places, high: Places) -> tuple[States, int]:
        """Fold ranges that never go back."""
        ordered = store.ordered()
        keys = int(ordered.code.max()) + 1
        if keys > len(self._split):
            more = max(keys, 2 * len(self._split)) - len(self._split)
            self._split = np.append(self._split, np.full(more, _BEFORE))
            self._upto = np.append(self._upto, np.full(more, _BEFORE))
            back = self.partials.allocate(len(self._split))
            back[: len(self._back)] = self._back
            self._back = back
        places = ordered.places
        front = self.partials.allocate(len(ordered))
        known = np.arange(min(len(self._front), store.count))
        whole = self.partials.allocate(store.count)
        whole[known] = self._front[known]
        front[:] = whole if places is None else whole[places]
        out, combines = self.partials.slide_ranges(
            store.ordered_states(number),
            *(ordered.start, ordered.code, low, high, front, self._split, self._upto, self._back),
        )
        if places is None:
            self._front = front
        else:
            whole[places] = front
            self._front = whole
        return out, combines


class Trees:
    """FlatFAT per key, for one field: room is a power of two, doubled when full, halved at a third."""

    def __init__(self, partials: CompiledField) -> None:
        self.partials = partials
        self.forget()

    def forget(self) -> None:
        """Begin anew: slices were put between others, or are gone."""
        self._base = np.zeros(0, np.int64)
        self._room = np.zeros(0, np.int64)
        self._used = 0
        self._nodes = self.partials.allocate(0)
        self._dirty: NDArray[np.bool_] | None = None  # None: all

    def touch(self, at: Places, count: int) -> None:
        """Take note that cells have changed."""
        if self._dirty is None:
            return
        if count > len(self._dirty):
            self._dirty = np.append(self._dirty, np.zeros(2 * count - len(self._dirty), bool))
        self._dirty[at] = True

    def fold(self, store: AggregateStore, low: Places, high: Places) -> tuple[States, int]:
        """Fold ranges of leaves."""
        ordered = store.ordered()
        firsts = ordered.key_starts()
        key = ordered.code[low]
        out, combines = self.partials.tree_ranges(
            self._nodes, key, low - firsts[low], high - firsts[low], self._base, self._room
        )
        return out, combines

    def refresh(self, store: AggregateStore, number: int) -> int:
        """Bring the trees up to date with the slices; return the number of combines."""
        ordered = store.ordered()
        if not len(ordered):
            return 0
        filled = np.bincount(ordered.code)
        dirty = np.ones(len(ordered), bool)
        if self._dirty is not None:
            places = np.arange(store.count) if ordered.places is None else ordered.places
            dirty = self._dirty[places]
        dirty |= self._make_room(filled)[ordered.code]
        at = np.flatnonzero(dirty)
        rank = at - ordered.key_starts()[at]
        states = store.ordered_states(number)[at]
        self._dirty = np.zeros(2 * store.count, bool)
        return self.partials.tree_refresh(
            states, ordered.code[at], rank, self._base, self._room, filled, self._nodes
        )

    def _make_room(self, filled: Places) -> NDArray[np.bool_]:
        """Give keys trees that fit; return which keys got a new one."""
        if len(filled) > len(self._room):
            none = np.zeros(len(filled) - len(self._room), np.int64)
            self._base, self._room = np.append(self._base, none), np.append(self._room, none)
        room = self._room[: len(filled)]
        moved = ((filled > room) | (3 * filled <= room)) & (filled > 0)
        if moved.any():
            wanted = np.maximum(1, 2 ** np.ceil(np.log2(np.maximum(filled[moved], 1))).astype(np.int64))
            if self._used + 2 * int(wanted.sum()) > 4 * int(filled.sum()) * 2 + 64:  # mostly holes by now
                moved = filled > 0
                wanted = 2 ** np.ceil(np.log2(filled[moved])).astype(np.int64)
                self._used = 0
            self._room[: len(filled)][moved] = wanted
            self._base[: len(filled)][moved] = self._used + 2 * (np.cumsum(wanted) - wanted)
            self._used += 2 * int(wanted.sum())
            nodes = self.partials.allocate(max(self._used, len(self._nodes)))
            nodes[: len(self._nodes)] = self._nodes
            self._nodes = nodes
        return moved


class Folds:
    """The structures that are kept beside a store's cells, as its queries ask for them."""

    def __init__(self, store: AggregateStore) -> None:
        self._store = store
        self._prefixes: dict[int, Prefixes] = {}
        self._stacks: dict[tuple[int, int], Stacks] = {}
        self._trees: dict[int, Trees] = {}

    def touch(self, at: Places, codes: Places, starts: Places, count: int) -> None:
        """Take note that cells have changed, or are new at the end."""
        if self._prefixes:
            first = int(at.min())
            for prefixes in self._prefixes.values():
                prefixes.touch(first)
        for stacks in self._stacks.values():
            stacks.touch(codes, starts)
        for trees in self._trees.values():
            trees.touch(at, count)

    def touch_one(self, at: int, code: int, start: int, count: int) -> None:
        """Take note that one cell has changed."""
        if self._prefixes or self._stacks or self._trees:
            self.touch(np.array([at]), np.array([code]), np.array([start]), count)

    def take(self, places: Places) -> None:
        """Follow cells to other places: some are gone, the others keep their order."""
        for prefixes in self._prefixes.values():
            prefixes.touch(0)
        for stacks in self._stacks.values():
            stacks.take(places)
        for trees in self._trees.values():
            trees.forget()

    def forget(self) -> None:
        """Begin anew: cells were put between others, or merged."""
        for prefixes in self._prefixes.values():
            prefixes.touch(0)
        for stacks in self._stacks.values():
            stacks.forget()
        for trees in self._trees.values():
            trees.forget()

    def keep_trees(self, fields: Mapping[int, CompiledField]) -> None:
        """Keep trees over these fields from now on."""
        self._trees = {number: self._trees.get(number) or Trees(p) for number, p in fields.items()}

    def refresh(self) -> int:
        """Bring trees up to date; return the number of combines for one of them."""
        return max((t.refresh(self._store, number) for number, t in self._trees.items()), default=0)

    def prefix(self, number: int, low: Places, high: Places) -> tuple[States, int]:
        """Fold ranges by prefixes."""
        partials: Any = self._store.fields[number]
        return self._prefixes.setdefault(number, Prefixes(partials)).fold(self._store, number, low, high)

    def slide(self, number: int, query: int, low: Places, high: Places) -> tuple[States, int]:
        """Fold the ranges of one query, which never go back, with two stacks."""
        partials: Any = self._store.fields[number]
        stacks = self._stacks.setdefault((number, query), Stacks(partials))
        return stacks.fold(self._store, number, low, high)

    def tree(self, number: int, low: Places, high: Places) -> tuple[States, int]:
        """Fold ranges from trees."""
        if number not in self._trees:
            partials: Any = self._store.fields[number]
            self._trees[number] = Trees(partials)
        trees = self._trees[number]
        trees.refresh(self._store, number)
        return trees.fold(self._store, low, high)
