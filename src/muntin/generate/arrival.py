"""When records arrive: most at once, a share of them later, and never later than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin.generate.chance import uniform
from muntin.windows.durations import Clock, Duration

MICROSECONDS = Clock(1_000)
TIME_TYPE = pa.timestamp("us", "UTC")


def cut_off(times: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return timestamps in another unit: what is finer is cut off, what the unit does not reach refused.

    >>> cut_off(pa.chunked_array([pa.array([1500], pa.timestamp("ns"))]), TIME_TYPE).cast(pa.int64())[0]
    <pyarrow.Int64Scalar: 1>
    """
    return times.cast(options=pc.CastOptions(target_type=kind, allow_time_truncate=True))


class Recording(Protocol):
    """Records by event time, any stretch of which can be had without those before it."""

    @property
    def time(self) -> str:
        """Return the name of its time column."""

    @property
    def disorder(self) -> float:
        """Return the share of its records that come late unless one says otherwise."""

    @property
    def length(self) -> int:
        """Return how long it lasts, in microseconds."""

    @property
    def schema(self) -> pa.Schema:
        """Return its columns."""

    def between(self, begin: int, end: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of a stretch, in order: with the times since the start, in microseconds,
        and the running numbers of each."""


@dataclass(frozen=True)
class Arrivals:
    """A recording in the order in which its records arrive.

    The `disorder` is the share of records that come late, by up to `delay`, evenly spread; without one, it is
    the recording's own. A record arrives at the same moment in every run with the same seed.

    >>> import muntin.generate as gen
    >>> arrivals = gen.Arrivals(gen.Factory(seconds=10), disorder=0.2, delay="2s")
    >>> arrivals.table().num_rows
    1000
    >>> arrivals.between(2_000_000, 3_000_000).num_rows  # about 100 of them arrive in the third second
    92
    """

    recording: Recording
    disorder: float | None = None
    delay: Any = "2s"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self._share <= 1:
            raise ValueError(f"disorder is a share between 0 and 1, not {self.disorder!r}.")
        Duration.of(self.delay, "delay", least=0).ticks(MICROSECONDS, "delay")

    @property
    def length(self) -> int:
        """Return when the last record has arrived, in microseconds since the start."""
        return self.recording.length + self._latest

    @property
    def _share(self) -> float:
        return self.recording.disorder if self.disorder is None else self.disorder

    @property
    def _latest(self) -> int:
        """Return by how much a record is late at most."""
        longest = Duration.of(self.delay, "delay", least=0).ticks(MICROSECONDS, "delay")
        return longest if self._share else 0

    def between(self, begin: int, end: int) -> pa.Table:
        """Return the records that arrive in [begin, end), microseconds since the start, in that order."""
        latest = self._latest
        table, times, numbers = self.recording.between(max(begin - latest, 0), end)
        if not latest:
            return table
        late = uniform(self.seed, "late", numbers) < self._share
        # at least 1, so that a record that counts as late does come after its time
        delays = 1 + (uniform(self.seed, "delay", numbers) * latest).astype(np.int64)
        arrived = times + np.where(late, delays, 0)
        inside = np.flatnonzero((begin <= arrived) & (arrived < end))
        return table.take(pa.array(inside[np.argsort(arrived[inside], kind="stable")]))

    def table(self) -> pa.Table:
        """Return all records in the order in which they arrive."""
        return self.between(0, self.length + 1)
