"""Plays calls on an `httpx.Client`. Its twin for `httpx.AsyncClient` is `_async_io.py`."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import httpx

from ._call import HTTPX_FAULTS, Call
from ._connections import Connections
from ._endpoints import is_event_stream, not_a_stream
from ._events import EventReader, T
from ._head import Head
from ._head_deadline import head_within
from ._http2 import reset_abandoned
from ._runtime import Runtime
from ._stream import Stream
from ._watch import Watch

_A = TypeVar("_A")


class BlockingIO:
    """The calls of one client."""

    __slots__ = ("_connections", "_runtime")

    def __init__(self, connections: Connections, runtime: Runtime) -> None:
        self._connections = connections
        self._runtime = runtime

    def answer(self, call: Call, read: Callable[[Head, bytes], _A]) -> _A:
        """The whole answer. Raises `ZMLError`."""
        http = self._connections.here()
        response, head = self._send(http, call)
        try:
            body = self._read_body(http, call, response)
        except HTTPX_FAULTS as fault:
            raise call.fault_error(fault, head) from fault
        return read(head, body)

    def stream(
        self, call: Call, make: Callable[[Dict[str, Any]], T], text_of: Callable[[Dict[str, Any]], str]
    ) -> Stream[T]:
        """The stream, once its head is here. Raises `ZMLError`."""
        http = self._connections.here()
        response, head = self._send(http, call)
        if not is_event_stream(head):
            response.close()
            reset_abandoned(http)
            raise not_a_stream(head)
        return Stream(http, response, EventReader(head, make, text_of), call)

    def _send(self, http: httpx.Client, call: Call) -> Tuple[httpx.Response, Head]:
        """The first answer that is a success, its body not yet read."""
        while True:
            request = call.request(http)
            try:
                with head_within(call.timeouts["read"]):
                    response = http.send(request, stream=True, follow_redirects=False)
            except BaseException as fault:
                reset_abandoned(http)
                if not isinstance(fault, HTTPX_FAULTS):
                    raise
                wait_s = call.after_fault(fault)
            else:
                head = Head(response.status_code, response.headers, call.credential)
                if 200 <= head.status < 300:
                    return response, head
                try:
                    body = self._read_body(http, call, response)
                except HTTPX_FAULTS:
                    body = b""  # the status says enough
                wait_s = call.after_status(head, body)
            self._runtime.sleep(wait_s)

    def _read_body(self, http: httpx.Client, call: Call, response: httpx.Response) -> bytes:
        """The body, decoded. Afterwards the connection is free again, or closed."""
        chunks: List[bytes] = []
        watch: Optional[Watch] = None
        is_whole = False
        length = response.headers.get("content-length")
        call.shorten_reads()
        if "content-encoding" in response.headers:
            # what is read may decode to nothing for long, and would not come by here
            watch = Watch(response, call.remaining_s())
        try:
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                call.shorten_reads()
                if watch is None and str(response.num_bytes_downloaded) != length:
                    watch = Watch(response, call.remaining_s())
            # a body that ends with its connection looks whole when the watch has cut it
            if watch is not None and watch.has_fired:
                raise httpx.ReadTimeout("the deadline passed")
            is_whole = True
        except httpx.TransportError:
            if watch is not None and watch.has_fired:
                raise httpx.ReadTimeout("the deadline passed") from None
            raise
        finally:
            if watch is not None:
                watch.end()
            response.close()
            if not is_whole:
                reset_abandoned(http)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
