"""What the times of a batch are like, and what they make of the watermark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Survey:
    """What the times of a batch are like."""

    disordered: bool  # whether a time is less than the one before
    low: int
    high: int
    late: bool  # whether a record is below the watermark


@dataclass(frozen=True)
class Pace:
    """What all records of a batch make of the watermark, where only some of them are taken in."""

    marks: Places | None  # just before each record that is taken in; None: none is late
    after: int
    largest: int
