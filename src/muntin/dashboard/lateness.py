"""Lateness of records, latency of calls, and the watermark over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ticks = NDArray[np.int64]
_STRIP = 600  # looks that the strip goes back
_BUCKETS = 64  # powers of two of ticks
BUCKETS = tuple(1e-6 * 4**k for k in range(13))  # seconds: 1 us to 17 s, of calls
_FADE = 0.98  # what a look takes off the weight of what was seen before


class Lateness:
    """A histogram of observed lateness, of a sample of the records; old ones fade away."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BUCKETS + 1)
        self.largest = 0
        self.seen = 0

    def add(self, before: int | None, times: Ticks) -> None:
        """Take in times of records as they came, and the newest time before them."""
        if not len(times):
            return
        floor = int(times[0]) if before is None else before
        newest = np.maximum(np.maximum.accumulate(np.append(floor, times[:-1])), floor)
        late = np.maximum(newest - times, 0)
        self.counts *= _FADE
        self.counts += np.bincount(bucket_of(late), minlength=_BUCKETS + 1)[: _BUCKETS + 1]
        self.largest = max(self.largest, int(late.max()))
        self.seen += len(times)

    def described(self) -> dict[str, Any]:
        """Return the shares of records by the upper bound of their lateness, and what share lies beyond."""
        total = float(self.counts.sum())
        if not total:
            return {"seen": 0, "buckets": []}
        last = int(np.flatnonzero(self.counts)[-1])
        shares = self.counts[: last + 1] / total
        bounds = [0, *(2**k for k in range(last))]
        beyond = 1 - np.cumsum(shares)
        buckets = [
            {"upto": bound, "share": float(share), "beyond": max(0.0, float(rest))}
            for bound, share, rest in zip(bounds, shares, beyond, strict=True)
        ]
        return {"seen": self.seen, "largest": self.largest, "buckets": buckets}


def bucket_of(late: Ticks) -> Ticks:
    """Return the bucket of each lateness: 0 for none, k for those above 2^(k-2) and up to 2^(k-1) ticks.

    >>> bucket_of(np.array([0, 1, 2, 3, 4, 5])).tolist()
    [0, 1, 2, 3, 3, 4]
    """
    out = np.zeros(len(late), np.int64)
    some = late > 0
    out[some] = np.ceil(np.log2(late[some])).astype(np.int64) + 1
    return out


class Strip:
    """Watermark and newest time against the clock on the wall, look by look."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float, float]] = deque(maxlen=_STRIP)

    def add(self, wall: float, newest: float, watermark: float) -> None:
        """Add a look."""
        self._points.append((wall, newest, watermark))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the looks as columns."""
        return _columns(self._points)


def _columns(points: Iterable[tuple[float, float, float]]) -> dict[str, NDArray[np.float64]]:
    table = np.array(list(points), np.float64).reshape(-1, 3)
    return {name: table[:, k] for k, name in enumerate(("strip_wall", "strip_newest", "strip_watermark"))}


@dataclass
class Latency:
    """How long calls took: a histogram for machines, and the last ones for people."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BUCKETS) + 1, np.int64))
    seconds: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=4096))

    def add(self, nanoseconds: NDArray[np.int64]) -> None:
        """Take in the durations of calls."""
        if len(nanoseconds):
            seconds = nanoseconds / 1e9
            at = np.searchsorted(BUCKETS, seconds)
            self.counts += np.bincount(at, minlength=len(self.counts))
            self.seconds += float(seconds.sum())
            self.last.extend(seconds[-4096:].tolist())

    def quantiles(self) -> dict[str, float | None]:
        """Return the median and the 99th percentile of the last calls, in seconds."""
        return spread(self.last)


def spread(values: Collection[float]) -> dict[str, float | None]:
    """Return the median and the 99th percentile of values; None of none."""
    if not values:
        return {"p50": None, "p99": None}
    p50, p99 = np.quantile(np.array(values), (0.5, 0.99)).tolist()
    return {"p50": p50, "p99": p99}
