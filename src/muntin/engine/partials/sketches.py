"""Fields of sketches: columns taken in a slice at a time, windows merged from all their slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.sketch_states import Counters
from muntin.algebra.sketches import Sketch
from muntin.columnar import Indices
from muntin.engine import tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import ABSENT, States
from muntin.engine.partials.objects import ObjectField
from muntin.engine.plan.column_values import fit
from muntin.engine.rows import Answers

_AS_VALUES = b"\x00"  # how a dumped state begins that is no sketch; no sketch begins so
_CODES = {"i": np.int64, "f": np.float64}


class Few:
    """A few prepared values that stand for the sketch of them."""

    __slots__ = ("values",)

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values


class SketchField(ObjectField):
    """Sketches, or a few values each. None is ever changed: many windows and stores hold the same one."""

    folds = ("each", "levels")
    merges_slowly = True
    reads_objects = False  # takes numbers and objects alike

    def __init__(self, sketch: Sketch) -> None:
        super().__init__(sketch.algebra(), None, None, nulls=True)
        self._sketch = sketch

    def of_segments(self, values: Values, bounds: Indices) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        out = self.allocate(len(bounds) - 1)
        column = values.columns[0][: bounds[-1]]
        if values.valid is not None:
            valid = values.valid[: bounds[-1]]
            column, bounds = column[valid], np.append(0, np.cumsum(valid))[bounds]
        if len(column):
            column = self._sketch.prepared(column)
        for i in np.flatnonzero(np.diff(bounds)).tolist():
            out[i] = self._of(column[bounds[i] : bounds[i + 1]])
        return out

    def scatter(
        self, values: Values, at: Indices, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones hold ABSENT."""
        del apart
        blank[at] = False
        column = values.columns[0]
        if values.valid is not None:
            column, at = column[values.valid], at[values.valid]
        if not len(column):
            return
        order = np.argsort(at, kind="stable")
        column, at = self._sketch.prepared(column)[order], at[order]
        begins = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
        for part, place in zip(np.split(column, begins[1:]), at[begins].tolist(), strict=True):
            states[place] = self._with(states[place], part)

    def _of(self, values: NDArray[Any]) -> Any:
        few = len(values) <= tuning.FEW_SKETCHED
        return Few(values.copy()) if few else self._sketch.of(values)  # a view would keep the whole batch

    def _with(self, state: Any, values: NDArray[Any]) -> Any:
        if state is ABSENT:
            return self._of(values)
        if isinstance(state, Few):
            return self._of(np.concatenate([state.values, values]))
        return self._sketch.plus(state, values)

    def _whole(self, state: Any) -> Any:
        return self._sketch.of(state.values) if isinstance(state, Few) else state

    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""
        old = ABSENT if new else states[at]
        if values.valid is None or values.valid[0]:
            old = self._with(old, self._sketch.prepared(values.columns[0][:1]))
        states[at] = old

    def merge(self, states: States, at: Indices, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        parts: dict[int, list[Any]] = {}
        for place, new, other in zip(at.tolist(), blank.tolist(), others, strict=True):
            if new:
                parts[place] = [other]
            else:
                parts.setdefault(place, [states[place]]).append(other)
        for place, some in parts.items():
            states[place] = self._merged(some)

    def each_range(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return the partials of ranges, none empty, each merged at once, and the number of combines."""
        out = self.allocate(len(low))
        for w, (begin, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            out[w] = self._merged(states[begin:end])
        return out, int((high - low).sum()) - len(low)

    def _merged(self, states: Any) -> Any:
        present = [state for state in states if state is not ABSENT]
        if len(present) < 2:
            return present[0] if present else ABSENT
        few = [state.values for state in present if isinstance(state, Few)]
        sketches = [state for state in present if not isinstance(state, Few)]
        merged = ABSENT if not sketches else self._sketch.merged(sketches) if sketches[1:] else sketches[0]
        return self._with(merged, np.concatenate(few)) if few else merged

    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of the sketch."""
        missing = np.array([state is ABSENT for state in states], bool)
        data = np.full(len(states), aggregate.empty, object)
        for i in np.flatnonzero(~missing).tolist():
            data[i] = aggregate.lower(self._whole(states[i]))
        return Answers(data, missing if aggregate.empty is None else None)

    def dump(self, states: States) -> pa.Array:
        """Return partials as a column of bytes."""
        return pa.array([self._bytes(state) for state in states], pa.large_binary())

    def _bytes(self, state: Any) -> bytes | None:
        if state is ABSENT:
            return None
        if isinstance(state, Few) and state.values.dtype.kind in _CODES:
            return _AS_VALUES + state.values.dtype.kind.encode() + state.values.tobytes()
        return self._sketch.to_bytes(self._whole(state))

    def of_bytes(self, blob: bytes, kind: pa.DataType) -> Any:
        """Return the partial of a column of a type that was dumped; ValueError if these bytes are none."""
        if blob.startswith(_AS_VALUES):
            values = np.frombuffer(blob, _CODES[chr(blob[1])], offset=2)
            told: Sequence[Any] = values.tolist() if self._sketch.value_column else ()
            if not 0 < len(values) <= tuning.FEW_SKETCHED or values.dtype != self._prepared_type(kind):
                raise ValueError("these bytes are no values of a column.")
            made: Any = Few(values)
        else:
            made = self._sketch.from_bytes(blob)
            told = [v for v, _ in made.most_frequent(len(blob))] if isinstance(made, Counters) else ()
        if not fit(told, kind):
            raise ValueError(f"these bytes hold values that are no {kind}.")
        return made

    def _prepared_type(self, kind: pa.DataType) -> Any:
        """Return the type of prepared values of a column."""
        sample = np.empty(1, object)
        sample[0] = "" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else b""
        if pa.types.is_decimal(kind):
            sample[0] = Decimal(0)
        if pa.types.is_floating(kind):
            sample = np.zeros(1)
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
            sample = np.zeros(1, np.int64)
        return self._sketch.prepared(sample).dtype
