"""What every window has in common, and the query: a window and what is computed over it."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from muntin.algebra.aggregate import Aggregate
from muntin.expressions import condition
from muntin.windows.durations import Clock, Duration

Family = Literal["grid", "session", "count", "position"]
Context = Literal["context free", "forward context free", "forward context aware"]
Emit = Literal["all", "on_change"]
Vanishes = Literal["never", "out of order", "always"]
Use = Literal["flag", "number", "measure", "any"]  # what a column that a window reads must hold
Inputs = tuple[tuple[str, Use], ...]


class Window:
    """Where windows begin and end; the families below say how."""

    family: ClassVar[Family]
    context: ClassVar[Context]
    kind: ClassVar[str]  # what users call it
    by_count: ClassVar[bool] = False  # whether it lies by the number of records
    by_records: ClassVar[bool] = False  # whether records themselves say where it begins and ends
    by_gap: ClassVar[bool] = False  # whether it ends where no record comes for a while
    measured: ClassVar[bool] = False  # whether its bounds are those of another measure
    each_record: ClassVar[bool] = False  # whether it looks back from records, so that each must be a slice
    settled_only: ClassVar[bool] = False  # whether it sees records once nothing can come before them

    def identity(self) -> tuple[str, ...]:
        """Return the columns, beside query and key, that tell a window apart in every revision."""
        return ("window_start", "window_end")

    def inputs(self) -> Inputs:
        """Return the columns it reads, and what they must hold."""
        return ()

    def vanishes(self) -> Vanishes:
        """Return when further records may leave no window of an identity that there was."""
        return "never"

    def agg(
        self,
        aggregate: Aggregate | None = None,
        /,
        *,
        name: str | None = None,
        emit_empty: bool = False,
        emit_partial: bool = False,
        emit: Emit = "all",
        where: str | None = None,
        having: str | None = None,
        early: Any = None,
        **aggregates: Aggregate,
    ) -> Query:
        """Return the query that computes these aggregates over each window.

        One without a name is called `value`; a feature (see `mt.features`) has a name of its own.
        Only records for which `where` is true reach its windows; only windows for whose row `having` is true
        are reported. Both are SQL expressions (see `mt.expr`): `where` over the columns of records, `having`
        over keys, window_start, window_end, window_id and the aggregates. `having` comes last, after what
        `emit_empty` adds and `emit="on_change"` leaves out. A window that fails it in a later revision is
        retracted; one that fulfils it only then comes as an update.

        With `early`, a duration, windows that are not complete are reported as well: as they are in each call
        in which the newest time passes a multiple of it. Rows then have a column `final`, which is false for
        these; see the page on early results.

        >>> import muntin as mt
        >>> mt.tumbling("1m").agg(total=mt.sum("v"), name="per_minute")
        tumbling('1m').agg(total=sum('v'), name='per_minute')
        >>> mt.tumbling("1m").agg(total=mt.sum("v"), where="v>0", having="total > 100")
        tumbling('1m').agg(total=sum('v'), where='v > 0', having='total > 100')
        >>> mt.tumbling("1h").agg(total=mt.sum("v"), early="10s")
        tumbling('1h').agg(total=sum('v'), early='10s')
        """
        if aggregate is not None:
            if "value" in aggregates:
                raise ValueError("give names to all aggregates, as in agg(value=mt.sum('v'), n=mt.count()).")
            aggregates = {"value": aggregate, **aggregates}
        return Query(self, aggregates, name, emit_empty, emit_partial, emit, where, having, early)

    def resolved(self, clock: Clock) -> Any:
        """Return the window in ticks of a clock."""
        raise TypeError(f"{type(self).__name__} does not say where its windows lie by {clock}.")

    def parameters(self) -> dict[str, Any]:
        """Return what tells it apart, as users wrote it."""
        return {}

    def __repr__(self) -> str:
        first, *rest = self.parameters().items()
        return f"{self.kind}({', '.join([repr(first[1]), *(f'{k}={v!r}' for k, v in rest if v)])})"


class PositionWindow(Window):
    """A stretch of a key's records in canonical order, found by looking at them."""

    family = "position"
    by_records = True
    context: ClassVar[Context] = "forward context free"

    def identity(self) -> tuple[str, ...]:
        """Return the running number, where nothing else is said."""
        return ("window_id",)

    def vanishes(self) -> Vanishes:
        """Return that a record between others may join two windows, or end one sooner."""
        return "out of order"


def column_name(value: Any, what: str) -> str:
    """Return the name of a column; refuse anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is the name of a column, not {value!r}.")
    return value


def field_names(columns: Any, *, with_time: bool = False) -> tuple[str, ...]:
    """Return the columns that a user's function sees as the fields of a named tuple, perhaps beside `t`."""
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names, as in columns=[{columns!r}].")
    names = tuple(column_name(name, "each of columns") for name in columns)
    named = all(n.isidentifier() and not n.startswith("_") and not keyword.iskeyword(n) for n in names)
    if not named or len(set(names)) < len(names) or (with_time and "t" in names):
        beside = ", beside the time `t`" if with_time else ""
        raise ValueError(
            f"columns become the fields of a named tuple{beside}, which {list(names)!r} cannot be."
        )
    return names


@dataclass(frozen=True)
class Query:
    """A window, the aggregates over it by the name of their column, and how its rows come out.

    `time` and `key` are the columns that a query of `mt.sql` is written for: `WindowOperator`, `mt.aggregate`
    and the others take them from there, and refuse to be given different ones.
    """

    window: Window
    aggregates: Mapping[str, Aggregate]
    name: str | None = None
    emit_empty: bool = False
    emit_partial: bool = False
    emit: Emit = "all"
    where: str | None = None  # None: all records count
    having: str | None = None  # None: all windows are reported
    early: Duration | None = None  # None: windows are reported when they are complete
    # What a statement in SQL says of the stream; None: the query is for any. Windows and values are the same.
    time: str | None = field(default=None, compare=False)
    key: Sequence[str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ValueError("agg() needs at least one aggregate, as in agg(total=mt.sum('v')).")
        for column, aggregate in self.aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise TypeError(f"{column} must be an aggregate such as mt.sum('v'), not {aggregate!r}.")
            if not aggregate.columns and aggregate.skips_nulls:
                raise ValueError(f"{column}={aggregate!r} does not say which column it is over.")
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"the name of a query is a text, not {self.name!r}.")
        if self.emit not in ("all", "on_change"):
            raise ValueError(f"emit is 'all' or 'on_change', not {self.emit!r}.")
        if self.emit_empty and self.window.family != "grid":
            raise ValueError(
                f"emit_empty is for windows on a time grid; a {self.window.kind} is never empty."
            )
        if self.emit_empty and self.window.kind == "context_free_window":
            raise ValueError("emit_empty needs windows that are numbered, which those of one's own are not.")
        if self.emit_partial and self.window.family != "count":
            raise ValueError(f"emit_partial is for count windows, not for a {self.window.kind}.")
        for name in ("where", "having"):
            object.__setattr__(self, name, condition(getattr(self, name), name))
        if self.early is not None:
            object.__setattr__(self, "early", Duration.of(self.early, "early"))
            self._check_early()
        if self.key is not None:
            object.__setattr__(self, "key", (self.key,) if isinstance(self.key, str) else tuple(self.key))

    def _check_early(self) -> None:
        """Refuse early results where there can be none."""
        if self.window.settled_only:
            raise ValueError(
                f"early is not for a {self.window.kind}, which sees records once nothing can come before "
                "them: leave early out."
            )
        if self.emit == "on_change" or self.emit_empty:
            other = "emit_empty" if self.emit_empty else "emit='on_change'"
            raise ValueError(f"early and {other} exclude each other: leave one of them out.")

    def columns(self) -> list[str]:
        """Return the columns and expressions that its aggregates and its window read."""
        read = [name for aggregate in self.aggregates.values() for name in aggregate.columns]
        return list(dict.fromkeys([*read, *(name for name, _ in self.window.inputs())]))

    def early_ticks(self, clock: Clock) -> int:
        """Return `early` in ticks of a clock; 0: there are no early results."""
        return 0 if self.early is None else self.early.ticks(clock, "early")

    def conditions(self) -> dict[str, str]:
        """Return where and having as texts, as far as they are given."""
        given = {"where": self.where, "having": self.having}
        return {name: str(text) for name, text in given.items() if text is not None}

    def __repr__(self) -> str:
        words = [f"{column}={aggregate!r}" for column, aggregate in self.aggregates.items()]
        words += [f"name={self.name!r}"] if self.name else []
        words += [f"{flag}=True" for flag in ("emit_empty", "emit_partial") if getattr(self, flag)]
        words += [f"emit={self.emit!r}"] if self.emit != "all" else []
        words += [f"{name}={text!r}" for name, text in self.conditions().items()]
        words += [f"early={self.early.plain!r}"] if self.early is not None else []
        return f"{self.window!r}.agg({', '.join(words)})"
