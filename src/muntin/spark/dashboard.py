"""Dashboard: the windows of a Spark stream on a page, as a sink for foreachBatch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from muntin.spark.progress import BatchMetrics, Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.windows.base import Query

PORT = 8765


class Dashboard:
    """Shows the rows of each micro-batch on a page; needs `muntin[dashboard]`.

        dashboard = Dashboard(queries=queries, title="cars")
        spark.streams.addListener(dashboard.progress)
        windows.writeStream.foreachBatch(dashboard).start()

    Arguments:
        sink: What takes each micro-batch besides, such as a ParquetTable.
        queries: Those of the stream: with them, windows are told apart as their revisions need.
        host: The address to listen at, as for `muntin.dashboard.serve`.
        port: The port; 0 takes a free one.
        token: What requests must bring.
        title: What the page is called.

    Rows are collected by the driver: what a micro-batch emits must fit there. A micro-batch that Spark
    repeats shows nothing new.
    """

    def __init__(
        self,
        sink: Callable[[DataFrame, int], Any] | None = None,
        *,
        queries: Iterable[Query] = (),
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        title: str = "muntin",
    ) -> None:
        from muntin.dashboard import Dashboard as Served
        from muntin.dashboard.guard import Access
        from muntin.dashboard.hub import Hub
        from muntin.dashboard.server import Server

        self._sink = sink
        self._newest = -1  # the micro-batch that was shown last
        self._hub = Hub(title=title)
        self._hub.learn({query.name or f"q{place}": query for place, query in enumerate(queries)})
        server = Server({title: self._hub}, Access.of(host, token), port)
        server.start()
        self._served = Served(server)
        self.progress = Progress(lambda batch: self._hub.measure(micro_batch=as_numbers(batch)))

    @property
    def url(self) -> str:
        """The address of the page; with the token, if it needs one."""
        return self._served.url

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Take a micro-batch; what the sink raises reaches Spark, before anything is shown."""
        if self._sink is None:
            rows = batch.toArrow()
        else:
            kept = batch.persist()  # the sink and the page read it
            try:
                self._sink(kept, number)
                rows = kept.toArrow()
            finally:
                kept.unpersist()
        if number > self._newest:
            self._newest = number
            self._hub.hand(rows)

    def stop(self) -> None:
        """End the page."""
        self._served.stop()


def as_numbers(batch: BatchMetrics) -> dict[str, Any]:
    """Return what a micro-batch did, by names for machines."""
    told = {
        "micro_batch": batch.batch,
        "micro_batch_records": batch.rows,
        "micro_batch_seconds": batch.seconds,
        "micro_batch_records_per_second": batch.rows_per_second,
        "state_rows": batch.state_rows,
        "state_bytes": batch.state_bytes,
        "watermark_lag_seconds": batch.watermark_lag,
    }
    return {name: value for name, value in told.items() if value is not None}
