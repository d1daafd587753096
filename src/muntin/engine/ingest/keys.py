"""Keys of any type as small numbers, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin import columnar
from muntin.algebra.aggregate import Absent
from muntin.columnar import Codes, Indices
from muntin.engine.ingest import batch_loops
from muntin.engine.transaction import Steps, Transactional

_NAN = Absent("NaN")  # all NaN are one key
_AS_THEY_ARE = {kind.id for kind in (pa.int64(), pa.int32(), pa.string(), pa.large_string())}


class KeyTable(Transactional):
    """Numbers each distinct key; the values of a number can be had again as Arrow arrays."""

    often = ("types", "_untyped", "_codes", "_chunks")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.types: list[pa.DataType] | None = None
        self._untyped = False  # a column has been null so far
        self._codes: dict[Any, int] = {}  # in the order of numbers
        self._chunks: list[list[pa.Array]] = [[] for _ in self.names]

    def __len__(self) -> int:
        return len(self._codes) if self.names else 1

    def begin(self, steps: Steps) -> None:
        """Write down how many keys there are: new ones come behind them."""
        if self.names:
            sizes = [(chunks, len(chunks)) for chunks in self._chunks]
            steps.append((_forget_keys, self._codes, len(self._codes), sizes))

    def encode(self, columns: Sequence[pa.Array]) -> Indices:
        """Return the number of each record's key; new keys get the next ones."""
        if not self.names:
            return np.zeros(1, np.int64)
        if self.types is None or self._untyped:
            self.set_types([column.type for column in columns])
        if len(columns[0]) == 1:
            code = self.known(columns)
            return self._number(columns) if code is None else np.array([code], np.int64)
        if len(columns) == 1 and pa.types.is_integer(columns[0].type):
            codes = self._encode_integers(columns[0])
            if codes is not None:
                return codes
        if len(columns) == 1 and not _is_compound(columns[0].type):
            encoded = pc.dictionary_encode(_same_zeros(columns[0]), null_encoding="encode")
            return self._renumbered([encoded.dictionary], _places(encoded.indices))
        return self._encode_several(columns)

    def set_types(self, types: Sequence[pa.DataType]) -> None:
        """Hold keys in these types; where there were others, all keys so far are null."""
        self._untyped = any(pa.types.is_null(kind) for kind in types)
        chunks = list(self._chunks)
        for k, (old, new) in enumerate(zip(self.types or types, types, strict=True)):
            if old != new:
                chunks[k] = [pa.nulls(len(chunk), new) for chunk in chunks[k]]
        self.types, self._chunks = list(types), chunks

    def known(self, columns: Sequence[pa.Array]) -> int | None:
        """Return the number of a single key that is known, if its values tell it apart as they are."""
        if not all(column.type.id in _AS_THEY_ARE for column in columns):
            return None
        values = [column[0].as_py() for column in columns]
        return self._codes.get(values[0] if len(values) == 1 else tuple(values))

    def _encode_integers(self, column: pa.Array) -> Indices | None:
        """Number integers that lie close together through a table; None if they do not."""
        if column.null_count or pa.types.is_uint64(column.type):
            return None
        low, high = pc.min_max(column).as_py().values()
        if high - low >= max(len(column), 1024):
            return None
        keys = np.ascontiguousarray(columnar.data(column), np.int64)
        codes, distinct = np.empty(len(keys), np.int64), np.empty(high - low + 1, np.int64)
        table = np.full(high - low + 1, -1)
        count = batch_loops.run("number_keys", keys, low, table, codes, distinct)
        return self._renumbered([columnar.numbers(distinct[:count]).cast(column.type)], codes)

    def _renumbered(self, distinct: Sequence[pa.Array], codes: Codes) -> Indices:
        """Return the numbers of keys, given those of a batch's distinct ones."""
        numbers = self._number(distinct)
        if numbers[0] == 0 and len(numbers) == len(self) and (numbers[1:] > numbers[:-1]).all():
            return codes  # as in the first batch: they are the same
        renumbered: Indices = numbers[codes]
        return renumbered

    def _encode_several(self, columns: Sequence[pa.Array]) -> Indices:
        """Number combinations: first those that occur, once each, then all records."""
        combined: Any = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            if _is_compound(column.type):
                seen: dict[Any, int] = {}
                codes = np.array([seen.setdefault(i, len(seen)) for i in _identities(column)], np.int64)
            else:
                codes = _places(pc.dictionary_encode(_same_zeros(column), null_encoding="encode").indices)
            combined = combined * (int(codes.max()) + 1) + codes
            _, combined = np.unique(combined, return_inverse=True)
        _, first = np.unique(combined, return_index=True)
        at = columnar.numbers(first)
        numbers: Indices = self._number([column.take(at) for column in columns])[combined]
        return numbers

    def _number(self, columns: Sequence[pa.Array]) -> Indices:
        identities = [_identities(column) for column in columns]
        keys = identities[0] if len(columns) == 1 else list(zip(*identities, strict=True))
        if not self._codes:
            first = dict(zip(keys, range(len(keys)), strict=True))
            if len(first) == len(keys):  # most often: all at once, none is looked up
                self._codes, numbers = first, np.arange(len(keys))
                self._keep(columns, numbers)
                return numbers
        known = len(self._codes)
        numbers = np.array([self._codes.setdefault(key, len(self._codes)) for key in keys], np.int64)
        if len(self._codes) > known:
            new, at = np.unique(numbers, return_index=True)
            self._keep(columns, at[new >= known])
        return numbers

    def _keep(self, columns: Sequence[pa.Array], at: Indices) -> None:
        """Keep the values of new keys, which lie at these places."""
        for chunks, column in zip(self._chunks, columns, strict=True):
            chunks.append(column.take(columnar.numbers(at)))

    def values(self, codes: Codes) -> list[pa.Array]:
        """Return the key columns of these numbers."""
        if len(codes) == 1:
            return [column.slice(int(codes[0]), 1) for column in self.columns()]
        at = columnar.numbers(codes)
        return [column.take(at) for column in self.columns()]

    def columns(self) -> list[pa.Array]:
        """Return all keys, by number."""
        for k, chunks in enumerate(self._chunks):
            if len(chunks) > 1:
                whole = [pa.concat_arrays(chunks)]
                self._chunks = [*self._chunks[:k], whole, *self._chunks[k + 1 :]]
        if self.types is None:
            return []
        return [c[0] if c else pa.nulls(0, t) for c, t in zip(self._chunks, self.types, strict=True)]

    def find(self, columns: Sequence[pa.Array]) -> int | None:
        """Return the number of one key, None if it is not known."""
        identities = [_identities(column)[0] for column in columns]
        return self._codes.get(identities[0] if len(columns) == 1 else tuple(identities))

    def code_of(self, key: Any) -> int:
        """Return the number of the key that a user names; -1 if it is not known."""
        values = key if isinstance(key, (tuple, list)) else (key,)
        if len(values) != len(self.names):
            raise ValueError(f"a key has {len(self.names)} value(s), not {len(values)}.")
        kinds = self.types or [pa.null()] * len(values)
        if len(values) == 1 and _as_it_is(values[0], kinds[0]):
            return self._codes.get(values[0], -1)
        columns = [_one(*column) for column in zip(self.names, values, kinds, strict=True)]
        code = None if any(column is None for column in columns) else self.find(columns)
        return -1 if code is None else code

    def mostly_gone(self, live: int) -> bool:
        """Tell whether so few keys are still needed that it pays to forget the others."""
        return 2 * live + 16 <= len(self)

    def retain(self, live: Indices) -> Indices:
        """Forget all other keys, and number these anew; return the new number of each old one."""
        columns = [column.take(columnar.numbers(live)) for column in self.columns()]
        renumbered = np.full(len(self), -1, np.int64)
        renumbered[live] = np.arange(len(live))
        numbers = renumbered.tolist()
        kept = [(numbers[code], key) for key, code in self._codes.items() if numbers[code] >= 0]
        self._codes = {key: code for code, key in sorted(kept, key=lambda pair: pair[0])}
        self._chunks = [[column] for column in columns]
        return renumbered

    def load(self, columns: Sequence[pa.Array]) -> None:
        """Take in keys in the order of their numbers."""
        self.set_types([column.type for column in columns])
        if columns and len(columns[0]):
            self._number(columns)


def _forget_keys(codes: dict[Any, int], count: int, sizes: list[tuple[list[pa.Array], int]]) -> None:
    """Forget the keys that came last."""
    while len(codes) > count:
        codes.popitem()
    for chunks, size in sizes:
        del chunks[size:]


def _as_it_is(value: Any, kind: pa.DataType) -> bool:
    """Tell whether a value of a key column can be looked up without making an array of it."""
    if type(value) is str:
        return bool(kind == pa.string())
    return type(value) is int and -(2**63) <= value < 2**63 and bool(kind == pa.int64())


def _one(name: str, value: Any, kind: pa.DataType) -> pa.Array | None:
    """Return a value as a column of a type; None: of a column that has been null so far, it is no value."""
    if pa.types.is_null(kind) and value is not None:
        return None
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    try:
        if number or pa.types.is_temporal(kind):  # Arrow would round some of these
            column = columnar.lossless(columnar.plain(pa.array([value])), kind)
        else:
            column = pa.array([value], kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        column = None
    if column is None:
        raise TypeError(f"the key column {name!r} holds {kind}, and {value!r} is no such value.")
    return column


def _places(indices: pa.Array) -> Indices:
    return np.asarray(columnar.data(indices), np.int64)


def _is_compound(kind: pa.DataType) -> bool:
    """Tell whether Arrow cannot tell values apart by itself."""
    return bool(pa.types.is_nested(kind)) or isinstance(kind, pa.BaseExtensionType)


def _same_zeros(column: pa.Array) -> pa.Array:
    """Make -0.0 and 0.0, and all NaN, the same to the bit."""
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.add(column, pa.scalar(0, column.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), column.type), plain)


def _identities(column: pa.Array) -> list[Any]:
    """Return what tells values apart, as something that can be looked up."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _identities(column.storage)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if column.null_count == 0 and pa.types.is_integer(column.type):
        return list(columnar.data(column).tolist())
    values = column.to_pylist()
    if pa.types.is_floating(kind):
        return [_NAN if v is not None and v != v else v for v in values]
    return [_frozen(v) for v in values] if pa.types.is_nested(kind) else list(values)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return _NAN if value != value else value
