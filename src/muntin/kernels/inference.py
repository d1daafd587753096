"""Which scalars a state is made of: declared by built-in aggregates, inferred for a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from muntin.algebra.aggregate import Algebra, Kinds
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


def infer(algebra: Algebra, kinds: Kinds) -> Signature:
    """Return the types of the state and of the answer for columns of these types."""
    if algebra.fields is not None and algebra.result is not None:
        return Signature(algebra.fields, algebra.result, algebra.misses)
    return _Inference(algebra, kinds).signature()


class _Inference:
    """Asks Numba; a state may need a wider type than lift gives, as when 0 is combined with 0.5."""

    def __init__(self, algebra: Algebra, kinds: Kinds) -> None:
        import numba

        self.types = {"f8": numba.float64, "i8": numba.int64, "b1": numba.boolean}
        self.kinds = kinds
        functions = {"lift": algebra.lift, "combine": algebra.combine, "lower": algebra.lower}
        self.code = modules.functions("functions", functions)

    def signature(self) -> Signature:
        lifted = self._codes(self._returned("lift", tuple(self.types[k] for k in self.kinds)))
        state = lifted
        for _ in range(3):
            together = self._codes(self._returned("combine", (self._type(state), self._type(state))))
            wider = self._wider(state, together)
            if wider == state:
                break
            state = wider
        else:
            raise NotCompilableError("the state's type grows with each combine")
        result, misses = self._result(state)
        return Signature(state, result, misses, lifted != state, together != state)

    def _result(self, state: tuple[str, ...]) -> tuple[str, bool]:
        from numba import types

        answer = self._returned("lower", (self._type(state),))
        misses = isinstance(answer, types.Optional)
        codes = self._codes(answer.type if misses else answer)
        if len(codes) != 1:
            raise NotCompilableError("the answer is not one scalar")
        return codes[0], misses

    def _returned(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return self.code.function(function, arguments).overloads[arguments].signature.return_type

    def _type(self, codes: tuple[str, ...]) -> Any:
        import numba

        scalars = [self.types[code] for code in codes]
        make_tuple: Any = numba.types.Tuple
        return scalars[0] if len(scalars) == 1 else make_tuple(scalars)

    def _codes(self, kind: Any) -> tuple[str, ...]:
        from numba import types

        if isinstance(kind, types.BaseTuple) and len(kind) > 1:
            items: list[Any] = list(cast(Any, kind))
            if any(isinstance(item, types.BaseTuple) for item in items):
                raise NotCompilableError("the state is a tuple of tuples; a flat one would compile")
            return tuple(self._codes(item)[0] for item in items)
        if isinstance(kind, types.Boolean):
            return ("b1",)
        if isinstance(kind, types.Integer):
            return ("i8",)
        if isinstance(kind, types.Float):
            return ("f8",)
        raise NotCompilableError(f"{kind} is not a scalar or a flat tuple of scalars")

    @staticmethod
    def _wider(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        if len(a) != len(b):
            raise NotCompilableError("combine gives another shape than lift")
        order = ("b1", "i8", "f8")
        return tuple(max(x, y, key=order.index) for x, y in zip(a, b, strict=True))
