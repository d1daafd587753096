"""Fields whose partials are numbers, folded by compiled kernels."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra import extremes, sums
from muntin.algebra.aggregate import Aggregate, Kinds
from muntin.algebra.builtin import BuiltIn
from muntin.algebra.parts import Part
from muntin.columnar import Indices, Times, frozen
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import ABSENT, FieldPartials, States
from muntin.engine.partials.object_folds import EXACT
from muntin.engine.partials.objects import records_of
from muntin.engine.partials.reductions import READS, count_segments
from muntin.engine.rows import NO, Answers
from muntin.engine.user_errors import named

_NO_FLAGS = np.ones(1, bool)
# What a kernel's loops call of a user's functions; the others only combine.
_CALLS = dict.fromkeys(("segments", "scatter", "scatter_apart", "add_one"), "lift or combine")
_CALLS["finish"] = "lower"


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

    folds_in_any_order = True

    def __init__(
        self,
        wider: Callable[[Kinds | None], FieldPartials],
        instantiate: Callable[[str], Any],
        part: Part | None,
        own: Aggregate | None,
        reduce: Callable[[Values, Indices, States], None] | None,
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
        self.adds_integers = part is sums.INTEGER_SUM
        # Pairs reach across keys, where a user's functions may raise.
        shared = ("prefix",) if invertible else ("slide", "levels") if part is not None else ("slide",)
        self.folds = ("each", *shared, "tree")
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

    def of_segments(self, values: Values, bounds: Indices) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        out = self.allocate(len(bounds) - 1)
        if self._reduce is not None and values.count > 1:
            with np.errstate(all="ignore"):  # infinity and NaN are values like others
                self._reduce(values, bounds, out)
        else:
            self.kernel.run("segments", self._columns(values), self._flags(values), bounds, out)
        return out

    def scatter(
        self, values: Values, at: Indices, blank: NDArray[np.bool_], states: States, *, apart: bool
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

    def merge(self, states: States, at: Indices, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        if blank.all():
            states[at] = others
            return
        self.kernel.run("merge", states, at, blank, others)

    def each_range(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return the partials of ranges, none empty, each folded by itself, and the number of combines."""
        out = self.allocate(len(low))
        self.kernel.run("each_range", states, low, high, out)
        return out, int((high - low).sum()) - len(low)

    def slide_ranges(
        self,
        states: States,
        starts: Times,
        keys: Indices,
        low: Indices,
        high: Indices,
        front: States,
        begin: Indices,
        split: Indices,
        upto: Indices,
        back: States,
    ) -> tuple[States, int]:
        """Return the partials of ranges, folded with two stacks per key that go along with them."""
        out = self.allocate(len(low))
        arguments = (states, starts, keys, low, high, out, front, begin, split, upto, back)
        return out, self.kernel.run("slide_ranges", *arguments)

    def scan(self, states: States, older: Indices, at: Indices, prefixes: States) -> int:
        """Write prefixes of chains of partials at some places, in turn; return the number of combines."""
        combines: int = self._of("prefixes").run("scan", states, older, at, prefixes)
        return combines

    def between(self, prefixes: States, newest: Indices, before: Indices) -> States:
        """Return differences of prefixes."""
        out = self.allocate(len(newest))
        self._of("prefixes").run("between", prefixes, newest, before, out)
        return out

    def tree_refresh(
        self,
        states: States,
        key: Indices,
        rank: Indices,
        bases: Indices,
        rooms: Indices,
        fills: Indices,
        nodes: States,
    ) -> int:
        """Set leaves of trees and combine what depends on them; return the number of combines."""
        combines: int = self._of("trees").run("refresh", states, key, rank, bases, rooms, fills, nodes)
        return combines

    def tree_ranges(
        self, nodes: States, key: Indices, low: Indices, high: Indices, bases: Indices, rooms: Indices
    ) -> tuple[States, int]:
        """Return the partials of ranges of leaves, and the number of combines."""
        out = self.allocate(len(low))
        return out, self._of("trees").run("ranges", nodes, key, low, high, bases, rooms, out)

    def _of(self, template: str) -> Any:
        if template not in self._kernels:
            self._kernels[template] = self._instantiate(template)
        return self._kernels[template]

    def largest(self, prefixes: States, at: Indices) -> float:
        """Return the size of the largest float among sums, infinity if one is not finite; 0 for integers."""
        if prefixes.dtype != np.float64 or not len(at):
            return 0.0
        together = at[-1] - at[0] + 1 == len(at)
        sums = (prefixes[at[0] : at[-1] + 1] if together else prefixes[at])[:, 0]
        largest = max(float(sums.max()), -float(sums.min()))
        return largest if math.isfinite(largest) else math.inf

    def doubtful(self, largest: float, out: States, before: Indices) -> NDArray[np.bool_] | None:
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

    def sum_bound(self, states: States) -> int:
        """Return what no sum of these partials can be larger than: by their upper limbs."""
        high = self.scalars(states)[0]
        return (int(abs(high).sum()) + len(high)) << 32

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
        if self.part is not None and self.part.as_object is not None:
            rows = [self.part.as_object(*row) for row in rows]
        out = np.empty(len(states), object)
        for i, row in enumerate(rows):
            out[i] = row if present is None or present[i] else ABSENT
        return out


_FINISHES: dict[Any, Callable[..., NDArray[Any]]] = {
    sums.same: lambda x: x,
    sums.whole: lambda n: n,
    sums.divide: lambda n, total: total / n,
    extremes.by_name: records_of,
}


def finish(aggregate: BuiltIn, components: Sequence[Any]) -> Answers:
    """Return the answers of a built-in aggregate, given its components."""
    function = aggregate.finisher()
    if not all(isinstance(c, np.ndarray) for c in components):
        rows = zip(*components, strict=True)
        with decimal.localcontext(EXACT):
            return Answers([aggregate.empty if row[0] is None else function(*row) for row in rows], None)
    if function in _FINISHES:
        return Answers(_FINISHES[function](*components), None)
    if aggregate.result == "struct":
        return _finish_struct(aggregate, components)
    from muntin.kernels import finisher

    kernel = finisher(function, len(components), aggregate.result, aggregate.misses)
    out = np.empty(len(components[0]), aggregate.result)
    missing = np.zeros(len(out) if aggregate.misses else 0, bool)
    kernel.run("finish_all", tuple(components), out, missing)
    return Answers(out, missing if aggregate.misses else None)


def _finish_struct(aggregate: BuiltIn, components: Sequence[Any]) -> Answers:
    """Return structs whose numbers are answers of their own, each of which may be null."""
    parts = {name: finish(part, components) for name, part in aggregate.struct_parts().items()}
    kinds = [(name, part.data.dtype) for name, part in parts.items()]
    out = np.empty(len(components[0]), [*kinds, *((NO + name, "?") for name in parts)])
    for name, part in parts.items():
        out[name], out[NO + name] = part.data, part.missing
    return Answers(out, aggregate.lacks_struct(*components))
