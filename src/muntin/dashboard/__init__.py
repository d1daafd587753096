"""The dashboard: a page that shows windows open, close, get corrected and share slices.

`serve(operator)` puts it beside an operator, whoever calls that: rows of all its calls reach the page. What
is served, and to whom, is in `server` and `guard`; what is known of the stream in `hub`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.dashboard.guard import Limits
    from muntin.dashboard.server import Server
    from muntin.operator import WindowOperator

PORT = 8765


class Dashboard:
    """A dashboard that is being served; `stop()` ends it, and so does leaving a `with` block."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def url(self) -> str:
        """The address of the page; with the token, if it needs one."""
        token = self._server.access.token
        return self._server.address + (f"?token={token}" if token is not None else "")

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._server.port

    @property
    def server(self) -> Server:
        """What serves it."""
        return self._server

    def stop(self) -> None:
        """End it; the operator goes on unwatched."""
        self._server.stop()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Dashboard({self._server.address})"

    def _repr_html_(self) -> str:
        """Show the address in notebooks."""
        address = self._server.address
        return f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'


def serve(
    operator: WindowOperator,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    allow_queries: bool = False,
    title: str = "muntin",
    limits: Limits | None = None,
) -> Dashboard:
    """Serve a page that shows an operator at work; needs `muntin[dashboard]`.

    Arguments:
        operator: Whose calls are shown. It goes on in the threads that call it.
        host: The address to listen at. At any other than loopback, each request needs a token.
        port: The port; 0 takes a free one.
        token: What requests must bring. Beyond loopback, one is made up if none is given: see `url`.
        allow_queries: Let pages add queries, and remove them.
        title: What the page is called.
        limits: How much clients may ask for.

    >>> import muntin as mt
    >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    >>> with serve(op, port=0) as dashboard:
    ...     _ = op.process({"ts": [1, 4, 12]})
    ...     dashboard.url.startswith("http://127.0.0.1:")
    True
    """
    from muntin.dashboard.guard import Access
    from muntin.dashboard.hub import Hub
    from muntin.dashboard.server import Server

    access = Access.of(host, token)
    server = Server(
        {title: Hub(operator, title=title)}, access, port, allow_queries=allow_queries, limits=limits
    )
    server.start()
    return Dashboard(server)


__all__ = ["PORT", "Dashboard", "serve"]
