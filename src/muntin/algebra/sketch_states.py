"""The one door to the datasketches library: states that are made, added to, merged and serialised."""

from __future__ import annotations

import copy
import itertools
import math
import struct
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.hashing import decimal_text, keys_of, unfit

FORMAT = 1  # of serialised states: the library's own bytes behind this one

# Fixed, so that all sketches merge; the error bounds in the documentation follow from them.
LG_REGISTERS = 12  # of HLL: 2^12 registers
RETAINED = 200  # k of KLL
LG_COUNTERS = 10  # of frequent items: at most 2^10 in its map
ROWS, BUCKETS = 5, 272  # of count-min

OTHER = "these bytes are no sketch that muntin has written."
_NARROWEST, _MOST_LEVELS = 8, 61  # of KLL: values of the smallest level, and levels

_ROUNDING = 1e-9  # of a share times a number of values


@cache
def library() -> Any:
    """Return the library, or say how to get it."""
    try:
        import datasketches
    except ImportError as error:
        raise ImportError(
            "approximate aggregates need the datasketches library: pip install muntin[sketches]"
        ) from error
    return datasketches


class SketchState(ABC):
    """A sketch of some values. Slices are shared by many windows, so no verb changes its inputs."""

    __slots__ = ("sketch",)

    def __init__(self, sketch: Any) -> None:
        self.sketch = sketch

    # ---- what each sketch has in its own way ----

    @staticmethod
    @abstractmethod
    def prepared(column: NDArray[Any]) -> NDArray[Any]:
        """Return a column of numbers or objects as the sketch takes it: equal values are then the same."""

    @classmethod
    @abstractmethod
    def _new(cls) -> Self:
        """Return the sketch of nothing."""

    @abstractmethod
    def _update(self, values: NDArray[Any]) -> None:
        """Take in prepared values."""

    def _copied(self) -> Self:
        return type(self)(copy.copy(self.sketch))

    def _merge(self, other: Self) -> None:
        self.sketch.merge(other.sketch)

    def _bytes(self) -> bytes:
        content: bytes = self.sketch.serialize()
        return content

    @classmethod
    def _of_bytes(cls, content: bytes) -> Self:
        return cls(type(cls._new().sketch).deserialize(content))

    @classmethod
    @abstractmethod
    def _check(cls, content: bytes) -> None:
        """Refuse bytes of a sketch of another size: the library would make room for what they say."""

    # ---- verbs ----

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """Return the sketch of prepared values, at least one."""
        made = cls._new()
        made._update(values)
        return made

    def plus(self, values: NDArray[Any]) -> Self:
        """Return a sketch with more values."""
        more = self._copied()
        more._update(values)
        return more

    @classmethod
    def merged(cls, states: Sequence[Self]) -> Self:
        """Return one sketch of the values of all, at least one."""
        whole = states[0]._copied()
        for state in states[1:]:
            whole._merge(state)
        return whole

    def dump(self) -> bytes:
        """Return the sketch as bytes."""
        return bytes([FORMAT]) + self._bytes()

    @classmethod
    def load(cls, blob: bytes) -> Self:
        """Return the sketch that was dumped."""
        if blob[:1] != bytes([FORMAT]):
            raise ValueError(
                f"this sketch has format {blob[:1].hex()}, and this muntin reads format {FORMAT:02x}: read "
                "it with the version of muntin that wrote it."
            )
        cls._check(blob[1:])
        return cls._of_bytes(blob[1:])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dump() == other.dump()

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).load, (self.dump(),)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {len(self._bytes())} bytes>"


def _each(update: Any, *columns: Iterable[Any]) -> None:
    """Call an update that takes one value at a time."""
    deque(map(update, *columns), 0)


class Registers(SketchState):
    """HLL: how many values are distinct."""

    __slots__ = ()

    @staticmethod
    def prepared(column: NDArray[Any]) -> NDArray[Any]:
        """Return the keys of values."""
        return keys_of(column)

    @classmethod
    def _new(cls) -> Self:
        return cls(library().hll_sketch(LG_REGISTERS, library().HLL_8))

    def _update(self, values: NDArray[Any]) -> None:
        _each(self.sketch.update, values.tolist())

    def _copied(self) -> Self:
        return type(self)(library().hll_sketch.deserialize(self.sketch.serialize_updatable()))

    @classmethod
    def merged(cls, states: Sequence[Self]) -> Self:
        """Return one sketch of the values of all."""
        union = library().hll_union(LG_REGISTERS)
        for state in states:
            union.update(state.sketch)
        return cls(union.get_result(library().HLL_8))

    def _bytes(self) -> bytes:
        content: bytes = self.sketch.serialize_compact()
        return content

    @classmethod
    def _check(cls, content: bytes) -> None:
        if content[3:4] != bytes([LG_REGISTERS]):
            raise ValueError(OTHER)

    def distinct(self) -> int:
        """Return the estimate, which depends on the values alone.

        The library's own estimate of a sketch that never was a union depends on the order of its values.
        """
        union = library().hll_union(LG_REGISTERS)
        union.update(self.sketch)
        union.update(self.sketch)  # changes nothing but to make it a union
        estimate: float = union.get_estimate()
        return round(estimate)


class Ranks(SketchState):
    """KLL: which values lie at which rank. NaN is the largest, and counted apart: the library drops it."""

    __slots__ = ("nans",)

    def __init__(self, sketch: Any, nans: int = 0) -> None:
        super().__init__(sketch)
        self.nans = nans

    @staticmethod
    def prepared(column: NDArray[Any]) -> NDArray[Any]:
        """Return numbers as floats."""
        floats: NDArray[np.float64] = column.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        return floats

    @classmethod
    def _new(cls) -> Self:
        return cls(library().kll_doubles_sketch(RETAINED))

    def _update(self, values: NDArray[Any]) -> None:
        nan = np.isnan(values)
        self.nans += int(nan.sum())
        self.sketch.update(values[~nan])

    def _copied(self) -> Self:
        return type(self)(copy.copy(self.sketch), self.nans)

    def _merge(self, other: Self) -> None:
        super()._merge(other)
        self.nans += other.nans

    def _bytes(self) -> bytes:
        return self.nans.to_bytes(8, "little") + super()._bytes()

    @classmethod
    def _check(cls, content: bytes) -> None:
        check_ranks(content[8:])

    @classmethod
    def _of_bytes(cls, content: bytes) -> Self:
        sketch = library().kll_doubles_sketch.deserialize(content[8:])
        return cls(sketch, int.from_bytes(content[:8], "little"))

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return for each share the value that at least so much of all lies at or below."""
        count = self.sketch.n
        ranks = [max(1, math.ceil(share * (count + self.nans) - _ROUNDING)) for share in shares]
        # In the middle between ranks, so that rounding leads to no other.
        return [
            self.sketch.get_quantile((rank - 0.5) / count, True) if rank <= count else math.nan
            for rank in ranks
        ]


def check_ranks(content: bytes) -> None:
    """Refuse bytes that are no KLL sketch: the library takes the places of its levels as they are.

    The first eight bytes say of what kind it is. Where there are several values, eight say how many were
    taken in, four how many levels there are, and four for each level where it begins; then come the least
    and the largest value. At the end are the values of all levels; one of level h stands for 2^h of those
    taken in.
    """
    if len(content) < 8 or content[4:7] != struct.pack("<HB", RETAINED, _NARROWEST):
        raise ValueError(OTHER)
    begin, values = 8, {(2, 1): 0, (2, 4): 1}.get((content[0], content[3] & 5))  # none, or one
    if values is None:
        levels = content[18] if len(content) > 18 else 0
        begin = 20 + 4 * levels
        if content[0] != 5 or not 1 <= levels <= _MOST_LEVELS or len(content) < begin:
            raise ValueError(OTHER)
        room = sum(max(_NARROWEST, (2 * RETAINED << h) // 3**h + 1 >> 1) for h in range(levels))
        edges = [*struct.unpack_from(f"<{levels}I", content, 20), room]
        sizes = [after - before for before, after in itertools.pairwise(edges)]
        (count,) = struct.unpack_from("<Q", content, 8)
        if min(sizes) < 0 or sum(size << h for h, size in enumerate(sizes)) != count:
            raise ValueError(OTHER)
        values = 2 + sum(sizes)
    if len(content) != begin + 8 * values or np.isnan(np.frombuffer(content, "<f8", offset=begin)).any():
        raise ValueError(OTHER)


class Counters(SketchState):
    """Frequent items: the values that occur most often, as texts."""

    __slots__ = ()

    @staticmethod
    def prepared(column: NDArray[Any]) -> NDArray[Any]:
        """Return values that compare as they should."""
        return column + 0.0 if column.dtype.kind == "f" else column  # -0.0 becomes 0.0

    @classmethod
    def _new(cls) -> Self:
        return cls(library().frequent_strings_sketch(LG_COUNTERS))

    def _update(self, values: NDArray[Any]) -> None:
        if values.dtype == object:
            counts: dict[Any, int] = Counter(values.tolist())
        else:
            distinct, times = np.unique(values, return_counts=True)
            counts = dict(zip(distinct.tolist(), times.tolist(), strict=True))
        _each(self.sketch.update, map(text_of, counts), counts.values())

    @classmethod
    def _check(cls, content: bytes) -> None:
        if len(content) < 8 or content[3] != LG_COUNTERS or content[4] > LG_COUNTERS:
            raise ValueError(OTHER)

    def most_frequent(self, count: int) -> list[tuple[Any, int]]:
        """Return values with their counts, the most frequent first, of equal counts the smallest value."""
        rows = self.sketch.get_frequent_items(library().NO_FALSE_NEGATIVES)
        pairs = [(value_of(text), times) for text, times, _, _ in rows]
        pairs.sort(key=lambda pair: (-pair[1], pair[0] != pair[0], pair[0]))
        return pairs[:count]


def text_of(value: Any) -> str:
    """Return a value as a text that stands for it alone.

    >>> text_of(-0.0), text_of("a"), value_of(text_of(0.1))
    ('f0x0.0p+0', 'sa', 0.1)
    """
    if isinstance(value, bool):
        return f"o{value:d}"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return "f" + (value + 0.0).hex()
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, bytes):
        return "b" + value.decode("latin-1")
    if isinstance(value, Decimal):
        return "d" + decimal_text(value)
    raise unfit(value)


_READ: dict[str, Any] = {
    "o": lambda text: text == "1",
    "i": int,
    "f": float.fromhex,
    "s": str,
    "b": lambda text: text.encode("latin-1"),
    "d": Decimal,
}


def value_of(text: str) -> Any:
    """Return the value that a text stands for."""
    return _READ[text[0]](text[1:])


class Buckets(SketchState):
    """Count-min: how often each value occurs."""

    __slots__ = ()

    @staticmethod
    def prepared(column: NDArray[Any]) -> NDArray[Any]:
        """Return the keys of values."""
        return keys_of(column)

    @classmethod
    def _new(cls) -> Self:
        return cls(library().count_min_sketch(ROWS, BUCKETS))

    def _update(self, values: NDArray[Any]) -> None:
        distinct, times = np.unique(values, return_counts=True)
        _each(self.sketch.update, distinct.tolist(), times.astype(float).tolist())

    @classmethod
    def _check(cls, content: bytes) -> None:
        if struct.unpack_from("<IB", content.ljust(13), 8) != (BUCKETS, ROWS):
            raise ValueError(OTHER)

    def blob(self) -> bytes:
        """Return the sketch as the library writes it."""
        return self._bytes()

    @classmethod
    def of_blob(cls, blob: bytes) -> Self:
        """Return the sketch of a blob."""
        size = 24 + 8 * ROWS * BUCKETS
        try:
            if not isinstance(blob, bytes) or len(blob) != size:
                raise ValueError
            return cls._of_bytes(blob)
        except (ValueError, RuntimeError) as error:
            raise ValueError("this is no answer of count_min_sketch: it does not read as one.") from error

    def count(self, key: int) -> int:
        """Return how often the value with a key occurs, or a little more."""
        return int(self.sketch.get_estimate(key))
