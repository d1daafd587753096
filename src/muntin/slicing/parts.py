"""The state of an engine in parts, so that those which stay as they are need not be written again.

Each part is a blob in the envelope of snapshots, with version and checksum. The head lists the others with
their digests: a part that is missing, or of another moment, is found out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.expressions import marked
from muntin.slicing import arrow, snapshot
from muntin.slicing.envelope import SnapshotError, pack, unpack
from muntin.slicing.keys import KeyTable
from muntin.slicing.micro_batch import MicroBatchEngine
from muntin.slicing.store import AggregateStore
from muntin.slicing.tabled import dump_store
from muntin.windows.base import Query

HEAD = "head"
_PARTS = 16  # of the grid, within the length of its longest window: each is read by a call of its own
_IN_HEAD = ("time", "answers")  # tables without rows, which only say types


def dump_parts(
    engine: MicroBatchEngine, keys: KeyTable, setting: Mapping[str, Any], queries: Mapping[str, Query]
) -> dict[str, bytes]:
    """Return the state as named blobs; `setting` is what must be the same whenever it is read."""
    engine.let_go(keys)
    tables = snapshot.engine_tables(engine, keys)
    if engine.slices.grid is not None:
        del tables["grid"]
        tables |= _by_time(engine.slices.grid, _span(engine))
    in_head = {name: tables.pop(name) for name in _IN_HEAD}
    in_head["types"] = arrow.no_rows((marked(name), kind) for name, kind in engine.types.items())
    parts = {name: pack({}, {"part": table}) for name, table in tables.items()}
    head = {
        "setting": dict(setting),
        "queries": [[name, snapshot.describe_query(query)] for name, query in queries.items()],
        "engine": snapshot.describe_engine(engine),
        "digests": {name: _digest(part) for name, part in parts.items()},
    }
    return {HEAD: pack(head, in_head), **parts}


def _by_time(grid: AggregateStore, span: int) -> dict[str, pa.Table]:
    """Return the cells of a grid, a table for each stretch of time."""
    cells = dump_store(grid)
    order = np.lexsort((grid.column("code"), grid.column("start")))
    blocks = grid.column("start")[order] // span
    begins = np.flatnonzero(np.append(True, blocks[1:] != blocks[:-1])) if len(blocks) else blocks
    bounds = np.append(begins, len(blocks)).tolist()
    found = {}
    for begin, end in itertools.pairwise(bounds):
        found[f"grid {blocks[begin]}"] = cells.take(pa.array(order[begin:end]))  # the same bytes each time
    return found


def _span(engine: MicroBatchEngine) -> int:
    """Return how much time a part of the grid covers: so little that few are written, and few are there."""
    longest: int = max(planned.window.length for planned in engine.plan.of_family("grid"))
    return 1 << max(0, longest // _PARTS - 1).bit_length()


def _digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


class Head:
    """What the head of a state tells, before the rest is read."""

    def __init__(self, blob: bytes) -> None:
        described, self.tables = unpack(blob)
        self.setting: dict[str, Any] = described["setting"]
        self.engine: dict[str, Any] = described["engine"]
        self.queries: dict[str, dict[str, Any]] = dict(described["queries"])
        self.digests: dict[str, str] = described["digests"]

    @property
    def watermark(self) -> int:
        """The watermark at which it was written."""
        watermark: int = self.engine["watermark"]
        return watermark

    def staying(self, queries: Mapping[str, Query]) -> list[str]:
        """Return the names of queries that are still the same."""
        return [
            name
            for name, described in self.queries.items()
            if name in queries and json.loads(json.dumps(snapshot.describe_query(queries[name]))) == described
        ]


def load_parts(
    head: Head,
    read: Callable[[str], bytes | None],
    engine: MicroBatchEngine,
    keys: KeyTable,
    queries: Mapping[str, Query],
) -> None:
    """Fill an engine without queries with a state; only queries that are still the same come along."""
    staying = head.staying(queries)
    tables = dict(head.tables)
    for name, digest in head.digests.items():
        blob = read(name)
        if blob is None or _digest(blob) != digest:
            how = "missing" if blob is None else "damaged, or of another moment"
            raise SnapshotError(f"part {name!r} is {how}.")
        tables[name] = unpack(blob)[1]["part"]
    slices = [tables.pop(name) for name in head.digests if name.startswith("grid ")]
    if slices:
        tables["grid"] = pa.concat_tables(slices)
    described = dict(head.engine)
    kept = {name: queries[name] for name in staying}
    gone = len(staying) < len(head.queries)
    if gone:
        described, tables = _without_others(described, tables, kept)
    if keys.names:
        keys.load([tables["keys"].column(k).combine_chunks() for k in range(len(keys.names))])
    if "grid" not in tables:  # there is a store, but it is empty
        tables["grid"] = pa.table({})
    snapshot.load_engine(engine, described, tables, kept)
    if gone:
        engine.slices.adapt(engine.slices.fields)  # merges slices at edges that only the others needed
        engine.windows.adapt()


def _without_others(
    described: dict[str, Any], tables: dict[str, pa.Table], kept: Mapping[str, Query]
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return a state without what only other queries needed; these need not even be known any more."""
    plan = dict(described["plan"])
    plan["queries"] = [q for q in plan["queries"] if q[1] in kept]
    numbers = {q[0] for q in plan["queries"]}
    used = {number for q in plan["queries"] for _, reads in q[3] for number, _ in reads}
    plan["fields"] = [f for f in plan["fields"] if f[0] in used]
    plan["forms"] = {number: form for number, form in plan["forms"].items() if int(number) in used}
    columns = {column for query in kept.values() for column in query.aggregates}
    described = {
        **described,
        "plan": plan,
        "answers": [column for column in described["answers"] if column in columns],
        "revisions": [pair for pair in described["revisions"] if pair[0][0] in numbers],
        "views": [pair for pair in described["views"] if pair[0] in numbers],
        "previous": [pair for pair in described["previous"] if pair[0][0] in numbers],
        "last_shown": [pair for pair in described.get("last_shown", []) if pair[0][0] in numbers],
        "spans": [span for span in described["spans"] if span[0] in numbers],
        "sum_bounds": {n: bound for n, bound in described["sum_bounds"].items() if int(n) in used},
    }
    for family in ("session", "count", "position"):
        origins = {q[2] for q in plan["queries"] if kept[q[1]].window.family == family}
        listed = list(enumerate(described[f"{family}s"]))
        old_tables = {name: tables.pop(name) for name in list(tables) if name.startswith(f"{family} ")}
        for k, (old, _) in enumerate([pair for pair in listed if pair[1] in origins]):
            for name, table in old_tables.items():
                if f"{name} ".startswith(f"{family} {old} "):
                    tables[name.replace(f"{family} {old}", f"{family} {k}", 1)] = table
        described[f"{family}s"] = [origin for _, origin in listed if origin in origins]
    return described, tables
