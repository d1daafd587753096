"""What the built-in aggregates share: they are made of components that parts provide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from muntin.algebra.aggregate import Aggregate, Algebra, Function, Kinds
from muntin.algebra.parts import Part, compose

if TYPE_CHECKING:
    import pyarrow as pa

# Which part serves a field, given the column types and whether records will be taken out again.
Variant = Callable[[Kinds | None, bool], Part]
PARTS: dict[str, Variant] = {}

# What each part provides: components, and over how many of the part's columns each is taken.
PROVIDES: dict[str, tuple[tuple[str, int], ...]] = {}


def register(name: str, provides: tuple[tuple[str, int], ...], variant: Part | Variant) -> None:
    """Make a part known under a name."""
    PROVIDES[name] = provides
    if isinstance(variant, Part):
        fixed = variant
        PARTS[name] = lambda _kinds, _inverting: fixed
    else:
        PARTS[name] = variant


class BuiltIn(Aggregate):
    """An aggregate that is a function of components."""

    fuses = True
    needs: tuple[str, ...]
    finish: Function  # from the components, in the order of `needs`, to the answer
    result: str = "f8"  # the answer's type code; "v", "a": as the first or second column
    values: ClassVar[int] = 1  # how many values a record has
    floats: ClassVar[bool] = False  # the components are wanted as floats
    misses: ClassVar[bool] = False  # may be null even over one value or more
    ordered: ClassVar[bool] = False  # values must have an order

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `finish` be a plain function, too."""
        super().__init_subclass__(**kwargs)
        if "finish" in cls.__dict__ and not isinstance(cls.__dict__["finish"], staticmethod):
            cls.finish = staticmethod(cls.__dict__["finish"])

    def __init__(self, *columns: str) -> None:
        self._take_functions()
        super().__init__(*columns)

    def _take_functions(self) -> None:
        algebra = self.algebra()
        self.lift, self.combine, self.lower = algebra.lift, algebra.combine, algebra.lower
        if algebra.invert:
            self.invert = algebra.invert

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the functions, which are made from the class: copies go to other processes."""
        return {k: v for k, v in self.__dict__.items() if k not in ("lift", "combine", "lower", "invert")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._take_functions()

    @property
    def arity(self) -> int:
        """How many values a record has: the number of columns."""
        return self.values

    def algebra(self, kinds: Kinds | None = None, *, inverting: bool = False) -> Algebra:
        """Return the functions for values of these types; states keep their precision if `inverting`."""
        cls: Any = type(self)
        return _algebra(
            cls, self.needs, self.result, self.finisher(), self._finisher_of_pair(), kinds, inverting
        )

    @property
    def value_column(self) -> str | None:
        """The column whose type its answers take after; None: they have a type of their own."""
        if self.selective and self.columns:
            return self.columns[-1 if self.result == "a" else 0]
        return self.columns[0] if self.result == "v" else None

    def _check_kinds(self, types: Mapping[str, pa.DataType]) -> None:
        """Refuse values without an order, if there must be one."""
        from muntin.algebra import column_types

        if self.ordered:
            column_types.check_order(self, types)

    def answer_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the Arrow type of its answers over columns of these types."""
        from muntin.algebra import column_types

        column = self.value_column
        if column is None:
            return column_types.number_type(self.result)
        return types[column] if self.selective else column_types.sum_type(types[column])

    def struct_parts(self) -> dict[str, BuiltIn]:
        """Return the aggregates of the same components whose answers make up a struct, if it gives one."""
        return {}

    def lacks_struct(self, *components: Any) -> Any:
        """Return where the whole struct is null, given columns of components."""
        raise TypeError(f"{self!r} gives no struct of {len(components)} components.")

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with, beside its columns."""
        return {}

    def finisher(self) -> Function:
        """Return the function that makes an answer of components."""
        return self.finish

    def _finisher_of_pair(self) -> Function | None:
        """Return lower(combine(a, b)) as one function, if that saves something."""
        return None

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, public_name(type(self)), 1)


def public_name(cls: type) -> str:
    """Return the name that users type for a class of aggregates."""
    return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")


@lru_cache(maxsize=1024)
def _algebra(
    cls: type[BuiltIn],
    needs: tuple[str, ...],
    result: str,
    finish: Function,
    finish_pair: Function | None,
    kinds: Kinds | None,
    inverting: bool,
) -> Algebra:
    from muntin.algebra.fusion import cover

    columns = tuple(str(k) for k in range(cls.values))
    fields, (reads,) = cover([(needs, columns)])
    parts = [(PARTS[f.part](kinds, inverting), tuple(int(c) for c in f.columns)) for f in fields]
    name = public_name(cls)
    return compose(
        name,
        cls.values,
        parts,
        reads,
        finish,
        kinds=kinds,
        result=result,
        floats=cls.floats,
        misses=cls.misses,
        lower_pair=finish_pair,
    )


def columns_of(*columns: str | None) -> tuple[str, ...]:
    """Return the columns that were named, none for an aggregate that takes values as they are."""
    return tuple(c for c in columns if c is not None)
