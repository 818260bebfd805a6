"""A deadline for reads that have none of their own."""

from __future__ import annotations

import socket
import threading
from typing import Any, Optional

import httpx


def socket_of(response: httpx.Response) -> Optional[Any]:
    """The socket that an HTTP/1.1 answer comes from; ``None`` if it is shared with others, or hidden."""
    if response.http_version == "HTTP/2":
        return None
    stream = response.extensions.get("network_stream")
    return None if stream is None else stream.get_extra_info("socket")


def shut(connection: Any) -> None:
    """Breaks a connection; whoever reads from it in another thread wakes up."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already


class Watch:
    """Breaks the HTTP/1.1 connection of an answer after some seconds, unless it is ended before.

    httpcore gives every read of an HTTP/1.1 body the time that the first one had, so that a server that sends byte by
    byte would never reach the deadline. For HTTP/2 it asks for the time before each read; there nothing is broken.
    """

    __slots__ = ("_timer", "has_fired")

    def __init__(self, response: httpx.Response, seconds: float) -> None:
        self.has_fired = False
        self._timer: Optional[threading.Timer] = None
        connection = socket_of(response)
        if connection is not None:
            self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._fire, [connection])
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self, connection: Any) -> None:
        self.has_fired = True
        shut(connection)
