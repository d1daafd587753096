"""Many small choices in one draw: a draw of Hypothesis takes far longer than what a record is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st


def packed(*choices: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One of each of these, a byte for each choice: it shrinks to the first of each, one by one."""
    size = len(choices)

    def unpacked(drawn: bytes) -> tuple[Any, ...]:
        return tuple([choice[byte % len(choice)] for choice, byte in zip(choices, drawn, strict=True)])

    return st.binary(min_size=size, max_size=size).map(unpacked)


def as_often(first: Sequence[Any], *others: Sequence[Any]) -> list[Any]:
    """All of these, each part as often as the first one."""
    return [*first, *(part[place % len(part)] for part in others for place in range(len(first)))]
