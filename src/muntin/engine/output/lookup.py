"""Ad-hoc look-ups: a query's aggregates over a stretch of live slices, and the slices themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin import columnar
from muntin.algebra.aggregate import TIME
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.rows import Emission

if TYPE_CHECKING:
    from muntin.engine.engine import Engine


def look_up(engine: Engine, name: str, start: int, end: int, code: int | None, keys: KeyTable) -> pa.Table:
    """Return the aggregates of a query over the live slices that lie between two times, by key."""
    planned = next((p for p in engine.plan.queries if p.name == name), None)
    if planned is None:
        raise ValueError(f"look-ups are by time: query {name!r} has no slices by time yet.")
    family = engine.slices.by_query[planned.number]
    rows = family.look_up(planned, start, end, code)
    emission = Emission() if rows is None else engine.windows.look_up(family.store, rows)
    table, _, _ = engine.tables.looked_up(emission, keys)
    return table.select([*keys.names, "window_start", "window_end", *planned.query.aggregates])


def list_slices(engine: Engine, name: str, code: int | None, keys: KeyTable) -> pa.Table:
    """Return the slices that serve a query, of one key or all, by key and time."""
    planned = next((p for p in engine.plan.queries if p.name == name), None)
    if planned is None:
        raise ValueError(f"query {name!r} has no slices yet: no batch had the columns that it reads.")
    family = engine.slices.by_query[planned.number]
    ordered = family.store.ordered()
    at = np.arange(len(ordered)) if code is None else np.flatnonzero(ordered.code == code)
    kind = engine.types[TIME]
    by_position = np.full(len(at), not family.by_time)
    columns = dict(zip(keys.names, keys.values(ordered.code[at]) if keys.names else [], strict=True))
    columns["slice_start"] = columnar.numbers(ordered.start[at], kind, by_position)
    columns |= {side: columnar.numbers(getattr(ordered, side)[at], kind) for side in ("first", "last")}
    columns["records"] = columnar.numbers(ordered.rows[at])
    return pa.table(columns)
