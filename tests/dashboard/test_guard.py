"""Strangers get nothing: each test fails if the guard that it is about is taken away."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import socket
import time
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from muntin.dashboard import Dashboard, serve
from muntin.dashboard.guard import Access, Limits
from tests.dashboard.pages import SQL, batch, get, handshake, operator, page

TOKEN = "a-token-of-tests"


@pytest.fixture
def open_to_all() -> Iterator[Dashboard]:
    with serve(operator(), port=0) as dashboard:
        yield dashboard


@pytest.fixture
def closed() -> Iterator[Dashboard]:
    with serve(operator(), host="0.0.0.0", port=0, token=TOKEN) as dashboard:
        yield dashboard


def test_listens_on_loopback_only_by_default(open_to_all: Dashboard) -> None:
    assert open_to_all.server.access == Access("127.0.0.1", None)
    address = open_to_all.server._socket.getsockname()[0]
    assert address == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics"])
def test_foreign_host_is_refused(open_to_all: Dashboard, path: str) -> None:
    assert get(open_to_all, path)[0] == 200
    for host in (
        "evil.example",
        f"evil.example:{open_to_all.port}",
        "127.0.0.1.evil.example",
        "192.168.1.1",
        "",
    ):
        assert get(open_to_all, path, Host=host)[0] in (400, 403), host


def test_socket_of_a_foreign_host_is_refused(open_to_all: Dashboard) -> None:
    for host in ("evil.example", f"evil.example:{open_to_all.port}", "192.168.1.1"):
        asked, status = handshake(open_to_all, Host=host)
        asked.close()
        assert status == 403, host


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example:{port}", "file://"],
)
def test_foreign_origin_is_refused(open_to_all: Dashboard, origin: str) -> None:
    named = origin.format(port=open_to_all.port)
    assert get(open_to_all, "/metrics", Origin=named)[0] == 403
    with pytest.raises(InvalidStatus, match="403"), page(open_to_all, Origin=named):
        pass


def test_own_origin_is_let_in(open_to_all: Dashboard) -> None:
    with page(open_to_all, Origin=f"http://127.0.0.1:{open_to_all.port}") as one:
        assert one.read()[0]["type"] == "hello"


def test_no_token_and_wrong_tokens_are_refused(closed: Dashboard) -> None:
    for path in ("/", "/app.js", "/healthz", "/metrics", f"/?token={TOKEN}x", "/?token=", f"/?other={TOKEN}"):
        assert get(closed, path)[0] == 401, path
    for bearer in ("", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}é", f"Basic {TOKEN}"):
        assert get(closed, "/metrics", Authorization=bearer)[0] == 401, bearer
    assert get(closed, "/metrics", Cookie=f"muntin_token_{closed.port}={TOKEN[:-1]}")[0] == 401
    other = f"muntin_token_{closed.port + 1}={TOKEN}"  # of another server on this host
    assert get(closed, "/metrics", Cookie=other)[0] == 401
    assert get(closed, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert get(closed, "/metrics", Cookie=f"muntin_token_{closed.port}={TOKEN}")[0] == 200


def test_sockets_need_the_token(closed: Dashboard) -> None:
    for headers in ({}, {"Cookie": f"muntin_token_{closed.port}=wrong-one"}):
        with pytest.raises(InvalidStatus, match="403"), page(closed, **headers):
            pass
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{closed.port}/live?token={TOKEN}")  # not in an address, which gets logged
    with page(closed, Cookie=f"muntin_token_{closed.port}={TOKEN}") as one:
        assert one.read()[0]["type"] == "hello"


def test_token_in_the_address_moves_into_a_cookie(closed: Dashboard) -> None:
    status, headers, _ = get(closed, f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].lower()
    assert TOKEN in cookie
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("muntin.dashboard.guard.hmac.compare_digest", compare)
    assert not Access("0.0.0.0", TOKEN).admits("wrong")
    assert not Access("0.0.0.0", TOKEN).admits(None)
    assert len(compared) == 2


def test_beyond_loopback_a_token_is_made_up() -> None:
    made = Access.of("0.0.0.0", None).token
    assert made is not None
    assert len(made) >= 32
    assert Access.of("0.0.0.0", None).token != made
    assert Access.of("localhost", None).token is None
    for bad in ("short", "with space in it", "semi;colon;;"):
        with pytest.raises(ValueError, match="token"):
            Access.of("127.0.0.1", bad)


def test_token_is_in_no_log(
    closed: Dashboard, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    get(closed, f"/?token={TOKEN}")
    get(closed, "/", Cookie=f"muntin_token_{closed.port}={TOKEN}")
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{closed.port}/live?token={TOKEN}")
    with page(closed, Cookie=f"muntin_token_{closed.port}={TOKEN}") as one:
        one.read()
    out, err = capfd.readouterr()
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("websockets.client")]
    assert TOKEN not in out + err + "\n".join(ours) + repr(closed) + closed._repr_html_()


def test_pages_may_load_nothing_from_elsewhere(open_to_all: Dashboard) -> None:
    for path in ("/", "/app.js", "/nothing", "/metrics"):
        headers = get(open_to_all, path)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/../guard.py",
        "/%2e%2e/guard.py",
        "/vendor/../../guard.py",
        "/..%2fguard.py",
        "//etc/passwd",
        "/vendor/..%5c..%5cguard.py",
        "/guard.py",
        "/%00",
        "/vendor/",
        "/index.html/..",
    ],
)
def test_no_path_leads_to_other_files(open_to_all: Dashboard, path: str) -> None:
    status, _, text = get(open_to_all, path)
    assert status in (400, 404)
    assert "root:" not in text
    assert "import" not in text


def test_files_are_read_before_anybody_asks(open_to_all: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened for a client")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    assert get(open_to_all, "/")[0] == 200
    assert get(open_to_all, "/../../etc/passwd")[0] == 404


def test_oversized_messages_end_the_connection(open_to_all: Dashboard) -> None:
    limit = open_to_all.server.limits.message
    with page(open_to_all) as one:
        one.read("hello")
        one.socket.send("x" * (limit + 1))
        with pytest.raises(ConnectionClosed) as caught:
            one.until("none", lambda *_: False)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


def test_messages_that_are_no_questions_are_refused(open_to_all: Dashboard) -> None:
    with page(open_to_all) as one:
        one.read("hello")
        bad = [
            "",
            "[]",
            "{",
            "[" * 20_000,
            '{"type": 5}',
            '{"type": "nothing"}',
            '{"type": "view", "id": 1, "start": 1e400}',
        ]
        for text in bad:
            one.socket.send(text)
            assert one.read("error")[0]["message"]
        asked = {"query": "line", "column": "line", "keys": [0], "start": 0, "end": 10, "width": 100}
        wrongs: list[dict[str, object]] = [{"width": wrong} for wrong in (10**9, 0, 1.5, None)]
        wrongs += [{"keys": wrong} for wrong in ([-1], list(range(1000)), "0", [0.5])]
        wrongs += [{"start": 20}, {"end": None}, {"query": 7}, {"query": "x" * 1000}, {"end": True}]
        for wrong in wrongs:
            header, _ = one.ask(type="view", **{**asked, **wrong})
            assert header["type"] == "error", wrong
        assert one.ask(type="view", **asked)[0]["type"] == "view"


def test_too_many_messages_end_the_connection(open_to_all: Dashboard) -> None:
    with page(open_to_all) as one:
        one.read("hello")
        with contextlib.suppress(ConnectionClosed):
            for _ in range(3000):
                one.say(type="read", n=0)
        with pytest.raises(ConnectionClosed) as caught:
            one.until("none", lambda *_: False)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


def test_pages_are_read_only_unless_queries_are_allowed(open_to_all: Dashboard) -> None:
    with page(open_to_all) as one:
        for message in ({"type": "add", "sql": SQL}, {"type": "remove", "name": "tens"}):
            header, _ = one.ask(**message)
            assert header["type"] == "error"
            assert "read-only" in header["message"]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE cars",
        "SELECT * FROM cars",
        "SELECT 1",
        "",
        "COPY cars TO '/tmp/x'",
        "SELECT read_csv('/etc/passwd')",
        SQL.replace("cars", "read_parquet('/etc/passwd')"),
        f"{SQL}; DROP TABLE cars",
        f"{SQL}; {SQL}",
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "x" * 9000,
        "INSERT INTO cars VALUES (1)",
        "ATTACH 'x.db'",
        "PRAGMA database_list",
    ],
)
def test_sql_that_is_no_window_query_is_refused(sql: str) -> None:
    op = operator()
    with serve(op, port=0, allow_queries=True) as dashboard, page(dashboard) as one:
        header, _ = one.ask(type="add", sql=sql)
        assert header["type"] == "error", header
        assert "Traceback" not in header["message"]
    assert list(op.queries) == ["tens", "top", "trips", "line"]


def test_long_statements_are_refused() -> None:
    op = operator()
    with serve(op, port=0, allow_queries=True) as dashboard, page(dashboard) as one:
        op.process(batch([1, 4]))
        long = SQL + " " * dashboard.server.limits.statement
        assert "at most 8000 characters" in one.ask(type="add", sql=long)[0]["message"]
        assert one.ask(type="add", sql=SQL)[0]["type"] == "add"


def test_queries_are_bounded() -> None:
    op = operator()
    with (
        serve(op, port=0, allow_queries=True, limits=Limits(queries=5)) as dashboard,
        page(dashboard) as one,
    ):
        op.process(batch([1, 4]))
        assert one.ask(type="add", sql=SQL)[0]["type"] == "add"
        assert "remove one first" in one.ask(type="add", sql=SQL)[0]["message"]


def test_a_thousand_connections_leave_others_be(open_to_all: Dashboard) -> None:
    """Of 1,000 sockets only as many are let in as may be; a page that was there before is served on."""
    held, refused = [], 0
    with page(open_to_all) as first:
        first.read("hello")
        try:
            for _ in range(1000):
                one, status = handshake(open_to_all)
                if status == 101:
                    held.append(one)
                else:
                    refused += 1
                    one.close()
            assert len(open_to_all.server.clients) <= open_to_all.server.limits.clients
            assert refused >= 1000 - open_to_all.server.limits.clients - 200  # some may be dropped meanwhile
            assert first.read("update")[0]["state"]
        finally:
            for one in held:
                one.close()
        deadline = time.monotonic() + 5
        while len(open_to_all.server.clients) > 1 and time.monotonic() < deadline:
            first.read("update")
        with page(open_to_all) as later:
            assert later.read()[0]["type"] == "hello"


def test_more_clients_than_may_be_are_refused() -> None:
    with serve(operator(), port=0, limits=Limits(clients=2)) as dashboard, page(dashboard), page(dashboard):
        with pytest.raises(InvalidStatus, match="403"), page(dashboard):
            pass
        assert dashboard.server.clients.refused == 1


def test_a_client_that_never_reads_is_dropped_within_5_s() -> None:
    op = operator()
    with serve(op, port=0) as dashboard, page(dashboard) as good:
        good.read("hello")
        silent, status = handshake(dashboard)
        assert status == 101
        began = time.monotonic()
        while not dashboard.server.clients.dropped and time.monotonic() - began < 8:
            op.process(batch([int((time.monotonic() - began) * 100)]))
            good.read("update")
        assert time.monotonic() - began < 5
        assert dashboard.server.clients.dropped == 1
        assert len(dashboard.server.clients) == 1
        assert _ended(silent)


def _ended(connection: socket.socket) -> bool:
    """Tell whether a connection is over, once what was under way is read."""
    with connection, contextlib.suppress(ConnectionError):
        connection.settimeout(2)
        while connection.recv(1 << 16):
            pass
    return True


def test_a_taken_port_is_told_before_anything_starts(open_to_all: Dashboard) -> None:
    op = operator()
    with pytest.raises(OSError, match=f"port {open_to_all.port}"):
        serve(op, port=open_to_all.port)
    assert op._watcher is None


def test_headers_are_not_doubled(open_to_all: Dashboard) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", open_to_all.port)
    connection.request("GET", "/healthz")
    names = [name.lower() for name, _ in connection.getresponse().getheaders()]
    assert len(names) == len(set(names))
    assert "server" not in names
    connection.close()


def test_messages_hold_no_paths_of_this_machine(open_to_all: Dashboard) -> None:
    with page(open_to_all) as one:
        told = json.dumps(one.read("hello")[0])
    assert os.getcwd() not in told
