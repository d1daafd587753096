"""Windows and aggregates as texts: "sliding('10s', every='1s')" means what it means in Python."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import muntin as mt
from muntin import algebra, windows
from muntin.console.mistakes import MistakeError, close_to, one_line

_WINDOWS = [
    name for name in windows.__all__ if name.islower() and name not in ("user_window", "policy_window")
]
CHARACTERS = 10_000  # of a window or an aggregate, at most
_HELPERS = ("bloom_contains", "check_aggregate", "count_min_estimate", "fuse")
_AGGREGATES = [name for name in algebra.__all__ if name.islower() and name not in _HELPERS]


def window_of(text: str) -> Any:
    """Return the window that a text describes.

    >>> window_of("sliding('10s', every='1s')")
    sliding('10s', every='1s')
    >>> window_of("threshold_frame(temp, '>', 80)")
    threshold_frame('temp', '>', 80)
    """
    return _called(text, "window", _WINDOWS)


def aggregate_of(text: str) -> Any:
    """Return the aggregate that a text describes; columns need no quotes.

    >>> aggregate_of("quantile(speed, 0.95)")
    quantile('speed', q=0.95)
    >>> aggregate_of("sum(price * volume)")
    sum(expr('price * volume'))
    """
    return _called(text, "aggregate", _AGGREGATES)


def _called(text: str, what: str, allowed: list[str]) -> Any:
    if len(text) > CHARACTERS:
        raise MistakeError(f"the {what} has {len(text):,} characters; at most {CHARACTERS:,} are read.")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = None
    except (RecursionError, MemoryError) as error:  # however Python says that there are too many levels
        raise MistakeError(f"the {what} {text[:40]!r}... nests too many operators or brackets.") from error
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise MistakeError(f"{text!r} is no {what}: write it as a call, as in {_EXAMPLES[what]!r}.")
    if node.func.id not in allowed:
        raise MistakeError(f"there is no {what} {node.func.id!r}; {close_to(node.func.id, allowed)}")
    return _call(node, node.func.id, text.strip())


_EXAMPLES = {"window": "sliding('10s', every='1s')", "aggregate": "mean(speed)"}


def _call(node: ast.Call, name: str, text: str) -> Any:
    arguments = [_argument(part, text) for part in node.args]
    options = {str(word.arg): _argument(word.value, text) for word in node.keywords}
    made: Callable[..., Any] = getattr(mt, name)
    known = inspect.signature(made).parameters
    for option in options:
        if option not in known:
            raise MistakeError(f"{name} has no {option!r}; {close_to(option, known)}")
    try:
        return made(*arguments, **options)
    except (TypeError, ValueError, ImportError) as error:
        raise MistakeError(f"{text!r}: {one_line(error).replace(f'{name}()', name)}") from error


def _argument(node: ast.expr, text: str) -> Any:
    """Return what a part of a call stands for: a name is a column, and what is computed is an expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id=name)) if name in (*_WINDOWS, *_AGGREGATES):
            return _call(node, name, text)
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass  # not a value: an expression over columns
    try:
        return mt.expr(ast.get_source_segment(text, node) or text)
    except ValueError as error:
        raise MistakeError(f"{text!r}: {one_line(error)}") from error
