"""Which scalars a state is made of: declared by built-in aggregates, inferred for a user's own."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from muntin.algebra.aggregate import Algebra, Kinds, RowAggregate
from muntin.kernels import modules
from muntin.kernels.modules import NotCompilableError


@dataclass(frozen=True)
class Signature:
    """The types of an algebra's functions."""

    fields: tuple[str, ...]
    result: str
    misses: bool  # lower may return None
    cast_lift: bool = False  # lift gives other types than the state has
    cast_combine: bool = False


def infer_rows(aggregate: type[RowAggregate]) -> tuple[str, bool]:
    """Return the type of the answer that a row gives, and whether it may be null."""
    import numba

    lower = modules.functions("functions", {"lower": aggregate.lower})
    row = (numba.types.Array(numba.from_dtype(np.dtype(aggregate.dtype)), 1, "C"),)
    return _answer(lower.function("lower", row).overloads[row].signature.return_type)


def infer(algebra: Algebra, kinds: Kinds) -> Signature:
    """Return the types of the state and of the answer for columns of these types."""
    if algebra.result == "struct":
        raise NotCompilableError("the answer is not one scalar")
    if algebra.fields is not None and algebra.result is not None:
        return Signature(algebra.fields, algebra.result, algebra.misses)
    return _Inference(algebra, kinds).signature()


class _Inference:
    """Asks Numba; a state may need a wider type than lift gives, as when 0 is combined with 0.5."""

    def __init__(self, algebra: Algebra, kinds: Kinds) -> None:
        import numba

        self.types = {"f8": numba.float64, "i8": numba.int64, "b1": numba.boolean}
        defaults = [p.default for p in inspect.signature(algebra.lift).parameters.values()][len(kinds) :]
        omitted: Any = numba.types.Omitted
        self.values = (*(self.types[kind] for kind in kinds), *map(omitted, defaults))
        functions = {"lift": algebra.lift, "combine": algebra.combine, "lower": algebra.lower}
        self.code = modules.functions("functions", functions)

    def signature(self) -> Signature:
        lifted = codes_of(self._returned("lift", self.values))
        state = lifted
        for _ in range(3):
            together = codes_of(self._returned("combine", (self._type(state), self._type(state))))
            wider = self._wider(state, together)
            if wider == state:
                break
            state = wider
        else:
            raise NotCompilableError("the state's type grows with each combine")
        result, misses = _answer(self._returned("lower", (self._type(state),)))
        return Signature(state, result, misses, lifted != state, together != state)

    def _returned(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return self.code.function(function, arguments).overloads[arguments].signature.return_type

    def _type(self, codes: tuple[str, ...]) -> Any:
        import numba

        scalars = [self.types[code] for code in codes]
        make_tuple: Any = numba.types.Tuple
        return scalars[0] if len(scalars) == 1 else make_tuple(scalars)

    @staticmethod
    def _wider(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        if len(a) != len(b):
            raise NotCompilableError("combine gives another shape than lift")
        order = ("b1", "i8", "f8")
        return tuple(max(x, y, key=order.index) for x, y in zip(a, b, strict=True))


def codes_of(kind: Any) -> tuple[str, ...]:
    """Return the type codes of a scalar or a flat tuple of scalars."""
    from numba import types

    if isinstance(kind, types.BaseTuple) and len(kind) > 1:
        items: list[Any] = list(cast(Any, kind))
        if any(isinstance(item, types.BaseTuple) for item in items):
            raise NotCompilableError("the state is a tuple of tuples; a flat one would compile")
        return tuple(codes_of(item)[0] for item in items)
    if isinstance(kind, types.Boolean):
        return ("b1",)
    if isinstance(kind, types.Integer) and kind is not types.uint64:
        return ("i8",)
    if isinstance(kind, types.Float):
        return ("f8",)
    raise NotCompilableError(f"{kind} is not a scalar or a flat tuple of scalars")


def _answer(kind: Any) -> tuple[str, bool]:
    """Return the type code of an answer, and whether it may be null."""
    from numba import types

    misses = isinstance(kind, types.Optional)
    codes = codes_of(cast(Any, kind).type if misses else kind)
    if len(codes) != 1:
        raise NotCompilableError("the answer is not one scalar")
    return codes[0], misses
