"""What tests of the dashboard share: operators that are served, and clients that talk to them."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

import muntin as mt
from muntin.dashboard import Dashboard
from muntin.dashboard.frames import decode

SQL = "SELECT car, window_start, AVG(speed) AS fast FROM TUMBLE(cars, ts, 20) GROUP BY car, window_start"


def operator(**options: Any) -> mt.WindowOperator:
    """An operator over two cars."""
    queries = [
        mt.tumbling(10).agg(n=mt.count(), avg=mt.mean("speed"), name="tens"),
        mt.sliding(20, every=5).agg(top=mt.max("speed"), name="top"),
        mt.session(3).agg(n=mt.count(), name="trips"),
        mt.tumbling(5).agg(line=mt.m4("speed"), name="line"),
    ]
    settings: dict[str, Any] = {"watermark": 2, "lateness": 50, **options}
    return mt.WindowOperator(queries, time="ts", key="car", **settings)


def batch(times: list[int], car: str = "a") -> dict[str, Any]:
    """Records of a car, whose speed is its time."""
    return {"ts": times, "car": [car] * len(times), "speed": [float(t) for t in times]}


def get(dashboard: Dashboard, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of an answer; the path is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=5)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers=named)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def handshake(dashboard: Dashboard, **headers: str) -> tuple[socket.socket, int]:
    """Ask for a socket as any program may, and return it with the status of the answer."""
    named = {"Host": f"127.0.0.1:{dashboard.port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    asked = socket.create_connection(("127.0.0.1", dashboard.port), timeout=5)
    lines = ["GET /live HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    asked.sendall("\r\n".join([*lines, f"Sec-WebSocket-Key: {'A' * 22}==", "", ""]).encode())
    return asked, int(asked.recv(12).split()[1])


class Page:
    """A page without a browser: reads frames, says what it has read, and asks."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._asked = 0

    def read(self, kind: str | None = None, timeout: float = 5) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the next frame of a kind; updates are said to be read."""
        until = time.monotonic() + timeout
        while True:
            frame = self.socket.recv(timeout=max(0.01, until - time.monotonic()))
            assert isinstance(frame, bytes)
            header, arrays = decode(frame)
            if header["type"] == "update":
                self.say(type="read", n=header["n"])
            if kind in (None, header["type"]):
                return header, arrays

    def until(self, kind: str, holds: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Any:
        """Read until a frame of a kind fulfils a condition; return it."""
        for _ in range(40):
            header, arrays = self.read(kind)
            if holds(header, arrays):
                return header, arrays
        raise AssertionError(f"no {kind} was as it should be")

    def say(self, **message: Any) -> None:
        """Send a message."""
        self.socket.send(json.dumps(message))

    def ask(self, **message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Send a message and return what answers it, an error too."""
        self._asked += 1
        self.say(id=self._asked, **message)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            header, arrays = self.read(timeout=20)
            if header.get("id") == self._asked:
                return header, arrays
        raise AssertionError("there was no answer")


@contextmanager
def page(dashboard: Dashboard, **headers: str) -> Iterator[Page]:
    """Open a page."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with connect(f"ws://127.0.0.1:{dashboard.port}/live", additional_headers=named) as socket:
        yield Page(socket)
