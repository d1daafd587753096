"""Which windows there are over a key's records, kind by kind: the windows table of the semantics page.

Each function takes a query and the records that count for it, in canonical order, and gives all windows of
these records, each with the watermark at which it is due. Nothing is incremental: whoever wants the windows
of more records asks again. Time grids over event time are in `tests.oracle_grids`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.oracle import answer
from tests.oracle_grids import grid_windows
from tests.user_functions import DISCRETIZERS
from tests.window_types import FOREVER, Arrived, Spec, Time, Window

Records = Sequence[Arrived]


def value(arrived: Arrived, column: str) -> Any:
    """What a record has in a column."""
    return getattr(arrived.record, column)


def holds(arrived: Arrived, column: str) -> bool:
    """Whether a predicate is true; a null is false."""
    return value(arrived, column) is True


def _missing(x: Any) -> bool:
    return x is None or (isinstance(x, float) and math.isnan(x))


def _spanning(number: int | None, inside: Records, due: Time) -> Window:
    """A window whose bounds are the times of its first and its last record."""
    return Window(inside[0].record.t, inside[-1].record.t, number, tuple(inside), due)


def _due_at(records: Records, place: int) -> Time:
    """When a window that the record at this place ends is due; without one, at the end of the stream."""
    return records[place].record.t if place < len(records) else FOREVER


# ---- by time and by position ----


def sessions(spec: Spec, records: Records) -> Iterator[Window]:
    """Maximal runs with at most `gap` between neighbours, due when no record in time can join any more."""
    (gap,) = spec.params
    runs: list[list[Arrived]] = []
    for arrived in records:
        if runs and arrived.record.t - runs[-1][-1].record.t <= gap:
            runs[-1].append(arrived)
        else:
            runs.append([arrived])
    for run in runs:
        end = run[-1].record.t + gap
        yield Window(run[0].record.t, end, None, tuple(run), end + 1)


def positions(spec: Spec, records: Records) -> Iterator[Window]:
    """Windows over positions: full ones, and with `emit_partial` partial ones at the end of the stream."""
    size, every = spec.params[0], spec.params[-1]
    for number, first in enumerate(range(0, len(records), every)):
        inside = records[first : first + size]
        if len(inside) == size:
            yield _spanning(number, inside, inside[-1].record.t)
        elif spec.emit_partial:
            yield _spanning(number, inside, FOREVER)


def _span_before(records: Records, place: int, length: int) -> tuple[Arrived, ...]:
    """The records up to the one at this place, with times in (t - length, t]."""
    t = records[place].record.t
    return tuple(a for a in records[: place + 1] if t - length < a.record.t)


def _ordinal(records: Records, place: int) -> int:
    """The number of a record, from 0, among those of its time."""
    return sum(a.record.t == records[place].record.t for a in records[:place])


def rolling(spec: Spec, records: Records) -> Iterator[Window]:
    """At each record the records up to it with time in (t - length, t]; ordinals count from 0."""
    (length,) = spec.params
    for place, arrived in enumerate(records):
        t, inside = arrived.record.t, _span_before(records, place, length)
        yield Window(t - length, t, _ordinal(records, place), inside, t)


def rolling_rows(spec: Spec, records: Records) -> Iterator[Window]:
    """At each record the last n up to it, fewer at the start; the bounds are record times."""
    (n,) = spec.params
    for place, arrived in enumerate(records):
        inside = records[max(0, place + 1 - n) : place + 1]
        yield _spanning(_ordinal(records, place), inside, arrived.record.t)


def feature(spec: Spec, records: Records) -> Iterator[Window]:
    """At each record what is known: of those up to it, or of earlier times, without the newest few."""
    kind, amount, closed, back = spec.params
    for place, arrived in enumerate(records):
        t = arrived.record.t
        seen = records[: place + 1] if closed == "right" else [a for a in records if a.record.t < t]
        seen, start = seen[: max(0, len(seen) - back)], t - amount
        if kind == "rows":
            inside = seen[-amount:]
            start = inside[0].record.t if inside else t
        elif kind == "rolling":
            inside = [a for a in seen if a.record.t > start]
        else:
            start = t // amount * amount
            inside = [a for a in seen if a.record.t >= start]
        yield Window(start, t, _ordinal(records, place), tuple(inside), t)


def last_span(spec: Spec, records: Records) -> Iterator[Window]:
    """A time range up to each record at the positions every-1, 2*every-1, ..."""
    length, every = spec.params
    for number, place in enumerate(range(every - 1, len(records), every)):
        t = records[place].record.t
        yield Window(t - length, t, number, _span_before(records, place, length), t)


def _steps(records: Records, every: int) -> list[int]:
    """Each e = k*every for which there is a record in [e-every, e)."""
    return sorted({(a.record.t // every + 1) * every for a in records})


def last_n(spec: Spec, records: Records) -> Iterator[Window]:
    """At each step the last n records before it.

    A query that was added later sees its stream only: its first windows may hold fewer than n records, as at
    the start of a stream.
    """
    n, every = spec.params
    for e in _steps(records, every):
        inside = tuple(a for a in records if a.record.t < e)[-n:]
        yield Window(inside[0].record.t, e, None, inside, e)


# ---- by what records say ----


def _from_to(records: Records, opens: Sequence[int], closes: Callable[[int], bool]) -> Iterator[Window]:
    """Windows that open at these places, each to just before the next place after it that closes."""
    for number, first in enumerate(opens):
        place = first + 1
        while place < len(records) and not closes(place):
            place += 1
        yield _spanning(number, records[first:place], _due_at(records, place))


def punctuation(spec: Spec, records: Records) -> Iterator[Window]:
    """From each record where `when` is true to just before the next such record, or the next `end`.

    With `end` every record where `when` is true opens a window, also while others are open: an `end` ends
    all of them. A record where both are true ends what is open before it and opens a window.
    """
    when, end = spec.params
    opens = [place for place, a in enumerate(records) if holds(a, when)]
    yield from _from_to(records, opens, lambda place: holds(records[place], end or when))


def landmark(spec: Spec, records: Records) -> Iterator[Window]:
    """From each landmark to just before the next."""
    (when,) = spec.params
    yield from punctuation(Spec(spec.name, "punctuation", (when, None), {}), records)


def landmark_until(spec: Spec, records: Records) -> Iterator[Window]:
    """From each landmark to just before the next record where `until` is true: as punctuation with an end."""
    yield from punctuation(spec, records)


def landmark_length(spec: Spec, records: Records) -> Iterator[Window]:
    """From each landmark record on, in canonical order, all with t < t_landmark + length."""
    when, length = spec.params
    for number, first in enumerate(place for place, a in enumerate(records) if holds(a, when)):
        start = records[first].record.t
        inside = tuple(a for a in records[first:] if a.record.t < start + length)
        yield Window(start, start + length, number, inside, start + length)


def _cumulative(
    records: Records, when: str, every: int, is_open: Callable[[int, int], bool]
) -> Iterator[Window]:
    """At each step the records since the last landmark before it, if `is_open(landmark place, e)`.

    A window is known by its end alone, so that there is one at most: that of the last landmark. The stretch
    from the last step to where a landmark's window ends between two steps has no row.
    """
    for e in _steps(records, every):
        before = [place for place, a in enumerate(records) if a.record.t < e]
        landmarks = [place for place in before if holds(records[place], when)]
        if landmarks and is_open(landmarks[-1], e):
            inside = tuple(records[place] for place in before[landmarks[-1] :])
            yield Window(inside[0].record.t, e, None, inside, e)


def landmark_every(spec: Spec, records: Records) -> Iterator[Window]:
    """Cumulative windows since the last landmark."""
    when, every = spec.params
    yield from _cumulative(records, when, every, lambda landmark, e: True)


def landmark_until_every(spec: Spec, records: Records) -> Iterator[Window]:
    """Cumulative windows since the last landmark, while no record after it and before e has ended it."""
    when, until, every = spec.params
    yield from _cumulative(
        records,
        when,
        every,
        lambda landmark, e: not any(holds(a, until) for a in records[landmark + 1 :] if a.record.t < e),
    )


def landmark_length_every(spec: Spec, records: Records) -> Iterator[Window]:
    """Cumulative windows since the last landmark, while e <= t_landmark + length."""
    when, length, every = spec.params
    yield from _cumulative(records, when, every, lambda landmark, e: e <= records[landmark].record.t + length)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def threshold_frame(spec: Spec, records: Records) -> Iterator[Window]:
    """Maximal runs for which the predicate holds; one that is too short takes no number."""
    column, op, bound, least = spec.params
    number, first = 0, None
    for place in range(len(records) + 1):
        x = value(records[place], column) if place < len(records) else None
        if not _missing(x) and COMPARISONS[op](x, bound):
            first = place if first is None else first
            continue
        if first is not None and place - first >= least:
            yield _spanning(number, records[first:place], _due_at(records, place))
            number += 1
        first = None


def _parted(records: Records, parts: Callable[[int, int], bool]) -> Iterator[Window]:
    """Windows one after the other: a new one starts at a place where `parts(first, place)`."""
    first, number = 0, 0
    for place in range(1, len(records) + 1):
        if place == len(records) or parts(first, place):
            yield _spanning(number, records[first:place], _due_at(records, place))
            first, number = place, number + 1


def delta_frame(spec: Spec, records: Records) -> Iterator[Window]:
    """A new frame starts when the value differs from the frame's first by more than `by`.

    A null or NaN before the first frame belongs to none.
    """
    column, by = spec.params
    opening = next((place for place, a in enumerate(records) if not _missing(value(a, column))), len(records))
    records = records[opening:]

    def parts(first: int, place: int) -> bool:
        x = value(records[place], column)
        return not _missing(x) and abs(x - value(records[first], column)) > by

    yield from _parted(records, parts)


def _folded(call: tuple[str, ...], inside: Records) -> Any:
    """The aggregate of a frame, strictly left to right; None where there is no value."""
    name, *columns = call
    if not columns:
        return len(inside)
    values = [x for x in (value(a, columns[0]) for a in inside) if x is not None]
    if name not in ("sum", "mean") or not values:
        return answer(name, values)
    total = values[0]
    for x in values[1:]:
        total += x
    return total if name == "sum" else total / len(values)


def aggregate_frame(spec: Spec, records: Records) -> Iterator[Window]:
    """A frame ends with the record that makes its aggregate reach the bound: be at least as large.

    A record without a value (null or NaN) opens no frame; one that the aggregate does not look at, as for
    `count()`, does. An aggregate that is null or NaN has not reached the bound. The next frame opens with
    the next record that can.
    """
    call, reaches = spec.params
    number, first = 0, None
    for place, arrived in enumerate(records):
        if first is None and any(_missing(value(arrived, column)) for column in call[1:2]):
            continue
        first = place if first is None else first
        reached = _folded(call, records[first : place + 1])
        if not _missing(reached) and reached >= reaches:
            yield _spanning(number, records[first : place + 1], arrived.record.t)
            number, first = number + 1, None
    if first is not None:
        yield _spanning(number, records[first:], FOREVER)


def state_window(spec: Spec, records: Records) -> Iterator[Window]:
    """Maximal runs of one value; null is a value, NaN equals NaN, -0.0 equals 0.0."""
    (column,) = spec.params

    def parts(first: int, place: int) -> bool:
        a, b = value(records[first], column), value(records[place], column)
        return not (a == b or (a is not None and b is not None and _missing(a) and _missing(b)))

    yield from _parted(records, parts)


# ---- over another measure ----


def on(spec: Spec, records: Records) -> Iterator[Window]:
    """Grid windows over a measure that never goes back; the first record at or beyond its end ends one.

    There are windows with records only: an empty one has no record times to report, so that `emit_empty`
    does not apply. Which windows a query added later leaves out, see `whole_measures`.
    """
    column, kind, params = spec.params
    grid = Spec(spec.name, kind, params, {})
    for before, after in pairwise(records):
        if value(after, column) < value(before, column):
            raise ValueError(f"{column} goes back at {after.record}")
    for start, end in sorted({b for a in records for b in grid_windows(grid, value(a, column))}):
        inside = tuple(a for a in records if start <= value(a, column) < end)
        ending = sum(value(a, column) < end for a in records)
        window = _spanning(None, inside, _due_at(records, ending))
        yield window._replace(measures=(start, end))


def whole_measures(spec: Spec, records: Records, windows: Iterator[Window]) -> Iterator[Window]:
    """Of a query added later, the windows over a measure that it has surely seen whole.

    The page says that such a query never reports a window it has not seen whole. A window that starts at or
    before the measure of the key's first record in the query's stream may have had records before.
    """
    for window in windows:
        assert window.measures is not None
        if window.measures[0] > value(records[0], spec.params[0]):
            yield window


# ---- by the user's own functions ----


def user_window(spec: Spec, records: Records) -> Iterator[Window]:
    """Windows as the discretizer marks them; ends apply before begins. They are numbered as they begin."""
    discretize, state, _ = DISCRETIZERS[spec.params[0]]
    opened: list[int] = []  # the places at which open windows began, the oldest first
    number = 0
    for place, arrived in enumerate(records):
        state, begins, ends = discretize(state, arrived.record.t, arrived.record)
        if ends > len(opened):
            raise ValueError(f"{ends} windows end at {arrived.record}, {len(opened)} are open")
        for first in opened[:ends]:
            yield _spanning(number, records[first:place], arrived.record.t)
            number += 1
        opened = opened[ends:] + [place] * begins
    for first in opened:
        yield _spanning(number, records[first:], FOREVER)
        number += 1


def _evicted(evict: tuple[Any, ...], held: list[Arrived]) -> int:
    """How many of the oldest records go now that the last one has come."""
    match evict:
        case "keep", n:
            return max(0, len(held) - n)
        case "within", length:
            return sum(a.record.t <= held[-1].record.t - length for a in held)
        case "delta", column, by:  # those before the first that is within `by` of the newest
            newest = value(held[-1], column)
            if _missing(newest):
                return 0
            near = [_missing(value(a, column)) or abs(value(a, column) - newest) <= by for a in held]
            return near.index(True) if True in near else len(held) - 1
        case "when", column:
            return len(held) - 1 if holds(held[-1], column) else 0
    raise ValueError(f"no such eviction: {evict}")


def policy_window(spec: Spec, records: Records) -> Iterator[Window]:
    """Each record is taken in, then the oldest ones are evicted, then the trigger is asked.

    A record that triggers is part of its window. Triggers by count count the records of the key. A window
    is due with the record that triggers it; what is held at the end of the stream is not emitted.
    """
    trigger, evict = spec.params
    held: list[Arrived] = []
    number = 0
    for place, arrived in enumerate(records):
        held.append(arrived)
        held = held[_evicted(evict, held) :]
        kind, by = trigger
        if (place + 1) % by == 0 if kind == "every" else holds(arrived, by):
            yield _spanning(number, held, arrived.record.t)
            number += 1


def aware(spec: Spec, records: Records) -> Iterator[Window]:
    """From the time of the n-th last record to some time past each record where p holds; each once."""
    n, past = spec.params
    places = [place for place, a in enumerate(records) if holds(a, "p")]
    for start, end in {
        (records[max(0, i + 1 - n)].record.t, records[i].record.t + past): None for i in places
    }:
        yield Window(start, end, None, tuple(a for a in records if start <= a.record.t < end), end)


KINDS: dict[str, Callable[[Spec, Records], Iterator[Window]]] = {
    "session": sessions,
    "count_tumbling": positions,
    "count_sliding": positions,
    "rolling": rolling,
    "rolling_rows": rolling_rows,
    "feature": feature,
    "last_span": last_span,
    "last_n": last_n,
    "punctuation": punctuation,
    "landmark": landmark,
    "landmark_until": landmark_until,
    "landmark_length": landmark_length,
    "landmark_every": landmark_every,
    "landmark_until_every": landmark_until_every,
    "landmark_length_every": landmark_length_every,
    "threshold_frame": threshold_frame,
    "delta_frame": delta_frame,
    "aggregate_frame": aggregate_frame,
    "state_window": state_window,
    "on": on,
    "user_window": user_window,
    "policy_window": policy_window,
    "aware": aware,
}

ENDS_ALONE = {"last_n", "landmark_every", "landmark_until_every", "landmark_length_every"}


def identity_of(kind: str, window: Window) -> Any:
    """What tells a window from the others of its query and key."""
    if kind == "on":
        return window.measures
    if kind in ENDS_ALONE:
        return window.end
    if kind in ("rolling", "rolling_rows", "feature"):
        return window.end, window.id
    if window.id is None:  # time grids and sessions
        return window.start, window.end
    return window.id
