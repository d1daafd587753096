"""The state of an engine in parts, so that those which stay as they are need not be written again.

Each part is a blob in the envelope of snapshots, with version and checksum. The head lists the others with
their digests: a part that is missing, or of another moment, is found out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin import columnar
from muntin.engine import tuning
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.rows import FOREVER, NEVER
from muntin.engine.state import early, engine_state
from muntin.engine.state.cells import dump_store
from muntin.engine.state.description import Described, SnapshotError, reading
from muntin.engine.state.envelope import pack, unpack, version_of
from muntin.engine.state.queries import describe_query
from muntin.engine.state.tables import table_of
from muntin.engine.store.cells import AggregateStore
from muntin.expressions.expression import marked, unmarked
from muntin.windows.base import Query

if TYPE_CHECKING:
    from muntin.engine.engine import Engine

HEAD = "head"
_IN_HEAD = ("time", "answers")  # tables without rows, which only say types


def dump_parts(
    engine: Engine, keys: KeyTable, setting: Mapping[str, Any], queries: Mapping[str, Query]
) -> dict[str, bytes]:
    """Return the state as named blobs; `setting` is what must be the same whenever it is read."""
    engine.evict(keys)
    tables = engine_state.engine_tables(engine, keys)
    for grid in engine.slices.of_kind("grid").values():
        del tables["grid"]
        tables |= _by_time(grid.store, _span(grid.longest))
    in_head = {name: tables.pop(name) for name in _IN_HEAD}
    in_head["types"] = columnar.no_rows((marked(name), kind) for name, kind in engine.types.items())
    parts = {name: pack({}, {"part": table}) for name, table in tables.items()}
    head = {
        "setting": dict(setting),
        "queries": [[name, describe_query(query)] for name, query in queries.items()],
        "engine": engine_state.describe_engine(engine),
        "digests": {name: _digest(part) for name, part in parts.items()},
    }
    return {HEAD: pack(head, in_head, version_of(queries.values())), **parts}


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


def _span(longest: int) -> int:
    """Return how much time a part of the grid covers: so little that few are written, and few are there."""
    return 1 << max(0, longest // tuning.GRID_PARTS - 1).bit_length()


def _digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


class Head:
    """What the head of a state tells, before the rest is read."""

    def __init__(self, blob: bytes) -> None:
        told, self.tables = unpack(blob)
        described = Described(told, HEAD)
        self.setting = described["setting"].table()
        self.engine = described["engine"].table()
        pairs = [pair.each(2) for pair in described["queries"].each()]
        self.queries = {name.text(): query.table() for name, query in pairs}
        self.digests = {name: digest.text() for name, digest in described["digests"].items()}
        self.types = {unmarked(n): k for n, k in table_of(self.tables, "types").every_type().items()}

    @property
    def watermark(self) -> int:
        """The watermark at which it was written."""
        return Described(self.engine, HEAD)["watermark"].whole(NEVER, FOREVER)

    def staying(self, queries: Mapping[str, Query]) -> list[str]:
        """Return the names of queries that are still the same."""
        return [
            name
            for name, described in self.queries.items()
            if name in queries and json.loads(json.dumps(describe_query(queries[name]))) == described
        ]


def load_parts(
    head: Head,
    read: Callable[[str], bytes | None],
    engine: Engine,
    keys: KeyTable,
    queries: Mapping[str, Query],
    tie: pa.DataType | None,
) -> None:
    """Fill an engine without queries with a state; only queries that are still the same come along."""
    tables = dict(head.tables)
    for name, digest in head.digests.items():
        blob = read(name)
        if blob is None or _digest(blob) != digest:
            how = "missing" if blob is None else "damaged, or of another moment"
            raise SnapshotError(f"part {name!r} is {how}.")
        tables[name] = table_of(unpack(blob)[1], "part").whole()
    with reading("the state"):
        _load(head, tables, engine, keys, queries, tie)


def _load(
    head: Head,
    tables: dict[str, pa.Table],
    engine: Engine,
    keys: KeyTable,
    queries: Mapping[str, Query],
    tie: pa.DataType | None,
) -> None:
    slices = [tables.pop(name) for name in head.digests if name.startswith("grid ")]
    tables["grid"] = pa.concat_tables(slices) if slices else pa.table({})
    described, kept = dict(head.engine), {name: queries[name] for name in head.staying(queries)}
    gone = len(kept) < len(head.queries)
    if gone:
        described, tables = _without_others(described, tables, kept)
    engine_state.load_keys(keys, tables, dict(zip(keys.names, keys.types or (), strict=True)))
    engine_state.load_engine(
        engine, Described(described, "the state"), tables, kept, len(keys), tie, recut=gone
    )
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
    if early.TABLE in tables:
        tables = {**tables, early.TABLE: early.of_queries(tables[early.TABLE], numbers)}
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
