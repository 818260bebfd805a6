"""A deadline for the head of an answer, on connections of our own.

httpcore gives each read of a head the whole time-out, so that a server that sends its head byte by byte, or one interim
answer after the other, would be listened to for ever; and a blocking `httpx.Client` shows no socket before the head is
whole. So the sockets of our own clients take what is left of the deadline, which the calling thread has set. httpx has
no public way to give its pool a network backend: where the attribute is not found, each read has the whole time-out,
as with a client that the application gave.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any, Generator, Optional

import httpx

# What is left when the deadline has passed: a socket that may not wait at all would say so with another error.
_AT_ONCE_S = 0.001


class _Deadline(threading.local):
    at_s: Optional[float] = None


_deadline = _Deadline()


@contextmanager
def head_within(seconds: float) -> Generator[None, None, None]:
    """Reads of this thread from our own connections end by then, together."""
    _deadline.at_s = time.monotonic() + seconds
    try:
        yield
    finally:
        _deadline.at_s = None


def with_deadlines(http: httpx.Client) -> httpx.Client:
    """The client, whose connections obey `head_within` from now on."""
    mounted: Any = getattr(http, "_mounts", {})
    for transport in (getattr(http, "_transport", None), *mounted.values()):
        pool: Any = getattr(transport, "_pool", None)
        if hasattr(pool, "_network_backend"):
            pool._network_backend = _Backend(pool._network_backend)
    return http


class _Wrapped:
    """Everything but what a subclass changes is the wrapped object's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Backend(_Wrapped):
    def connect_tcp(self, *args: Any, **options: Any) -> "_Stream":
        return _Stream(self._inner.connect_tcp(*args, **options))


class _Stream(_Wrapped):
    def read(self, max_bytes: int, timeout: Optional[float] = None) -> Any:
        at_s = _deadline.at_s
        if at_s is not None:
            left_s = max(at_s - time.monotonic(), _AT_ONCE_S)
            timeout = left_s if timeout is None else min(timeout, left_s)
        return self._inner.read(max_bytes, timeout)

    def start_tls(self, *args: Any, **options: Any) -> "_Stream":
        return _Stream(self._inner.start_tls(*args, **options))
