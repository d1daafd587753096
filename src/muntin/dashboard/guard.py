"""The guard: who may ask for anything, told by Host, Origin and token, and how much a client may ask for.

A page of another site can make a browser send requests to addresses that only this machine reaches. So the
Host must be a name of this server (a name that was rebound to this address is none), and the Origin, if there
is one, must be the same. Where others can reach the server, each request needs the token as well.
"""

from __future__ import annotations

import hmac
import http.cookies
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """What one server grants; a client that wants more is refused or dropped."""

    clients: int = 100  # sockets at a time
    connections: int = 400  # of any kind at a time
    message: int = 32_768  # bytes that a client sends at once
    statement: int = 8_000  # characters of SQL
    waiting: int = 64  # frames that wait for a client
    unread: float = 2.5  # seconds within which a client says that it has read an update
    lanes: int = 24  # that a client watches
    keys: int = 16  # of one line
    width: int = 8_192  # columns of pixels
    asked_per_second: float = 40.0  # messages of a client, on the long run
    asked_at_once: float = 120.0
    queries: int = 64  # of an operator, with those that pages add


@dataclass(frozen=True)
class Access:
    """Where the server listens, and the token that requests need; None: none is needed."""

    host: str = "127.0.0.1"
    token: str | None = None

    @classmethod
    def of(cls, host: str, token: str | None) -> Access:
        """Return what a server at an address needs: beyond loopback, a token, made up if none is given."""
        if token is not None and len(token) < 8:
            raise ValueError("a token needs at least 8 characters.")
        if token is not None and not (token.isascii() and token.replace("-", "").replace("_", "").isalnum()):
            raise ValueError("a token has letters, digits, - and _ only.")
        return cls(host, token if token is not None or is_loopback(host) else secrets.token_urlsafe(24))

    def knows(self, name: str) -> bool:
        """Tell whether a name is one of this server: where it listens on all addresses, each address is."""
        if name in LOOPBACK or name == self.host.lower():
            return True
        if not self._anywhere:
            return False
        return is_address(name) or name == socket.gethostname().lower()

    @property
    def _anywhere(self) -> bool:
        return is_address(self.host) and ipaddress.ip_address(self.host).is_unspecified

    def admits(self, offered: str | None) -> bool:
        """Tell whether a token is the right one, in a time that does not say how much of it is."""
        if self.token is None:
            return True
        return hmac.compare_digest((offered or "").encode("utf-8", "replace"), self.token.encode())


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    """Tell whether a name is an address in numbers."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Lets requests and sockets through to an application that may ask for something."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or hand on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal is not None:
            await _refuse(scope, receive, send, 403, refusal)
        elif not self._access.admits(_offered(scope, headers)):
            await _refuse(scope, receive, send, 401, "This needs the token that was shown at the start.")
        elif scope["type"] == "http" and self._access.token is not None and _in_address(scope) is not None:
            # A token in the address bar stays in histories: it moves into a cookie that no script reads.
            moved = RedirectResponse("/" + scope["path"].lstrip("/"), 303, headers=HEADERS)
            moved.set_cookie(_cookie_name(headers), self._access.token, httponly=True, samesite="strict")
            await moved(scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)

    def _refusal(self, headers: Headers) -> str | None:
        """Return why a request is not for this server, or not from a page of its own; None if it is."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.knows(_host_name(hosts[0])):
            return "The Host is not one of this server."
        origins = headers.getlist("origin")
        if origins and (len(origins) > 1 or _place(origins[0]) != hosts[0].lower()):
            return "The Origin is another site."
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "The request comes from another site."
        return None


def _host_name(host: str) -> str:
    """Return a host without its port.

    >>> _host_name("[::1]:8765"), _host_name("localhost:8765")
    ('::1', 'localhost')
    """
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """Return the host and port of an origin; empty where it has none, as "null" does."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def _in_address(scope: Scope) -> str | None:
    try:
        found = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=8).get("token")
    except ValueError:  # more fields than any page has
        return None
    return found[0] if found else None


def _offered(scope: Scope, headers: Headers) -> str | None:
    """Return the token that a request brings: as a bearer, in the cookie, or in the address of the page."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    in_address = _in_address(scope) if scope["type"] == "http" else None
    if in_address is not None:
        return in_address
    cookie = http.cookies.SimpleCookie()
    try:
        cookie.load(headers.get("cookie", ""))
    except http.cookies.CookieError:
        return None
    name = _cookie_name(headers)
    return cookie[name].value if name in cookie else None


def _cookie_name(headers: Headers) -> str:
    """Return the name of the cookie, one for each port: browsers send those of a host to all of its ports.

    >>> _cookie_name(Headers({"host": "127.0.0.1:8765"})), _cookie_name(Headers({"host": "example.org"}))
    ('muntin_token_8765', 'muntin_token_80')
    """
    try:
        port = urlsplit(f"//{headers.get('host', '')}").port
    except ValueError:
        port = None
    return f"muntin_token_{port or 80}"


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
    if scope["type"] == "http":
        await PlainTextResponse(why + "\n", status, headers=HEADERS)(scope, receive, send)
        return
    await send({"type": "websocket.close", "code": 1008, "reason": why})  # before it is accepted: a 403


def _with_headers(send: Send) -> Send:
    """Add to each answer what browsers must keep to."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: list[Any] = list(message.get("headers", []))
            named = {name for name, _ in own}
            own += [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in named]
            message = {**message, "headers": own}
        await send(message)

    return sent
