"""Frames: runs of records that values mark off."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import PARTS
from muntin.algebra.fusion import cover, fuse
from muntin.columnar import Flags, Indices, frozen
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns, as_objects, refuse_records
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.listers import lister_loops
from muntin.engine.listers.base import FLAG, Batch, Fill, RunLister, Signal, Types
from muntin.engine.partials.base import ABSENT
from muntin.engine.plan.column_values import fit
from muntin.engine.plan.queries import FieldPlan
from muntin.engine.transaction import Transactional
from muntin.engine.user_errors import named

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_NO_FLAGS = np.ones(1, bool)


class ThresholdLister(RunLister):
    """Maximal runs for which a comparison holds."""

    def __init__(self, rule: Any, number: int, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self.least = rule.min_records

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Where the comparison holds."""
        return (FLAG,)

    def read(self, columns: Columns, count: int) -> Values:
        """Return where the comparison holds."""
        held = _holds(columns, self.rule.value, self.rule.op, self.rule.bound)
        return Values((frozen(held),), None, count, ())

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write frames."""
        (flags,) = self._columns(batch)
        told = (batch.codes, batch.bounds, batch.base, self.least, self.keyed["begin"], marks, out)
        count: int = lister_loops.run("flag_runs", flags, changes(batch, flags), *told)
        return count


def _holds(columns: Columns, name: str, op: str, bound: Any) -> Flags:
    """Return which values compare with a bound so; null and NaN do not."""
    array, column = columns[name], columns.read(name)
    if array.null_count == len(array):
        return np.zeros(len(array), np.uint8)
    if column.kind is None or pa.types.is_temporal(array.type):
        compare = _COMPARE[op]
        held = [v is not None and bool(compare(v, bound)) for v in columns.objects(name)]
        return np.array(held, np.uint8)
    data = column.data
    if column.kind == "i8" and isinstance(bound, float):
        held = _compare_whole(data, op, bound)
    elif column.kind == "f8" and isinstance(bound, int):
        held = _compare_floats(data, op, bound)
    else:
        held = _COMPARE[op](data, bound)
    if column.kind == "f8" and op == "!=":  # elsewhere, NaN compares as false
        held &= data == data
    if column.valid is not None:
        held &= column.valid
    return np.asarray(held).view(np.uint8)


def _compare_whole(data: NDArray[np.int64], op: str, bound: float) -> Any:
    """Compare integers with a float as exact numbers."""
    if math.isinf(bound) or abs(bound) >= 2.0**63:
        return np.full(len(data), _COMPARE[op](0, bound))
    if bound == int(bound):
        return _COMPARE[op](data, int(bound))
    if op in ("==", "!="):
        return np.full(len(data), op == "!=")
    return _COMPARE[op](data, math.floor(bound) if op in (">", "<=") else math.ceil(bound))


def _compare_floats(data: NDArray[np.float64], op: str, bound: int) -> Any:
    """Compare floats with an integer as exact numbers."""
    near = float(bound) if abs(bound) < 2**1023 else math.copysign(math.inf, bound)
    if near == bound:
        return _COMPARE[op](data, near)
    if op in ("==", "!="):
        return np.full(len(data), op == "!=")
    above = near > bound  # no float lies between both
    larger, smaller = (">=", "<") if above else (">", "<=")
    return _COMPARE[larger if op in (">", ">=") else smaller](data, near)


class DeltaLister(RunLister):
    """Runs of floats close to their first."""

    fills: ClassVar[dict[str, Fill]] = {**RunLister.fills, "first": ("f8", 0.0)}

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The values."""
        return (Signal("f8"),)

    def read(self, columns: Columns, count: int) -> Values:
        """Return the values, NaN where there is none."""
        column = columns.read(self.rule.value)
        data = column.data
        if column.valid is not None:
            data = np.where(column.valid, data, np.nan)
        return Values((frozen(data),), None, count, ())

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write frames."""
        (values,) = self._columns(batch)
        told = (batch.codes, batch.bounds, batch.base, self.keyed["begin"], self.keyed["first"], marks, out)
        count: int = lister_loops.run("delta_runs", values, float(self.rule.by), *told)
        return count


class WholeDeltaLister(RunLister):
    """Runs of integers close to their first."""

    fills: ClassVar[dict[str, Fill]] = {**RunLister.fills, "first": ("i8", 0)}

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The values, and which records have one."""
        return (Signal("i8"), FLAG)

    def read(self, columns: Columns, count: int) -> Values:
        """Return the values, and which records have one."""
        column = columns.read(self.rule.value)
        return Values((column.data, columns.valid(self.rule.value, count)), None, count, ())

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write frames."""
        values, present = self._columns(batch)
        by = np.uint64(min(math.floor(min(self.rule.by, 2.0**64)), 2**64 - 1))
        told = (batch.codes, batch.bounds, batch.base, self.keyed["begin"], self.keyed["first"], marks, out)
        count: int = lister_loops.run("delta_runs_exact", values, present, by, *told)
        return count


class StateLister(RunLister):
    """Runs of one value. Values are told apart as numbers; those of other types get some."""

    fills: ClassVar[dict[str, Fill]] = {**RunLister.fills, "last": ("i8", 0), "held": ("u1", 0)}

    def __init__(self, rule: Any, number: int, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self.values = KeyTable([rule.value])

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Numbers that stand for values, and which values are not null."""
        return (Signal("i8"), FLAG)

    def read(self, columns: Columns, count: int) -> Values:
        """Return numbers that are the same for the same values, and which values are not null."""
        array, column = columns[self.rule.value], columns.read(self.rule.value)
        present = columns.valid(self.rule.value, count)
        if column.kind == "f8":
            data = column.data + 0.0  # -0.0 equals 0.0
            data[data != data] = np.nan
            codes = data.view(np.int64)
        elif pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
            codes = column.data if column.kind else _wrapped(array)
        else:
            codes = self.values.encode([array])
        if column.valid is not None:
            codes = np.where(column.valid, codes, 0)
        return Values((frozen(codes), present), None, count, ())

    def parts(self) -> Iterable[Transactional]:
        """Return the values that are numbered."""
        return (self.values,)

    def let_go(self, waiting: Values | None) -> Values | None:
        """Forget the numbers of values that no key has now, nor a record that waits, once they are most."""
        if self.values.types is None:
            return waiting
        used = [self.keyed["last"][self.keyed["begin"] >= 0], *(waiting.columns[:1] if waiting else ())]
        live = np.unique(np.concatenate(used))
        if not self.values.mostly_gone(len(live)):
            return waiting
        self.values.retain(live)
        last = np.searchsorted(live, self.keyed["last"])  # of keys without a run, any number
        self.keyed = {**self.keyed, "last": last}
        if waiting is None:
            return None
        codes, present = waiting.columns
        return replace(waiting, columns=(frozen(np.searchsorted(live, codes)), present))

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write runs."""
        values, present = self._columns(batch)
        keyed = self.keyed
        told = (
            batch.codes,
            batch.bounds,
            batch.base,
            keyed["begin"],
            keyed["last"],
            keyed["held"],
            marks,
            out,
        )
        count: int = lister_loops.run("state_runs", values, present, changes(batch, values, present), *told)
        return count


def _wrapped(array: pa.Array) -> NDArray[np.int64]:
    """Return unsigned integers, some of which signed ones cannot hold, to the bit."""
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False)).view(np.int64)


def changes(batch: Batch, *columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places where a column changes, and where runs begin."""
    changed = np.zeros(len(batch), bool)
    changed[batch.bounds[:-1]] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


class AggregateLister(RunLister):
    """Runs up to the record that makes an aggregate reach a bound."""

    def __init__(self, rule: Any, number: int, kinds: tuple[str, ...] | None, *, late: bool) -> None:
        super().__init__(rule, number, late=late)
        self.aggregate: Aggregate = rule.aggregate
        fields = fuse([self.aggregate]).fields if self.aggregate.fuses else ()
        self._parts = [FieldPlan(field, None) for field in fields]
        self._kinds = kinds
        self.kernel = None if kinds is None else _kernel(self.aggregate, kinds)
        if (
            self.kernel is not None
            and self.kernel.result == "i8"
            and not -(2**63) <= rule.reaches <= 2**63 - 1
        ):
            self.kernel = None  # no 64-bit integer tells apart what lies beyond
        if self.kernel is None:
            self.algebra = self.aggregate.algebra(None)
            self.keyed["state"] = np.full(1, ABSENT, object)
        else:
            self.keyed["state"] = self.kernel.layout.allocate(1)
            whole = self.kernel.result == "i8"
            self._bound = math.ceil(rule.reaches) if whole else float(rule.reaches)

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        super().reserve(keys)
        held = self.keyed["state"]
        if len(self.keyed["begin"]) > len(held):
            size = len(self.keyed["begin"])
            grown = (
                np.full(size, ABSENT, object) if self.kernel is None else self.kernel.layout.allocate(size)
            )
            grown[: len(held)] = held
            self.keyed = {**self.keyed, "state": grown}

    def kept(self, name: str) -> NDArray[Any]:
        """Return states as a snapshot can keep them: as bytes of a sketch, or by the user's own function."""
        return self._changed(name, self.keyed[name], ("to_bytes", "dump"))

    def restored(self, name: str, column: NDArray[Any]) -> NDArray[Any]:
        """Return states that a snapshot kept."""
        return self._changed(name, column, ("from_bytes", "load"))

    def _changed(self, name: str, column: NDArray[Any], functions: tuple[str, str]) -> NDArray[Any]:
        found = [getattr(self.aggregate, function, None) for function in functions]
        change = found[0] or found[1]
        if name != "state" or self.kernel is not None or change is None:
            return column
        out = np.empty(len(column), object)
        out[:] = [state if state is ABSENT else change(state) for state in column]
        return out

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Which records may open a frame, which have a value, and their values."""
        names: tuple[str | None, ...] = self.aggregate.columns or (None,)
        kinds = ("i8",) if names == (None,) else self._kinds if self.kernel is not None else None
        return (FLAG, FLAG, *map(Signal, kinds or (None,) * len(names), names))

    def wrong(self, seen: Indices, types: Types) -> str | None:
        """Return what of its state cannot be."""
        states = [] if self.kernel is not None else [s for s in self.keyed["state"] if s is not ABSENT]
        codes = _state_codes(self.aggregate) if self.aggregate.fuses else ()
        rows = [(state,) if len(codes) == 1 else state for state in states] if codes else []
        if not all(type(row) is tuple and len(row) == len(codes) for row in rows):
            return "a frame whose aggregate is none"
        kinds = [types[name] for name in self.aggregate.columns]
        for k, code in enumerate(codes):
            column = [row[k] for row in rows]
            if code in ("v", "a") and not fit(column, kinds["va".index(code)], summed=True):
                return f"an aggregate that is no {kinds['va'.index(code)]}"
            if code in ("i8", "f8") and any(type(v) is not (int if code == "i8" else float) for v in column):
                return "an aggregate that is no number"
        return super().wrong(seen, types)

    def read(self, columns: Columns, count: int) -> Values:
        """Return the values of records, and which may open a frame."""
        names = self.aggregate.columns
        read = [columns.read(name) for name in names]
        valid = opens = frozen(np.ones(count, np.uint8))
        for name in names[: self.aggregate.required]:
            valid, opens = (
                frozen(valid & columns.valid(name, count)),
                frozen(opens & columns.usable(name, count)),
            )
        data = tuple(c.data if self.kernel is not None else as_objects(c) for c in read)
        for plan in self._parts:
            refuse_records(plan, Values(data, valid.view(bool), count, None))
        data = data or (np.zeros(count, np.int64),)  # of count(), which looks at no value
        return Values((opens, valid, *map(frozen, data)), None, count, ())

    def run(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        """Write frames."""
        opens, valid, *data = self._columns(batch)
        keyed = self.keyed
        if self.kernel is None:
            return self._run_in_python(batch, marks, out)
        told = (batch.codes, batch.bounds, batch.base, keyed["begin"], keyed["state"])
        answer, missing = np.zeros(1, self.kernel.result), np.zeros(1, bool)
        columns = tuple(frozen(column) for column in data)
        flags = frozen(valid.view(bool))
        arguments = (columns, flags, frozen(opens), self._bound, *told, answer, missing, marks, out)
        try:
            count: int = self.kernel.run("reach_runs", *arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise named(self.aggregate, "lift, combine or lower", error) from error
        return count

    def _run_in_python(self, batch: Batch, marks: Flags, out: NDArray[np.int64]) -> int:
        opens, valid, *data = self._columns(batch)
        begins, states, algebra = self.keyed["begin"], self.keyed["state"], self.algebra
        count = 0
        for r, k in enumerate(batch.codes.tolist()):
            begin, state = int(begins[k]), states[k]
            for i in range(int(batch.bounds[r]), int(batch.bounds[r + 1])):
                if begin < 0:
                    if not opens[i]:
                        continue
                    begin, state = i + int(batch.base[r]), ABSENT
                    marks[i] = 1
                try:
                    if valid[i]:
                        lifted = algebra.lift(*(column[i] for column in data))
                        state = lifted if state is ABSENT else algebra.combine(state, lifted)
                    answer = algebra.lower(state)
                except MemoryError:
                    raise
                except Exception as error:
                    where = f" at the record of time {int(batch.times[i])}"
                    raise named(self.aggregate, f"lift, combine or lower{where}", error) from error
                if answer is None or not answer >= self.rule.reaches:
                    continue
                out[:3, count] = k, begin, i + 1 + batch.base[r]
                count += 1
                begin, state = -1, ABSENT
                if i + 1 < batch.bounds[r + 1]:
                    marks[i + 1] = 1
            begins[k], states[k] = begin, state
        return count


def _kernel(aggregate: Aggregate, kinds: tuple[str, ...]) -> Any:
    """Return the compiled loop for an aggregate; None if there can be none."""
    from muntin.kernels import NotCompilableError, instantiate

    try:
        return instantiate("frames", aggregate.algebra(kinds), kinds, nullable=True, empty=aggregate.empty)
    except NotCompilableError:
        return None


def _state_codes(aggregate: Any) -> tuple[str, ...]:
    """Return the type codes of the scalars that make up a state of objects."""
    columns = tuple(str(k) for k in range(aggregate.values))
    fields, _ = cover([(aggregate.needs, columns)])
    return tuple(code for field in fields for code in PARTS[field.part](None, False).fields)
