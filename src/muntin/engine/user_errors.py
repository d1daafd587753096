"""Errors of a user's aggregate: which function failed, at which record or of which states."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

from muntin.algebra.aggregate import Aggregate, Algebra
from muntin.algebra.laws import close

_WATCHED = (
    16  # combines whose arguments are compared with what they were; more would cost more than they find
)


class AggregateError(ValueError):
    """A function of a user's aggregate raised an error, or did what it must not do."""

    def __init__(self, aggregate: Aggregate, what: str, record: int | None = None, where: str = "") -> None:
        self.aggregate, self.what, self.record, self.where = aggregate, what, record, where
        super().__init__(aggregate, what, record, where)

    def __str__(self) -> str:
        name = type(self.aggregate).__name__
        at = "" if self.record is None else f" at record {self.record} of the batch"
        return f"{name}.{self.what}{at}{self.where}."


def named(aggregate: Aggregate, function: str, error: Exception, *states: Any) -> Exception:
    """Return an error that names the function which raised another one, and the states that it was given."""
    if isinstance(error, AggregateError):  # of a combine that was called for a record
        return AggregateError(aggregate, error.what, error.record, error.where)
    of = f", of {' and '.join(map(_short, states))}" if states else ""
    return AggregateError(aggregate, f"{function} raised {error!r}", None, of)


def located(error: AggregateError, columns: tuple[Any, ...], valid: Any) -> AggregateError:
    """Return the error with the record that it came from, found by calling the functions again in turn."""
    aggregate, algebra = error.aggregate, error.aggregate.algebra(None)
    lists = [column.tolist() for column in columns]
    records = [(i, row) for i, row in enumerate(zip(*lists, strict=True)) if valid is None or valid[i]]
    lifted = []
    for i, record in records:
        try:
            lifted.append(algebra.lift(*record))
        except Exception as found:
            return _at(aggregate, f"lift raised {found!r}", i, record)
    state = None
    for (i, record), one in zip(records, lifted, strict=True):
        try:
            state = one if state is None else algebra.combine(state, one)
        except Exception as found:
            return _at(aggregate, f"combine raised {found!r}", i, record)
    return error


def _at(aggregate: Aggregate, what: str, i: int, record: tuple[Any, ...]) -> AggregateError:
    values = (f"{name} is {_short(value)}" for name, value in zip(aggregate.columns, record, strict=True))
    return AggregateError(aggregate, what, i, f", where {' and '.join(values)}")


def _short(state: Any) -> str:
    text = repr(state)
    return text if len(text) <= 60 else f"{text[:57]}..."


def watched(aggregate: Aggregate, algebra: Algebra, trust: Callable[[], None]) -> Callable[[Any, Any], Any]:
    """Return a combine that sees to it that the first calls do not change their arguments; `trust` ends it.

    States are shared by windows: one that is changed in place would count twice, without a word.
    """
    calls = itertools.count()
    combine = algebra.combine

    def watching(a: Any, b: Any) -> Any:
        if next(calls) >= _WATCHED:
            trust()
            return combine(a, b)
        before = copy.deepcopy((a, b))
        comparable = close(a, before[0]) and close(b, before[1])  # not so where a copy equals nothing else
        combined = combine(a, b)
        if comparable and not (close(a, before[0]) and close(b, before[1])):
            what = (
                f"combine changes its arguments: {_short(before)} became {_short((a, b))}; return a new state"
            )
            raise AggregateError(aggregate, what)
        return combined

    return watching
