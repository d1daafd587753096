"""Feeds: what runs streams for `muntin dashboard`, each in a thread of its own; and those of the demo."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from muntin.console.mistakes import one_line
from muntin.dashboard.hub import Hub
from muntin.generate import Arrivals, Factory, Football

PACE = 0.2  # seconds of a batch of the demo
BEFORE = 60.0  # seconds of the demo that have passed when it begins
_SECONDS = 3600.0  # that the demo lasts


class Feed:
    """Runs a stream in a thread: `step` takes the next batch, and tells whether there was one."""

    def __init__(self, hub: Hub, step: Callable[[], bool]) -> None:
        self.hub = hub
        self.error: str | None = None
        self._step, self._ended = step, threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"muntin {hub.title}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the batch at work."""
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and self._step():
                pass
        except Exception as error:  # it is shown on the page, and told where the command was given
            self.error = one_line(error)
            self.hub.measure(error=self.error)


# ---- the demo ----

FOOTBALL = (
    mt.tumbling("100ms").agg(speed=mt.m4("speed"), name="speed"),
    mt.sliding("10s", every="2s").agg(mean=mt.mean("speed"), top=mt.max("speed"), name="last 10 s"),
    mt.tumbling("5s").agg(metres=mt.sum("step"), name="way of 5 s"),
    mt.session("1s").agg(records=mt.count(), where="has_ball", name="ball possession"),
    mt.count_tumbling(200).agg(top=mt.max("speed"), name="each 200 records"),
)
FACTORY = (
    mt.tumbling("100ms").agg(power=mt.m4("mf01"), name="power"),
    mt.sliding("10s", every="2s").agg(mean=mt.mean("mf01"), peak=mt.max("mf01"), name="last 10 s"),
    mt.tumbling("5s").agg(variation=mt.relative_variation("mf01"), name="variation"),
    mt.threshold_frame("mf01", ">", 14_000, min_records=5).agg(peak=mt.max("mf01"), name="surges"),
    mt.session("500ms").agg(records=mt.count(), where="bm08", name="valve open"),
)


def demo_feeds(pace: float = PACE, before: float = BEFORE) -> list[Feed]:
    """Return generated football and factory streams that go on as the clock does."""
    football = Arrivals(Football(seconds=_SECONDS, hertz=10), delay="2s", seed=7)
    factory = Arrivals(Factory(seconds=_SECONDS, machines=3), delay="2s", seed=7)
    return [
        _generated("football", football, FOOTBALL, "player", _players, pace, before),
        _generated("factory", factory, FACTORY, "machine", lambda table: table, pace, before),
    ]


def _players(table: pa.Table) -> pa.Table:
    return table.filter(pc.is_valid(table["team"]))


def _generated(
    title: str,
    arrivals: Arrivals,
    queries: Any,
    key: str,
    chosen: Callable[[pa.Table], pa.Table],
    pace: float,
    before: float,
) -> Feed:
    """Return a generated stream: what came before the start at once, then each batch when it is due."""
    operator = mt.WindowOperator(queries, time="ts", key=key, watermark="1s", lateness="700ms")
    hub = Hub(operator, title=title)
    began, reached = time.monotonic() - before, 0

    def step() -> bool:
        nonlocal reached
        due = began + (reached / 1e6 + pace)
        if due > time.monotonic():
            time.sleep(due - time.monotonic())
        upto = reached + round(pace * 1e6) if reached else round(before * 1e6)
        operator.process(chosen(arrivals.between(reached, upto)))
        hub.hand_lost(operator.take_late(), "ts")
        reached = upto
        return upto < arrivals.length

    return Feed(hub, step)
