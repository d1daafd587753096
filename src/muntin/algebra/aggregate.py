"""What is combined: the Aggregate that a user writes, and the Algebra that every engine reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Function = Callable[..., Any]
Kind = Literal["distributive", "algebraic", "holistic"]
Kinds = tuple[str, ...]  # the type code of each value column: "f8" or "i8"


class Absent:
    """The type of markers for "there is none", where None could be somebody's value."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NO_IDENTITY: Final = Absent("NO_IDENTITY")
TIME: Final = "\0time"  # among columns: the time of the record, in ticks; no user's column has such a name


@dataclass(frozen=True)
class Algebra:
    """The functions of one aggregate, over states that are scalars or flat tuples of scalars.

    On the object path a state may be anything; `fields` is then None.
    """

    lift: Function
    combine: Function
    lower: Function
    invert: Function | None = None
    invert_oldest: Function | None = None
    identity: Any = NO_IDENTITY
    # How much rounding one inverse leaves behind, and how much a state can bear before it must be
    # computed anew; None where inverses are exact.
    error_step: Function | None = None
    error_limit: Function | None = None
    fields: tuple[str, ...] | None = None
    result: str | None = None
    misses: bool = False  # lower may return None, for a null answer
    # lower(combine(a, b)) in fewer steps, where an aggregate knows how.
    lower_pair: Function | None = None


_FUNCTIONS = ("lift", "combine", "lower", "invert", "invert_oldest", "dump", "load")


class Aggregate:
    """A way to combine records: lift each one, combine neighbours, lower the whole.

    Subclasses give `combine`, which must be associative, and as they need it `lift` (one record to a
    state), `lower` (a state to the answer), `identity`, and the inverses: `invert(a, b)` takes b out of
    the newer end of a, `invert_oldest(a, b)` out of the older one. None may change its arguments: slices are
    shared. Plain functions and static methods both do. An instance is bound to columns, or to none (then it
    takes values as they are).

    A snapshot keeps states of numbers, texts, bytes, dates and times, arrays of numbers, and tuples, lists,
    sets and dicts of them. For any other, give `dump(state)`, which returns one of these, and `load(dumped)`.

    >>> class SumOfSquares(Aggregate):
    ...     commutative = True
    ...     def lift(v): return v * v
    ...     def combine(a, b): return a + b
    >>> SumOfSquares("load")
    SumOfSquares('load')
    >>> a = SumOfSquares()
    >>> a.lower(a.combine(a.lift(3), a.lift(4)))
    25
    """

    commutative: ClassVar[bool] = False
    selective: ClassVar[bool] = False  # combine(a, b) is always one of a and b
    kind: ClassVar[Kind] = "algebraic"
    empty: ClassVar[Any] = None  # the answer over no value
    numeric: ClassVar[bool] = False  # values must be numbers
    gives_many: bool = False  # answers are lists, texts of several values, structs, or blobs
    timed: ClassVar[bool] = False  # lift takes the record's time, too, behind the values of the columns
    fuses: ClassVar[bool] = False  # made of components of fields that others may share; else its own field
    reads_columns: ClassVar[bool] = False  # takes whole columns, of numbers and objects alike
    in_place: ClassVar[bool] = False  # states are rows of an array, which change in place
    quantile_share: float | None = None  # answers are the values at this share of all; None: something else

    lift: Function
    combine: Function
    lower: Function
    columns: tuple[str, ...]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let plain functions in the class body stand for static methods."""
        super().__init_subclass__(**kwargs)
        for name in _FUNCTIONS:
            if inspect.isfunction(cls.__dict__.get(name)):
                setattr(cls, name, staticmethod(cls.__dict__[name]))

    def __init__(self, *columns: str) -> None:
        name = type(self).__name__
        if not hasattr(self, "combine"):
            raise TypeError(f"{name} has no combine(a, b): every aggregate needs one.")
        for column in columns:
            if not isinstance(column, str):
                raise TypeError(f"{name} takes column names, not {column!r}.")
        width = self.arity - self.timed
        if columns and len(columns) != width:
            raise TypeError(f"{name} reads {width} column(s), but {len(columns)} were named: {columns}.")
        self.columns = columns

    @property
    def arity(self) -> int:
        """How many values `lift` takes: the number of columns."""
        parameters = inspect.signature(self.lift).parameters.values()
        return sum(parameter.default is parameter.empty for parameter in parameters)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that `lift` reads, the time among them; none where it takes values as they are."""
        return (*self.columns, TIME) if self.timed and self.columns else self.columns

    @property
    def required(self) -> int:
        """How many of a record's values, from the first, must not be null for it to count."""
        return self.arity

    @property
    def skips_nulls(self) -> bool:
        """Whether a null value counts for nothing (all but `count()`)."""
        return True

    @property
    def value_column(self) -> str | None:
        """The column whose type its answers take after; None: they have a type of their own."""
        return None

    def check_columns(self, types: Mapping[str, pa.DataType]) -> None:
        """Raise TypeError if it cannot be computed of columns of these Arrow types."""
        from muntin.algebra import column_types

        column_types.check_values(self, types)
        self._check_kinds(types)
        if self.numeric:
            column_types.check_numbers(self, types)

    def _check_kinds(self, types: Mapping[str, pa.DataType]) -> None:
        """Refuse what subclasses have no use for."""

    def in_ticks(self, per_second: float | None) -> Aggregate:
        """Return itself for times with so many ticks a second; None: times are plain integers."""
        del per_second
        return self

    def needed_types(self) -> dict[str, pa.DataType]:
        """Return the Arrow types of columns that must be of one type, so that it is known ahead."""
        return {}

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType | None:
        """Return the Arrow type of its answers over columns of these types; None: only answers tell."""
        del types
        return None

    @property
    def invertible(self) -> bool:
        """Whether the oldest record of a window can be taken out of its state."""
        algebra = self.algebra(inverting=True)
        return algebra.invert_oldest is not None

    def algebra(self, kinds: Kinds | None = None, *, inverting: bool = False) -> Algebra:
        """Return the functions for values of these types (None: any Python values).

        `inverting` asks for states that keep their precision when records are taken out again.
        """
        del kinds, inverting  # a user's own functions are the same for all
        invert = getattr(self, "invert", None)
        oldest = getattr(self, "invert_oldest", None)
        if self.commutative:  # one serves both ends
            invert, oldest = invert or oldest, oldest or invert
        identity = getattr(self, "identity", NO_IDENTITY)
        return Algebra(self.lift, self.combine, self.lower, invert, oldest, identity)

    def identity_values(self) -> tuple[Any, ...]:
        """Return what tells two instances of one class apart, beside their columns."""
        return ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aggregate) or type(other) is not type(self):
            return NotImplemented
        return self.columns == other.columns and self.identity_values() == other.identity_values()

    def __hash__(self) -> int:
        return hash((type(self), self.columns, self.identity_values()))

    def __repr__(self) -> str:
        arguments = [repr(a) for a in (*self.columns, *self.identity_values())]
        return f"{type(self).__name__}({', '.join(arguments)})"


def _unchanged(value: Any) -> Any:
    return value


Aggregate.lift = staticmethod(_unchanged)
Aggregate.lower = staticmethod(_unchanged)


class RowAggregate(Aggregate):
    """An aggregate whose state is a row of an array, combined in place: for large partials.

    Subclasses give `width` and `dtype` of the row, which starts as zeros (the identity), and
    `lift_into(row, value)`, `combine_into(row, a, b)` and `lower(row)`. `row` may be `a` or `b` itself, so a
    cell must not be read again after its like in `row` was written; check_aggregate tries that.

    >>> import numpy as np
    >>> class Seen(RowAggregate):
    ...     width, dtype, commutative = 4, "u1", True
    ...     def lift_into(row, v): row[v] = 1
    ...     def combine_into(row, a, b): np.bitwise_or(a, b, row)
    ...     def lower(row): return row.sum()
    >>> seen = Seen()
    >>> int(seen.lower(seen.combine(seen.lift(1), seen.lift(3))))
    2
    """

    in_place = True
    width: ClassVar[int]
    dtype: ClassVar[str]
    lift_into: Function
    combine_into: Function

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Derive lift and combine on fresh rows from the in-place functions."""
        super().__init_subclass__(**kwargs)
        import numpy as np

        for name in ("lift_into", "combine_into"):
            if inspect.isfunction(cls.__dict__.get(name)):
                setattr(cls, name, staticmethod(cls.__dict__[name]))

        def lift(value: Any) -> Any:
            row = np.zeros(cls.width, cls.dtype)
            cls.lift_into(row, value)
            return row

        def combine(a: Any, b: Any) -> Any:
            row = np.empty(cls.width, cls.dtype)
            cls.combine_into(row, a, b)
            return row

        cls.lift = staticmethod(lift)
        cls.combine = staticmethod(combine)
