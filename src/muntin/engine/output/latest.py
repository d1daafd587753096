"""The newest values of a key: its features as of its last record, without a row for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.algebra.aggregate import Aggregate
from muntin.columnar import Indices
from muntin.engine.output import row_columns
from muntin.engine.partials.base import States
from muntin.engine.plan.queries import PlannedQuery, Read
from muntin.engine.slices.position.marked import MarkedSlices
from muntin.engine.store.answers import answers_of
from muntin.windows.rolling import LookBack

if TYPE_CHECKING:
    from muntin.engine.engine import Engine

_NUMBERS = (pa.float64(), pa.int64())


class LatestValues:
    """What the queries of an engine ask for, taken apart once."""

    def __init__(self, engine: Engine) -> None:
        self.queries = engine.plan.queries  # those that it was made for: each change makes another list
        self._engine = engine
        for planned in self.queries:
            kept = isinstance(planned.window, LookBack) and planned.window.kept
            if not kept or len(planned.query.aggregates) != 1:
                raise TypeError(
                    f"latest() is for features, whose windows are kept: make query {planned.name!r} with "
                    "mt.features.queries."
                )
        by_family: dict[int, list[PlannedQuery]] = {}
        for planned in self.queries:
            by_family.setdefault(id(engine.slices.by_query[planned.number]), []).append(planned)
        self._groups = [
            _FamilyValues(engine, engine.slices.by_query[some[0].number], some) for some in by_family.values()
        ]

    def of(self, code: int) -> dict[str, Any]:
        """Return the values of a key by query; none if it has had no record."""
        found: dict[str, Any] = {}
        for group in self._groups:
            found |= group.of(code)
        if len(self._groups) == 1:
            return found
        return {planned.name: found[planned.name] for planned in self.queries if planned.name in found}


class _Asked:
    """An aggregate, and the queries that it is asked for by: where each lies among all, and its name."""

    def __init__(self, aggregate: Aggregate, reads: tuple[Read, ...], column: str, kind: Any) -> None:
        self.aggregate, self.reads = aggregate, reads
        self.column = column
        self.plain = kind in _NUMBERS  # answers are numbers as they come
        self.places: list[int] = []
        self.names: list[str] = []


class _FamilyValues:
    """The values of queries over the same slices."""

    def __init__(self, engine: Engine, family: Any, queries: Sequence[PlannedQuery]) -> None:
        self._tables = engine.tables
        self._family: MarkedSlices = family
        rules: list[LookBack] = [planned.window for planned in queries]
        self._rules = [(r.before, r.back, r.rows, r.length, r.since) for r in rules]
        self._length = max((rule.length or 0 for rule in rules), default=0)
        # Where windows of grids begin, as far as times were asked for; and where the next one does.
        self._grids = {rule.since: (0, 0) for rule in rules if rule.since is not None}
        self._rows = max((rule.rows + rule.back for rule in rules if rule.rows is not None), default=0)
        asked: dict[Any, _Asked] = {}  # those with the same aggregate are answered together
        for place, planned in enumerate(queries):
            ((column, aggregate),) = planned.query.aggregates.items()  # as all features have it
            what = (aggregate, planned.reads[column])
            kind = engine.tables.answer_types[column]
            one = asked.setdefault(what, _Asked(*what, column, kind))
            one.places.append(place)
            one.names.append(planned.name)
        self._asked = list(asked.values())
        self._names = [planned.name for planned in queries]

    def of(self, code: int) -> dict[str, Any]:
        """Return the values of a key by query."""
        records = self._records(code)
        if records is None:
            return {}
        times, states_of = records
        low, high = self._ranges(times)
        found: dict[str, Any] = dict.fromkeys(self._names)
        with np.errstate(all="ignore"):
            for asked in self._asked:
                places = [place for place in asked.places if low[place] < high[place]]
                names = asked.names
                if len(places) < len(names):
                    found |= dict.fromkeys(names, asked.aggregate.empty)
                    names = [self._names[place] for place in places]
                if places:
                    begin = np.array([low[place] for place in places])
                    end = np.array([high[place] for place in places])
                    found.update(zip(names, self._answers(asked, states_of, begin, end), strict=True))
        return found

    def _answers(self, asked: _Asked, states_of: Any, low: Indices, high: Indices) -> list[Any]:
        store = self._family.store

        def folded(number: int) -> States:
            partials = store.fields[number]
            if partials.counts_records:  # slices are records
                return high - low
            return partials.each_window(states_of(number), low, high)[0]

        answers = answers_of(store, asked.aggregate, asked.reads, folded)
        if asked.plain and not isinstance(answers.data, list):
            values: list[Any] = answers.data.tolist()
            if answers.missing is None:
                return values
            return [None if gone else v for v, gone in zip(values, answers.missing.tolist(), strict=True)]
        data, missing = row_columns.answer_column([(np.arange(len(low)), answers, asked.aggregate)], len(low))
        if data is None:
            return [None] * len(low)
        kind = self._tables.answer_types[asked.column]
        return row_columns.as_arrow(data, missing, kind).to_pylist()  # type: ignore[no-any-return]

    def _records(self, code: int) -> tuple[list[int], Any] | None:
        """Return the times of a key's last records, and what gives the partials of a field over them."""
        store, waiting = self._family.store, self._family.pending.of_key(code)
        last = int(waiting.times[-1]) if len(waiting) else store.last_time(code)
        if last is None:
            return None
        past = last - self._length
        for grid in self._grids:
            past = min(past, self._start(grid, last) - 1)
        cells = store.chain(code, past, self._rows)
        held: dict[int, States] = {}

        def states_of(number: int) -> States:
            if number not in held:
                states = store.states(number)[cells]
                if len(waiting):
                    states = store.fields[number].followed(states, waiting.values[number])
                held[number] = states
            return held[number]

        times = store.column("first")[cells].tolist()
        return [*times, *waiting.times.tolist()], states_of

    def _ranges(self, times: list[int]) -> tuple[list[int], list[int]]:
        """Return from which record to before which one the window of each query reaches."""
        last, count = times[-1], len(times)
        equal = bisect_left(times, last)
        lows, highs = [], []
        for before, back, rows, length, since in self._rules:
            high = (equal if before else count) - back
            if rows is not None:
                low = max(high - rows, 0)
            elif length is not None:
                low = bisect_right(times, last - length)
            else:
                low = bisect_left(times, self._start(since, last))
            lows.append(low)
            highs.append(high)
        return lows, highs

    def _start(self, grid: Any, t: int) -> int:
        """Return where the window of a grid begins that holds a time, most often the one asked for before."""
        start, end = self._grids[grid]
        if not start <= t < end:
            number = grid.high(t)
            start, end = self._grids[grid] = int(grid.start(number)), int(grid.start(number + 1))
        return start
