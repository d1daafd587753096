"""Fields: the partials of one fused part over columns, and what is done with arrays of them.

A compiled field keeps its partials as numbers; an object field keeps anything, with the same verbs. Pooled
fields (pooled.py) serve aggregates that grow with the records, sketch fields (sketch_fields.py) sketches.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.algebra import extremes, sums
from muntin.algebra.aggregate import Absent, Aggregate, Algebra, Kinds
from muntin.algebra.builtin import PARTS, BuiltIn
from muntin.algebra.fusion import Field
from muntin.algebra.parts import Part
from muntin.algebra.sketches import Sketch
from muntin.slicing.object_folds import EXACT, SharedRanges, fold_segments
from muntin.slicing.reductions import READS, REDUCTIONS, count_segments
from muntin.slicing.transaction import Transactional
from muntin.slicing.user_errors import named, watched

States = NDArray[Any]
Places = NDArray[np.int64]
_NO_FLAGS = np.ones(1, bool)
# What a kernel's loops call of a user's functions; the others only combine.
_CALLS = dict.fromkeys(("segments", "scatter", "scatter_apart", "add_one"), "lift or combine")
_CALLS["finish"] = "lower"
ABSENT = Absent("ABSENT")  # what an object field holds where there is no value


@dataclass(frozen=True)
class Values:
    """The columns that a field reads, for some records: numbers, or lists of objects."""

    columns: tuple[Any, ...]
    valid: NDArray[np.bool_] | None
    count: int
    kinds: Kinds | None  # None: objects

    def part(self, which: slice) -> Values:
        """Return neighbouring records, without a copy."""
        valid = None if self.valid is None else self.valid[which]
        columns = tuple(column[which] for column in self.columns)
        start, stop, _ = which.indices(self.count)
        return Values(columns, valid, stop - start, self.kinds)

    def take(self, at: Places | NDArray[np.bool_]) -> Values:
        """Return some of the records."""
        valid = None if self.valid is None else self.valid[at]
        columns = tuple(column[at] for column in self.columns)
        count = int(np.count_nonzero(at)) if at.dtype == bool else len(at)
        return Values(columns, valid, count, self.kinds)


def frozen(data: NDArray[Any]) -> NDArray[Any]:
    """Return the data read-only."""
    if data.flags.writeable:
        data = data.view()
        data.flags.writeable = False
    return data


class FieldPartials(Transactional, ABC):
    """The verbs of a field, over arrays of its partials."""

    often: ClassVar[tuple[str, ...] | None] = ()

    kinds: Kinds | None = None  # of the numbers that it reads; None: objects
    nullable: bool
    invertible: bool
    removes_exactly: bool = False  # the newest records can be taken out of a partial again
    selective: bool = False  # a partial is that of one record, which `selected` tells
    counts_records = False  # the partials are numbers of records

    def accept(self, values: Values) -> FieldPartials:
        """Return the field that holds what these values need: this one, or one in another form."""
        del values
        return self

    def converted(self, states: States, new: FieldPartials) -> States:
        """Return partials in the form of the field that took this one's place: they hold no value yet."""
        return new.allocate(len(states))

    def without(self, states: States, gone: States) -> States:
        """Return partials without those of records that leave, where `removes_exactly`."""
        raise TypeError(f"{self!r} cannot take {len(gone)} partials out of {len(states)}.")

    def selected(self, states: States, gone: States) -> NDArray[np.bool_]:
        """Return which partials select a record among those that leave, where it is `selective`."""
        raise TypeError(f"{self!r} does not select among {len(gone)} partials and {len(states)}.")

    @property
    def form(self) -> str:
        """What partials can hold: numbers, also none, or anything."""
        return "object" if self.kinds is None else "nullable" if self.nullable else "plain"

    @abstractmethod
    def allocate(self, count: int) -> States:
        """Return room for so many partials."""

    @abstractmethod
    def of_segments(self, values: Values, bounds: Places) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""

    def followed(self, states: States, values: Values) -> States:
        """Return partials, followed by those of records, each by itself."""
        alone = self.of_segments(values, np.arange(values.count + 1))
        return np.concatenate([states, alone]) if len(states) else alone

    @abstractmethod
    def scatter(
        self, values: Values, at: Places, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones, which hold nothing yet, are then no longer.

        `apart` says that hardly ever two neighbours have one state, which makes no difference but in time.
        """

    @abstractmethod
    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""

    @abstractmethod
    def merge(self, states: States, at: Places, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""

    @abstractmethod
    def each_range(self, states: States, low: Places, high: Places) -> tuple[States, int]:
        """Return the partials of ranges, none empty, each folded by itself, and the number of combines."""

    @abstractmethod
    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate that is a field of its own."""

    @abstractmethod
    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value; None if all do."""


@dataclass(frozen=True)
class Answers:
    """A column of answers: numbers, or objects where `data` is a list."""

    data: Any
    missing: NDArray[np.bool_] | None


def part_algebra(part: Part, kinds: Kinds | None) -> Algebra:
    """Return a part alone as an algebra."""
    codes = {"v": 0, "a": 1}
    fields = tuple(kinds[codes[c]] if c in codes else c for c in part.fields) if kinds is not None else None
    return Algebra(
        part.lift,
        part.combine,
        sums.same,
        invert=part.invert,
        invert_oldest=part.invert,
        fields=fields,
        result="f8",
    )


def make_field(field: Field, own: Aggregate | None, kinds: Kinds | None, *, nullable: bool) -> FieldPartials:
    """Return the verbs of a fused field over columns of these types; `own` is a user's aggregate."""
    from muntin.kernels import NotCompilableError
    from muntin.slicing.sketch_fields import SketchField

    if field.part in ("runs", "list"):
        from muntin.slicing.pooled import ListField
        from muntin.slicing.runs import RunsField

        return RunsField(kinds) if field.part == "runs" else ListField(kinds)
    if isinstance(own, Sketch):
        return SketchField(own)
    empty = own.empty if own else None
    part = None if own else PARTS[field.part](kinds, True)
    algebra = own.algebra(kinds) if own else part_algebra(part, kinds)  # type: ignore[arg-type]
    if kinds is not None:
        try:
            return CompiledField(
                partial(make_field, field, own, nullable=True),
                partial(_kernel, algebra=algebra, kinds=kinds, nullable=nullable, empty=empty),
                part,
                own,
                None if nullable else REDUCTIONS.get((field.part, *kinds)),
                kinds=kinds,
                nullable=nullable,
                invertible=not nullable and field.part in ("rows", "n", "sum"),  # little rounding is left
                extreme=not nullable and field.part in ("min", "max", "min_count", "max_count"),
            )
        except NotCompilableError:
            algebra = own.algebra(None) if own else part_algebra(PARTS[field.part](None, True), None)
            part = PARTS[field.part](None, True) if own is None else None
    return ObjectField(algebra, part, own, nulls=nullable)


def _kernel(template: str, *, algebra: Algebra, kinds: Kinds, nullable: bool, empty: Any) -> Any:
    from muntin.kernels import instantiate

    return instantiate(template, algebra, kinds, nullable=nullable, empty=empty)


class NamingErrors:
    """A kernel of a user's functions, whose errors say so."""

    def __init__(self, kernel: Any, own: Aggregate) -> None:
        self._kernel, self._own = kernel, own
        self.layout, self.result, self.misses = kernel.layout, kernel.result, kernel.misses

    def run(self, entry: str, *arguments: Any) -> Any:
        """Run a loop of the kernel."""
        try:
            return self._kernel.run(entry, *arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise named(self._own, _CALLS.get(entry, "combine"), error) from error


class CompiledField(FieldPartials):
    """Partials of numbers, folded by kernels; by NumPy where that is as fast and compiles nothing."""

    def __init__(
        self,
        wider: Callable[[Kinds | None], FieldPartials],
        instantiate: Callable[[str], Any],
        part: Part | None,
        own: Aggregate | None,
        reduce: Callable[[Values, Places, States], None] | None,
        *,
        kinds: Kinds,
        nullable: bool,
        invertible: bool,
        extreme: bool,
    ) -> None:
        self.kinds = kinds
        kernel = instantiate("slices")
        self.kernel = kernel if own is None else NamingErrors(kernel, own)
        self.part = part
        self.nullable = nullable
        self.invertible = invertible
        # A float sum that a large value has left would keep the rounding that it came with.
        self.removes_exactly = invertible and part is not None and set(part.fields) == {"i8"}
        self.selective = extreme
        self._wider = wider  # makes a field that knows nulls, over numbers or (None) objects
        self._instantiate = instantiate
        self._kernels: dict[str, Any] = {}
        self.counts_records = reduce is count_segments
        self._reduce = reduce  # folds neighbouring records with NumPy

    def accept(self, values: Values) -> FieldPartials:
        """Return this field, unless a value is null or no number for the first time."""
        if values.kinds is None:
            return self._wider(None)
        return self._wider(values.kinds) if values.valid is not None and not self.nullable else self

    def converted(self, states: States, new: FieldPartials) -> States:
        """Return partials in a form that can say that there is no value, or as objects."""
        if new.kinds is None:
            return self.as_objects(states)
        out, present = new.allocate(len(states)), self.present(states)
        out["f0"] = True if present is None else present
        for k, column in enumerate(self.scalars(states)):
            out[f"f{k + 1}"] = column
        return out

    def allocate(self, count: int) -> States:
        """Return room for so many partials."""
        room: States = self.kernel.layout.allocate(count)
        return room

    def of_segments(self, values: Values, bounds: Places) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        out = self.allocate(len(bounds) - 1)
        if self._reduce is not None and values.count > 1:
            with np.errstate(all="ignore"):  # infinity and NaN are values like others
                self._reduce(values, bounds, out)
        else:
            self.kernel.run("segments", self._columns(values), self._flags(values), bounds, out)
        return out

    def scatter(
        self, values: Values, at: Places, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones, which hold nothing yet, are then no longer."""
        entry = "scatter_apart" if apart else "scatter"
        self.kernel.run(entry, self._columns(values), self._flags(values), at, blank, states)

    @staticmethod
    def _columns(values: Values) -> tuple[NDArray[Any], ...]:
        """Return the columns read-only, as those from Arrow are: kernels are compiled for one kind only."""
        for column in values.columns:
            if column.flags.writeable:
                return tuple(frozen(column) for column in values.columns)
        return values.columns

    def _flags(self, values: Values) -> NDArray[np.bool_]:
        """Return which records have a value; kernels look only where there may be nulls."""
        if values.valid is not None:
            return values.valid
        return np.ones(values.count, bool) if self.nullable else _NO_FLAGS

    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""
        self.kernel.run("add_one", self._columns(values), self._flags(values), states, at, new)

    def merge(self, states: States, at: Places, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        if blank.all():
            states[at] = others
            return
        self.kernel.run("merge", states, at, blank, others)

    def each_range(self, states: States, low: Places, high: Places) -> tuple[States, int]:
        """Return the partials of ranges, none empty, each folded by itself, and the number of combines."""
        out = self.allocate(len(low))
        self.kernel.run("each_range", states, low, high, out)
        return out, int((high - low).sum()) - len(low)

    def slide_ranges(
        self,
        states: States,
        starts: Places,
        keys: Places,
        low: Places,
        high: Places,
        front: States,
        begin: Places,
        split: Places,
        upto: Places,
        back: States,
    ) -> tuple[States, int]:
        """Return the partials of ranges, folded with two stacks per key that go along with them."""
        out = self.allocate(len(low))
        arguments = (states, starts, keys, low, high, out, front, begin, split, upto, back)
        return out, self.kernel.run("slide_ranges", *arguments)

    def scan(self, states: States, older: Places, at: Places, prefixes: States) -> int:
        """Write prefixes of chains of partials at some places, in turn; return the number of combines."""
        combines: int = self._of("prefixes").run("scan", states, older, at, prefixes)
        return combines

    def between(self, prefixes: States, newest: Places, before: Places) -> States:
        """Return differences of prefixes."""
        out = self.allocate(len(newest))
        self._of("prefixes").run("between", prefixes, newest, before, out)
        return out

    def tree_refresh(
        self,
        states: States,
        key: Places,
        rank: Places,
        bases: Places,
        rooms: Places,
        fills: Places,
        nodes: States,
    ) -> int:
        """Set leaves of trees and combine what depends on them; return the number of combines."""
        combines: int = self._of("trees").run("refresh", states, key, rank, bases, rooms, fills, nodes)
        return combines

    def tree_ranges(
        self, nodes: States, key: Places, low: Places, high: Places, bases: Places, rooms: Places
    ) -> tuple[States, int]:
        """Return the partials of ranges of leaves, and the number of combines."""
        out = self.allocate(len(low))
        return out, self._of("trees").run("ranges", nodes, key, low, high, bases, rooms, out)

    def _of(self, template: str) -> Any:
        if template not in self._kernels:
            self._kernels[template] = self._instantiate(template)
        return self._kernels[template]

    def largest(self, prefixes: States, at: Places) -> float:
        """Return the size of the largest float among sums, infinity if one is not finite; 0 for integers."""
        if prefixes.dtype != np.float64 or not len(at):
            return 0.0
        together = at[-1] - at[0] + 1 == len(at)
        sums = (prefixes[at[0] : at[-1] + 1] if together else prefixes[at])[:, 0]
        largest = max(float(sums.max()), -float(sums.min()))
        return largest if math.isfinite(largest) else math.inf

    def doubtful(self, largest: float, out: States, before: Places) -> NDArray[np.bool_] | None:
        """Return which float sums are too small beside the prefixes they were taken from; None if none is.

        A prefix carries its rounding error along, so that 2^-98 of the largest one bounds what is lost.
        """
        if largest == 0.0:
            return None
        lost = largest * 2.0**-98
        if not np.isfinite(lost):  # no difference is taken across non-finite values
            doubtful = before >= 0
        elif out[:, 0].min() * 1e-13 >= lost:  # most often: all are positive
            return None
        else:
            doubtful = (np.abs(out[:, 0]) * 1e-13 < lost) & (before >= 0)
        return doubtful if doubtful.any() else None

    def without(self, states: States, gone: States) -> States:
        """Return partials without those of records that leave."""
        places = np.arange(len(states))
        return self.between(np.concatenate([states, gone]), places, places + len(states))

    def selected(self, states: States, gone: States) -> NDArray[np.bool_]:
        """Return which partials select a record among those that leave."""
        one, other = self.scalar_views(states)[0], self.scalar_views(gone)[0]
        selected: NDArray[np.bool_] = ~(one != other) | (one != one)
        return selected

    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value; None if all do."""
        return states["f0"] if self.nullable else None

    def scalars(self, states: States) -> list[NDArray[Any]]:
        """Return each scalar of the partials as a column."""
        return [np.ascontiguousarray(column) for column in self.scalar_views(states)]

    def scalar_views(self, states: States) -> list[NDArray[Any]]:
        """Return views of each scalar of the partials."""
        if states.dtype.names is not None:
            names = states.dtype.names[1:] if self.nullable else states.dtype.names
            return [states[name] for name in names]
        return [states] if states.ndim == 1 else list(states.T)

    def components(self, states: States, *, floats: bool) -> list[NDArray[Any]]:
        """Return each component of the part as a column."""
        assert self.part is not None
        scalars = self.scalar_views(states)
        read = (self.part.read_float if floats else None) or self.part.read
        columns = [scalars[begin:end] for begin, end in self.part.spans()]
        if read is None:
            return [np.ascontiguousarray(column[0]) for column in columns]
        return [READS[read](*column) for column in columns]

    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate that is a field of its own."""
        del aggregate
        out = np.empty(len(states), self.kernel.result)
        missing = np.zeros(len(states) if self.kernel.misses else 0, bool)
        self.kernel.run("finish", states, out, missing)
        return Answers(out, missing if self.kernel.misses else None)

    def as_objects(self, states: States) -> States:
        """Return the partials as Python objects, for an object field to go on with."""
        present = self.present(states)
        columns = [column.tolist() for column in self.scalars(states)]
        rows = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        out = np.empty(len(states), object)
        for i, row in enumerate(rows):
            out[i] = row if present is None or present[i] else ABSENT
        return out


class Lowered(NamedTuple):
    """An answer where a state was."""

    answer: Any


class ObjectField(FieldPartials):
    """Partials of any kind, folded in Python."""

    nullable = True
    invertible = False

    def __init__(self, algebra: Algebra, part: Part | None, own: Aggregate | None, *, nulls: bool) -> None:
        self.algebra = algebra if own is None else replace(algebra, combine=watched(own, algebra))
        self.part = part
        self.own = own
        # Where there are nulls, a partial does not say whether a value is left when one is taken out.
        self.removes_exactly = (
            not nulls and own is not None and own.commutative and algebra.invert is not None
        )

    def accept(self, values: Values) -> FieldPartials:
        """Return this field, unless there is a null for the first time, and partials are reduced."""
        if values.valid is None or not self.removes_exactly:
            return self
        assert self.own is not None  # nothing else is reduced
        return ObjectField(self.own.algebra(None), None, self.own, nulls=True)

    def allocate(self, count: int) -> States:
        """Return room for so many partials."""
        return np.full(count, ABSENT, object)

    def converted(self, states: States, new: FieldPartials) -> States:
        """Return partials as they are, if they stay objects; if not, they hold no value yet."""
        return states if new.kinds is None else new.allocate(len(states))

    @contextmanager
    def _calling(self, function: str) -> Iterator[None]:
        """Let our own functions on decimals be exact, and errors of a user's name the function."""
        if self.own is None:
            with decimal.localcontext(EXACT):
                yield
            return
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            raise named(self.own, function, error) from error

    def _combine(self, a: Any, b: Any) -> Any:
        if a is ABSENT:
            return b
        return a if b is ABSENT else self.algebra.combine(a, b)

    def of_segments(self, values: Values, bounds: Places) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        out, columns = self.allocate(len(bounds) - 1), values.columns
        if values.valid is not None:
            columns = tuple(column[values.valid] for column in columns)
            bounds = np.append(0, np.cumsum(values.valid))[bounds]
        with self._calling("lift or combine"):
            listed, algebra = [column.tolist() for column in columns], self.algebra
            for j, state in fold_segments(listed, bounds.tolist(), algebra.lift, algebra.combine):
                out[j] = state
        return out

    def scatter(
        self, values: Values, at: Places, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones hold ABSENT."""
        del apart
        order = np.argsort(at, kind="stable")
        places = at[order]
        bounds = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1], [True]]))
        cells = places[bounds[:-1]]
        self.merge(states, cells, blank[cells], self.of_segments(values.take(order), bounds))
        blank[cells] = False

    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""
        old = ABSENT if new else states[at]
        if values.valid is None or values.valid[0]:
            with self._calling("lift or combine"):
                old = self._combine(old, self.algebra.lift(*(c[0] for c in values.columns)))
        states[at] = old

    def merge(self, states: States, at: Places, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        if blank.all():
            states[at] = others
            return
        with self._calling("combine"):
            for c, new, other in zip(at.tolist(), blank.tolist(), others, strict=True):
                states[c] = other if new else self._combine(states[c], other)

    def each_range(self, states: States, low: Places, high: Places) -> tuple[States, int]:
        """Return the partials of ranges, none empty, and the number of combines; overlaps are shared."""
        return self._each(states, low, high, lambda state: state)

    def each_answer(self, states: States, low: Places, high: Places) -> tuple[States, int]:
        """Return ranges lowered at once, so that the large states of many windows are not held together."""
        return self._each(states, low, high, self._lowered)

    def _lowered(self, state: Any) -> Any:
        if state is ABSENT or self.own is None:
            return state if state is ABSENT else Lowered(self.algebra.lower(state))
        try:
            return Lowered(self.algebra.lower(state))
        except MemoryError:
            raise
        except Exception as error:
            raise named(self.own, "lower", error, state) from error

    def _each(self, states: States, low: Places, high: Places, finish: Any) -> tuple[States, int]:
        out = self.allocate(len(low))
        listed = states.tolist()
        whole = all(state is not ABSENT for state in listed)
        ranges = SharedRanges(listed, self.algebra.combine if whole else self._combine, finish)
        with self._calling("combine"):
            for w, (begin, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                out[w] = ranges.of(begin, end)
        return out, ranges.combines

    def without(self, states: States, gone: States) -> States:
        """Return partials without those of records that leave."""
        assert self.algebra.invert is not None
        out = self.allocate(len(states))
        with self._calling("invert"):
            for i, (state, left) in enumerate(zip(states, gone, strict=True)):
                out[i] = state if left is ABSENT else self.algebra.invert(state, left)
        return out

    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value."""
        return np.array([state is not ABSENT for state in states], bool)

    def components(self, states: States, *, floats: bool) -> list[list[Any]]:
        """Return each component of the part as a column; None where there is no value."""
        assert self.part is not None
        read = (self.part.read_float if floats else None) or self.part.read
        alone = len(self.part.fields) == 1
        if alone and read is None:
            return [[None if state is ABSENT else state for state in states]]
        rows = [(state,) if alone and state is not ABSENT else state for state in states]
        read = read or sums.same
        with self._calling("lower"):
            return [
                [None if row is ABSENT else read(*row[begin:end]) for row in rows]
                for begin, end in self.part.spans()
            ]

    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate that is a field of its own."""
        done: list[Any] = [s if type(s) is Lowered else self._lowered(s) for s in states]
        return Answers([aggregate.empty if s is ABSENT else s.answer for s in done], None)


def _records_of(*columns: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of M4 as one of records."""
    kinds = [(name, column.dtype) for name, column in zip(extremes.M4_FIELDS, columns, strict=True)]
    out = np.empty(len(columns[0]), kinds)
    for (name, _), column in zip(kinds, columns, strict=True):
        out[name] = column
    return out


_FINISHES: dict[Any, Callable[..., NDArray[Any]]] = {
    sums.same: lambda x: x,
    sums.whole: lambda n: n,
    sums.divide: lambda n, total: total / n,
    extremes.by_name: _records_of,
}


def finish(aggregate: BuiltIn, components: Sequence[Any]) -> Answers:
    """Return the answers of a built-in aggregate, given its components."""
    function = aggregate._finish()
    if not all(isinstance(c, np.ndarray) for c in components):
        rows = zip(*components, strict=True)
        with decimal.localcontext(EXACT):
            return Answers([aggregate.empty if row[0] is None else function(*row) for row in rows], None)
    if function in _FINISHES:
        return Answers(_FINISHES[function](*components), None)
    from muntin.kernels import finisher

    kernel = finisher(function, len(components), aggregate.result, aggregate.misses)
    out = np.empty(len(components[0]), aggregate.result)
    missing = np.zeros(len(out) if aggregate.misses else 0, bool)
    kernel.run("finish_all", tuple(components), out, missing)
    return Answers(out, missing if aggregate.misses else None)
