"""Answers: what a client may ask, checked before anything is done, and the frames that answer it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from muntin.dashboard.frames import encode
from muntin.dashboard.guard import Limits
from muntin.dashboard.history import VALUES, View
from muntin.dashboard.hub import Hub, News
from muntin.dashboard.lanes import BAR, is_m4
from muntin.dashboard.tap import ticks

_EXPORTED = 200_000  # rows
_FAR = 2.0**62


class RefusedError(ValueError):
    """What a client asked cannot be done; the text says why."""


@dataclass(frozen=True)
class Watched:
    """What a client wants in each update: lanes (query, key) and one line (query, column, keys)."""

    lanes: tuple[tuple[str, int], ...] = ()
    line: tuple[str, str, tuple[int, ...]] | None = None


@dataclass
class Asked:
    """A message of a client: what is in it can only be had in the type that is wanted."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, limits: Limits) -> Asked:
        """Return what a text says."""
        if len(text.encode("utf-8", "replace")) > limits.message:
            raise RefusedError(f"a message has at most {limits.message} bytes.")
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RefusedError("a message is a JSON object.") from error
        if not isinstance(values, dict):
            raise RefusedError("a message is a JSON object.")
        return cls(values)

    def text(self, name: str, most: int = 200) -> str:
        """Return a text."""
        value = self.values.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise RefusedError(f"{name} is a text of at most {most} characters.")
        return value

    def number(self, name: str, low: float = -_FAR, high: float = _FAR) -> float:
        """Return a number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise RefusedError(f"{name} is a number.")
        if not low <= value <= high:
            raise RefusedError(f"{name} lies between {low:g} and {high:g}.")
        return value

    def whole(self, name: str, low: int, high: int) -> int:
        """Return a whole number."""
        value = self.number(name, low, high)
        if value != int(value):
            raise RefusedError(f"{name} is a whole number.")
        return int(value)

    def codes(self, name: str, most: int) -> tuple[int, ...]:
        """Return numbers of keys."""
        values = self.values.get(name)
        if not isinstance(values, list) or len(values) > most:
            raise RefusedError(f"{name} is a list of at most {most} keys.")
        return tuple(Asked({name: value}).whole(name, 0, 2**31 - 1) for value in values)


class Answers:
    """Answers the messages of all clients of a server; each method may run in any thread."""

    def __init__(self, hub: Hub, limits: Limits, *, allow_queries: bool) -> None:
        self.hub, self.limits, self.allow_queries = hub, limits, allow_queries
        self._answers: dict[str, Callable[[Asked], Iterator[bytes]]] = {
            "lanes": self._lanes,
            "view": self._view,
            "slices": self._slices,
            "window": self._window,
            "lookup": self._lookup,
            "add": self._add,
            "remove": self._remove,
            "export": self._export,
        }

    def hello(self, streams: Sequence[str] = (), stream: str = "") -> bytes:
        """Return the first frame of a client."""
        hub = self.hub
        told = {
            "type": "hello",
            **hub.described(),
            "streams": streams,
            "stream": stream,
            "keys": hub.keys.shown(),
            "allow_queries": self.allow_queries and hub.tap is not None,
            "span": self._span(),
            "state": hub.told,
            "limits": {"lanes": self.limits.lanes, "keys": self.limits.keys},
        }
        return encode(told, hub.strip.arrays())

    def changed(self) -> bytes:
        """Return what pages must know anew: queries, columns and keys."""
        told = {"type": "changed", **self.hub.described(), "keys": self.hub.keys.shown()}
        return encode({**told, "span": self._span()})

    def _span(self) -> list[float] | None:
        """Return from when on there is a line, and the newest time, as pages are told them."""
        hub, span = self.hub, self.hub.span()
        if span is None:
            return None
        newest = ticks(hub.look.newest) if hub.look is not None else None
        return [hub.since_base(span[0]), hub.since_base(max(span[1], newest or span[1]))]

    def answer(self, asked: Asked) -> Iterator[bytes]:
        """Return the frames that answer a message."""
        kind = asked.text("type", 20)
        if kind not in self._answers:
            raise RefusedError(f"there is nothing named {kind!r} to ask for.")
        yield from self._answers[kind](asked)

    def watched(self, asked: Asked) -> Watched:
        """Return what a client wants to be told."""
        lanes = asked.values.get("lanes", [])
        if not isinstance(lanes, list) or len(lanes) > self.limits.lanes:
            raise RefusedError(f"a page watches at most {self.limits.lanes} lanes.")
        found = []
        for lane in lanes:
            one = Asked(lane if isinstance(lane, dict) else {})
            found.append((one.text("query"), one.whole("key", 0, 2**31 - 1)))
        line = asked.values.get("line")
        if line is None:
            return Watched(tuple(found))
        one = Asked(line if isinstance(line, dict) else {})
        keys = one.codes("keys", self.limits.keys)
        return Watched(tuple(found), (one.text("query"), one.text("column"), keys))

    # ---- each kind of message ----

    def _times(self, asked: Asked) -> tuple[int, int]:
        low, high = (asked.number(name) + (self.hub.base or 0) for name in ("start", "end"))
        if not -_FAR < low < high < _FAR:
            raise RefusedError("start lies before end, and both within 2^62 ticks.")
        return math.floor(low), math.ceil(high)

    def _key(self, asked: Asked) -> int:
        return asked.whole("key", 0, max(0, len(self.hub.keys) - 1))

    def _reply(self, asked: Asked, **told: Any) -> dict[str, Any]:
        return {"type": asked.text("type", 20), "id": asked.whole("id", 0, 2**53), **told}

    def _lanes(self, asked: Asked) -> Iterator[bytes]:
        """Answer with the bars of a lane."""
        query, key = asked.text("query"), self._key(asked)
        bars = self.hub.bars(query, key)
        told = {name: _as_told(self.hub, name, bars[name], query) for name in BAR}
        yield encode(self._reply(asked, query=query, key=key), told)

    def _view(self, asked: Asked) -> Iterator[bytes]:
        """Answer with the points of a line, coarse at once where there are many, then exact."""
        low, high = self._times(asked)
        line = asked.text("query"), asked.text("column")
        keys = asked.codes("keys", self.limits.keys)
        width = asked.whole("width", 1, self.limits.width)
        views = self.hub.views(*line, keys, low, high, width)
        for last, view in views:
            yield self._view_frame(asked, view, last=last)

    def _view_frame(self, asked: Asked, view: View, *, last: bool) -> bytes:
        hub = self.hub
        told = self._reply(
            asked, step=view.step, origin=hub.since_base(view.origin), exact=view.exact and last, last=last
        )
        arrays = {"code": view.code, "time": hub.since_base(view.time), "value": view.value}
        return encode(told, arrays)

    def _slices(self, asked: Asked) -> Iterator[bytes]:
        low, high = self._times(asked)
        slices = self.hub.slices(asked.text("query"), self._key(asked), low, high)
        yield encode(self._reply(asked, slices=slices))

    def _window(self, asked: Asked) -> Iterator[bytes]:
        base, query = self.hub.base or 0, asked.text("query")
        a, b = (
            int(asked.number(name)) + base * is_time
            for name, is_time in zip(("a", "b"), self.hub.based(query), strict=True)
        )
        yield encode(self._reply(asked, revisions=self.hub.window(query, self._key(asked), a, b)))

    def _lookup(self, asked: Asked) -> Iterator[bytes]:
        low, high = self._times(asked)
        rows = self.hub.look_up(asked.text("query"), self._key(asked), low, high)
        yield encode(self._reply(asked, rows=rows))

    def _may_change(self) -> None:
        if not self.allow_queries:
            raise RefusedError("this page is read-only: start the dashboard with --allow-queries.")

    def _add(self, asked: Asked) -> Iterator[bytes]:
        self._may_change()
        if self.hub.query_count >= self.limits.queries:
            raise RefusedError(f"there are {self.limits.queries} queries already: remove one first.")
        text = asked.text("sql", self.limits.statement)
        from muntin.streamsql import statements

        found = statements(text)
        if len(found) != 1:
            raise RefusedError(f"one statement at a time, not {len(found)}.")
        query = found[0].query
        if query.name is None and asked.values.get("name"):
            query = replace(query, name=asked.text("name", 100))
        name = self.hub.add(query)
        yield encode(self._reply(asked, name=name))

    def _remove(self, asked: Asked) -> Iterator[bytes]:
        self._may_change()
        name = asked.text("name")
        self.hub.remove(name)
        yield encode(self._reply(asked, name=name))

    def _export(self, asked: Asked) -> Iterator[bytes]:
        """Answer with the rows that are kept, as a file that the page saves: nothing is written here."""
        kind, query = asked.text("format", 10), asked.text("query")
        if kind not in ("csv", "parquet"):
            raise RefusedError("rows are exported as csv or parquet.")
        with self.hub.lock:
            table = self.hub.recent.table(query or None)
        if table is None:
            raise RefusedError("there are no rows yet.")
        data = exported(table.slice(max(0, table.num_rows - _EXPORTED)), kind)
        yield encode(self._reply(asked, format=kind), {"file": np.frombuffer(data, np.uint8)})

    # ---- updates ----

    def update(self, news: News, watched: Watched) -> bytes:
        """Return the frame of an update for those who watch the same."""
        hub = self.hub
        lanes, arrays = self._bars(news, watched)
        line = self._new_slices(news, watched, arrays)
        arrays["lost"], arrays["late"] = hub.since_base(news.lost), hub.since_base(news.late)
        opened = hub.open_windows(watched.lanes)
        arrays["open_lane"] = np.repeat(
            np.arange(len(opened), dtype=np.int32), [len(some) for some in opened]
        )
        bounds = np.array([bounds for some in opened for bounds in some], np.int64).reshape(-1, 2)
        arrays["open_start"], arrays["open_end"] = hub.since_base(bounds[:, 0]), hub.since_base(bounds[:, 1])
        told = {"type": "update", "n": news.number, "state": news.state, "lanes": lanes, "line": line}
        return encode(told, arrays)

    def _bars(
        self, news: News, watched: Watched
    ) -> tuple[list[tuple[str, int, int]], dict[str, NDArray[Any]]]:
        """Return how many bars each lane has, and the bars."""
        counts, parts = [], []
        for query, code in watched.lanes:
            some = [(b, np.flatnonzero(b.code == code)) for b in news.blocks if b.query == query]
            counts.append((query, code, sum(len(at) for _, at in some)))
            parts += some
        arrays: dict[str, NDArray[Any]] = {}
        for name in BAR[:-1]:
            column = [_as_told(self.hub, name, getattr(b, name)[at], b.query) for b, at in parts]
            arrays[f"bar_{name}"] = np.concatenate(column) if column else np.empty(0)
        return counts, arrays

    def _new_slices(
        self, news: News, watched: Watched, arrays: dict[str, NDArray[Any]]
    ) -> dict[str, Any] | None:
        """Add the slices that came to a watched line; tell whether some were changed."""
        if watched.line is None:
            return None
        query, column, keys = watched.line
        found = [
            b.lines([column])[column]
            for b in news.blocks
            if b.query == query and column in b.rows.column_names
        ]
        kept = [slices.take(np.flatnonzero(np.isin(slices["code"], keys))) for slices in found]
        revised = any(bool((b.revision > 0).any()) for b in news.blocks if b.query == query)
        arrays["line_code"] = np.concatenate([s["code"] for s in kept]) if kept else np.empty(0, np.int32)
        for name in VALUES:
            for part in (name, f"{name}_time"):
                values = np.concatenate([s[part] for s in kept]) if kept else np.empty(0)
                arrays[f"line_{part}"] = self.hub.since_base(values) if part.endswith("_time") else values
        return {"query": query, "column": column, "revised": revised}


def _as_told(hub: Hub, name: str, values: NDArray[Any], query: str) -> NDArray[Any]:
    """Return a column of bars as pages are told it: times since the base."""
    if name in ("start", "end") or (name in ("a", "b") and hub.based(query)["ab".index(name)]):
        return np.asarray(hub.since_base(values))
    return values


def exported(table: pa.Table, kind: str) -> bytes:
    """Return a table as the bytes of a file."""
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    else:
        csv.write_csv(flat(table), sink)
    return sink.getvalue()


def flat(table: pa.Table) -> pa.Table:
    """Return a table that CSV can hold: the fields of M4 as columns, lists and other structs as texts."""
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if is_m4(column.type):
            array = column.combine_chunks()
            columns |= {f"{name}_{one.name}": array.field(one.name) for one in column.type}
        elif pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            columns[name] = pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
        else:
            columns[name] = (
                column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            )
    return pa.table(columns)
