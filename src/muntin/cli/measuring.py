"""Measures of runs for machines: /metrics and /healthz on a port of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muntin.console.mistakes import MistakeError, need

if TYPE_CHECKING:
    from muntin.dashboard.hub import Hub
    from muntin.operator import WindowOperator

DASHBOARD = ("starlette", "uvicorn", "websockets", "prometheus_client")  # the modules of the extra
Watch = Callable[[str, "WindowOperator | None"], None]


def _unwatched(name: str, operator: WindowOperator | None) -> None:
    """Measure nothing: nobody asked for it."""
    del name, operator


@contextlib.contextmanager
def measured(names: Sequence[str], port: int | None, spark: Any) -> Iterator[Watch]:
    """Serve the measures of runs while they last; what is handed out is told which run begins."""
    if port is None:
        yield _unwatched
        return
    need("--metrics-port", "dashboard", DASHBOARD)
    from muntin.dashboard.guard import Access
    from muntin.dashboard.hub import Hub
    from muntin.dashboard.server import Server

    hubs = {name: Hub(title=name) for name in names}
    try:
        server = Server(hubs, Access(), port, page=False)
    except OSError as error:
        raise MistakeError(f"--metrics-port: {error.strerror}.") from error
    running: list[Hub] = []

    def watch(name: str, operator: WindowOperator | None) -> None:
        running[:] = [hubs[name]]
        if operator is not None:
            hubs[name].attach(operator)
            hubs[name].watch()

    listener = None
    if spark is not None:
        from muntin.spark import Progress
        from muntin.spark.dashboard import as_numbers

        listener = Progress(lambda batch: running[-1].measure(micro_batch=as_numbers(batch)))
        spark.streams.addListener(listener)
    server.start()
    try:
        yield watch
    finally:
        if listener is not None:
            spark.streams.removeListener(listener)
        server.stop()
