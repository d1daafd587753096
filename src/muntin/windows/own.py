"""Windows that users write themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Inputs, PositionWindow, Window, field_names
from muntin.windows.durations import Clock

Discretize = Callable[[Any, int, Any], tuple[Any, int, int]]


@dataclass(frozen=True, repr=False, eq=False)
class UserWindow(PositionWindow):
    """Windows that begin and end where a function says."""

    f_disc: Discretize
    state: Any
    columns: tuple[str, ...]
    kind = "user_window"
    settled_only = True

    def resolved(self, clock: Clock) -> UserWindow:
        """Return the window: it is a rule by itself."""
        del clock
        return self

    def inputs(self) -> Inputs:
        """Return the columns that the function sees."""
        return tuple((name, "any") for name in self.columns)

    def parameters(self) -> dict[str, Any]:
        """Return all that was given."""
        return {"f_disc": self.f_disc, "state": self.state, "columns": self.columns}

    def __repr__(self) -> str:
        name = getattr(self.f_disc, "__name__", repr(self.f_disc))
        columns = f", columns={list(self.columns)!r}" if self.columns else ""
        return f"user_window({name}, state={self.state!r}{columns})"


def user_window(f_disc: Discretize, state: Any = None, columns: Sequence[str] = ()) -> Window:
    """Windows that begin and end where a function says, first in, first out.

    `f_disc(state, t, row)` is called for each record of a key in canonical order, once nothing can come
    before it. `state` is what it returned for the record before, `t` the record's time in ticks, and `row`
    a named tuple of `columns`. It returns the next state, how many windows begin with this record, and how
    many of the oldest open ones end before it; ends apply first. It is compiled where its state is made of
    numbers and its columns hold numbers without nulls, and runs in Python elsewhere.

    >>> def pairs(state, t, row):
    ...     return state + 1, 1 if state % 2 == 0 else 0, 1 if state and state % 2 == 0 else 0
    >>> user_window(pairs, state=0)
    user_window(pairs, state=0)
    """
    if not callable(f_disc):
        raise TypeError(f"f_disc is a function (state, t, row) -> (state, begins, ends), not {f_disc!r}.")
    names = field_names(columns)
    if inspect.isfunction(f_disc) and len(inspect.signature(f_disc).parameters) != 3:
        raise TypeError(f"{f_disc.__name__} must take three arguments: state, t and row.")
    return UserWindow(f_disc, state, names)
