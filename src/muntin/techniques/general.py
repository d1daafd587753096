"""General stream slicing: the library's own operator, behind the interface of the other techniques."""

from __future__ import annotations

import pyarrow as pa

from muntin.engine.plan import Abilities, Stream, characteristics, decide, together
from muntin.operator import WindowOperator
from muntin.techniques.base import Counts, Technique
from muntin.techniques.partials import Partials
from muntin.techniques.sliced import StoreName, checked
from muntin.techniques.stream import Marked, Row, UnsupportedWorkload, Workload

_BATCH = 4096  # records: how often it is looked at


class Slicing(Technique):
    """The operator with a lazy or an eager store, fed in batches and looked at after each.

    It keeps records beside the slices where queries need them, and nowhere else: `keep_records` says which
    kind of workload is meant, and another one is refused. Combines are as the operator counts them. It does
    not tell those of records from others: up to as many as there are records pass for `online`.
    """

    def __init__(self, store: StoreName = "lazy", *, keep_records: bool = False) -> None:
        self.store = checked(store)
        self.keep_records = keep_records

    def check(self, workload: Workload) -> None:
        """Ask for windows that the operator has, and for a workload of the kind that is meant."""
        if any(isinstance(query.window, Marked) for query in workload.queries):
            raise UnsupportedWorkload("the operator finds windows itself; marks are for Cutty and the like.")
        decisions = together(
            decide(characteristics(query.window, Abilities.of(aggregate), Stream(workload.in_order)))
            for query in workload.queries
            for aggregate in query.aggregates.values()
        )
        if decisions.keep_records != self.keep_records:
            why = dict(decisions.reasons)["keep_records"]
            raise UnsupportedWorkload(
                f"here records are {'' if decisions.keep_records else 'not '}kept. {why}"
            )

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        del partials  # the operator has its own
        operator = WindowOperator(
            workload.queries,
            time=workload.stream.time,
            watermark="in_order" if workload.in_order else workload.stream.delay,
            store=self.store,
        )
        tables, slices, records, size = [], 0, 0, 0
        for low in range(0, len(workload), _BATCH):
            tables.append(operator.process(workload.table.slice(low, _BATCH)))
            now = operator.metrics
            slices, records = max(slices, now.slices), max(records, now.records_kept)
            size = max(size, now.state_bytes)
        tables.append(operator.finish())
        total = operator.metrics
        self.counts = Counts(
            online=min(len(workload), total.update_combines),
            update=max(0, total.update_combines - len(workload)),
            merge=total.final_combines,
            slices=slices,
            partials=slices if self.store == "lazy" else 2 * slices - 1,
            records=records,
            bytes=size,
        )
        return [row for table in tables for row in _rows(workload, table)]


def _rows(workload: Workload, table: pa.Table) -> list[Row]:
    """Return a table of the operator as rows."""
    columns = dict(zip(workload.names, (list(q.aggregates) for q in workload.queries), strict=True))
    return [
        Row(
            out["query"],
            out["window_start"],
            out["window_end"],
            out["window_id"],
            {name: out[name] for name in columns[out["query"]]},
        )
        for out in table.to_pylist()
    ]
