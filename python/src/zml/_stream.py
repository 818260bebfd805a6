"""A stream of events, blocking and not. What both have in common is in `_events.py`."""

from __future__ import annotations

import _thread
import warnings
from types import TracebackType
from typing import Any, AsyncIterator, Generic, Iterator, Optional, Set, Type

import httpx

from ._call import HTTPX_FAULTS, Call
from ._errors import ZMLError
from ._events import EventReader, T
from ._http2 import reset_abandoned, reset_abandoned_async
from ._routing import Routing
from ._watch import Watch, shut, socket_of

# After the end mark a server has nothing to say but that the body is over. Waiting for it lets the next call have the
# connection; a server that leaves it open must not hold the caller.
_DRAIN_S = 1.0
_DRAIN_PIECES = 64


class _Common(Generic[T]):
    """What a stream tells without reading on."""

    __slots__ = ("_reader",)

    def __init__(self, reader: EventReader[T]) -> None:
        self._reader = reader

    @property
    def routing(self) -> Optional[Routing]:
        """Where the request went; known before the first event. ``None`` without a routing header."""
        return self._reader.head.routing

    @property
    def request_id(self) -> Optional[str]:
        """The answer's ``x-request-id``, which the gateway's logs know."""
        return self._reader.head.request_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.routing!r}>"


class Stream(_Common[T]):
    """The events of an answer, as they come.

    Iterate over it, once. Leaving it early with ``close()``, ``with``, or by dropping it closes the connection, and the
    node stops. Iterating raises `StreamInterruptedError` when the stream ends before the answer is whole,
    `APITimeoutError` when it is silent for longer than the call's ``timeout``, and the error that an error event tells.
    """

    __slots__ = ("_events", "_source")

    def __init__(self, http: httpx.Client, response: httpx.Response, reader: EventReader[T], call: Call) -> None:
        super().__init__(reader)
        self._source = _Source(http, response)
        # It must not refer to this object: so a stream that is dropped is closed at once, without a garbage collection.
        self._events = _events(self._source, response, reader, call)
        self._source.events = self._events
        _open_sources.add(self._source)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._source.is_closed:  # events that were read with the last one are not given any more
            raise StopIteration
        return next(self._events)

    def close(self) -> None:
        """Ends it: the connection is closed unless the answer is whole, so that the node stops. May be called again."""
        self._source.close()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._source.is_closed:
            return
        # Not here: a collection of garbage comes at any moment, also while this very thread holds a lock of httpcore
        # that closing waits for. A plain thread, since threading has locks of its own.
        try:
            _thread.start_new_thread(self._source.close, ())
        except RuntimeError:  # the interpreter is at its end, and its connections with it
            pass


class AsyncStream(_Common[T]):
    """The events of an answer, as they come.

    Iterate over it with ``async for``, once. Leaving it early with ``close()``, ``async with``, by cancelling the task
    that reads it, or by dropping it in the middle closes the connection, and the node stops. Iterating raises
    `StreamInterruptedError` when the stream ends before the answer is whole, `APITimeoutError` when it is silent for
    longer than the call's ``timeout``, and the error that an error event tells.
    """

    __slots__ = ("_events", "_source")

    def __init__(self, http: httpx.AsyncClient, response: httpx.Response, reader: EventReader[T], call: Call) -> None:
        super().__init__(reader)
        self._source = _AsyncSource(http, response)
        # The event loop closes a generator that is dropped; it must not refer to this object, see Stream.
        self._events = _events_async(self._source, response, reader, call)

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._source.is_closed:  # events that were read with the last one are not given any more
            raise StopAsyncIteration
        return await self._events.__anext__()

    async def close(self) -> None:
        """Ends it: the connection is closed unless the answer is whole, so that the node stops. May be called again."""
        await self._source.close()

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # a stream that nobody began to read has no running generator, which the event loop would close
        if not self._source.is_closed:
            _close_soon(self._source)


class _Source:
    """Where events come from."""

    __slots__ = ("events", "http", "is_closed", "response")

    def __init__(self, http: httpx.Client, response: httpx.Response) -> None:
        self.http = http
        self.response = response
        self.is_closed = False
        self.events: Optional[Iterator[Any]] = None

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self._let_go()
        finally:
            _open_sources.discard(self)
            self.events = None

    def _let_go(self) -> None:
        if not self.response.is_closed:
            connection = socket_of(self.response)
            if connection is not None:
                shut(connection)  # another thread may be reading
            self.response.close()
        if self.response.http_version == "HTTP/2":
            reset_abandoned(self.http)


# Keeps the generators of a stream, httpx's among them, out of the hands of the garbage collector until it is closed: at
# their end they take the same locks.
_open_sources: Set[_Source] = set()


class _AsyncSource:
    """Where events come from."""

    __slots__ = ("http", "is_closed", "response")

    def __init__(self, http: httpx.AsyncClient, response: httpx.Response) -> None:
        self.http = http
        self.response = response
        self.is_closed = False

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        await close_early(self.http, self.response)


# The event loop keeps no task alive that nobody else holds.
_closing: Set[Any] = set()


def _close_soon(source: _AsyncSource) -> None:
    import asyncio

    try:
        task = asyncio.get_running_loop().create_task(source.close())
    except RuntimeError:  # not in asyncio, or after its end
        warnings.warn("an AsyncStream was neither read nor closed: use async with", ResourceWarning, stacklevel=3)
        return
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def _events(source: _Source, response: httpx.Response, reader: EventReader[T], call: Call) -> Iterator[T]:
    # from now on the time-out limits the silence between two reads
    call.timeouts["read"] = call.timeout_s
    try:
        if source.is_closed:
            return
        pieces = response.iter_bytes()
        for piece in pieces:
            yield from reader.feed(piece)
            if reader.is_done:
                _drain(response, pieces, call)
                break
        reader.finish()
    except (httpx.StreamError, *HTTPX_FAULTS) as fault:
        # after close() there is nothing to say
        if not source.is_closed:
            raise _stream_error(fault, reader, call) from fault
    finally:
        source.close()


async def _events_async(
    source: _AsyncSource, response: httpx.Response, reader: EventReader[T], call: Call
) -> AsyncIterator[T]:
    # from now on the time-out limits the silence between two reads
    call.timeouts["read"] = call.timeout_s
    try:
        if source.is_closed:
            return
        pieces = response.aiter_bytes()
        if response.http_version == "HTTP/2":
            pieces = _limited(pieces, call.timeout_s)
        async for piece in pieces:
            for event in reader.feed(piece):
                yield event
            if reader.is_done:
                await _drain_async(pieces)
                break
        reader.finish()
    except (TimeoutError, httpx.StreamError, *HTTPX_FAULTS) as fault:
        # after close() there is nothing to say
        if not source.is_closed:
            raise _stream_error(fault, reader, call) from fault
    finally:
        await source.close()


async def _limited(pieces: AsyncIterator[bytes], limit_s: float) -> AsyncIterator[bytes]:
    """Raises `TimeoutError` for a silence over HTTP/2.

    There one call at a time reads from the connection for all: httpcore's own limit begins anew with whatever comes for
    the others, and those who wait for the reader have none.
    """
    import anyio

    while True:
        try:
            with anyio.fail_after(limit_s):
                piece = await pieces.__anext__()
        except StopAsyncIteration:
            return
        yield piece


def _drain(response: httpx.Response, pieces: Iterator[bytes], call: Call) -> None:
    call.timeouts["read"] = _DRAIN_S
    watch = Watch(response, _DRAIN_S)
    try:
        for _ in range(_DRAIN_PIECES):
            if next(pieces, None) is None:
                break
    except HTTPX_FAULTS:
        pass  # the answer is whole all the same
    finally:
        watch.end()


async def _drain_async(pieces: AsyncIterator[bytes]) -> None:
    import anyio

    try:
        with anyio.move_on_after(_DRAIN_S):
            for _ in range(_DRAIN_PIECES):
                await pieces.__anext__()
    except (StopAsyncIteration, *HTTPX_FAULTS):
        pass  # the answer is whole all the same


async def close_early(http: httpx.AsyncClient, response: httpx.Response) -> None:
    """Leaves an answer, also out of a cancelled task."""
    import anyio

    with anyio.CancelScope(shield=True):
        await response.aclose()
        if response.http_version == "HTTP/2":
            await reset_abandoned_async(http)


def _stream_error(fault: Exception, reader: EventReader[T], call: Call) -> ZMLError:
    """The error of a stream in which httpx failed."""
    if isinstance(fault, (TimeoutError, httpx.TimeoutException)):
        return call.silence_error(reader.head)
    return reader.interrupted(f"the connection failed ({type(fault).__name__})")
