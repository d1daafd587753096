"""What generated code calls and Numba has no Python for. Importing this loads Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

WRAPPED = "an integer left the 64-bit range"
_NOT_ZERO = ir.Constant(ir.IntType(1), 1)


def _instruction(typed: Callable[[Any, Any], Any]) -> Any:
    """Return what code can call with a word; Numba's own types also ask for the first argument."""
    return intrinsic(typed)


@intrinsic
def unwrap(_typing: Any, value: Any) -> Any:
    """Return an optional value that is known not to be None, without looking again.

    Numba's own conversion raises for None, and that path keeps a loop from being optimized.
    """
    if not isinstance(value, types.Optional):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_helper(builder, signature.args[0], value=arguments[0]).data

    return value.type(value), codegen


@_instruction
def leading_zeros(_typing: Any, _word: Any) -> Any:
    """Return how many zeros come before the first 1 of a word, which is not 0."""
    return types.uint64(types.uint64), lambda _c, builder, _s, words: builder.ctlz(words[0], _NOT_ZERO)


@_instruction
def trailing_zeros(_typing: Any, _word: Any) -> Any:
    """Return how many zeros come after the last 1 of a word, which is not 0."""
    return types.uint64(types.uint64), lambda _c, builder, _s, words: builder.cttz(words[0], _NOT_ZERO)


@_instruction
def as_float(_typing: Any, _bits: Any) -> Any:
    """Return the float with these bits."""
    return types.float64(types.int64), lambda _c, builder, _s, bits: builder.bitcast(bits[0], ir.DoubleType())


# In a user's functions, +, - and * are these: integers raise where they would wrap, all else is as it was.
# Unsigned, because the compiler takes it for granted that signed arithmetic does not wrap. (Numba wants the
# annotations of an overload and of what it returns to be the same.)


def checked_add(a: Any, b: Any) -> Any:
    """a + b."""


def checked_sub(a: Any, b: Any) -> Any:
    """a - b."""


def checked_mul(a: Any, b: Any) -> Any:
    """a * b."""


def _integers(a: Any, b: Any) -> bool:
    return isinstance(a, types.Integer) and isinstance(b, types.Integer)


@overload(checked_add, jit_options={"forceinline": True})
def _add(a: Any, b: Any) -> Any:
    if not _integers(a, b):

        def plain(a: Any, b: Any) -> Any:
            return a + b

        return plain

    def add(a: Any, b: Any) -> Any:
        total = np.int64(np.uint64(a) + np.uint64(b))
        if ((a ^ total) & (b ^ total)) < 0:  # both signs differ from the sum's
            raise OverflowError(WRAPPED)
        return total

    return add


@overload(checked_sub, jit_options={"forceinline": True})
def _sub(a: Any, b: Any) -> Any:
    if not _integers(a, b):

        def plain(a: Any, b: Any) -> Any:
            return a - b

        return plain

    def sub(a: Any, b: Any) -> Any:
        total = np.int64(np.uint64(a) - np.uint64(b))
        if ((a ^ b) & (a ^ total)) < 0:
            raise OverflowError(WRAPPED)
        return total

    return sub


@overload(checked_mul, jit_options={"forceinline": True})
def _mul(a: Any, b: Any) -> Any:
    if not _integers(a, b):

        def plain(a: Any, b: Any) -> Any:
            return a * b

        return plain

    def mul(a: Any, b: Any) -> Any:
        about = abs(float(a) * float(b))
        product = np.int64(np.uint64(a) * np.uint64(b))
        # 2^63 is 9.223e18; near it, a product that wraps has the wrong sign.
        if about > 9.2e18 and (about > 9.3e18 or (product < 0) != ((a < 0) != (b < 0))):
            raise OverflowError(WRAPPED)
        return product

    return mul
