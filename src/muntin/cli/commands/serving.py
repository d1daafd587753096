"""muntin dashboard: runs a pipeline or the demo, and serves the page that shows it."""

from __future__ import annotations

import contextlib
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.cli.measuring import DASHBOARD
from muntin.console.mistakes import INTERRUPTED, MistakeError, need
from muntin.console.terminal import interruption

if TYPE_CHECKING:
    from muntin.cli.pipeline.config import Pipeline
    from muntin.dashboard.feeds import Feed


def dashboard(
    pipeline: Path | None,
    *,
    demo: bool,
    host: str,
    port: int,
    token: str | None,
    allow_queries: bool,
    browser: bool,
) -> int:
    """Serve until Ctrl-C; return the exit code."""
    need("the dashboard", "dashboard", DASHBOARD)
    if demo == (pipeline is not None):
        raise MistakeError("name a pipeline, as in muntin dashboard pipeline.toml, or give --demo.")
    from muntin.cli.commands.feeding import pipeline_feed
    from muntin.dashboard import Dashboard
    from muntin.dashboard.feeds import demo_feeds
    from muntin.dashboard.guard import Access
    from muntin.dashboard.server import PageError, Server

    try:
        access = Access.of(host, token)
    except ValueError as error:
        raise MistakeError(f"--token: {error}") from error
    feeds = demo_feeds() if pipeline is None else [pipeline_feed(_loaded(pipeline))]
    try:
        hubs = {feed.hub.title: feed.hub for feed in feeds}
        server = Server(hubs, access, port, allow_queries=allow_queries)
    except (OSError, PageError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise MistakeError(f"{(said or str(error)).rstrip('.')}.") from error
    with contextlib.ExitStack() as stack:
        interrupted = stack.enter_context(interruption())
        server.start()
        stack.callback(server.stop)
        for feed in feeds:
            feed.start()
            stack.callback(feed.stop)
        _announce(Dashboard(server).url, browser=browser)
        _wait(interrupted, feeds)
    return INTERRUPTED


def _loaded(file: Path) -> Pipeline:
    from muntin.cli.pipeline.config import load

    pipeline = load(file)
    if pipeline.source["format"] == "kafka":
        raise pipeline.mistake(("source", "format"), "Kafka is read on Spark only, not for the dashboard.")
    return pipeline


def _announce(url: str, *, browser: bool) -> None:
    print(f"The dashboard is at {url} (Ctrl-C ends it).", flush=True)
    if browser:
        webbrowser.open(url)


def _wait(interrupted: threading.Event, feeds: list[Feed]) -> None:
    """Wait for Ctrl-C; tell what ended a stream, while the page goes on."""
    told: set[Feed] = set()
    while not interrupted.wait(0.5):
        for feed in feeds:
            if feed.error is not None and feed not in told:
                told.add(feed)
                print(f"muntin: the stream ended: {feed.error}", file=sys.stderr, flush=True)
