"""muntin dashboard, and muntin run --metrics-port: the real program in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

from muntin.cli.commands.running import run
from tests.cli.program import command, muntin, write_ticks
from tests.dashboard.pages import Page

URL = re.compile(r"http://[^ ]+")


@contextmanager
def started(*arguments: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and the address that it says."""
    words = command("dashboard", *arguments, "--no-browser", "--port", "0")
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = URL.search(said)
        assert found is not None, said + (process.stderr.read() if process.stderr else "")
        yield process, found[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        finally:
            process.kill()


def test_the_demo_shows_both_streams(tmp_path: Path) -> None:
    began = time.monotonic()
    with started("--demo", cwd=tmp_path) as (process, url):
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert b"muntin" in answer.read()
        assert (
            time.monotonic() - began < 15
        )  # with an empty cache of kernels, too: nothing is compiled before
        for stream, line in (("football", "speed"), ("factory", "power")):
            with connect(f"{url.replace('http', 'ws')}live?stream={stream}") as one:
                page = Page(one)
                hello = page.read("hello", timeout=30)[0]
                assert hello["streams"] == ["football", "factory"]
                assert hello["stream"] == stream
                page.until("update", lambda header, _, name=line: header["state"]["rows"].get(name, 0) > 100)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_a_pipeline_is_shown_to_its_end(tmp_path: Path) -> None:
    write_ticks(tmp_path)
    with (
        started("ticks.toml", cwd=tmp_path) as (_, url),
        connect(f"{url.replace('http', 'ws')}live") as one,
    ):
        page = Page(one)
        page.read("hello", timeout=30)
        header, _ = page.until("update", lambda header, _: header["state"].get("ended"))
        assert header["state"]["rows"]["recent"] > 50
        assert header["state"]["lost"] > 0
    assert not (tmp_path / "out.csv").exists()


def test_beyond_loopback_the_address_has_a_token(tmp_path: Path) -> None:
    write_ticks(tmp_path)
    with started("ticks.toml", "--host", "0.0.0.0", cwd=tmp_path) as (_, url):
        plain, _, token = url.partition("?token=")
        assert len(token) >= 32
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(plain, timeout=5)
        asked = urllib.request.Request(f"{plain}metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=5) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a pipeline, as in muntin dashboard pipeline.toml, or give --demo."),
        (("x.toml", "--demo"), "name a pipeline"),
        (("--demo", "--token", "short"), "--token: a token needs at least 8 characters."),
        (
            ("--demo", "--port", "{taken}"),
            "cannot listen at 127.0.0.1, port {taken}: address already in use.",
        ),
        (("--demo", "--host", "no.such.host.invalid"), "cannot listen at no.such.host.invalid"),
        (("nothing.toml",), "nothing.toml cannot be read"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = muntin("dashboard", *(word.format(taken=port) for word in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("muntin: ")
    assert said.format(taken=port) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_has_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measures of a run can be read while it lasts."""
    write_ticks(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    read = []

    def step(self: object, counts: object) -> None:
        if counts.batches == counts.of:  # type: ignore[attr-defined]
            time.sleep(1.2)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                read.append(answer.read().decode())

    monkeypatch.setattr("muntin.cli.reports.Report.step", step)
    path = tmp_path / "ticks.toml"
    assert run([path], "embedded", fresh=False, as_lines=True, metrics_port=port) == 0
    assert re.search(r'muntin_records_total\{stream="ticks"\} [1-9]', read[0])
    assert 'muntin_rows_total{query="recent",stream="ticks"}' in read[0]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


def test_a_metrics_port_serves_no_page(tmp_path: Path) -> None:
    from muntin.dashboard import Dashboard
    from muntin.dashboard.guard import Access
    from muntin.dashboard.hub import Hub
    from muntin.dashboard.server import Server
    from tests.dashboard.pages import get, handshake

    server = Server({"one": Hub(title="one")}, Access(), 0, page=False)
    server.start()
    with Dashboard(server) as served:
        assert get(served, "/healthz")[0] == 200
        assert get(served, "/metrics", Host="evil.example")[0] == 403
        assert get(served, "/")[0] == 404
        refused, status = handshake(served)
        refused.close()
        assert status in (403, 404)
    assert os.listdir(tmp_path) == []
