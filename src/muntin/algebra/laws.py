"""The laws that an aggregate declares, tried on samples."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from muntin.algebra.aggregate import NO_IDENTITY, Aggregate

_MOST_STATES = 12  # triples of states are tried, so their number is cubed


class LawViolation(ValueError):
    """An aggregate breaks a law that it must keep or says it keeps."""


def check_aggregate(aggregate: Aggregate | Callable[[], Aggregate], samples: Iterable[Any]) -> None:
    """Try the declared laws of an aggregate (or its class) on sample values; raise LawViolation if one fails.

    Associativity is always required. Identity, commutativity, selectivity and the inverses are tried
    where they are declared. Floats may differ by rounding.

    >>> class Mean2(Aggregate):
    ...     def combine(a, b): return (a + b) / 2
    >>> check_aggregate(Mean2, [1, 2, 6])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    muntin.algebra.laws.LawViolation: Mean2 is not associative: (1 + 1) + 2 gives 1.5 but ...
    """
    tested = aggregate if isinstance(aggregate, Aggregate) else aggregate()
    if not isinstance(tested, Aggregate):
        raise TypeError(f"check_aggregate takes an aggregate or its class, not {aggregate!r}.")
    values = list(samples)
    if not values:
        raise ValueError("check_aggregate needs at least one sample value.")
    _Laws(tested).check(_states(tested, values))


def _states(aggregate: Aggregate, values: list[Any]) -> list[Any]:
    """Lift the samples, and put together a few of them: laws must hold for longer windows, too."""
    lifted = [aggregate.lift(v) if aggregate.arity == 1 else aggregate.lift(*v) for v in values]
    states = lifted[:_MOST_STATES]
    for a, b in itertools.pairwise(lifted):
        if len(states) >= _MOST_STATES:
            break
        states.append(aggregate.combine(a, b))
    return states


class _Laws:
    def __init__(self, aggregate: Aggregate) -> None:
        self.name = repr(aggregate).partition("(")[0]
        self.aggregate = aggregate
        self.algebra = aggregate.algebra()

    def check(self, states: list[Any]) -> None:
        for a, b, c in itertools.product(states, repeat=3):
            self.associative(a, b, c)
        for a, b in itertools.product(states, repeat=2):
            self.pairs(a, b)
        if self.algebra.identity is not NO_IDENTITY:
            for a in states:
                self.identity(a, self.algebra.identity)
        if self.aggregate.in_place:
            for a, b in itertools.product(states, repeat=2):
                self.aliased(self.aggregate, a, b)

    def associative(self, a: Any, b: Any, c: Any) -> None:
        combine, before = self.algebra.combine, copy.deepcopy((a, b, c))
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        if not all(map(close, (a, b, c), before)):
            self.fail(f"changes its arguments: {before} became {(a, b, c)}")
        if not self.same(left, right, a, b, c):
            grouped = f"({a} + {b}) + {c} gives {left} but {a} + ({b} + {c}) gives {right}"
            self.fail(f"is not associative: {grouped}")

    def aliased(self, aggregate: Any, a: Any, b: Any) -> None:
        """Try combining into the row of either argument."""
        for into, row in (("a", a.copy()), ("b", b.copy())):
            aggregate.combine_into(row, row if into == "a" else a, row if into == "b" else b)
            if not self.same(row, self.algebra.combine(a, b), a, b):
                self.fail(f"cannot combine {a} and {b} into the row of {into}: it reads what it has written")

    def identity(self, a: Any, one: Any) -> None:
        for what, got in (("after", self.algebra.combine(a, one)), ("before", self.algebra.combine(one, a))):
            if not self.same(got, a, a):
                self.fail(f"has no identity {one}: combined {what} {a} it gives {got}")

    def pairs(self, a: Any, b: Any) -> None:
        algebra, together = self.algebra, self.algebra.combine(a, b)
        if self.aggregate.commutative:
            swapped = algebra.combine(b, a)
            if not self.same(together, swapped, a, b):
                self.fail(f"is not commutative: {a} + {b} gives {together} but {b} + {a} gives {swapped}")
        if self.aggregate.selective and not (self.same(together, a, a) or self.same(together, b, b)):
            self.fail(f"is not selective: {a} + {b} gives {together}, which is neither")
        if algebra.invert and not self.same(got := algebra.invert(together, b), a, a, b):
            self.fail(f"breaks its invert: ({a} + {b}) - {b} gives {got}, not {a}")
        if algebra.invert_oldest and not self.same(got := algebra.invert_oldest(together, a), b, a, b):
            self.fail(f"breaks its invert_oldest: {a} taken out of ({a} + {b}) gives {got}, not {b}")

    def same(self, a: Any, b: Any, *operands: Any) -> bool:
        """Two states are the same if they look it, or if the same answer comes of both.

        Rounding is judged by the largest number that went in: what cancels leaves some of it behind.
        """
        scale = max(map(_largest, operands))
        return close(a, b, scale) or close(self.algebra.lower(a), self.algebra.lower(b), scale)

    def fail(self, what: str) -> None:
        raise LawViolation(f"{self.name} {what}.")


def _largest(state: Any) -> float:
    if isinstance(state, (tuple, list)):
        return max(map(_largest, state), default=0.0)
    return abs(state) if isinstance(state, (int, float)) and math.isfinite(state) else 0.0


def close(a: Any, b: Any, scale: float = 0.0) -> bool:
    """Tell whether two states or answers are equal, floats to rounding (also of `scale`) and NaN with NaN.

    >>> close((1, 0.1 + 0.2), (1, 0.3)), close(float("nan"), float("nan")), close("a", "b")
    (True, True, False)
    """
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(close(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) or isinstance(b, float):
        try:
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12 * max(1.0, scale)) or (a != a and b != b)
        except TypeError:
            return False
    equal = a == b
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
