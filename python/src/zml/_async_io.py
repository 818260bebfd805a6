"""Plays calls on an `httpx.AsyncClient`, under asyncio and trio. Its twin for `httpx.Client` is `_io.py`."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import httpx

from ._call import HTTPX_FAULTS, Call
from ._connections import AsyncConnections
from ._endpoints import is_event_stream, not_a_stream
from ._events import EventReader, T
from ._head import Head
from ._http2 import reset_abandoned_async
from ._runtime import Runtime
from ._stream import AsyncStream, close_early

_A = TypeVar("_A")


class AsyncIO:
    """The calls of one client."""

    __slots__ = ("_connections", "_runtime")

    def __init__(self, connections: AsyncConnections, runtime: Runtime) -> None:
        self._connections = connections
        self._runtime = runtime

    async def answer(self, call: Call, read: Callable[[Head, bytes], _A]) -> _A:
        """The whole answer. Raises `ZMLError`."""
        http = self._connections.here()
        # not at the top: httpx itself imports it when it is needed
        import anyio

        head: Optional[Head] = None
        try:
            with anyio.fail_after(call.remaining_s()):
                response, head = await self._send(http, call)
                body = await self._read_body(http, call, response)
        except (TimeoutError, *HTTPX_FAULTS) as fault:
            raise call.fault_error(fault, head) from fault
        return read(head, body)

    async def stream(
        self, call: Call, make: Callable[[Dict[str, Any]], T], text_of: Callable[[Dict[str, Any]], str]
    ) -> AsyncStream[T]:
        """The stream, once its head is here. Raises `ZMLError`."""
        http = self._connections.here()
        import anyio

        try:
            with anyio.fail_after(call.remaining_s()):
                response, head = await self._send(http, call)
        except TimeoutError as fault:
            raise call.timeout_error() from fault
        if not is_event_stream(head):
            await response.aclose()
            await reset_abandoned_async(http)
            raise not_a_stream(head)
        return AsyncStream(http, response, EventReader(head, make, text_of), call)

    async def _send(self, http: httpx.AsyncClient, call: Call) -> Tuple[httpx.Response, Head]:
        """The first answer that is a success, its body not yet read."""
        while True:
            request = call.request(http)
            try:
                response = await http.send(request, stream=True, follow_redirects=False)
            except BaseException as fault:
                await reset_abandoned_async(http)
                if not isinstance(fault, HTTPX_FAULTS):
                    raise
                wait_s = call.after_fault(fault)
            else:
                head = Head(response.status_code, response.headers, call.credential)
                if 200 <= head.status < 300:
                    return response, head
                try:
                    body = await self._read_body(http, call, response)
                except HTTPX_FAULTS:
                    body = b""  # the status says enough
                wait_s = call.after_status(head, body)
            await self._runtime.sleep_async(wait_s)

    async def _read_body(self, http: httpx.AsyncClient, call: Call, response: httpx.Response) -> bytes:
        """The body, decoded. Afterwards the connection is free again, or closed."""
        chunks: List[bytes] = []
        is_whole = False
        try:
            async for chunk in response.aiter_bytes():
                chunks.append(chunk)
            is_whole = True
        finally:
            if not is_whole:
                await close_early(http, response)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
