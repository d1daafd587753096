"""Folds of states of any kind, in Python: neighbours in pairs, and ranges that share where they overlap."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Callable, Iterator
from typing import Any

Combine = Callable[[Any, Any], Any]
_FEW = 8  # records, a power of two
EXACT = decimal.Context(prec=128)  # sums of decimals, of up to 76 digits, lose none


def fold(states: list[Any], combine: Combine) -> Any:
    """Combine neighbours, then pairs of them, and so on: states that grow are copied only a few times.

    >>> fold(["a", "b", "c"], lambda a, b: f"({a}{b})")
    '((ab)c)'
    """
    while len(states) > 1:
        odd = states[-1:] if len(states) & 1 else []
        states = [*map(combine, states[::2], states[1::2]), *odd]
    return states[0]


def fold_segments(
    columns: list[list[Any]], bounds: list[int], lift: Callable[..., Any], combine: Callable[[], Combine]
) -> Iterator[tuple[int, Any]]:
    """Lift records, and fold those from one bound to the next; yield each segment that has some.

    What combines is asked for at each segment: it may be another one by then.

    >>> dict(fold_segments([[1, 2, 3]], [0, 2, 2, 3], lambda v: {v}, lambda: lambda a, b: a | b))
    {0: {1, 2}, 2: {3}}
    """
    short = len(columns[0]) < 4 * len(bounds)  # lifted together: a call for each would take longer
    lifted = list(map(lift, *columns)) if short else []
    for j, (begin, end) in enumerate(itertools.pairwise(bounds)):
        if short and begin < end:
            yield j, lifted[begin] if end - begin == 1 else fold(lifted[begin:end], combine())
        elif begin < end:
            yield j, _fold_records([column[begin:end] for column in columns], lift, combine())


def _fold_records(columns: list[list[Any]], lift: Callable[..., Any], combine: Combine) -> Any:
    """Lift and fold records, a few neighbours at a time, so that most states are short-lived."""
    count = len(columns[0])
    whole = count - count % _FEW
    few = [map(lift, *(c[first:whole:_FEW] for c in columns)) for first in range(_FEW)]
    while len(few) > 1:
        few = [map(combine, older, newer) for older, newer in zip(few[::2], few[1::2], strict=True)]
    rest = map(lift, *(c[whole:] for c in columns))
    return fold([*few[0], *rest], combine)


class SharedRanges:
    """Folds of ranges of states, made of pairs, pairs of pairs and so on, each made once when it is needed.

    Never more combines than folding each range by itself, and no pair that is not within a range.
    """

    def __init__(
        self, states: list[Any], combine: Combine, finish: Callable[[Any], Any] = lambda state: state
    ) -> None:
        self.combines = 0
        self._finish = finish
        self._states = states
        self._combine = combine
        self._nodes: dict[tuple[int, int], Any] = {}
        self._folded: dict[tuple[int, int], Any] = {}

    def of(self, low: int, high: int) -> Any:
        """Return what comes of the states from one place up to another, at least one."""
        which = (low, high)
        if which not in self._folded:
            self._folded[which] = self._finish(self._fold(low, high))
        return self._folded[which]

    def _fold(self, low: int, high: int) -> Any:
        lefts, rights, level = [], [], 0
        while low < high:
            if low & 1:
                lefts.append(self._node(level, low))
                low += 1
            if high & 1:
                high -= 1
                rights.append(self._node(level, high))
            low, high, level = low >> 1, high >> 1, level + 1
        self.combines += len(lefts) + len(rights) - 1
        left, right = lefts[:1], rights[:1]  # from the outside in: small states first
        for node in lefts[1:]:
            left[0] = self._combine(left[0], node)
        for node in rights[1:]:
            right[0] = self._combine(node, right[0])
        return self._combine(left[0], right[0]) if left and right else (left or right)[0]

    def _node(self, level: int, place: int) -> Any:
        if level == 0:
            return self._states[place]
        if (level, place) not in self._nodes:
            older, newer = self._node(level - 1, 2 * place), self._node(level - 1, 2 * place + 1)
            self._nodes[level, place] = self._combine(older, newer)
            self.combines += 1
        return self._nodes[level, place]
