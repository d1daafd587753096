"""The server: the page and its files, one socket, health and measures, in a thread of its own."""

from __future__ import annotations

import asyncio
import importlib.resources
import logging
import socket as sockets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from muntin.dashboard.clients import Clients
from muntin.dashboard.guard import Access, Guard, Limits
from muntin.dashboard.hub import Hub
from muntin.dashboard.measures import CONTENT, Measures

EVERY = 0.5  # seconds between two updates
_LOG = logging.getLogger("muntin.dashboard")
_THREADS = 3  # one for updates, as long as no more than two answers are slow
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageError(RuntimeError):
    """Files of the page are missing."""


class Droppable(WebSocketsSansIOProtocol):
    """A socket that the application can give up at once, without waiting for who does not read."""

    async def run_asgi(self) -> None:
        """Run the application with a way to break the connection off."""
        self.scope["state"]["abort"] = self.transport.abort
        await super().run_asgi()


def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the files of the page by address, read once: no name that a client sends is opened."""
    found: dict[str, tuple[str, bytes]] = {}
    root = importlib.resources.files("muntin.dashboard") / "page"
    for folder, prefix in ((root, "/"), (root / "vendor", "/vendor/")):
        for file in folder.iterdir() if folder.is_dir() else ():
            suffix = "." + file.name.rpartition(".")[2]
            if file.is_file() and suffix in _KINDS:
                found[prefix + file.name] = (_KINDS[suffix], file.read_bytes())
    if "/vendor/uPlot.esm.js" not in found:
        raise PageError("the chart library of the page is not built: run `make page` in the repository.")
    found["/"] = found["/index.html"]
    return found


class Server:
    """Serves hubs, by the name of their stream: to pages, to machines, or to both."""

    def __init__(
        self,
        hubs: Mapping[str, Hub],
        access: Access,
        port: int,
        *,
        allow_queries: bool = False,
        limits: Limits | None = None,
        page: bool = True,
    ) -> None:
        self.hubs, self.access, self.port = dict(hubs), access, port
        self.limits = limits or Limits()
        self.clients = Clients(self.hubs, self.limits, allow_queries=allow_queries)
        self._files = page_files() if page else {}
        self._measures = Measures(self.hubs, self.clients if page else None)
        self._failure: BaseException | None = None
        self._socket = _listen(access.host, port)
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self.app(page=page),
            ws=Droppable,
            log_level="warning",  # no line about requests: their addresses may hold the token
            access_log=False,
            lifespan="on",
            server_header=False,
            limit_concurrency=self.limits.connections,
            ws_max_size=self.limits.message,
            ws_ping_interval=20.0,
            ws_ping_timeout=20.0,
            ws_per_message_deflate=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="muntin dashboard", daemon=True)

    def app(self, *, page: bool) -> Callable[..., Awaitable[None]]:
        """Return the application, behind its guard."""
        routes: list[BaseRoute] = [Route("/healthz", self._health), Route("/metrics", self._metrics)]
        if page:
            routes += [WebSocketRoute("/live", self._live), Route("/{path:path}", self._file)]
        return Guard(Starlette(routes=routes, lifespan=self._updating), self.access)

    @property
    def address(self) -> str:
        """Where pages find it, without the token."""
        host = self.access.host if self.access.host not in ("0.0.0.0", "::") else "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self) -> None:
        """Serve from now on, in a thread; return when requests are answered."""
        try:
            for hub in self.hubs.values():
                hub.watch()
            self._thread.start()
            while not self._server.started:
                self._thread.join(0.01)
                if not self._thread.is_alive():
                    raise RuntimeError(f"the dashboard could not start: {self._failure or 'see the log'}.")
        except RuntimeError:
            self._close()
            raise

    def stop(self) -> None:
        """End all connections, and the thread."""
        self._server.should_exit = True
        self._thread.join(10)
        self._close()

    def _close(self) -> None:
        self._socket.close()
        for hub in self.hubs.values():
            hub.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve([self._socket]))
        except BaseException as error:
            self._failure = error
            _LOG.exception("the dashboard ended")

    # ---- updates ----

    @asynccontextmanager
    async def _updating(self, app: Any) -> AsyncIterator[MutableMapping[str, Any]]:
        """Bring the hub up to date while requests are answered."""
        del app
        # Each thread keeps memory of its own for what it has freed: few of them keep little.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "muntin dashboard"))
        task = asyncio.create_task(self._update())
        try:
            yield {}
        finally:
            task.cancel()

    async def _update(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            for name, hub in self.hubs.items():
                try:
                    await self.clients.tell(name, await asyncio.to_thread(hub.update))
                except Exception:
                    _LOG.exception("an update failed")  # the stream goes on, and so do the next updates
            due = max(due + EVERY, loop.time() + EVERY / 10)
            await asyncio.sleep(due - loop.time())

    # ---- requests ----

    async def _live(self, socket: WebSocket) -> None:
        await self.clients.join(socket, socket.query_params.get("stream"))

    async def _file(self, request: Request) -> Response:
        file = self._files.get(request.scope["path"])
        if file is None:
            return PlainTextResponse("There is no such page.\n", 404)
        kind, content = file
        return Response(content, media_type=kind)

    async def _health(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok\n")

    async def _metrics(self, request: Request) -> Response:
        del request
        return Response(await asyncio.to_thread(self._measures.text), media_type=CONTENT)


def _listen(host: str, port: int) -> sockets.socket:
    """Return a socket that listens, so that a taken port is known before anything starts."""
    listening = None
    try:
        found = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = sockets.socket(family, kind, protocol)
        listening.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(512)
    except OSError as error:
        if listening is not None:
            listening.close()
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"cannot listen at {host}, port {port}: {reason}") from error
    return listening
