"""A pipeline as a feed of the dashboard: the embedded engine runs it, and its rows go to the page."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from muntin.cli.commands.checking import opened
from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.embedded import watermark_after
from muntin.dashboard.feeds import Feed
from muntin.dashboard.hub import Hub


def pipeline_feed(pipeline: Pipeline) -> Feed:
    """Return a feed that runs a pipeline on the embedded engine; rows go to the page, not into the sink."""
    source = opened(pipeline)
    operator = mt.WindowOperator(
        pipeline.queries,
        time=pipeline.time,
        key=list(pipeline.key),
        watermark="manual",
        lateness=pipeline.lateness,
        tie=pipeline.tie,
    )
    hub = Hub(operator, title=pipeline.name)
    kind = source.schema.field(pipeline.time).type
    batches: Iterator[int] = iter(range(len(source.batches)))
    newest: int | None = None

    def step() -> bool:
        nonlocal newest
        number = next(batches, None)
        if number is None:
            operator.finish()
            return False
        watermark = watermark_after(newest, pipeline.watermark, kind)
        if watermark is not None:
            operator.advance(watermark)
        table = source.read(number)
        operator.process(table)
        hub.hand_lost(operator.take_late(), pipeline.time)
        if table.num_rows:
            last = pc.max(table[pipeline.time].cast(pa.int64())).as_py()
            newest = last if newest is None else max(last, newest)
        return True

    return Feed(hub, step)
