"""Tells an HTTP/2 server that nobody waits for an answer any more.

httpcore ends the reading of an HTTP/2 answer without a RST_STREAM (encode/httpcore#943, "wontfix"): the server goes on
sending, its node goes on generating, the stream counts as open until the connection takes no more, and what nobody
reads uses up the window that the other streams share. So whoever leaves an answer before its end calls this: it resets
what h2 thinks is open and httpcore has forgotten. httpcore has no public way to its connections; where these
attributes are not found (another transport) nothing happens, and HTTP/1.1 does not need it, since there the
connection is closed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Iterator, Tuple

import httpx

_CANCEL = 8  # RFC 9113, section 7


class _Limit:
    """In the place of a request: httpcore looks its time-outs up there."""

    extensions = MappingProxyType({"timeout": {"write": 5.0}})


def reset_abandoned(http: httpx.Client) -> None:
    """Resets every stream of this client that nobody reads."""
    for connection in _with_abandoned_streams(http):
        try:
            connection._write_outgoing_data(_Limit)
        except Exception:  # the connection is gone, and with it the streams
            pass


async def reset_abandoned_async(http: httpx.AsyncClient) -> None:
    """Resets every stream of this client that nobody reads."""
    connections = list(_with_abandoned_streams(http))
    if not connections:
        return
    import anyio

    # the caller may be on its way out of a cancelled task
    with anyio.move_on_after(5.0, shield=True):
        for connection in connections:
            try:
                await connection._write_outgoing_data(_Limit)
            except Exception:  # the connection is gone, and with it the streams
                pass


def _with_abandoned_streams(http: Any) -> Iterator[Any]:
    transports = [getattr(http, "_transport", None), *getattr(http, "_mounts", {}).values()]
    for transport in transports:
        pool = getattr(transport, "_pool", None)
        for pooled in tuple(getattr(pool, "_connections", ())):
            connection = _http2_connection(pooled)
            if connection is not None and _reset(connection):
                yield connection


def _http2_connection(pooled: Any) -> Any:
    """The HTTP/2 connection in a pool's entry, which may be wrapped for a proxy."""
    for _ in range(4):
        if pooled is None or hasattr(pooled, "_h2_state"):
            return pooled
        pooled = getattr(pooled, "_connection", None)
    return None


def _reset(connection: Any) -> bool:
    state = connection._h2_state
    streams: Tuple[Tuple[int, Any], ...] = tuple(state.streams.items())
    has_reset = False
    for stream_id, stream in streams:
        # even ids are the server's own
        if stream_id % 2 == 1 and not stream.closed and stream_id not in connection._events:
            try:
                state.reset_stream(stream_id, error_code=_CANCEL)
                has_reset = True
            except Exception:  # it closed in the meantime
                pass
    return has_reset
