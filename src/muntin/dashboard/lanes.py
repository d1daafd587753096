"""Lanes: the windows of one query and one key, as the bars of a timeline; and the numbers of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.dashboard.history import VALUES, Slices, numbers
from muntin.windows.grid import end, last_ended

Ticks = NDArray[np.int64]
CHANGES = ("insert", "update", "retract")
TIMES = ("window_start", "window_end")  # which tell windows apart, where nothing else is said
_RETRACT = CHANGES.index("retract")
_OPEN = 64  # open windows of a lane that are shown
_TOGETHER = 64  # blocks
_BARS = 400  # that a lane shows at most
MOST = 20_000  # keys that are told apart; rows of others are counted, and not shown
OTHER = -1  # stands for a key beyond that

Codes = NDArray[np.int32]


class Keys:
    """Numbers the keys of emitted rows, in the order in which they come."""

    def __init__(self, names: Sequence[str], most: int = MOST) -> None:
        self.names = list(names)
        self.values: list[tuple[Any, ...]] = []  # by number
        self._codes: dict[tuple[Any, ...], int] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, rows: pa.Table) -> Codes:
        """Return the number of each row's key: columnar work for each row, a step for each distinct key.

        >>> keys = Keys(["car"])
        >>> keys.encode(pa.table({"car": ["a", "b", "a"]})).tolist(), keys.values
        ([0, 1, 0], [('a',), ('b',)])
        """
        if not self.names:
            return self._interned([()], np.zeros(rows.num_rows, np.int64))
        places, sizes, dictionaries = [], [], []
        for name in self.names:
            place, dictionary = _dictionary(rows.column(name))
            places.append(place)
            dictionaries.append(dictionary)
            sizes.append(len(dictionaries[-1]))
        joint = places[0]
        for place, size in zip(places[1:], sizes[1:], strict=True):
            joint = joint * size + place
        distinct, at = np.unique(joint, return_inverse=True)
        tuples = [self._tuple(number, sizes, dictionaries) for number in distinct.tolist()]
        return self._interned(tuples, at)

    @staticmethod
    def _tuple(number: int, sizes: list[int], dictionaries: list[list[Any]]) -> tuple[Any, ...]:
        values = []
        for size, dictionary in zip(reversed(sizes), reversed(dictionaries), strict=True):
            number, place = divmod(number, size)
            values.append(dictionary[place])
        return tuple(reversed(values))

    def _interned(self, tuples: list[tuple[Any, ...]], at: NDArray[np.int64]) -> Codes:
        codes = np.empty(len(tuples), np.int32)
        for place, key in enumerate(tuples):
            known = _hashable(key)
            code = self._codes.get(known)
            if code is None and len(self.values) < self._most:
                code = self._codes[known] = len(self.values)
                self.values.append(key)
            codes[place] = OTHER if code is None else code
        return codes[at]

    def shown(self, since: int = 0) -> list[str]:
        """Return the keys from a number on, as texts that people can read."""
        return [text_of(key) for key in self.values[since:]]


def _dictionary(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the distinct values of a column, null among them, and where each row's value is in there."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    array = plain.combine_chunks()
    if pa.types.is_nested(array.type):  # Arrow does not tell their values apart
        values = array.to_pylist()
        known = {repr(value): value for value in values}
        numbers_ = {text: number for number, text in enumerate(known)}
        return np.array([numbers_[repr(value)] for value in values], np.int64), list(known.values())
    encoded = array.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    return np.asarray(encoded.indices.fill_null(len(found))).astype(np.int64), [*found, None]


def text_of(key: tuple[Any, ...]) -> str:
    """Return a key as a text.

    >>> text_of(("A", 3)), text_of(()), text_of((None,))
    ('A, 3', 'all', 'null')
    """
    return ", ".join("null" if value is None else str(value) for value in key)[:200] or "all"


def _hashable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as something that can be found again: lists and NaN cannot."""
    return tuple(repr(v) if isinstance(v, (list, dict, float)) else (type(v).__name__, v) for v in key)


@dataclass(frozen=True)
class Block:
    """Rows of one query as columns, beside the rows themselves."""

    query: str
    code: NDArray[np.int32]
    start: Ticks
    end: Ticks
    a: Ticks  # two numbers that tell a window apart, beside query and key
    b: Ticks
    revision: Ticks
    change: NDArray[np.uint8]
    value: NDArray[np.float64]  # of the first column that is a number
    rows: pa.Table
    _lines: dict[str, Slices] = field(default_factory=dict, init=False)  # by column, once asked for

    def __len__(self) -> int:
        return len(self.code)

    def lines(self, columns: Collection[str]) -> dict[str, Slices]:
        """Return the slices of lines, by column."""
        for column in columns:
            if column not in self._lines:
                self._lines[column] = self._line(column)
        return {column: self._lines[column] for column in columns}

    def forget_lines(self) -> None:
        """Let go of slices that all who wanted them have."""
        self._lines.clear()

    def _line(self, column: str) -> Slices:
        has = column in self.rows.column_names  # where all are null, it was left out
        array = self.rows.column(column).combine_chunks() if has else pa.nulls(len(self), pa.float64())
        at = np.flatnonzero(self.code != OTHER)
        gone = self.change == _RETRACT
        if is_m4(array.type):
            filled = ~np.asarray(array.is_null()) & ~np.asarray(array.field("first").is_null())
            parts: dict[str, NDArray[Any]] = {
                "code": self.code,
                "a": self.a,
                "b": self.b,
                "start": self.start,
                "end": self.end,
                "gone": gone,
            }
            for name in VALUES:
                parts[name] = _floats(array.field(name))
                parts[f"{name}_time"] = _ticks(array.field(f"{name}_time"), self.end)
            slices = Slices(parts)
        else:
            slices = numbers(self.code, self.a, self.b, self.end, _floats(array))
            slices.columns["gone"] = gone
            filled = ~np.asarray(array.is_null())
        return slices.take(at[(filled | gone)[at]])


def is_m4(kind: pa.DataType) -> bool:
    """Tell whether a column holds what mt.m4 gives."""
    return bool(pa.types.is_struct(kind) and kind.num_fields == 8 and kind.get_field_index("min_time") >= 0)


def is_number(kind: pa.DataType) -> bool:
    """Tell whether a column can be drawn as a line of its values."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _floats(array: pa.Array) -> NDArray[np.float64]:
    return np.asarray(array.cast(pa.float64(), safe=False).fill_null(np.nan))


def _ticks(array: pa.Array, otherwise: Ticks) -> Ticks:
    """Return times in ticks; where there is none, as in a retraction, others."""
    found = array.cast(pa.int64())
    return np.where(np.asarray(found.is_null()), otherwise, np.asarray(found.fill_null(0)))


def blocks_of(rows: pa.Table, keys: Keys, identities: Mapping[str, Sequence[str]]) -> list[Block]:
    """Return rows by query; `identities` are the columns that tell windows of each apart."""
    codes = keys.encode(rows)
    query = rows.column("query")
    places, names = _dictionary(query)
    found = []
    for place in np.unique(places).tolist():
        at = np.flatnonzero(places == place)
        some = _own(rows if len(at) == rows.num_rows else rows.take(pa.array(at)))
        found.append(_block(names[place], codes[at], some, identities.get(names[place])))
    return found


def _own(rows: pa.Table) -> pa.Table:
    """Return the rows of one query without the columns of others, which are null."""
    fixed = rows.column_names.index("change") + 1
    kept = [
        n for k, n in enumerate(rows.column_names) if k < fixed or rows.column(n).null_count < rows.num_rows
    ]
    return rows.select(kept)


def _block(name: str, codes: NDArray[np.int32], rows: pa.Table, identity: Sequence[str] | None) -> Block:
    def whole(column: str) -> Ticks:
        array = rows.column(column).combine_chunks()
        if pa.types.is_floating(array.type):  # another measure than time: any number will do that is its own
            bits = np.asarray(array.cast(pa.float64()).fill_null(0.0)).view(np.int64)
            return (bits ^ (bits >> 32)) & (2**52 - 1)
        return np.asarray(array.cast(pa.int64()).fill_null(0))

    told_by = [*(identity or TIMES), None][:2]
    told_by = [column if column is None or column in rows.column_names else None for column in told_by]
    zero = np.zeros(rows.num_rows, np.int64)
    a, b = (zero if column is None else whole(column) for column in told_by)
    changes = rows.column("change").cast(pa.string()).to_numpy(zero_copy_only=False)
    change = np.zeros(rows.num_rows, np.uint8)
    for number, word in enumerate(CHANGES):
        change[changes == word] = number
    column = next((n for n in value_columns(rows) if rows.column(n).null_count < rows.num_rows), None)
    value = np.full(rows.num_rows, np.nan)
    if column is not None:
        array = rows.column(column).combine_chunks()
        value = _floats(array.field("last") if is_m4(array.type) else array)
    return Block(
        name, codes, whole("window_start"), whole("window_end"), a, b, whole("revision"), change, value, rows
    )


def value_columns(rows: pa.Table) -> list[str]:
    """Return the columns of aggregates that are numbers or lines."""
    names = rows.column_names
    after = names.index("change") + 1
    kinds = {name: rows.schema.field(name).type for name in names[after:] if name != "final"}
    return [name for name, kind in kinds.items() if is_number(kind) or is_m4(kind)]


class Recent:
    """The rows that came last, up to a bound; small blocks are put together, which saves memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks: dict[str, list[Block]] = {}
        self._small: Counter[str] = Counter()  # blocks at the end of each query's that are as they came
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, block: Block) -> None:
        """Add rows; let go of the oldest of the query that has most."""
        blocks = self._blocks.setdefault(block.query, [])
        blocks.append(block)
        self._count += len(block)
        self._small[block.query] += 1
        if self._small[block.query] == _TOGETHER:
            blocks[-_TOGETHER:] = [_together(blocks[-_TOGETHER:])]
            self._small[block.query] = 0
        while self._count > self._most:
            longest = max(self._blocks.values(), key=lambda some: sum(map(len, some)))
            if len(longest) == 1:
                break
            self._count -= len(longest.pop(0))

    def forget(self, query: str) -> None:
        """Let go of the rows of a query."""
        self._count -= sum(map(len, self._blocks.pop(query, [])))
        del self._small[query]

    def bars(self, query: str, code: int) -> dict[str, NDArray[Any]]:
        """Return the windows of a query and key that are kept, as they are now, with their values before."""
        parts = [(b, np.flatnonzero(b.code == code)) for b in self._blocks.get(query, ())]
        if not parts:
            return {name: np.empty(0) for name in BAR}
        columns = {name: np.concatenate([getattr(b, name)[at] for b, at in parts]) for name in BAR[:-1]}
        count = len(columns["a"])
        order = np.lexsort((columns["revision"], columns["b"], columns["a"]))
        some = {name: column[order] for name, column in columns.items()}
        same = (some["a"][1:] == some["a"][:-1]) & (some["b"][1:] == some["b"][:-1])
        before = np.full(count, np.nan)
        before[1:][same] = some["value"][:-1][same]
        some["before"] = before
        last = np.append(~same, True) if count else np.zeros(0, bool)
        kept = {name: column[last] for name, column in some.items()}
        by_end = np.argsort(kept["end"], kind="stable")[-_BARS:]
        return {name: column[by_end] for name, column in kept.items()}

    def revisions(self, query: str, code: int, a: int, b: int) -> pa.Table | None:
        """Return all rows of one window that are kept; None if there are none."""
        found = []
        for block in self._blocks.get(query, ()):
            at = np.flatnonzero((block.code == code) & (block.a == a) & (block.b == b))
            if len(at):
                found.append(block.rows.take(pa.array(at)))
        return pa.concat_tables(found, promote_options="permissive") if found else None

    def table(self, query: str | None = None) -> pa.Table | None:
        """Return the rows that are kept, of one query or all; None if there are none."""
        chosen = self._blocks if query is None else {query}
        found = [block.rows for name in chosen for block in self._blocks.get(name, ())]
        return pa.concat_tables(found, promote_options="permissive") if found else None


def _together(blocks: Sequence[Block]) -> Block:
    """Return blocks of one query as one."""
    names = ("code", "start", "end", "a", "b", "revision", "change", "value")
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
    rows = pa.concat_tables([block.rows for block in blocks], promote_options="permissive")
    return Block(query=blocks[0].query, rows=rows.combine_chunks(), **columns)


BAR = ("start", "end", "a", "b", "revision", "change", "value", "before")


def open_on_grid(grid: Any, watermark: int, newest: int) -> list[tuple[int, int]]:
    """Return the windows of a grid that a record may be in and that are not complete.

    >>> import muntin as mt
    >>> from muntin.windows.durations import Clock
    >>> open_on_grid(mt.sliding(10, every=5).resolved(Clock(None)), 12, 14)
    [(5, 15), (10, 20)]
    """
    if grid.listed:  # one's own windows are known by their times only
        return []
    low, high = int(last_ended(grid, watermark)) + 1, int(grid.high(newest))
    numbers = range(low, min(high, low + _OPEN - 1) + 1)
    return [(int(grid.start(k)), int(end(grid, k))) for k in numbers]


def sessions_of(runs: pa.Table, gap: int) -> list[tuple[int, int]]:
    """Return the sessions that runs of one key make up."""
    found: list[tuple[int, int]] = []
    if not runs.num_rows:
        return found
    first, last = (np.asarray(runs[side].cast(pa.int64())).tolist() for side in ("first", "last"))
    for begin, stop in zip(first, last, strict=True):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], stop + gap)
        else:
            found.append((begin, stop + gap))
    return found[-_OPEN:]


def rows_as_json(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows with every value as a number or a text; what is null is left out."""

    def shown(value: Any) -> Any:
        if isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, dict):
            return {name: shown(one) for name, one in value.items()}
        return text_of((value,))

    return [{k: shown(v) for k, v in row.items() if v is not None} for row in _plain(table).to_pylist()]


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose timestamps are texts: those of nanoseconds are more than Python's times hold."""
    columns = {
        name: column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
        if not is_m4(column.type)
    }
    return pa.table(columns)
