"""Aggregates that tests of all parts use: non-commutative, with and without inverse, user-written."""

from __future__ import annotations

from typing import ClassVar

import muntin as mt


class Concat(mt.Aggregate):
    """Strings end to end: not commutative, with both inverses, on the object path."""

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a[: len(a) - len(b)]

    def invert_oldest(a, b):
        return a[len(b) :]


class Affine(mt.Aggregate):
    """Maps x -> m x + c over the integers modulo a prime, one after the other: not commutative."""

    def lift(v):
        return (v * 7 + 1) % 10007, (v + 3) % 10007

    def combine(a, b):
        return a[0] * b[0] % 10007, (a[1] * b[0] + b[1]) % 10007

    def lower(s):
        return s[0] * 10007 + s[1]


class SumOfSquares(mt.Aggregate):
    """The example of the manual."""

    commutative = True
    identity = 0.0

    @staticmethod
    def lift(v):
        return v * v

    @staticmethod
    def combine(a, b):
        return a + b

    @staticmethod
    def lower(a):
        return a

    @staticmethod
    def invert(a, b):
        return a - b


class Listed(mt.Aggregate):
    """Lists, with an identity that cannot be hashed and an answer of its own over nothing."""

    identity: ClassVar[list] = []
    empty = "nothing"

    def lift(v):
        return [v]

    def combine(a, b):
        return a + b


class Union(mt.Aggregate):
    """Sets: a state that is not made of scalars."""

    commutative = True

    def lift(v):
        return frozenset([v])

    def combine(a, b):
        return a | b

    def lower(s):
        return sorted(s)


class Picky(mt.Aggregate):
    """Refuses one value."""

    commutative = True

    def lift(v):
        if v == 999:
            raise ValueError("999")
        return v

    def combine(a, b):
        return a + b
