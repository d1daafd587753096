"""What the built-in aggregates share: they are made of components that parts provide."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate, Algebra, Function, Kinds
from muntin.algebra.parts import Part, compose

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

    needs: ClassVar[tuple[str, ...]]
    finish: Function  # from the components, in the order of `needs`, to the answer
    result: ClassVar[str] = "f8"  # the answer's type code; "v", "a": as the first or second column
    values: ClassVar[int] = 1  # how many values a record has
    floats: ClassVar[bool] = False  # the components are wanted as floats
    misses: ClassVar[bool] = False  # may be null even over one value or more

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
        return _algebra(cls, self._finish(), self._finish_pair(), kinds, inverting)

    def keywords(self) -> dict[str, Any]:
        """Return what it was made with, beside its columns."""
        return {}

    def _finish(self) -> Function:
        return self.finish

    def _finish_pair(self) -> Function | None:
        """Return lower(combine(a, b)) as one function, if that saves something."""
        return None

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, _public_name(type(self)), 1)


def _public_name(cls: type) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")


@lru_cache(maxsize=1024)
def _algebra(
    cls: type[BuiltIn], finish: Function, finish_pair: Function | None, kinds: Kinds | None, inverting: bool
) -> Algebra:
    from muntin.algebra.fusion import cover

    columns = tuple(str(k) for k in range(cls.values))
    fields, (reads,) = cover([(cls.needs, columns)])
    parts = [(PARTS[f.part](kinds, inverting), tuple(int(c) for c in f.columns)) for f in fields]
    name = _public_name(cls)
    return compose(
        name,
        cls.values,
        parts,
        reads,
        finish,
        kinds=kinds,
        result=cls.result,
        floats=cls.floats,
        misses=cls.misses,
        lower_pair=finish_pair,
    )


def columns_of(*columns: str | None) -> tuple[str, ...]:
    """Return the columns that were named, none for an aggregate that takes values as they are."""
    return tuple(c for c in columns if c is not None)
