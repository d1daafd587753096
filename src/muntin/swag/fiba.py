"""FiBA: a finger B-tree of partial aggregates, for records that come out of order.

Records lie in all nodes, in order of time, those of equal time as they came. Each node keeps one
partial, and which one depends on where it is (n is a node, s its records, c its children):

    inside       up(n)    = up(c0) s0 up(c1) ... s_last up(c_last)
    left spine   left(n)  = s0 up(c1) ... s_last up(c_last), then left(parent) below the root's child
    right spine  right(n) = right(parent) below the root's child, then up(c0) s0 ... up(c_last-1) s_last
    root         inner(n) = s0 up(c1) ... s_last: all but its outermost children

so that the whole window is left(oldest leaf) inner(root) right(newest leaf). The two leaves are the
fingers; a record that comes d places from either end changes O(log d) partials, amortized.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, EMPTY_WINDOW, Combiner

_ARITY = 4  # the least number of children; the most is twice that
_LEAST, _MOST = _ARITY - 1, 2 * _ARITY - 1  # records in a node


class Node:
    """Records, the children between them, and one partial aggregate."""

    __slots__ = ("agg", "children", "height", "leftmost", "parent", "rightmost", "states", "times")

    def __init__(self, height: int, times: list[Any], states: list[Any], children: list[Node]) -> None:
        self.height = height  # of a leaf: 0
        self.times = times
        self.states = states
        self.children = children
        self.parent: Node | None = None
        self.leftmost = self.rightmost = False  # whether it is on a spine; the root is on both
        self.agg: Any = BOTTOM
        for child in children:
            child.parent = self


class Fiba(Combiner):
    """A window over records that come out of order: insert anywhere, evict the oldest, ask for any range.

    >>> import muntin as mt
    >>> f = mt.swag.Fiba(mt.first())
    >>> for t, v in [(10, "ten"), (30, "thirty"), (20, "twenty")]:
    ...     f.insert(t, v)
    >>> f.query(), f.range(20, 30)
    ('ten', 'twenty')
    >>> f.evict_until(15)
    >>> f.query(), len(f)
    ('twenty', 2)
    """

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._size = 0
        self._plant(Node(0, [], [], []))

    def _plant(self, root: Node) -> None:
        root.parent = None
        root.leftmost = root.rightmost = True
        self._root = root
        self._replanted = True  # the spines hang elsewhere: all of their partials change
        if root.height == 0:
            self._left = self._right = root

    def __len__(self) -> int:
        return self._size

    # ---- the answer ----

    def query(self) -> Any:
        """Return the aggregate of the window, in order of time: two combines."""
        total = self._root.agg
        if self._root.height:
            total = self._combine(self._combine(self._left.agg, total), self._right.agg)
        return self._answer(total)

    def range(self, t0: Any, t1: Any) -> Any:
        """Return the aggregate of the records with t0 <= t < t1, in O(log n) combines."""
        _check_time(t0)
        _check_time(t1)
        return self._answer(self._fold(self._stretch(self._root, t0, t1)) if t0 < t1 else BOTTOM)

    def _stretch(self, node: Node, t0: Any, t1: Any) -> Iterator[Any]:
        """Return the partials of a node's subtree from t0 (None: its start) up to t1 (None: its end)."""
        i = 0 if t0 is None else bisect_left(node.times, t0)
        j = len(node.times) if t1 is None else bisect_left(node.times, t1)
        for k in range(i, j + 1):
            if node.height:
                yield from self._subtree(node.children[k], t0 if k == i else None, t1 if k == j else None)
            if k < j:
                yield node.states[k]

    def _subtree(self, node: Node, t0: Any, t1: Any) -> Iterator[Any]:
        if t0 is None and t1 is None and not (node.leftmost or node.rightmost):
            yield node.agg
        else:
            yield from self._stretch(node, t0, t1)

    def _fold(self, states: Iterable[Any]) -> Any:
        iterator = iter(states)
        total = next(iterator, BOTTOM)
        for state in iterator:
            total = self._combine(total, state)
        return total

    # ---- insert ----

    def insert(self, t: Any, value: Any) -> None:
        """Add a record at time t, after those of the same time."""
        self.insert_many([t], [value])

    def insert_many(self, ts: Sequence[Any], values: Sequence[Any]) -> None:
        """Add many records, all or none; each partial that they change is combined once."""
        if len(ts) != len(values):
            raise ValueError(f"there are {len(ts)} times but {len(values)} values.")
        times = [_check_time(t) for t in ts]
        states = [self._lift(value) for value in values]
        _check_comparable([*self._left.times[:1], *times])
        changed: set[Node] = set()
        for at in sorted(range(len(times)), key=times.__getitem__):
            t = times[at]
            leaf = self._leaf_for(t)
            k = bisect_right(leaf.times, t)
            leaf.times.insert(k, t)
            leaf.states.insert(k, states[at])
            changed.add(leaf)
        self._size += len(times)
        self._repair(changed)

    def _leaf_for(self, t: Any) -> Node:
        """Climb from both fingers until one's subtree spans t, then descend."""
        low, high = self._left, self._right
        while True:
            if high.parent is None or t >= high.parent.times[-1]:
                node = high
                break
            if low.parent is None or t < low.parent.times[0]:
                node = low
                break
            low, high = low.parent, high.parent
        while node.height:
            node = node.children[bisect_right(node.times, t)]
        return node

    # ---- evict ----

    def evict(self) -> None:
        """Remove the oldest record."""
        if self._size == 0:
            raise IndexError(EMPTY_WINDOW)
        leaf = self._left
        del leaf.times[0], leaf.states[0]
        self._size -= 1
        self._repair({leaf} | self._refill(leaf))

    def evict_until(self, t: Any) -> None:
        """Remove all records with times below t.

        Whole subtrees go at once: combines happen only along the cut, though the records that go are counted.
        """
        _check_time(t)
        top = self._left
        while top.parent is not None and top.times[-1] < t:
            top = top.parent
        changed = self._cut(top, t)
        while not self._root.times and self._root.height:
            self._plant(self._root.children[0])
        if top.height > self._root.height:
            top = self._root
        changed |= self._refill_spine(top)
        self._repair({node for node in changed if node.height <= self._root.height} | {self._root})

    def _cut(self, top: Node, t: Any) -> set[Node]:
        """Drop what is older than t below a left-spine node; the path of the cut becomes the spine."""
        node, changed = top, {top}
        while True:
            k = bisect_left(node.times, t)
            self._size -= k + sum(_count(child) for child in node.children[:k])
            del node.times[:k], node.states[:k], node.children[:k]
            if not node.height:
                self._left = node
                return changed
            node = node.children[0]
            node.leftmost = True
            changed.add(node)

    def _refill_spine(self, top: Node) -> set[Node]:
        """After a cut, give each spine node below `top` enough records, from the top down.

        A node that may have to give one to its own child first gets one more than the least. `top`
        itself may end with too few, which goes on upwards as after any evict.
        """
        node, changed = top, set()
        while node.height and node.times:
            child = node.children[0]
            if len(child.times) < _LEAST + (child.height > 0):
                changed |= self._join_or_share(node, _LEAST + 1)
            node = child
        return changed | self._refill(top)

    def _refill(self, node: Node) -> set[Node]:
        """Give a left-spine node enough records from its sibling; go on upwards if they become one."""
        changed: set[Node] = set()
        while node.parent is not None and len(node.times) < _LEAST:
            parent = node.parent
            changed |= self._join_or_share(parent, _LEAST)
            node = parent
        if node is self._root and not node.times and node.height:
            self._plant(node.children[0])
            changed = {n for n in changed if n is not node} | {self._root}
        return changed

    def _join_or_share(self, parent: Node, enough: int) -> set[Node]:
        """Make one node of the first two children if they fit, else move records to the first."""
        node, sibling = parent.children[0], parent.children[1]
        times = [*node.times, parent.times[0], *sibling.times]
        states = [*node.states, parent.states[0], *sibling.states]
        children = node.children + sibling.children
        if len(times) <= _MOST:
            self._fill(node, times, states, children)
            del parent.times[0], parent.states[0], parent.children[1]
            return {node, parent}  # a sibling on the right spine was the root's only other child: see _plant
        k = max(enough, (len(times) - 1) // 2)
        self._fill(node, times[:k], states[:k], children[: k + 1])
        self._fill(sibling, times[k + 1 :], states[k + 1 :], children[k + 1 :])
        parent.times[0], parent.states[0] = times[k], states[k]
        return {node, sibling, parent}

    @staticmethod
    def _fill(node: Node, times: list[Any], states: list[Any], children: list[Node]) -> None:
        node.times, node.states, node.children = times, states, children
        for child in children:
            child.parent = node

    # ---- repair: splits from the leaves up, then partials ----

    def _repair(self, changed: set[Node]) -> None:
        """Split nodes that are too full and combine anew what the changed nodes' partials depend on."""
        left: Node | None = None  # the highest changed nodes of the spines
        right: Node | None = None
        level = 0
        while level <= self._root.height:
            here = {node for node in changed if node.height == level}
            for node in here:
                for piece in self._split(node, changed):
                    if piece is self._root:
                        continue
                    if piece.leftmost:
                        left = piece
                    if piece.rightmost:
                        right = piece
                    if not (piece.leftmost or piece.rightmost):
                        piece.agg = self._fold(self._partials(piece))
                        assert piece.parent is not None
                        changed.add(piece.parent)
            level += 1
        if self._replanted and self._root.height:
            left, right = self._root.children[0], self._root.children[-1]
        if self._replanted or self._root in changed:
            self._root.agg = self._fold(self._partials(self._root))
        self._replanted = False
        self._repair_spine(left, 0)
        self._repair_spine(right, -1)

    def _repair_spine(self, node: Node | None, side: int) -> None:
        while node is not None:
            own = self._fold(self._partials(node))
            parent = node.parent
            if parent is not None and parent.parent is not None:
                own = self._combine(own, parent.agg) if side == 0 else self._combine(parent.agg, own)
            node.agg = own
            node = node.children[side] if node.height else None

    def _partials(self, node: Node) -> Iterator[Any]:
        """Return what a node's own partial is made of: all but what a spine keeps elsewhere."""
        for k, state in enumerate(node.states):
            if node.height and not (node.leftmost and k == 0):
                yield node.children[k].agg
            yield state
        if node.height and not node.rightmost:
            yield node.children[-1].agg

    def _split(self, node: Node, changed: set[Node]) -> list[Node]:
        """Cut a node into as few as can hold its records; the records between them go to the parent."""
        count = len(node.times)
        if count <= _MOST:
            return [node]
        if node.parent is None:
            self._plant(Node(node.height + 1, [], [], [node]))
        parent = node.parent
        assert parent is not None
        changed.add(parent)
        pieces = -(-(count + 1) // (_MOST + 1))
        edges = [(count + 1) * k // pieces for k in range(pieces + 1)]  # in children: one more than records
        times, states, children = node.times, node.states, node.children
        place = parent.children.index(node)
        made = [node]
        self._fill(node, times[: edges[1] - 1], states[: edges[1] - 1], children[: edges[1]])
        for begin, end in pairwise(edges[1:]):
            piece = Node(node.height, times[begin : end - 1], states[begin : end - 1], children[begin:end])
            piece.parent = parent
            made.append(piece)
        between = [edge - 1 for edge in edges[1:-1]]
        parent.times[place:place] = [times[k] for k in between]
        parent.states[place:place] = [states[k] for k in between]
        parent.children[place + 1 : place + 1] = made[1:]
        made[-1].rightmost, node.rightmost = node.rightmost, False
        if node is self._right:
            self._right = made[-1]
        return made

    # ---- checks ----

    @property
    def stored_partials(self) -> int:
        """One per record and one per node."""
        return sum(len(node.states) + 1 for node in self._nodes(self._root))

    def _nodes(self, node: Node) -> Iterator[Node]:
        yield node
        for child in node.children:
            yield from self._nodes(child)

    def _in_order(self, node: Node) -> Iterator[tuple[Any, Any]]:
        for k in range(len(node.times) + 1):
            if node.height:
                yield from self._in_order(node.children[k])
            if k < len(node.times):
                yield node.times[k], node.states[k]

    def check_invariants(self, window: Sequence[tuple[Any, Any]] | None = None) -> None:
        """Assert the shape of the tree, its order, its spines and fingers, and each partial."""
        records = list(self._in_order(self._root))
        assert len(records) == self._size, f"{len(records)} records, counted as {self._size}"
        assert all(a[0] <= b[0] for a, b in pairwise(records)), "times out of order"
        self._check_node(self._root, True, True)
        if window is not None:
            assert [t for t, _ in records] == [t for t, _ in window]
            for (t, state), (_, value) in zip(records, window, strict=True):
                self._expect(f"record at {t}", state, [self._lift(value)])

    def _check_node(self, node: Node, leftmost: bool, rightmost: bool) -> None:
        root = node is self._root
        assert (node.leftmost, node.rightmost) == (leftmost, rightmost), "a spine is marked wrongly"
        assert len(node.times) <= _MOST, f"{len(node.times)} records in a node"
        assert root or len(node.times) >= _LEAST, f"only {len(node.times)} records in a node"
        assert len(node.children) == (len(node.times) + 1 if node.height else 0)
        if node.height == 0:
            assert (node is self._left, node is self._right) == (leftmost, rightmost), "a finger is elsewhere"
        self._expect("a node's partial", node.agg, self._due(node))
        for k, child in enumerate(node.children):
            assert child.parent is node
            assert child.height == node.height - 1
            self._check_node(child, leftmost and k == 0, rightmost and k == len(node.children) - 1)

    def _due(self, node: Node) -> Iterator[Any]:
        """Return the records that a node's partial must be the product of."""
        parent = node.parent
        above = parent is not None and parent.parent is not None
        if above and node.rightmost and parent is not None:
            yield from self._due(parent)
        for k in range(len(node.times) + 1):
            last = k == len(node.times)
            if node.height and not (node.leftmost and k == 0) and not (node.rightmost and last):
                yield from (state for _, state in self._in_order(node.children[k]))
            if not last:
                yield node.states[k]
        if above and node.leftmost and parent is not None:
            yield from self._due(parent)


def _count(node: Node) -> int:
    return len(node.times) + sum(_count(child) for child in node.children)


def _check_time(t: Any) -> Any:
    if t is None or t != t:
        raise ValueError(f"a record needs a time, not {t!r}.")
    return t


def _check_comparable(times: list[Any]) -> None:
    try:
        sorted(times)
    except TypeError as error:
        raise TypeError("times must be of one kind, so that they can be put in order.") from error
