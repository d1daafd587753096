"""A Bloom filter of 4096 bits: the papers' example of an expensive combine."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.algebra import RowAggregate

WORDS = 64  # of 64 bits
HASHES = 4


class Bloom(RowAggregate):
    """The number of bits that the window's values set, each value four of 4096."""

    width, dtype, commutative = WORDS, "u8", True

    @staticmethod
    def lift_into(row: Any, v: int) -> None:
        for k in range(HASHES):
            bit = ((v + 1) * (2654435761 + 2 * k) >> 7) & 4095
            row[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)

    @staticmethod
    def combine_into(row: Any, a: Any, b: Any) -> None:
        np.bitwise_or(a, b, row)

    @staticmethod
    def lower(row: Any) -> float:
        bits = 0
        for word in row:
            while word:
                word &= word - np.uint64(1)
                bits += 1
        return float(bits)
