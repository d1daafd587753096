"""Windows and aggregates as texts: "sliding('10s', every='1s')" means what it means in Python."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import muntin as mt
from muntin.cli.mistakes import MistakeError, close_to, one_line

_WINDOWS = (
    "aggregate_frame calendar count_sliding count_tumbling cumulate delta_frame landmark last_n last_span on "
    "punctuation rolling session sliding state_window threshold_frame tumbling"
).split()
_AGGREGATES = (
    "approx_count_distinct approx_quantile approx_top_k argmax argmin bloom_filter collect collect_distinct "
    "concat count count_distinct count_min_sketch first geomean last m4 max max_count mean median min min_count "
    "mode product quantile relative_variation stddev sum variance"
).split()


def window_of(text: str) -> Any:
    """Return the window that a text describes.

    >>> window_of("sliding('10s', every='1s')")
    sliding('10s', every='1s')
    >>> window_of("threshold_frame(temp, '>', 80)")
    threshold_frame('temp', op='>', bound=80.0, min_records=1)
    """
    return _called(text, "window", _WINDOWS)


def aggregate_of(text: str) -> Any:
    """Return the aggregate that a text describes; columns need no quotes.

    >>> aggregate_of("quantile(speed, 0.95)")
    quantile('speed', 0.95)
    """
    return _called(text, "aggregate", _AGGREGATES)


def _called(text: str, what: str, allowed: list[str]) -> Any:
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise MistakeError(
            f"{text!r} is no {what}: write it as a call, as in {_EXAMPLES[what]!r}."
        ) from error
    if not isinstance(call, ast.Call):
        raise MistakeError(f"{text!r} is no {what}: write it as a call, as in {_EXAMPLES[what]!r}.")
    return _value(call, text, what, allowed)


_EXAMPLES = {"window": "sliding('10s', every='1s')", "aggregate": "mean(speed)"}


def _value(node: ast.expr, text: str, what: str, allowed: list[str]) -> Any:
    """Return what a part of a call stands for: a name is a column."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            if name not in allowed:
                raise MistakeError(f"there is no {what} {name!r}; {close_to(name, allowed)}")
            arguments = [_argument(part, text) for part in node.args]
            options = {str(word.arg): _argument(word.value, text) for word in node.keywords}
            made: Callable[..., Any] = getattr(mt, name)
            try:
                return made(*arguments, **options)
            except (TypeError, ValueError) as error:
                raise MistakeError(f"{text!r}: {one_line(error).replace(f'{name}()', name)}") from error
        case ast.Name(id=name):
            return name
        case ast.Constant() | ast.List() | ast.UnaryOp(op=ast.USub()):
            try:
                return ast.literal_eval(node)
            except ValueError:
                pass
    return _expression(ast.get_source_segment(text.strip(), node) or text)


def _argument(node: ast.expr, text: str) -> Any:
    return _value(node, text, "window or aggregate", [*_WINDOWS, *_AGGREGATES])


def _expression(text: str) -> Any:
    """Return an expression over columns, such as price * volume."""
    raise MistakeError(f"{text!r} is neither a column nor a value.")
