"""What a snapshot holds of early results: the windows that were shown, and the newest time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.engine.output.early import GONE, OPEN, EarlyResults, Shown
from muntin.engine.rows import FOREVER, NEVER
from muntin.engine.state.description import Described
from muntin.engine.state.tables import SnapshotTable, table_of
from muntin.windows.durations import LIMIT

if TYPE_CHECKING:
    from muntin.engine.engine import Engine

TABLE = "early"  # under this name, in descriptions as well
_IDENTITY = ("first", "second")  # columns that tell windows apart; 0 where one is enough
_COLUMNS = ("query", "code", *_IDENTITY, *Shown._fields)


def describe_early(early: EarlyResults | None) -> dict[str, Any]:
    """Return what is not a table; nothing where no query has early results."""
    return {} if early is None else {TABLE: {"newest": early.newest}}


def early_tables(early: EarlyResults | None) -> dict[str, pa.Table]:
    """Return the windows that were shown."""
    if early is None:
        return {}
    rows = [
        (number, code, *who, *[0] * (len(_IDENTITY) - len(who)), *window)
        for number, known in early.known.items()
        for code, windows in known.items()
        for who, window in windows.items()
    ]
    columns = np.array(rows, np.int64).reshape(-1, len(_COLUMNS)).T
    return {TABLE: pa.table([pa.array(column) for column in columns], names=_COLUMNS)}


def of_queries(table: pa.Table, numbers: set[int]) -> pa.Table:
    """Return the windows of some queries."""
    kept: pa.Table = table.filter(pa.array(np.isin(table["query"].to_numpy(), sorted(numbers))))
    return kept


def load_early(engine: Engine, described: Described, tables: Mapping[str, pa.Table], keys: int) -> None:
    """Go on with windows that were shown, where a query has early results."""
    engine.follow_early()
    if engine.early is None:
        return
    early = engine.early
    early.newest = described[TABLE]["newest"].whole(NEVER, FOREVER)
    stored = table_of(tables, TABLE)
    numbers, codes = (stored.numbers(name, low=0) for name in ("query", "code"))
    stored.require(np.isin(numbers, list(early.queries)), "has queries without early results")
    stored.require(codes < max(keys, 1), "has keys that are not there")
    identity = [stored.numbers(name).tolist() for name in _IDENTITY]
    shown = _shown(stored)
    for number, code, first, second, window in zip(
        numbers.tolist(), codes.tolist(), *identity, shown, strict=True
    ):
        names = early.queries[number].query.window.identity()
        early.known[number].setdefault(code, {})[(first, second)[: len(names)]] = window
    for family in engine.slices.families.values():
        mine = np.isin(numbers, [p.number for p in family.queries])
        counts = family.record_counts(codes[mine])
        if counts is not None:
            open_ = stored.numbers("state")[mine] == OPEN
            last = (stored.numbers("begin") + stored.numbers("records"))[mine]
            stored.require(last[open_] <= counts[open_], "has windows without their records")


def _shown(stored: SnapshotTable) -> list[Shown]:
    """Return what is known of each window."""
    low: dict[str, int] = {"state": OPEN, "revision": 0, "final": 0, "begin": 0, "records": -1}
    high: dict[str, int] = {"state": GONE, "revision": LIMIT, "final": 1, "begin": LIMIT, "records": LIMIT}
    columns = [stored.numbers(name, low=low.get(name), high=high.get(name)) for name in Shown._fields]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [window.after_row(final=bool(window.final)) for window in map(Shown._make, rows)]
