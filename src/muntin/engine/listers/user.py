"""Windows that begin and end where a user's function says."""

from __future__ import annotations

import copy
from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Flags, Indices, frozen
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers.base import Batch, Fill, Found, Lister, Signal, Types, numbered
from muntin.engine.listers.markers import QueueLister, run_at
from muntin.engine.store.ordered import Ordered
from muntin.engine.transaction import put_entries
from muntin.windows.policies import Policy


class UserLister(QueueLister):
    """Asks a function at each record."""

    fills: ClassVar[dict[str, Fill]] = {"number": ("i8", 0), "opened": ("i8", 0)}
    open_by = None  # a record may begin several
    only_settled = True

    def __init__(self, rule: Any, number: int, kinds: tuple[str, ...] | None, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self._kinds = kinds
        self.kernel = None if kinds is None else _compiled(rule, kinds)
        self._row: Any = namedtuple("Row", rule.columns)  # type: ignore[misc]
        self.keyed["state"] = self._first_states(1)

    def _first_states(self, count: int) -> NDArray[Any]:
        first = self.rule.state
        if self.kernel is None:
            states = np.empty(count, object)
            for k in range(count):
                states[k] = copy.deepcopy(first)
            return states
        room: NDArray[Any] = self.kernel.layout.allocate(count)
        room[:] = first
        return room

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        super().reserve(keys)
        held, size = self.keyed["state"], len(self.keyed["opened"])
        if size > len(held):
            grown = np.concatenate([held, self._first_states(size - len(held))])
            self.keyed = {**self.keyed, "state": grown}

    def overwrite_keys(self, codes: Codes) -> None:
        """Save what is held for keys; the function may change a state of objects in place."""
        for name, held in self.keyed.items():
            if name == "state" and self.kernel is None:
                self.undo_by(put_entries, held, codes, copy.deepcopy(held[codes]))
            else:
                self.overwrite(held, codes)

    def copy(self) -> Lister:
        """Return a lister that goes on by itself."""
        twin = super().copy()
        if self.kernel is None:
            twin.keyed["state"] = copy.deepcopy(self.keyed["state"])
        return twin

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The columns that the function sees."""
        names = self.rule.columns
        if self.kernel is None or self._kinds is None:
            return tuple(Signal(None, name, read=False) for name in names)
        return tuple(map(Signal, self._kinds, names))

    def count_open(self) -> None:
        """Count the open windows of each key anew."""
        self.keyed["opened"][:] = np.bincount(self.opened["code"], minlength=len(self.keyed["opened"]))

    def read(self, columns: Columns, count: int) -> Values:
        """Return the columns that the function sees: numbers as long as it is compiled."""
        read = [columns.read(name) for name in self.rule.columns]
        if self.kernel is not None and any(c.kind is None or c.valid is not None for c in read):
            self.leave_kernel()
        if self.kernel is not None:
            return Values(tuple(frozen(column.data) for column in read), None, count, ())
        lists = [columns.objects(name) for name in self.rule.columns]
        objects = [np.empty(count, object) for _ in lists]
        for column, values in zip(objects, lists, strict=True):
            column[:] = values
        return Values(tuple(objects), None, count, ())

    def remembers(self, seen: Indices, reach: float) -> NDArray[np.bool_]:
        """Return all keys: only the function knows what its state is for."""
        del reach
        return seen > 0

    def leave_kernel(self) -> None:
        """Go on in Python, which knows nulls."""
        if self.kernel is None:
            return
        held = self.keyed["state"]
        states = np.empty(len(held), object)
        for k in range(len(held)):
            state = held[k].tolist()
            states[k] = tuple(state) if isinstance(state, list) else state
        self.kernel = None
        self.keyed = {**self.keyed, "state": states}

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Ask the function about each record."""
        at, begins, ends = self._compiled_events(batch) if self.kernel is not None else self._events(batch)
        if not len(at):
            return None
        marks[at] = 1
        opens, closes = np.repeat(at, begins), np.repeat(at, ends)
        self.queue(batch, run_at(batch, opens), opens)
        if not len(closes):
            return None
        code = batch.codes[run_at(batch, closes)]
        first = np.searchsorted(self.opened["code"], code)
        begin = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
        rank = np.arange(len(code)) - np.repeat(begin, np.diff(np.append(begin, len(code))))
        gone = np.zeros(len(self.opened["code"]), bool)
        gone[first + rank] = True  # the oldest ones of each key, in turn
        return self.found(self.leave(gone), closes + batch.base[run_at(batch, closes)])

    def _compiled_events(self, batch: Batch) -> tuple[Indices, Indices, Indices]:
        assert self.kernel is not None
        events, place = np.empty((3, len(batch)), np.int64), np.zeros(4, np.int64)
        columns = tuple(frozen(column) for column in batch.values[self.signal].columns)
        told = (batch.codes, batch.bounds, self.keyed["state"], self.keyed["opened"], place, events)
        try:
            count = self.kernel.run(batch.times, columns, *told)
        except MemoryError:
            raise
        except Exception as error:
            raise self._failed(batch, int(place[0]), f"raised {error!r}") from error
        if count < 0:
            raise self._failed(batch, int(place[0]), _miscounted(*place[1:].tolist()))
        return events[0, :count].copy(), events[1, :count].copy(), events[2, :count].copy()

    def _events(self, batch: Batch) -> tuple[Indices, Indices, Indices]:
        columns = [column.tolist() for column in batch.values[self.signal].columns]
        rows = list(map(self._row, *columns)) if columns else [self._row()] * len(batch)
        times, f_disc, found = batch.times.tolist(), self.rule.f_disc, []
        for r, k in enumerate(batch.codes.tolist()):
            state, has = self.keyed["state"][k], int(self.keyed["opened"][k])
            for i in range(int(batch.bounds[r]), int(batch.bounds[r + 1])):
                try:
                    state, begins, ends = f_disc(state, times[i], rows[i])
                except MemoryError:
                    raise
                except Exception as error:
                    raise self._failed(batch, i, f"raised {error!r}") from error
                if not (isinstance(begins, (int, np.integer)) and isinstance(ends, (int, np.integer))):
                    raise self._failed(batch, i, f"returned {begins!r} and {ends!r}, which count no windows")
                begins, ends = int(begins), int(ends)
                if begins < 0 or ends < 0 or ends > has:
                    raise self._failed(batch, i, _miscounted(begins, ends, has))
                if begins or ends:
                    found.append((i, begins, ends))
                    has += begins - ends
            self.keyed["state"][k], self.keyed["opened"][k] = state, has
        at, begun, ended = np.array(found, np.int64).reshape(-1, 3).T.copy()
        return at, begun, ended

    def _failed(self, batch: Batch, i: int, how: str) -> ValueError:
        return failed(self.rule.f_disc, how, batch, i)


def failed(function: Any, how: str, batch: Batch, i: int) -> ValueError:
    """Return the error of a user's function that failed at a record."""
    name = getattr(function, "__name__", repr(function))
    run = int(run_at(batch, np.array([i]))[0])
    position, t = int(i + batch.base[run]), int(batch.times[i])
    return ValueError(f"{name} {how}, at record {position} of its key, of time {t}.")


class OwnPolicyLister(Lister):
    """At each record that triggers, what eviction has left, as a user's functions say."""

    only_settled = True
    fills: ClassVar[dict[str, Fill]] = {"number": ("i8", 0)}

    def __init__(self, rule: Any, number: int, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self._row: Any = namedtuple("Row", ("t", *rule.columns))  # type: ignore[misc]
        self.keyed["held"] = _empty_lists(1)  # of each key, the records that are held, as plain tuples

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        super().reserve(keys)
        held, size = self.keyed["held"], len(self.keyed["number"])
        if size > len(held):
            grown = np.concatenate([held, _empty_lists(size - len(held))])
            self.keyed = {**self.keyed, "held": grown}

    def copy(self) -> Lister:
        """Return a lister that goes on by itself."""
        twin = super().copy()
        twin.keyed["held"] = copy.deepcopy(self.keyed["held"])
        return twin

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The columns that the functions see."""
        return tuple(Signal(None, name, read=False) for name in self.rule.columns)

    def wrong(self, seen: Indices, types: Types) -> str | None:
        """Return what of its state cannot be."""
        del types
        width, held = len(self._row._fields), self.keyed["held"]
        for rows in held:
            tuples = type(rows) is list and all(type(r) is tuple and len(r) == width for r in rows)
            if not tuples or any(type(row[0]) is not int for row in rows):
                return "records that are none"
        counts = np.array([len(rows) for rows in held[: len(seen)]], np.int64)
        return "more records than there were" if (counts > seen).any() else None

    def read(self, columns: Columns, count: int) -> Values:
        """Return the columns that the functions see."""
        objects = [np.empty(count, object) for _ in self.rule.columns]
        for column, name in zip(objects, self.rule.columns, strict=True):
            column[:] = columns.objects(name)
        return Values(tuple(objects), None, count, ())

    def feed(self, batch: Batch, marks: Flags) -> Found | None:
        """Take records in, and ask both functions."""
        del marks
        columns = [column.tolist() for column in batch.values[self.signal].columns]
        rows = list(map(self._row, batch.times.tolist(), *columns))
        found = []
        for r, k in enumerate(batch.codes.tolist()):
            held = list(map(self._row._make, self.keyed["held"][k]))
            for i in range(int(batch.bounds[r]), int(batch.bounds[r + 1])):
                held.append(rows[i])
                position = int(i + batch.base[r])
                del held[: self._asked("evict", held, position, batch, i)]
                if self._asked("trigger", held, position, batch, i) and held:
                    found.append((k, position + 1 - len(held), position + 1))
            self.keyed["held"][k] = [tuple(row) for row in held]
        if not found:
            return None
        code, begin, end = np.array(found, np.int64).T.copy()
        return Found(code, begin, end, numbered(code, self.keyed["number"]))

    def _asked(self, what: str, held: list[Any], position: int, batch: Batch, i: int) -> int:
        """Return how many of the oldest records go, or whether the rest comes out."""
        policy = getattr(self.rule, what)
        if isinstance(policy, Policy):
            return _told(policy, what, held, position)
        try:
            told = policy(held)
        except MemoryError:
            raise
        except Exception as error:
            raise failed(policy, f"raised {error!r}", batch, i) from error
        if what == "trigger":
            return bool(told)
        if not isinstance(told, (int, np.integer)) or not 0 <= told <= len(held):
            raise failed(policy, f"lets go of {told!r} records where {len(held)} are held", batch, i)
        return int(told)

    def rest(self, seen: Indices) -> Found | None:
        """Return nothing: what is held at the end has not triggered."""
        del seen
        return None

    def needed(self, seen: Indices, reach: float, ordered: Ordered) -> Indices | None:
        """Return the oldest record that is held."""
        del reach, ordered
        return seen - np.array([len(held) for held in self.keyed["held"]], np.int64)[: len(seen)]


def _told(policy: Policy, what: str, held: list[Any], position: int) -> int:
    """Return what a built-in policy says of records that are held."""
    if policy.name == "every":
        return int((position + 1) % policy.amount == 0)
    value = None if policy.column is None else getattr(held[-1], policy.column) if held else None
    if policy.name == "when":
        return (value is True) * (1 if what == "trigger" else len(held) - 1)
    if policy.name == "keep":
        return max(0, len(held) - int(policy.amount))
    if policy.name == "within":
        return sum(row.t <= held[-1].t - policy.amount for row in held)
    gone = 0
    while gone < len(held) - 1 and value is not None and value == value:
        other = getattr(held[gone], str(policy.column))
        if other is None or other != other or abs(other - value) <= policy.amount:
            break
        gone += 1
    return gone


def _empty_lists(count: int) -> NDArray[Any]:
    lists = np.empty(count, object)
    for k in range(count):
        lists[k] = []
    return lists


def _miscounted(begins: int, ends: int, has: int) -> str:
    if begins < 0 or ends < 0:
        return f"begins {begins} windows and ends {ends}"
    return f"ends {ends} windows where {has} are open"


def _compiled(rule: Any, kinds: tuple[str, ...]) -> Any:
    """Return the function as a compiled loop; None if it cannot be one."""
    from muntin.kernels import NotCompilableError, discretizer

    try:
        return discretizer(rule.f_disc, rule.state, rule.columns, kinds)
    except (NotCompilableError, TypeError):  # a state that cannot be hashed is no scalar
        return None
