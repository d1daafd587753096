"""Clients: the sockets of pages. The stream never waits for one: who does not keep up is dropped."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from muntin.console.mistakes import one_line
from muntin.dashboard.answers import Answers, Asked, RefusedError, Watched
from muntin.dashboard.frames import encode
from muntin.dashboard.guard import Limits
from muntin.dashboard.hub import Hub, News

_TOO_MUCH, _TRY_LATER = 1009, 1013  # codes with which sockets are closed


class Client:
    """One page: what waits for it, and what it has said that it has read."""

    def __init__(self, socket: WebSocket, answers: Answers, limits: Limits) -> None:
        self.watched = Watched()
        self._socket, self._answers, self._limits = socket, answers, limits
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(limits.waiting)
        self._asked: asyncio.Queue[Asked] = asyncio.Queue(limits.waiting)
        self._unread: deque[tuple[int, float]] = deque()  # updates, and when each was put
        self._tokens, self._filled = limits.asked_at_once, time.monotonic()
        self._dropped = asyncio.Event()
        self.why: str | None = None

    async def serve(self) -> None:
        """Talk until the page goes or is dropped."""
        tasks = [
            asyncio.create_task(work())
            for work in (self._send, self._receive, self._work, self._dropped.wait)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        if self._dropped.is_set():
            self._abort()
            return
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, (WebSocketDisconnect, RuntimeError)):
                raise result

    def _abort(self) -> None:
        """Give the connection up at once: what waits in buffers for one who does not read is freed."""
        abort: Callable[[], None] | None = self._socket.scope.get("state", {}).get("abort")
        if abort is not None:
            abort()

    def drop(self, why: str) -> None:
        """End the connection."""
        self.why = why
        self._dropped.set()

    def put(self, frame: bytes) -> None:
        """Let a frame wait for the page; drop a page that lets too many wait."""
        try:
            self._frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.drop("too many frames wait")

    def put_update(self, number: int, frame: bytes) -> None:
        """Let an update wait for the page, unless it has not read one for long: then drop it."""
        now = time.monotonic()
        if self._unread and now - self._unread[0][1] > self._limits.unread:
            self.drop("updates are not read")
            return
        self._unread.append((number, now))
        self.put(frame)

    async def _send(self) -> None:
        while True:
            await self._socket.send_bytes(await self._frames.get())

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None or not self._may_ask():
                await self._socket.close(_TOO_MUCH, "too much was asked")
                return
            self._take(text)

    def _may_ask(self) -> bool:
        """Tell whether a client asks slowly enough: it has so many messages at once, and gets some back."""
        now = time.monotonic()
        gained = (now - self._filled) * self._limits.asked_per_second
        self._tokens = min(self._limits.asked_at_once, self._tokens + gained)
        self._filled = now
        self._tokens -= 1
        return self._tokens >= 0

    def _take(self, text: str) -> None:
        """Take a message in; what must be computed waits its turn, so that what was read is always heard."""
        asked = Asked()
        try:
            asked = Asked.of(text, self._limits)
            kind = asked.text("type", 20)
            if kind == "read":
                self._read(asked.whole("n", 0, 2**53))
            elif kind == "watch":
                self.watched = self._answers.watched(asked)
            else:
                self._asked.put_nowait(asked)
        except RefusedError as error:
            self._refuse(asked, error)
        except asyncio.QueueFull:
            self.drop("too much is asked")

    async def _work(self) -> None:
        """Compute answers in another thread, one after the other, and let each wait for the page."""
        while True:
            asked = await self._asked.get()
            frames = self._answers.answer(asked)
            try:
                while (frame := await asyncio.to_thread(next, frames, None)) is not None:
                    self.put(frame)
            except (ValueError, TypeError, KeyError, OverflowError, RuntimeError) as error:
                self._refuse(asked, error)

    def _refuse(self, asked: Asked, error: Exception) -> None:
        number = asked.values.get("id")
        self.put(
            encode(
                {
                    "type": "error",
                    "id": number if isinstance(number, int) else None,
                    "message": one_line(error),
                }
            )
        )

    def _read(self, number: int) -> None:
        while self._unread and self._unread[0][0] <= number:
            self._unread.popleft()


class Clients:
    """All pages of a server, each of which shows one stream."""

    def __init__(self, hubs: Mapping[str, Hub], limits: Limits, *, allow_queries: bool) -> None:
        self.limits = limits
        self.dropped = self.refused = 0
        self._answers = {n: Answers(hub, limits, allow_queries=allow_queries) for n, hub in hubs.items()}
        self._clients: dict[Client, str] = {}
        self._told: dict[str, Any] = {}  # what pages know of each stream

    def __len__(self) -> int:
        return len(self._clients)

    async def join(self, socket: WebSocket, stream: str | None) -> None:
        """Serve a page until it goes; refuse it if there are too many, or no such stream."""
        stream = next(iter(self._answers)) if stream is None else stream
        if len(self._clients) >= self.limits.clients or stream not in self._answers:
            self.refused += 1
            await socket.close(_TRY_LATER, "too many pages are open, or there is no such stream")
            return
        answers = self._answers[stream]
        client = Client(socket, answers, self.limits)
        self._clients[client] = stream
        try:
            await socket.accept()
            client.put(answers.hello(list(self._answers), stream))
            await client.serve()
        finally:
            del self._clients[client]
            self.dropped += client.why is not None

    async def tell(self, stream: str, news: News) -> None:
        """Let an update wait for each page of a stream; those who watch the same get the same frame."""
        answers = self._answers[stream]
        known = answers.hub.known()
        changed = answers.changed() if self._told.get(stream) != known else None
        self._told[stream] = known
        told = {client: client.watched for client, shown in self._clients.items() if shown == stream}
        frames = await asyncio.to_thread(_frames, answers, news, set(told.values()))
        for client, watched in told.items():
            if changed is not None:
                client.put(changed)
            if watched in frames:
                client.put_update(news.number, frames[watched])


def _frames(answers: Answers, news: News, watched: set[Watched]) -> dict[Watched, bytes]:
    return {one: answers.update(news, one) for one in watched}


__all__ = ["Client", "Clients", "RefusedError"]
