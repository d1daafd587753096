"""History: the slices of a line, of which any stretch can be drawn at any width.

A line is the values of one column of a query: of `m4`, each row is a slice of the stream with its first,
last, least and greatest value; of any number, each row is a slice of one value, at the end of its window.
What is kept is bounded: when there is no more room, slices of the older half are merged. So the past gets
coarser, but neither a peak nor the time that it covers is ever lost.

A view is one M4 aggregate for each column of pixels, computed by muntin itself over the points of slices. It
is exact, which means that it draws the same pixels as all records would, where each slice lies within one
column of pixels: columns are as wide as a whole number of slices, and begin where slices do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import muntin as mt

Floats = NDArray[np.float64]
Ticks = NDArray[np.int64]
VALUES = ("first", "min", "max", "last")  # in this order they are points of a line, where times are equal
COARSE = 16_384  # slices that are looked at for a picture at once
_TYPES: dict[str, type] = {
    "code": np.int32,
    "a": np.int64,  # what tells a slice apart: two numbers, for most windows start and end
    "b": np.int64,
    "start": np.int64,
    "end": np.int64,
    "gone": np.bool_,
    **dict.fromkeys(VALUES, np.float64),
    **dict.fromkeys((f"{name}_time" for name in VALUES), np.int64),
}


@dataclass(frozen=True)
class Slices:
    """Slices as columns."""

    columns: dict[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["code"])

    def take(self, at: NDArray[Any] | slice) -> Slices:
        """Return some of them."""
        return Slices({name: column[at] for name, column in self.columns.items()})


@dataclass(frozen=True)
class View:
    """A line at some width: points by key and time, and one point beyond each edge where there is one."""

    code: NDArray[np.int32]
    time: Ticks
    value: Floats
    step: int  # ticks in a column of pixels
    origin: int  # where a column begins
    exact: bool


def no_slices() -> Slices:
    """Return none."""
    return Slices({name: np.empty(0, kind) for name, kind in _TYPES.items()})


def joined(parts: Sequence[Slices]) -> Slices:
    """Return slices one after the other."""
    return Slices({name: np.concatenate([part[name] for part in parts]) for name in _TYPES})


class History:
    """The slices of one line, for all keys."""

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 64)
        self.merged = 0  # how often the older half has got coarser
        self._count = 0
        self._room = no_slices()  # of which the first ones are held: small arrays would scatter over memory

    def __len__(self) -> int:
        return self._count

    def append(self, slices: Slices) -> None:
        """Add slices in the order in which they came; of those told apart by nothing, the last one holds."""
        if not len(slices):
            return
        if self._count + len(slices) > self.capacity:
            self._hold(self._compacted(joined([self.slices(), slices])), self.capacity)
            return
        if self._count + len(slices) > len(self._room):
            self._hold(self.slices(), max(2 * self._count, self._count + len(slices), 256))
        self._write(slices)

    def slices(self) -> Slices:
        """Return all slices in the order in which they came; they stay as they are when others come."""
        return self._room.take(slice(0, self._count))

    def _hold(self, slices: Slices, room: int = 0) -> None:
        """Hold these slices alone, with room for more."""
        size = max(room, len(slices))
        self._room = Slices({name: np.empty(size, kind) for name, kind in _TYPES.items()})
        self._count = 0
        self._write(slices)

    def _write(self, slices: Slices) -> None:
        """Put slices behind the others, where there is room."""
        upto = self._count + len(slices)
        for name, column in self._room.columns.items():
            column[self._count : upto] = slices[name]
        self._count = upto

    def _compacted(self, slices: Slices) -> Slices:
        """Return slices of which the older half is merged until a quarter of the capacity is free."""
        held = latest(slices)
        while len(held) > self.capacity * 3 // 4:
            order = np.argsort(held["last_time"], kind="stable")
            older, newer = held.take(order[: len(held) // 2]), held.take(order[len(held) // 2 :])
            held = joined([halved(older), newer])
            self.merged += 1
        return held

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last time of what is kept; None if there is nothing."""
        held = self.slices()
        return (int(held["first_time"].min()), int(held["last_time"].max())) if len(held) else None

    def of_keys(self, codes: Sequence[int]) -> Slices:
        """Return the slices of some keys as they are now, by key and time."""
        held = self.slices()
        return latest(held.take(np.flatnonzero(np.isin(held["code"], codes))))


def latest(slices: Slices) -> Slices:
    """Return the last word on each slice, by key and time, without those that are gone."""
    count = len(slices)
    if not count:
        return slices
    order = np.lexsort((np.arange(count), slices["b"], slices["a"], slices["code"]))
    some = slices.take(order)
    last = np.ones(count, bool)
    same = (some["code"][1:] == some["code"][:-1]) & (some["a"][1:] == some["a"][:-1])
    last[:-1] = ~(same & (some["b"][1:] == some["b"][:-1]))
    kept = some.take(np.flatnonzero(last & ~some["gone"].astype(bool)))
    return kept.take(np.lexsort((kept["last_time"], kept["first_time"], kept["code"])))


def halved(slices: Slices) -> Slices:
    """Return about half as many slices that cover the same: the finest ones of each cell of a grid merged.

    Cells are doubled, from the width of the finest slices on, until enough lie in one; what is as wide stays
    as it is. Where each key has but one slice, the older half is given up.
    """
    width = slices["end"] - slices["start"]
    unit = int(width[width > 0].min()) if (width > 0).any() else 1
    phase = int(slices["start"][int(np.argmax(width == unit))]) % unit
    reach = int(slices["last_time"].max()) - int(slices["first_time"].min()) + 1
    step = unit * 2 ** max(0, int(np.log2(max(1.0, _spacing(slices) / unit))))
    while step <= 2 * reach:
        narrow = np.flatnonzero(width < step)
        cell = (slices["first_time"][narrow] - phase) // step
        groups = np.unique(np.stack([slices["code"][narrow], cell]), axis=1).shape[1]
        if groups <= len(narrow) - len(slices) // 4:
            wide = slices.take(np.flatnonzero(width >= step))
            return joined([_merged_by(slices.take(narrow), cell), wide])
        step *= 2
    return slices.take(np.argsort(slices["last_time"], kind="stable")[len(slices) // 2 :])


def _merged_by(slices: Slices, cell: Ticks) -> Slices:
    """Return one slice for those of each key and cell, which stay whole."""
    records = points(slices).append_column("cell", pa.array(np.repeat(cell, len(VALUES))))
    begin, end = int(slices["first_time"].min()), int(slices["last_time"].max())
    window = mt.tumbling(end - begin + 1, offset=begin % (end - begin + 1)).agg(line=mt.m4("value"))
    rows = mt.aggregate(records, window, time="time", key=["code", "cell"])
    merged = _of_rows(rows.sort_by([("code", "ascending"), ("cell", "ascending")]))
    order = np.lexsort((cell, slices["code"]))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(slices["code"][order]) != 0) | (np.diff(cell[order]) != 0)
    at = np.flatnonzero(new)
    merged.columns["start"] = merged.columns["a"] = np.minimum.reduceat(slices["start"][order], at)
    merged.columns["end"] = merged.columns["b"] = np.maximum.reduceat(slices["end"][order], at)
    return merged


def _spacing(slices: Slices) -> float:
    """Return how far apart the slices of a key lie, most often."""
    order = np.lexsort((slices["first_time"], slices["code"]))
    apart = np.diff(slices["first_time"][order])[np.diff(slices["code"][order]) == 0]
    return float(np.median(apart)) if len(apart) else 1.0


def _merged(slices: Slices, step: int, origin: int) -> Slices:
    """Return the points of slices merged into the cells of a grid."""
    window = mt.tumbling(step, offset=origin % step).agg(line=mt.m4("value"))
    return _of_rows(mt.aggregate(points(slices), window, time="time", key="code"))


def _of_rows(rows: pa.Table) -> Slices:
    """Return the slices of rows that have a column `line` of M4."""
    line = rows["line"].combine_chunks()
    columns = {name: np.asarray(line.field(name)) for name in VALUES}
    columns |= {f"{name}_time": np.asarray(line.field(f"{name}_time")) for name in VALUES}
    columns["code"] = np.asarray(rows["code"]).astype(np.int32)
    columns["a"] = columns["start"] = np.asarray(rows["window_start"])
    columns["b"] = columns["end"] = np.asarray(rows["window_end"])
    columns["gone"] = np.zeros(rows.num_rows, bool)
    return Slices({name: columns[name] for name in _TYPES})


def _grain(slices: Slices) -> int:
    """Return how wide the widest slice is in ticks; 0 where each is one value."""
    several = slices["last_time"] > slices["first_time"]
    return int(np.where(several, slices["end"] - slices["start"], 0).max()) if len(slices) else 0


def _phase(slices: Slices, grain: int) -> int:
    """Return where the slices of a grid begin, modulo their width."""
    if not grain:
        return 0
    widest = np.where(slices["last_time"] > slices["first_time"], slices["end"] - slices["start"], 0)
    return int(slices["start"][int(widest.argmax())]) % grain


def points(slices: Slices) -> pa.Table:
    """Return the four points of each slice as records; of equal times, in the order of the line."""
    value = np.stack([slices[name] for name in VALUES], axis=1).ravel()
    time = np.stack([slices[f"{name}_time"] for name in VALUES], axis=1).ravel()
    code = np.repeat(slices["code"].astype(np.int64), len(VALUES))
    return pa.table({"code": code, "time": time, "value": value})


def view(slices: Slices, low: int, high: int, columns: int) -> View:
    """Return a line between two times at so many columns of pixels, from slices by key and time.

    >>> one = np.array([0, 10, 20, 30])
    >>> held = numbers(np.zeros(4, np.int32), one, one, one, np.array([1.0, 5.0, 2.0, 3.0]))
    >>> view(held, 0, 40, 2).value.tolist()
    [1.0, 5.0, 2.0, 3.0]
    """
    shown = slices.take(np.flatnonzero((slices["last_time"] >= low) & (slices["first_time"] < high)))
    step, origin, exact = _columns_of(shown, low, high, columns)
    if step == 0:  # slices are wider than columns: each shows what it has
        drawn, step = points(shown), max(1, -(-(high - low) // columns))
    else:
        drawn = _aggregated(shown, step, origin)
    outside = _neighbours(slices, low, high)
    code = np.concatenate([np.asarray(drawn["code"]), outside[0]])
    time = np.concatenate([np.asarray(drawn["time"]), outside[1]])
    value = np.concatenate([np.asarray(drawn["value"]), outside[2]])
    order = np.lexsort((np.arange(len(code)), time, code))
    code, time, value = code[order], time[order], value[order]
    new = np.ones(len(code), bool)
    new[1:] = (np.diff(code) != 0) | (np.diff(time) != 0) | (value[1:] != value[:-1])
    return View(code[new].astype(np.int32), time[new], value[new], step, origin, exact)


def _columns_of(slices: Slices, low: int, high: int, columns: int) -> tuple[int, int, bool]:
    """Return width and origin of columns in ticks (0: slices are wider), and whether slices fit."""
    wanted = max(1, -(-(high - low) // columns))
    if not len(slices):
        return wanted, low, True
    grain = _grain(slices)
    if not grain:
        return wanted, low, True
    if wanted < grain:
        return 0, low, False
    step, phase = -(-wanted // grain) * grain, _phase(slices, grain)
    origin = (low - phase) // step * step + phase
    first, last = ((slices[side] - origin) // step for side in ("first_time", "last_time"))
    return step, origin, bool((first == last).all())


def _aggregated(slices: Slices, step: int, origin: int) -> pa.Table:
    """Return the points of M4 for each key and column."""
    return points(_merged(slices, step, origin) if len(slices) else slices)


def _neighbours(slices: Slices, low: int, high: int) -> tuple[Ticks, Ticks, Floats]:
    """Return for each key the last point before a view and the first one after it, so that no line is cut."""
    found: list[tuple[int, int, float]] = []
    for code in np.unique(slices["code"]).tolist():
        of_key = slices.take(np.flatnonzero(slices["code"] == code))
        before = np.flatnonzero(of_key["last_time"] < low)
        after = np.flatnonzero(of_key["first_time"] >= high)
        if len(before):
            at = int(before[of_key["last_time"][before].argmax()])
            found.append((code, int(of_key["last_time"][at]), float(of_key["last"][at])))
        if len(after):
            at = int(after[of_key["first_time"][after].argmin()])
            found.append((code, int(of_key["first_time"][at]), float(of_key["first"][at])))
    code_, time, value = zip(*found, strict=True) if found else ((), (), ())
    return np.array(code_, np.int64), np.array(time, np.int64), np.array(value, np.float64)


def numbers(code: NDArray[np.int32], a: Ticks, b: Ticks, time: Ticks, value: Floats) -> Slices:
    """Return slices of one value each."""
    columns: dict[str, NDArray[Any]] = {"code": code, "a": a, "b": b, "start": time, "end": time}
    columns["gone"] = np.zeros(len(code), bool)
    columns |= dict.fromkeys(VALUES, value)
    columns |= dict.fromkeys((f"{name}_time" for name in VALUES), time)
    return Slices(columns)


def coarse(slices: Slices) -> Slices:
    """Return some of many slices, evenly spread, for a first picture."""
    every = -(-len(slices) // COARSE)
    return slices.take(slice(None, None, every)) if every > 1 else slices
