"""The plain data that workloads and the oracle speak: queries, records, windows and rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.conditions import COMPUTED

NEVER = -math.inf  # the watermark, and the largest time seen, before there is any
FOREVER = math.inf  # the watermark once the stream is finished

Key = tuple[Any, ...]
Bounds = tuple[Any, Any]  # integers; floats where a measure is one
Time = int | float  # an integer, NEVER or FOREVER


@dataclass(frozen=True)
class Spec:
    """A query. `params` by kind; a column is named by the field of `Record` that holds it.

    Time grids: tumbling (length, offset), sliding (length, every, offset), cumulate (length, step),
    calendar (unit, tz, resolution) with times in "s", "ms", "us" or "ns" since the epoch,
    own (period, ((from, to), ...)) with the windows [k*period+from, k*period+to).

    By count and by record: count_tumbling (n,), count_sliding (n, every), rolling (length,),
    rolling_rows (n,), last_span (length, every), last_n (n, every), and of features
    feature ("rows" | "rolling" | "tumbling", amount, closed, back).

    By what records say: session (gap,), punctuation (when, end | None), landmark (when,),
    landmark_until (when, until), landmark_length (when, length), landmark_every (when, every),
    landmark_until_every (when, until, every), landmark_length_every (when, length, every),
    threshold_frame (column, op, bound, min_records), delta_frame (column, by),
    aggregate_frame (call, reaches) with a call as in `aggregates`, state_window (column,).

    on (column, kind, params) with the kind and params of a time grid.
    aware (n, past): from the n-th last record, itself included, up to `past` after each record where p holds.
    user_window (name,) of `tests.user_functions.DISCRETIZERS`.
    policy_window (trigger, evict): trigger ("every", n) or ("when", column), evict ("keep", n),
    ("within", length), ("delta", column, by) or ("when", column).

    `aggregates` maps the name of an output column to a function and the columns it reads: ("sum", "v").
    `where` is one of `tests.conditions.WHERE`, `having` one of those for one of the aggregates; an expression
    of `tests.conditions.COMPUTED` stands wherever a column does.
    """

    name: str
    kind: str
    params: tuple[Any, ...]
    aggregates: dict[str, tuple[str, ...]]
    emit_empty: bool = False
    emit_partial: bool = False
    emit: str = "all"
    where: str | None = None
    having: tuple[str, str] | None = None  # the aggregate, and the condition
    early: int | None = None  # None: no early results


class Record(NamedTuple):
    """One record as handed over; `key` holds a value per key column, `tie` is 0 where no tie is named.

    The last four serve the windows that look at records: two predicates, a state and a measure.
    """

    t: int
    v: float | None = None
    w: int | None = None
    key: Key = ()
    tie: int = 0
    p: bool | None = None
    q: bool | None = None
    s: int | float | str | None = None
    m: int | float | None = None

    def __getattr__(self, name: str) -> Any:
        """The value of an expression."""
        if name not in COMPUTED:
            raise AttributeError(name)
        return COMPUTED[name](self)


class Arrived(NamedTuple):
    """A record with its place in the stream and the watermark just before it."""

    seq: int
    record: Record
    watermark: Time


class Window(NamedTuple):
    """A window of a view, with the records that count for it in canonical order.

    It is emitted once the watermark is at `due` or beyond: FOREVER where only the end of the stream ends it.
    """

    start: int
    end: int
    id: int | None
    records: tuple[Arrived, ...]
    due: Time
    measures: Bounds | None = None


class Row(NamedTuple):
    """One row of a result; `records` are those behind it, for whoever wants to judge rounding."""

    key: Key
    query: str
    start: int
    end: int
    id: int | None
    change: str
    revision: int
    values: dict[str, Any]
    records: tuple[Arrived, ...] = ()
    measures: Bounds | None = None
    final: bool = True
