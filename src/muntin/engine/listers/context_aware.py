"""Windows whose edges a user's window adds, moves and removes as it is told of records."""

from __future__ import annotations

import copy
from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Flags, Indices, Times
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers.base import FAR, Batch, Found, Lister, Signal, Types
from muntin.engine.rows import NEVER
from muntin.engine.store.ordered import Ordered
from muntin.engine.transaction import put_entries
from muntin.windows.aware import Edges


class AwareLister(Lister):
    """Tells a user's window of each record, and watches the edges it sets."""

    only_settled = True
    open_columns: ClassVar[tuple[str, ...]] = ("code", "position", "time")  # of records that are kept
    open_by = "position"

    def __init__(self, rule: Any, number: int, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self._row: Any = namedtuple("Record", ("t", *rule.window.columns))  # type: ignore[misc]
        self.keyed["edges"] = _nothing(1)

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        held = self.keyed["edges"]
        if keys > len(held):
            grown = np.concatenate([held, _nothing(max(keys, 2 * len(held)) - len(held))])
            self.keyed = {**self.keyed, "edges": grown}

    def overwrite_keys(self, codes: Codes) -> None:
        """Save what is held for keys; a window may change its state in place."""
        self.undo_by(put_entries, self.keyed["edges"], codes, copy.deepcopy(self.keyed["edges"][codes]))

    def copy(self) -> Lister:
        """Return a lister that goes on by itself."""
        twin = super().copy()
        twin.keyed["edges"] = copy.deepcopy(self.keyed["edges"])
        return twin

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The columns that records have."""
        return tuple(Signal(None, name, read=False) for name in self.rule.window.columns)

    def wrong(self, seen: Indices, types: Types) -> str | None:
        """Return what of its state cannot be."""
        del seen, types
        for edges in self.keyed["edges"]:
            if type(edges) is not tuple or len(edges) != 2 or type(edges[0]) is not list:
                return "edges that are none"
            for window in edges[0]:
                whole = type(window) is tuple and [type(bound) for bound in window] == [int, int]
                if not whole or not -(2**63) <= window[0] < window[1] < 2**63:
                    return "a window that does not start before it ends"
        return None

    def read(self, columns: Columns, count: int) -> Values:
        """Return the columns that records have."""
        objects = [np.empty(count, object) for _ in self.rule.window.columns]
        for column, name in zip(objects, self.rule.window.columns, strict=True):
            column[:] = columns.objects(name)
        return Values(tuple(objects), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Tell of each record."""
        del marks
        columns = [column.tolist() for column in batch.values[self.signal].columns]
        rows = list(map(self._row, batch.times.tolist(), *columns))
        window, ended = self.rule.window, []
        for r, k in enumerate(batch.codes.tolist()):
            windows, state = self.keyed["edges"][k]
            edges = Edges(windows, state, self.rule.memory)
            for i in range(int(batch.bounds[r]), int(batch.bounds[r + 1])):
                ended += [(k, start, end) for start, end in edges.pass_time(rows[i].t)]
                try:
                    window.notify(edges, rows[i])
                except MemoryError:
                    raise
                except Exception as error:
                    name, t = type(window).__name__, int(batch.times[i])
                    position = int(i + batch.base[r])
                    raise ValueError(
                        f"{name}.notify raised {error!r}, at record {position} of its key, of time {t}."
                    ) from error
            self.keyed["edges"][k] = (list(edges.windows), edges.state)
        self._keep(batch)
        found = self._found(ended)
        self._forget()
        return found

    def _keep(self, batch: Batch) -> None:
        """Keep records with those that are kept already."""
        new = {"code": batch.each_code(), "position": batch.positions(), "time": batch.times}
        order = np.argsort(np.concatenate([self.opened["code"], new["code"]]), kind="stable")
        self.opened = {n: np.concatenate([held, new[n]])[order] for n, held in self.opened.items()}

    def _forget(self) -> None:
        """Let go of records that no edge can lie among any more."""
        if self.rule.memory is not None and len(self.opened["code"]):
            least = np.full(len(self.keyed["edges"]), FAR)
            for k in np.unique(self.opened["code"]).tolist():
                least[k] = min((start for start, _ in self.keyed["edges"][k][0]), default=FAR)
            newest = np.full(len(least), NEVER)
            np.maximum.at(newest, self.opened["code"], self.opened["time"])
            np.minimum(least, newest - self.rule.memory, out=least)
            kept = self.opened["time"] >= least[self.opened["code"]]
            self.opened = {name: held[kept] for name, held in self.opened.items()}

    def pass_time(self, bound: float, seen: Indices) -> Found | None:
        """Return the windows that have ended."""
        del seen
        found: list[tuple[int, int, int]] = []
        for k in np.flatnonzero([bool(windows) for windows, _ in self.keyed["edges"]]).tolist():
            windows, state = self.keyed["edges"][k]
            ended = [window for window in windows if window[1] <= bound]
            if ended:
                self.overwrite(self.keyed["edges"], k)
                self.keyed["edges"][k] = ([w for w in windows if w[1] > bound], state)
                found += [(k, start, end) for start, end in ended]
        windows = self._found(found)
        self._forget()
        return windows

    def _found(self, ended: list[tuple[int, int, int]]) -> Found | None:
        """Return windows that have ended, by key, start and end."""
        if not ended:
            return None
        code, start, stop = np.array(ended, np.int64).T.copy()
        begin, end = self._position(code, start), self._position(code, stop)
        windows = Found(code, begin, end, None, start, stop)
        return windows.take(end > begin)  # without records, there is none

    def _position(self, code: Codes, time: Times) -> Indices:
        """Return the position of a key's first record at or past a time."""
        low, high = (np.searchsorted(self.opened["code"], code, side=side) for side in ("left", "right"))
        at = [
            a + int(np.searchsorted(self.opened["time"][a:b], t))
            for a, b, t in zip(low.tolist(), high.tolist(), time.tolist(), strict=True)
        ]
        positions = np.append(self.opened["position"], 0)
        last = self.opened["position"][np.maximum(high - 1, 0)] + 1 if len(self.opened["code"]) else 0 * code
        return np.where(np.array(at) < high, positions[at], np.where(high > low, last, 0))

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: the end of time ends all windows."""
        del seen
        return None

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the oldest record that is kept."""
        del reach, ordered
        return self.oldest_held(seen)


def _nothing(count: int) -> NDArray[Any]:
    """Return keys without windows and state."""
    none = np.empty(count, object)
    for k in range(count):
        none[k] = ([], None)
    return none
