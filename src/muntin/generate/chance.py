"""Random numbers by position: a record draws the same ones wherever a stretch of the stream begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, purpose: str, positions: Integers) -> Floats:
    """Return a number in [0, 1) for each position; each purpose has numbers of its own.

    >>> import numpy as np
    >>> whole = uniform(7, "delay", np.arange(10))
    >>> np.array_equal(whole[4:], uniform(7, "delay", np.arange(4, 10)))
    True
    """
    # The finalizer of SplitMix64 turns a counter into bits without pattern, column by column.
    key = np.uint64(int.from_bytes(f"{seed}:{purpose}".encode()[-64:], "big") % 0xFFFFFFFFFFFFFFC5)
    with np.errstate(over="ignore"):
        bits = _mixed(_mixed(positions.astype(np.uint64) * _GOLDEN + key) + key)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, purpose: str, positions: Integers) -> Floats:
    """Return a number of the standard normal distribution for each position."""
    # Box and Muller's way; 1 - u keeps the logarithm finite.
    radius = np.sqrt(-2 * np.log1p(-uniform(seed, purpose + " radius", positions)))
    return np.asarray(radius * np.cos(2 * np.pi * uniform(seed, purpose + " angle", positions)))


def _mixed(bits: NDArray[Any]) -> NDArray[Any]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
