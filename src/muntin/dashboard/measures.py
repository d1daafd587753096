"""Measures for machines: what a hub knows, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from muntin.dashboard.hub import Hub
from muntin.dashboard.lateness import BUCKETS
from muntin.dashboard.tap import ticks

if TYPE_CHECKING:
    from muntin.dashboard.clients import Clients

CONTENT = "text/plain; version=0.0.4; charset=utf-8"


class Measures:
    """Collects the measures of hubs when it is asked; each has the label `stream`."""

    def __init__(self, hubs: Mapping[str, Hub], clients: Clients | None = None) -> None:
        self._hubs, self._clients = hubs, clients
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all measures."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Return them one by one; what is not known yet is left out."""
        families: dict[str, Any] = {}
        for stream, hub in self._hubs.items():
            for name, (kind, about, value) in _numbers(hub).items():
                family = families.setdefault(name, kind(f"muntin_{name}", about, labels=["stream"]))
                family.add_metric([stream], value)
            _count(families, "rows", "Rows emitted, by query.", "query", stream, hub.rows_out)
            _count(families, "changes", "Rows emitted, by their change.", "change", stream, hub.changes)
            if hub.look is not None:
                by_query = hub.look.queries.items()
                combines = {name: metrics.combines for name, metrics in by_query}
                _count(
                    families, "query_combines", "Combines of windows, by query.", "query", stream, combines
                )
                state = GaugeMetricFamily(
                    "muntin_query_state_bytes", "Bytes of live slices, by query.", labels=["stream", "query"]
                )
                state = families.setdefault("query_state_bytes", state)
                for name, metrics in by_query:
                    state.add_metric([stream, name], metrics.state_bytes)
                about = "Duration of calls of the operator."
                calls = families.setdefault(
                    "call_seconds", HistogramMetricFamily("muntin_call_seconds", about, labels=["stream"])
                )
                upto = np.cumsum(hub.latency.counts).tolist()
                bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
                calls.add_metric([stream], list(zip(bounds, upto, strict=True)), hub.latency.seconds)
        yield from families.values()
        if self._clients is not None:
            yield GaugeMetricFamily("muntin_dashboard_clients", "Pages that are open.", len(self._clients))
            about = "Pages that did not keep up."
            yield CounterMetricFamily("muntin_dashboard_dropped", about, self._clients.dropped)


def _count(
    families: dict[str, Any], name: str, about: str, label: str, stream: str, counts: Mapping[str, int]
) -> None:
    family = families.setdefault(name, CounterMetricFamily(f"muntin_{name}", about, labels=["stream", label]))
    for value, count in dict(counts).items():
        family.add_metric([stream, value], count)


def _numbers(hub: Hub) -> dict[str, tuple[Any, str, float]]:
    """Return the single numbers of a hub: what they are, what they say, and how large they are."""
    counter, gauge, look = CounterMetricFamily, GaugeMetricFamily, hub.look
    found: dict[str, tuple[Any, str, float]] = {}
    if look is not None:
        metrics = look.metrics
        found["records"] = counter, "Records taken in.", metrics.records_in
        found["late_dropped"] = counter, "Records that came too late for all queries.", metrics.late_dropped
        found["combines"] = counter, "Combines of partials.", metrics.combines
        found["slices"] = gauge, "Live slices.", metrics.slices
        found["keys"] = gauge, "Keys with state.", metrics.keys
        found["state_bytes"] = gauge, "Bytes of live slices and kept records.", metrics.state_bytes
        newest, watermark = ticks(look.newest), ticks(look.watermark)
        if hub.unit is not None and newest is not None:
            second = hub.unit / 1e9
            found["newest_seconds"] = gauge, "Time of the newest record, since 1970.", newest * second
            if watermark is not None:
                lag = (newest - watermark) * second
                found["watermark_lag_seconds"] = gauge, "Newest record less watermark.", lag
    for name, value in hub.numbers.get("micro_batch", {}).items():
        if isinstance(value, (int, float)):
            found[name] = (
                gauge,
                f"{name.replace('_', ' ').capitalize()}, of the last micro-batch.",
                float(value),
            )
    if hub.tap is not None:
        found["dashboard_rows_skipped"] = counter, "Rows that were too many to be shown.", hub.tap.skipped
    return found
