"""The connections of a client: how many, for how long, and in which process and event loop."""

from __future__ import annotations

import os
import sys
from typing import Callable, Optional, TypeVar

import httpx

from ._errors import ConfigurationError
from ._head_deadline import with_deadlines

_H = TypeVar("_H")

# As many calls at once as the operating system lets one process have sockets by default, in round numbers.
_MAX_CONNECTIONS = 1000
# The gateway closes an idle connection after 75 s. One that is used at that very moment would break, so ours go first.
_KEEP_ALIVE_S = 60.0
_MAX_IDLE_CONNECTIONS = 100

LIMITS = httpx.Limits(
    max_connections=_MAX_CONNECTIONS,
    max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
    keepalive_expiry=_KEEP_ALIVE_S,
)


class Connections:
    """The `httpx.Client` of a client.

    One of our own is made anew after a fork: the connections that the child inherits are still its parent's, and
    answers would come to whoever reads first. One that was given is used as it is.
    """

    __slots__ = ("_is_ours", "_pid", "http")

    def __init__(self, given: Optional[httpx.Client]) -> None:
        self._is_ours = given is None
        self._pid = os.getpid()
        self.http = _blocking() if given is None else given

    def here(self) -> httpx.Client:
        """The one to send with in this process."""
        if self._is_ours and self._pid != os.getpid():
            # the other is not closed, since another thread may have held its locks at the fork
            if not self.http.is_closed:
                self.http = _blocking()
            self._pid = os.getpid()
        return self.http

    def close(self) -> None:
        if self._is_ours:
            self.here().close()


class AsyncConnections:
    """The same of an asynchronous client; one of our own is made anew in another event loop, too.

    Connections belong to the loop in which they were made: notebooks and a second ``asyncio.run`` come with another.
    """

    __slots__ = ("_is_ours", "_place", "http")

    def __init__(self, given: Optional[httpx.AsyncClient]) -> None:
        self._is_ours = given is None
        self._place: object = None
        self.http = _asynchronous() if given is None else given

    def here(self) -> httpx.AsyncClient:
        """The one to send with in this process and event loop."""
        if self._is_ours:
            place = (os.getpid(), _event_loop())
            if self._place != place:
                if self._place is not None and not self.http.is_closed:
                    self.http = _asynchronous()
                self._place = place
        return self.http

    async def close(self) -> None:
        if self._is_ours:
            await self.here().aclose()


def _event_loop() -> object:
    """The running one; what runs has been imported."""
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None if trio is None else trio.lowlevel.current_trio_token()


def _blocking() -> httpx.Client:
    # HTTP/1.1: the threads that share a connection over HTTP/2 break it and add up their deadlines (decision 0014)
    return with_deadlines(_made(lambda: httpx.Client(limits=LIMITS)))


def _asynchronous() -> httpx.AsyncClient:
    return _made(lambda: httpx.AsyncClient(http2=True, limits=LIMITS))


def _made(make: Callable[[], _H]) -> _H:
    """Raises `ConfigurationError` for what httpx can't use of the environment."""
    try:
        return make()
    except (OSError, ImportError, ValueError, httpx.InvalidURL) as error:
        # the text of the last two may show the proxy's password
        raise ConfigurationError(
            f"no HTTP client can be made with this environment ({type(error).__name__}): check SSL_CERT_FILE, "
            "SSL_CERT_DIR, HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; for a SOCKS proxy install httpx[socks]"
        ) from (error if isinstance(error, (OSError, ImportError)) else None)
