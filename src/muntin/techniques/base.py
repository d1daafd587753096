"""One interface for all techniques: run queries over a stream, count what it took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from muntin.techniques.partials import Partials, State
from muntin.techniques.stream import Row, Stream, UnsupportedWorkload, Workload
from muntin.windows.base import Query


@dataclass(frozen=True)
class Counts:
    """What a run took.

    `online` are the combines of records into the slice that is being filled, one for each record but the
    first; `update` are those that keep what is stored up to date, `merge` those that make up a window when it
    ends. To join an empty partial is no combine. `partials` and `records` are how many of them were stored
    at once, at most; `bytes` is the room that they take, eight bytes for each number.
    """

    online: int = 0
    update: int = 0
    merge: int = 0
    slices: int = 0
    partials: int = 0
    records: int = 0
    bytes: int = 0

    @property
    def store(self) -> int:
        """All combines but those of records into the slice that is being filled."""
        return self.update + self.merge


class Technique(ABC):
    """A way to aggregate windows; `counts` tells what the last run took.

    >>> import muntin as mt
    >>> from muntin.techniques import Cutty, Stream
    >>> technique = Cutty(store="lazy")
    >>> stream = Stream({"ts": [0, 4, 7, 12], "v": [1.0, 2.0, 4.0, 8.0]})
    >>> for row in technique.run([mt.sliding(10, every=5).agg(total=mt.sum("v"))], stream):
    ...     print(row.start, row.end, row.values)
    -5 5 {'total': 3.0}
    0 10 {'total': 7.0}
    5 15 {'total': 12.0}
    10 20 {'total': 8.0}
    >>> technique.counts.online, technique.counts.slices
    (1, 3)
    """

    counts: Counts

    def run(self, queries: Query | Iterable[Query], stream: Stream) -> list[Row]:
        """Return the windows of all queries, in the order in which they are emitted."""
        workload = Workload(queries, stream)
        self.check(workload)
        return self._run(workload, Partials(workload))

    @abstractmethod
    def check(self, workload: Workload) -> None:
        """Raise UnsupportedWorkload if the technique does not apply, saying why."""

    @abstractmethod
    def _run(self, workload: Workload, partials: Partials) -> list[Row]: ...

    def _needs_order(self, workload: Workload) -> None:
        if not workload.in_order:
            raise UnsupportedWorkload(f"{type(self).__name__} needs records in order of time.")


def row(workload: Workload, partials: Partials, w: int, state: State) -> Row:
    """Return the row of window w, given its state."""
    windows = workload.windows
    query, number = int(windows.query[w]), int(windows.ids[w])
    return Row(
        workload.names[query],
        int(windows.starts[w]),
        int(windows.ends[w]),
        None if number < 0 else number,
        partials.lower(query, state),
    )
