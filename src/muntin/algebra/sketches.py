"""Sketches: aggregates that answer approximately from states of bounded size that merge."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate, Function
from muntin.algebra.builtin import columns_of, public_name
from muntin.algebra.hashing import key_of
from muntin.algebra.sketch_states import Buckets, Counters, Ranks, Registers, SketchState, library

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 500  # values that approx_top_k may be asked for: its sketch holds some more


class Sketch(Aggregate):
    """An aggregate that takes in whole columns at a time, and whose states are merged many at a time.

    No verb changes its inputs.
    """

    commutative = reads_columns = True

    @abstractmethod
    def prepared(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a column of numbers or objects as `of` and `plus` take it."""

    @abstractmethod
    def of(self, values: NDArray[Any]) -> Any:
        """Return the state of prepared values, at least one."""

    @abstractmethod
    def plus(self, state: Any, values: NDArray[Any]) -> Any:
        """Return a state with more prepared values."""

    @abstractmethod
    def merged(self, states: Sequence[Any]) -> Any:
        """Return one state of the values of all, at least one."""

    @abstractmethod
    def to_bytes(self, state: Any) -> bytes:
        """Return a state as bytes, with its version."""

    @abstractmethod
    def from_bytes(self, blob: bytes) -> Any:
        """Return the state that was dumped."""

    def parameters(self) -> dict[str, Any]:
        """Return what it was made with beside its column, by name."""
        return {}

    def _check_kinds(self, types: Mapping[str, pa.DataType]) -> None:
        """Refuse values that have no key."""
        from muntin.algebra import column_types

        column_types.check_hashed(self, types)

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of blobs."""
        import pyarrow as pa

        del types
        return pa.binary()

    @property
    def arity(self) -> int:
        """How many values a record has."""
        return 1

    def identity_values(self) -> tuple[Any, ...]:
        """Return what it was made with beside its columns."""
        return tuple(self.parameters().values())

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, public_name(type(self)), 1)


def alone(value: Any) -> NDArray[Any]:
    """Return one value as a column."""
    column = np.empty(1, object)
    column[0] = value
    return column


class _LibrarySketch(Sketch):
    """An aggregate on a sketch of the datasketches library."""

    states: ClassVar[type[SketchState]]

    def __init__(self, *columns: str) -> None:
        library()
        self._take_functions()
        super().__init__(*columns)

    def _take_functions(self) -> None:
        self.lift: Function = lambda value: self.of(self.prepared(alone(value)))
        self.combine: Function = lambda a, b: self.merged((a, b))
        self.lower: Function = self._answer

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the functions, which are made anew: copies go to other processes."""
        return {k: v for k, v in self.__dict__.items() if k not in ("lift", "combine", "lower")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._take_functions()

    @abstractmethod
    def _answer(self, state: Any) -> Any:
        """Return what a state tells."""

    def prepared(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a column of numbers or objects as `of` and `plus` take it."""
        return self.states.prepared(column)

    def of(self, values: NDArray[Any]) -> SketchState:
        """Return the state of prepared values, at least one."""
        return self.states.of(values)

    def plus(self, state: SketchState, values: NDArray[Any]) -> SketchState:
        """Return a state with more prepared values."""
        return state.plus(values)

    def merged(self, states: Sequence[Any]) -> SketchState:
        """Return one state of the values of all, at least one."""
        return self.states.merged(states)

    def to_bytes(self, state: SketchState) -> bytes:
        """Return a state as bytes, with its version."""
        return state.dump()

    def from_bytes(self, blob: bytes) -> SketchState:
        """Return the state that was dumped."""
        return self.states.load(blob)


class ApproxCountDistinct(_LibrarySketch):
    """About how many values are distinct."""

    states = Registers
    empty = 0

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of counts."""
        from muntin.algebra import column_types

        del types
        return column_types.number_type("i8")

    def _answer(self, state: Registers) -> int:
        return state.distinct()


def approx_count_distinct(v: str | None = None) -> ApproxCountDistinct:
    """Return about how many values of a column are distinct, by a HyperLogLog sketch of at most 4 KB.

    The standard error is 1.6 %: two answers of three are closer than that, 99 of 100 within 4.2 %. Up to some
    hundred distinct values the answer is exact. It depends on the values alone, not on their order.

    >>> import muntin as mt
    >>> query = mt.tumbling(10).agg(users=mt.approx_count_distinct("user"))
    >>> mt.aggregate({"t": [1, 2, 3], "user": ["ann", "bob", "ann"]}, query, time="t")["users"].to_pylist()
    [2]
    """
    return ApproxCountDistinct(*columns_of(v))


class ApproxQuantile(_LibrarySketch):
    """About the value at a rank, or the values at several."""

    states = Ranks
    numeric = True

    def __init__(self, *columns: str, q: float | Sequence[float]) -> None:
        several = isinstance(q, (list, tuple, np.ndarray))
        shares = [_share(one) for one in (q if several else [q])]  # type: ignore[union-attr]
        if not shares:
            raise ValueError("approx_quantile needs at least one q.")
        self.q: float | tuple[float, ...] = tuple(shares) if several else shares[0]
        self.gives_many = several
        super().__init__(*columns)

    def parameters(self) -> dict[str, Any]:
        """Return q."""
        return {"q": self.q}

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of numbers, or of lists of them."""
        from muntin.algebra import column_types

        del types
        return column_types.share_type(self.gives_many)

    def _answer(self, state: Ranks) -> float | list[float]:
        if isinstance(self.q, tuple):
            return state.quantiles(self.q)
        return state.quantiles([self.q])[0]


def _share(q: Any) -> float:
    if isinstance(q, bool) or not isinstance(q, numbers.Real) or not 0 <= float(q) <= 1:
        raise ValueError(f"q is a number from 0 to 1, or a list of such numbers, not {q!r}.")
    return float(q)


def approx_quantile(v: str | None = None, q: float | Sequence[float] = 0.5) -> ApproxQuantile:
    """Return about the q-quantile of a column of numbers, by a KLL sketch of about 5 KB.

    A list of q gives a list. The answer is one of the values, whose rank is off by less than 1.4 % of the
    number of values in 99 of 100 cases; up to 200 values it is exact: the smallest value that a share q of
    all lies at or below. The sketch draws at random, so that answers over more values may differ from run to
    run, within that bound. Numbers are taken as 64-bit floats; NaN is the largest.

    >>> import muntin as mt
    >>> query = mt.tumbling(10).agg(load=mt.approx_quantile("load", [0.5, 0.9]))
    >>> mt.aggregate({"t": range(10), "load": range(10, 20)}, query, time="t")["load"].to_pylist()
    [[14.0, 18.0]]
    """
    return ApproxQuantile(*columns_of(v), q=q)


class ApproxTopK(_LibrarySketch):
    """About which values are the most frequent."""

    gives_many = True
    states = Counters

    def __init__(self, *columns: str, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or not 1 <= int(k) <= _MOST:
            raise ValueError(f"k is a whole number from 1 to {_MOST}, not {k!r}.")
        self.k: int = int(k)
        super().__init__(*columns)

    def parameters(self) -> dict[str, Any]:
        """Return k."""
        return {"k": self.k}

    @property
    def value_column(self) -> str:
        """The column that answers hold values of."""
        return self.columns[0]

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of lists of values with their counts."""
        from muntin.algebra import column_types

        return column_types.pairs_type(types[self.value_column])

    def _answer(self, state: Counters) -> list[dict[str, Any]]:
        return [{"value": value, "count": count} for value, count in state.most_frequent(self.k)]


def approx_top_k(v: str | None = None, k: int = 10) -> ApproxTopK:
    """Return about the k most frequent values of a column with their counts, by a sketch of frequent items.

    Answers are lists of value and count, the most frequent first, of equal counts the smallest value. No
    count is too small, and none is too large by more than 0.35 % of the number of values: each value that
    occurs more often than that is in the sketch. Up to 768 distinct values all is exact. The sketch has at
    most 1024 counters. What it forgets depends on how the stream was cut into slices and batches, within that
    bound.

    >>> import muntin as mt
    >>> query = mt.tumbling(10).agg(top=mt.approx_top_k("word", 1))
    >>> words = ["to", "be", "or", "not", "to", "be", "to"]
    >>> mt.aggregate({"t": range(7), "word": words}, query, time="t")["top"].to_pylist()
    [[{'value': 'to', 'count': 3}]]
    """
    return ApproxTopK(*columns_of(v), k=k)


class CountMinSketch(_LibrarySketch):
    """About how often each value occurs, as a blob that can be asked."""

    gives_many = True
    states = Buckets

    def _answer(self, state: Buckets) -> bytes:
        return state.blob()


def count_min_sketch(v: str | None = None) -> CountMinSketch:
    """Return how often each value of a column occurs, about, as bytes for `count_min_estimate`.

    No count is too small; in 99 of 100 cases it is too large by at most 1 % of the number of values. The
    bytes, always 10904, are those of the datasketches library, and depend on the values alone, not on their
    order.

    >>> import muntin as mt
    >>> query = mt.tumbling(10).agg(words=mt.count_min_sketch("word"))
    >>> table = mt.aggregate({"t": [1, 2, 3], "word": ["to", "be", "to"]}, query, time="t")
    >>> mt.count_min_estimate(table["words"][0].as_py(), "to")
    2
    """
    return CountMinSketch(*columns_of(v))


def count_min_estimate(blob: bytes | None, value: Any) -> int:
    """Return about how often a value occurs, given an answer of `count_min_sketch`.

    A null answer counts nothing. A date or time comes as an Arrow scalar of its column's type.

    >>> sketch = count_min_sketch()
    >>> count_min_estimate(sketch.lower(sketch.lift(2.5)), 2.5)
    1
    """
    key = key_of(value)
    return 0 if blob is None else Buckets.of_blob(blob).count(key)
