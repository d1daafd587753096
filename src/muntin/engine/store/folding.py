"""How windows are folded from slices: lazily, from trees, or sliding along.

lazy: each window by itself when it ends. eager: FlatFAT over each key's slices, kept up to date. sliding:
prefixes of each key's slices where there is an inverse, two stacks for each query elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.partials.base import States
from muntin.engine.partials.compiled import CompiledField
from muntin.engine.store import cell_loops

if TYPE_CHECKING:
    from muntin.engine.store.cells import AggregateStore
    from muntin.engine.store.ordered import Ordered

_BEFORE = -(2**63)
_AFTER = 2**63 - 1


def each(store: AggregateStore, number: int, low: Indices, high: Indices) -> tuple[States, int]:
    """Fold each range by itself."""
    return store.fields[number].each_range(store.ordered_states(number), low, high)


def by_levels(store: AggregateStore, number: int, low: Indices, high: Indices) -> tuple[States, int]:
    """Fold ranges from pairs, pairs of pairs and so on, each made once: for many ranges that overlap.

    Takes no kernel that folding each by itself does not take, so that many queries compile nothing new.
    """
    partials, first = store.fields[number], int(low.min())
    level = store.ordered_states(number)[first : int(high.max())]
    levels, combines = [level], 0
    for _ in range(int((high - low).max()).bit_length() - 1):
        pairs = np.arange(0, len(level) - 1, 2)
        level, more = partials.each_range(level, pairs, pairs + 2)
        levels.append(level)
        combines += more
    nodes, bounds = _nodes(low - first, high - first, [len(level) for level in levels])
    out, more = partials.each_range(_taken(np.concatenate(levels), nodes), bounds[:-1], bounds[1:])
    return out, combines + more


def _taken(states: States, at: Indices) -> States:
    """Return some states; records as rows of words, which NumPy takes ten times as fast."""
    if states.dtype.names is None or states.dtype.itemsize % 8:
        return states[at]
    return states.view(np.int64).reshape(len(states), -1).take(at, axis=0).view(states.dtype)[:, 0]


def _nodes(low: Indices, high: Indices, sizes: list[int]) -> tuple[Indices, Indices]:
    """Return the nodes, numbered level by level, that ranges are made of, from left to right; and bounds."""
    taken: list[
        tuple[Indices, Indices, Indices]
    ] = []  # range, node, its rank from the left or (below 0) right
    lefts, rights = np.zeros((2, len(low)), np.int64)
    base = 0
    for size in sizes:
        odd = np.flatnonzero((low < high) & (low & 1 == 1))
        taken.append((odd, base + low[odd], lefts[odd]))
        lefts[odd] += 1
        even = np.flatnonzero((low < high) & (high & 1 == 1))
        rights[even] += 1
        taken.append((even, base + high[even] - 1, -rights[even]))
        low, high = (low + 1) >> 1, high >> 1
        base += size
    bounds = np.append(0, np.cumsum(lefts + rights))
    nodes = np.empty(bounds[-1], np.int64)
    for which, node, rank in taken:
        nodes[np.where(rank < 0, bounds[which + 1], bounds[which]) + rank] = node
    return nodes, bounds


class Since:
    """From which start on the cells of each key have changed."""

    def __init__(self) -> None:
        self._since = np.full(1, _AFTER)

    def touch(self, codes: Codes, starts: Times) -> None:
        """Take note that cells have changed, or were put between others."""
        need = int(codes.max()) + 1
        if need > len(self._since):
            self._since = np.append(self._since, np.full(2 * need - len(self._since), _AFTER))
        np.minimum.at(self._since, codes, starts)

    def changed(self, ordered: Ordered) -> Indices:
        """Return for each key from which start on its cells have changed, and forget it."""
        if int(ordered.code[-1]) >= len(self._since):  # the largest: cells lie by key
            self.touch(ordered.code[-1:], ordered.start[-1:])
        since, self._since = self._since, np.full(len(self._since), _AFTER)
        return since


def prefixes_of(store: AggregateStore, low: Indices, high: Indices) -> tuple[Indices, Indices]:
    """Return the two prefixes that a range is the difference of, by their last cells; -1: none before it."""
    ordered = store.ordered()
    if ordered.places is None and ordered.code[0] == ordered.code[-1]:
        return low - 1, high - 1
    places = np.arange(store.count) if ordered.places is None else ordered.places
    return store.older()[places[low]], places[high - 1]


class Prefixes:
    """Prefixes of each key's partials, beside its cells; for one field.

    Made only as far as windows have ended, so that records which come out of order find none to change.
    """

    def __init__(self, partials: CompiledField) -> None:
        self.partials = partials
        self.since = Since()
        self.forget()

    def forget(self) -> None:
        """Begin anew: cells are gone, or merged."""
        self._prefixes = self.partials.allocate(0)
        self._made = np.zeros(0, bool)
        self._largest = 0.0

    def fold(
        self,
        store: AggregateStore,
        number: int,
        low: Indices,
        high: Indices,
        prefixes: tuple[Indices, Indices],
    ) -> tuple[States, int]:
        """Fold ranges as differences of two prefixes; those that would be inexact each by itself."""
        ordered, older = store.ordered(), store.older()
        if store.count > len(self._made):
            room = max(store.count, 2 * len(self._made))
            grown = self.partials.allocate(room)
            grown[: len(self._made)] = self._prefixes
            self._made = np.append(self._made, np.zeros(room - len(self._made), bool))
            self._prefixes = grown
        places = np.arange(store.count) if ordered.places is None else ordered.places
        since = self.since.changed(ordered)
        ends, new = np.zeros(int(ordered.code[-1]) + 1, np.int64), np.empty(len(ordered), np.int64)
        told = (ordered.code, ordered.start, places, since, low, high, ends, self._made, new)
        new = new[: cell_loops.run("prefixes_to_make", *told)]
        combines = self.partials.scan(store.states(number), older, new, self._prefixes)
        before, newest = prefixes
        out = self.partials.between(self._prefixes, newest, before)
        combines += int(np.count_nonzero(before >= 0))
        self._largest = max(self._largest, self.partials.largest(self._prefixes, new))
        doubtful = self.partials.doubtful(self._largest, out, before)
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
        self._begin = np.full(1, _BEFORE)
        self._split = np.full(1, _BEFORE)
        self._upto = np.full(1, _BEFORE)
        self._back = self.partials.allocate(1)

    def take(self, places: Indices) -> None:
        """Follow cells to other places."""
        room = self.partials.allocate(int(places.max()) + 1 if len(places) else 0)
        room[: len(self._front)] = self._front[: len(room)]
        self._front = room[places]

    def touch(self, codes: Codes, starts: Times) -> None:
        """Take note that cells have changed: keys whose stacks hold one begin anew."""
        known = codes < len(self._upto)
        codes, starts = codes[known], starts[known]
        self._split[codes[starts < self._upto[codes]]] = _BEFORE

    def fold(self, store: AggregateStore, number: int, low: Indices, high: Indices) -> tuple[States, int]:
        """Fold ranges, at the least cost where they go forward."""
        ordered = store.ordered()
        keys = int(ordered.code.max()) + 1
        if keys > len(self._split):
            more = max(keys, 2 * len(self._split)) - len(self._split)
            self._begin = np.append(self._begin, np.full(more, _BEFORE))
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
            *(ordered.start, ordered.code, low, high),
            *(front, self._begin, self._split, self._upto, self._back),
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
        self.since = Since()  # where slices were put between others: all after them move
        self.forget()

    def forget(self) -> None:
        """Begin anew: slices are gone, or merged."""
        self._base = np.zeros(0, np.int64)
        self._room = np.zeros(0, np.int64)
        self._used = 0
        self._nodes = self.partials.allocate(0)
        self._dirty = np.zeros(0, bool)

    def touch(self, at: Indices, count: int) -> None:
        """Take note that cells have changed."""
        self._grow(count)
        self._dirty[at] = True

    def _grow(self, count: int) -> None:
        if count > len(self._dirty):
            self._dirty = np.append(self._dirty, np.ones(2 * count - len(self._dirty), bool))

    def fold(self, store: AggregateStore, low: Indices, high: Indices) -> tuple[States, int]:
        """Fold ranges of leaves."""
        ordered = store.ordered()
        firsts = ordered.key_starts()[low]
        key = ordered.code[low]
        return self.partials.tree_ranges(
            self._nodes, key, low - firsts, high - firsts, self._base, self._room
        )

    def refresh(self, store: AggregateStore, number: int) -> int:
        """Bring the trees up to date with the slices; return the number of combines."""
        ordered = store.ordered()
        if not len(ordered):
            return 0
        self._grow(store.count)
        filled = np.bincount(ordered.code)
        places = np.arange(store.count) if ordered.places is None else ordered.places
        dirty = self._dirty[places] | (ordered.start >= self.since.changed(ordered)[ordered.code])
        dirty |= self._make_room(filled)[ordered.code]
        at = np.flatnonzero(dirty)
        self._dirty[places] = False
        rank = at - ordered.key_starts()[at]
        states = store.ordered_states(number)[at]
        return self.partials.tree_refresh(
            states, ordered.code[at], rank, self._base, self._room, filled, self._nodes
        )

    def _make_room(self, filled: Indices) -> NDArray[np.bool_]:
        """Give keys trees that fit; return which keys got a new one."""
        if len(filled) > len(self._room):
            none = np.zeros(len(filled) - len(self._room), np.int64)
            self._base, self._room = np.append(self._base, none), np.append(self._room, none)
        room = self._room[: len(filled)]
        moved = ((filled > room) | (3 * filled <= room)) & (filled > 0)
        if moved.any():
            if self._used + 4 * int(filled[moved].sum()) > 8 * int(filled.sum()) + 64:  # mostly holes by now
                moved = filled > 0
                self._used = 0
            wanted = 2 ** np.ceil(np.log2(filled[moved])).astype(np.int64)
            room[moved] = wanted
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

    def emptied(self) -> Folds:
        """Return folds for the same store that begin anew."""
        twin = Folds(self._store)
        twin._trees = {number: Trees(trees.partials) for number, trees in self._trees.items()}
        return twin

    def touch(self, at: Indices, codes: Codes, starts: Times, count: int, *, between: bool) -> None:
        """Take note that cells have changed, are new at the end, or were put between others."""
        for prefixes in self._prefixes.values():
            prefixes.since.touch(codes, starts)
        for stacks in self._stacks.values():
            stacks.touch(codes, starts)
        for trees in self._trees.values():
            trees.touch(at, count)
            if between:
                trees.since.touch(codes, starts)

    def touch_one(self, at: int, code: int, start: int, count: int) -> None:
        """Take note that one cell has changed."""
        if self._prefixes or self._stacks or self._trees:
            self.touch(np.array([at]), np.array([code]), np.array([start]), count, between=False)

    def touch_since(self, at: int, start: int, count: int) -> None:
        """Take note that all cells of the only key from a place and start on are new."""
        if self._prefixes or self._stacks or self._trees:
            places = np.arange(at, count) if self._trees else np.empty(0, np.int64)
            self.touch(places, np.zeros(1, np.int64), np.array([start]), count, between=False)

    def take(self, places: Indices) -> None:
        """Follow cells to other places: some are gone, the others keep their order."""
        for stacks in self._stacks.values():
            stacks.take(places)
        for prefixes in self._prefixes.values():
            prefixes.forget()
        for trees in self._trees.values():
            trees.forget()

    def forget(self) -> None:
        """Begin anew: cells were merged."""
        for prefixes in self._prefixes.values():
            prefixes.forget()
        for stacks in self._stacks.values():
            stacks.forget()
        for trees in self._trees.values():
            trees.forget()

    def keep_trees(self) -> None:
        """Keep trees over all fields that have verbs for them, from now on."""
        fields: dict[int, Any] = {n: p for n, p in self._store.fields.items() if "tree" in p.folds}
        self._trees = {number: self._trees.get(number) or Trees(p) for number, p in fields.items()}

    def refresh(self) -> int:
        """Bring trees up to date; return the number of combines for one of them."""
        return max((t.refresh(self._store, number) for number, t in self._trees.items()), default=0)

    def prefix(
        self, number: int, low: Indices, high: Indices, prefixes: tuple[Indices, Indices]
    ) -> tuple[States, int]:
        """Fold ranges by prefixes."""
        partials: Any = self._store.fields[number]
        kept = self._prefixes.setdefault(number, Prefixes(partials))
        return kept.fold(self._store, number, low, high, prefixes)

    def slide(self, number: int, query: int, low: Indices, high: Indices) -> tuple[States, int]:
        """Fold the ranges of one query with two stacks."""
        partials: Any = self._store.fields[number]
        stacks = self._stacks.setdefault((number, query), Stacks(partials))
        return stacks.fold(self._store, number, low, high)

    def tree(self, number: int, low: Indices, high: Indices) -> tuple[States, int]:
        """Fold ranges from trees."""
        if number not in self._trees:
            partials: Any = self._store.fields[number]
            self._trees[number] = Trees(partials)
        trees = self._trees[number]
        trees.refresh(self._store, number)
        return trees.fold(self._store, low, high)
