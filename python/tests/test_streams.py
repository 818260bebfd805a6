"""Streams: how they end, and how whoever leaves one makes the server stop. Most of their shapes are in conformance/."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from typing import Any, Callable, Dict, List, Optional

import pytest
import zml
from conftest import quick_async_client, quick_client
from fake_runtime import FakeRuntime, put
from scripted_server import Exchange, ScriptedServer
from zml import _stream

MESSAGES = [{"role": "user", "content": "hello"}]
ROUTING = 'node="a", policy="p", attempt=1, reason=cheapest'


def event(content: str, finish_reason: Optional[str] = None) -> str:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"


DONE = "data: [DONE]\n\n"


def endless(exchange: Exchange) -> None:
    """Two events, and then a node that works on."""
    exchange.stream(event("a"), event("b"), x_zml_routing=ROUTING, x_request_id="r-1")
    exchange.wait_for_close()
    exchange.cut()


def whole(exchange: Exchange) -> None:
    exchange.stream("event: message\n", event("a"), event("b", "stop"), "data:  [DONE] \n\n")
    exchange.end()


def with_client(play: Callable[[Exchange], None], use: Callable[[zml.ZML], None], **options: Any) -> ScriptedServer:
    with ScriptedServer(play) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http, **options) as client:
            use(client)
    return server


def with_async_client(
    play: Callable[[Exchange], None], use: Callable[[zml.AsyncZML], Any], **options: Any
) -> ScriptedServer:
    async def run() -> None:
        async with quick_async_client() as http, zml.AsyncZML(server.url, http_client=http, **options) as client:
            await use(client)

    with ScriptedServer(play) as server:
        asyncio.run(run())
    return server


def is_seen_closed(server_exchanges: List[Exchange]) -> bool:
    return server_exchanges[0].closed.wait(10)


# Leaving early.


def test_close_reaches_the_server() -> None:
    def use(client: zml.ZML) -> None:
        stream = client.infer("m", MESSAGES, stream=True)
        assert next(stream).text == "a"
        stream.close()
        stream.close()
        assert list(stream) == []

    assert is_seen_closed(with_client(endless, use).exchanges)


def test_a_stream_that_is_dropped_in_the_middle_is_closed_at_once() -> None:
    def use(client: zml.ZML) -> None:
        gc.disable()
        try:
            for chunk in client.infer("m", MESSAGES, stream=True):
                assert chunk.text == "a"
                break
            # no collection of garbage is needed
            assert server.exchanges[0].closed.wait(10)
        finally:
            gc.enable()

    with ScriptedServer(endless) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            use(client)


def test_a_stream_that_nobody_reads_is_closed_when_it_is_dropped() -> None:
    def use(client: zml.ZML) -> None:
        client.infer("m", MESSAGES, stream=True)
        assert server.exchanges[0].closed.wait(10)

    with ScriptedServer(endless) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            use(client)


def test_an_error_of_the_reader_closes_it() -> None:
    def use(client: zml.ZML) -> None:
        with pytest.raises(KeyError):
            with client.infer("m", MESSAGES, stream=True) as stream:
                for _ in stream:
                    raise KeyError

    assert is_seen_closed(with_client(endless, use).exchanges)


def test_close_from_another_thread_wakes_the_reader() -> None:
    def use(client: zml.ZML) -> None:
        stream = client.infer("m", MESSAGES, stream=True)
        reading, texts = threading.Event(), []

        def read() -> None:
            for chunk in stream:
                texts.append(chunk.text)
                if len(texts) == 2:
                    reading.set()

        thread = threading.Thread(target=read)
        thread.start()
        assert reading.wait(10)
        stream.close()
        thread.join(10)
        assert not thread.is_alive() and texts == ["a", "b"]

    with_client(endless, use)


def test_a_cancelled_task_reaches_the_server() -> None:
    async def use(client: zml.AsyncZML) -> None:
        texts: List[str] = []
        both = asyncio.Event()

        async def read() -> None:
            async for chunk in await client.infer("m", MESSAGES, stream=True):
                texts.append(chunk.text)
                if len(texts) == 2:
                    both.set()

        task = asyncio.ensure_future(read())
        await asyncio.wait_for(both.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # before the client or the loop is closed
        assert await asyncio.get_running_loop().run_in_executor(None, server.exchanges[0].closed.wait, 10)

    async def run() -> None:
        async with quick_async_client() as http, zml.AsyncZML(server.url, http_client=http) as client:
            await use(client)

    with ScriptedServer(endless) as server:
        asyncio.run(run())


def test_a_task_that_is_cancelled_while_it_waits_for_the_head_reaches_the_server() -> None:
    arrived = threading.Event()

    def silent(exchange: Exchange) -> None:
        arrived.set()
        exchange.wait_for_close()
        exchange.cut()

    async def use(client: zml.AsyncZML) -> None:
        for stream in (True, False):
            task = asyncio.ensure_future(client.infer("m", MESSAGES, stream=stream))
            await asyncio.get_running_loop().run_in_executor(None, arrived.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            arrived.clear()

    server = with_async_client(silent, use)
    assert [exchange.closed.wait(10) for exchange in server.exchanges] == [True, True]


def test_an_async_stream_that_is_dropped_in_the_middle_is_closed() -> None:
    async def use(client: zml.AsyncZML) -> None:
        async for chunk in await client.infer("m", MESSAGES, stream=True):
            assert chunk.text == "a"
            break
        assert await asyncio.get_running_loop().run_in_executor(None, server.exchanges[0].closed.wait, 10)

    async def run() -> None:
        async with quick_async_client() as http, zml.AsyncZML(server.url, http_client=http) as client:
            await use(client)

    with ScriptedServer(endless) as server:
        asyncio.run(run())


def test_an_async_stream_that_nobody_reads_is_closed_when_it_is_dropped() -> None:
    async def use(client: zml.AsyncZML) -> None:
        await client.infer("m", MESSAGES, stream=True)
        assert await asyncio.get_running_loop().run_in_executor(None, server.exchanges[0].closed.wait, 10)

    async def run() -> None:
        async with quick_async_client() as http, zml.AsyncZML(server.url, http_client=http) as client:
            await use(client)

    with ScriptedServer(endless) as server:
        asyncio.run(run())


def test_async_close_reaches_the_server() -> None:
    async def use(client: zml.AsyncZML) -> None:
        stream = await client.infer("m", MESSAGES, stream=True)
        assert (await stream.__anext__()).text == "a"
        await stream.close()
        await stream.close()
        assert [chunk async for chunk in stream] == []
        async with await client.infer("m", MESSAGES, stream=True):
            pass

    server = with_async_client(endless, use)
    assert [exchange.closed.wait(10) for exchange in server.exchanges] == [True, True]


# Ends.


def test_routing_is_there_before_the_first_event() -> None:
    def use(client: zml.ZML) -> None:
        with client.infer("m", MESSAGES, stream=True) as stream:
            assert stream.routing == zml.Routing(node="a", policy="p", attempt=1, reason="cheapest")
            assert stream.request_id == "r-1"

    with_client(
        lambda exchange: (exchange.stream(x_zml_routing=ROUTING, x_request_id="r-1"), endless_rest(exchange))[0], use
    )


def endless_rest(exchange: Exchange) -> None:
    exchange.wait_for_close()
    exchange.cut()


def test_what_came_before_a_stream_broke_off_is_in_the_error() -> None:
    def play(exchange: Exchange) -> None:
        exchange.stream(event("Hel"), event("lo"), "data: {", x_zml_routing=ROUTING)
        exchange.reset()

    def check(error: zml.StreamInterruptedError) -> None:
        assert (error.events, error.text) == (2, "Hello")
        assert error.routing is not None and error.routing.node == "a"

    def use(client: zml.ZML) -> None:
        with pytest.raises(zml.StreamInterruptedError, match="broke off after 2 events") as caught:
            list(client.infer("m", MESSAGES, stream=True))
        check(caught.value)

    async def use_async(client: zml.AsyncZML) -> None:
        with pytest.raises(zml.StreamInterruptedError, match="broke off after 2 events") as caught:
            [chunk async for chunk in await client.infer("m", MESSAGES, stream=True)]
        check(caught.value)

    assert len(with_client(play, use).exchanges) == 1
    assert len(with_async_client(play, use_async).exchanges) == 1


def test_an_event_of_type_error_is_an_error_whatever_its_shape() -> None:
    def play(exchange: Exchange) -> None:
        exchange.stream(event("a"), 'event: error\ndata: {"message": "engine died"}\n\n', DONE)
        exchange.end()

    def use(client: zml.ZML) -> None:
        stream = client.infer("m", MESSAGES, stream=True)
        assert next(stream).text == "a"
        with pytest.raises(zml.InternalServerError, match="engine died"):
            next(stream)
        assert list(stream) == []

    with_client(play, use)


def test_after_the_end_mark_the_connection_serves_the_next_call() -> None:
    def use(client: zml.ZML) -> None:
        for _ in range(3):
            assert [chunk.text for chunk in client.infer("m", MESSAGES, stream=True)] == ["a", "b"]

    async def use_async(client: zml.AsyncZML) -> None:
        for _ in range(3):
            assert [chunk.text async for chunk in await client.infer("m", MESSAGES, stream=True)] == ["a", "b"]

    for server in (with_client(whole, use), with_async_client(whole, use_async)):
        assert {exchange.connection_number for exchange in server.exchanges} == {0}


def test_a_server_that_stays_after_the_end_mark_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(exchange: Exchange) -> None:
        exchange.stream(event("a"), event("b", "stop"), DONE)
        endless_rest(exchange)

    def use(client: zml.ZML) -> None:
        assert [chunk.text for chunk in client.infer("m", MESSAGES, stream=True)] == ["a", "b"]

    async def use_async(client: zml.AsyncZML) -> None:
        assert [chunk.text async for chunk in await client.infer("m", MESSAGES, stream=True)] == ["a", "b"]

    monkeypatch.setattr(_stream, "_DRAIN_S", 0.1)
    for server in (with_client(play, use), with_async_client(play, use_async)):
        assert is_seen_closed(server.exchanges)


def test_a_stream_may_be_longer_than_the_time_out_as_long_as_it_is_not_silent() -> None:
    may_end = threading.Event()

    def play(exchange: Exchange) -> None:
        exchange.stream(event("a"))
        assert may_end.wait(10)
        exchange.piece(event("b", "stop"))
        exchange.end()

    def use(client: zml.ZML) -> None:
        runtime = FakeRuntime()
        put(runtime, client)
        stream = client.infer("m", MESSAGES, stream=True, timeout=20)
        assert next(stream).text == "a"
        runtime.sleep(1000)
        may_end.set()
        assert [chunk.text for chunk in stream] == ["b"]

    with_client(play, use)


def test_a_stream_s_head_has_the_deadline_of_the_call() -> None:
    def use(client: zml.ZML) -> None:
        with pytest.raises(zml.APITimeoutError):
            client.infer("m", MESSAGES, stream=True, timeout=0.2)

    with_client(endless_rest, use)


def test_a_stream_is_tried_again_before_its_head_and_never_after() -> None:
    plays = [Exchange.reset, lambda exchange: exchange.answer(503, "{}"), endless_then_cut]
    with ScriptedServer(*plays) as server, quick_client() as http, zml.ZML(server.url, http_client=http) as client:
        runtime = FakeRuntime()
        put(runtime, client)
        with pytest.raises(zml.StreamInterruptedError):
            list(client.infer("m", MESSAGES, stream=True))
        assert len(server.exchanges) == 3 and len(runtime.waits) == 2


def endless_then_cut(exchange: Exchange) -> None:
    exchange.stream(event("a"))
    exchange.cut()


def test_under_trio_it_is_the_same() -> None:
    trio = pytest.importorskip("trio")

    async def run() -> None:
        async with quick_async_client() as http, zml.AsyncZML(server.url, http_client=http) as client:
            assert [chunk.text async for chunk in await client.infer("m", MESSAGES, stream=True)] == ["a", "b"]
            with pytest.raises(zml.APITimeoutError):
                await client.infer("m", MESSAGES, timeout=0.2)

    with ScriptedServer(whole, endless_rest) as server:
        trio.run(run)


# Objects.


def test_what_the_wire_has_is_kept_and_typed() -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    data: Dict[str, Any] = {
        "id": "c",
        "object": "chat.completion",
        "created": 1.5,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
        "kv_transfer_params": [1],
    }
    with ScriptedServer(lambda exchange: exchange.answer(200, json.dumps(data))) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            answer = client.infer("m", iter(MESSAGES))
            message = answer.choices[0].message
            again = client.infer("m", [*MESSAGES, message])
    assert answer.created == 1 and answer.text == "" and answer == again and answer != data
    assert message.tool_calls is not None and message.tool_calls[0].function is not None
    assert message.tool_calls[0].function.name == "f" and message.content is None
    assert answer.usage is not None and answer.usage.total_tokens == 5
    assert answer.usage["prompt_tokens_details"] == {"cached_tokens": 1} and "cost" not in answer.usage
    assert answer["kv_transfer_params"] == answer.kv_transfer_params == [1]  # type: ignore[attr-defined]
    assert answer.get("nothing") is None and not hasattr(answer, "nothing") and not hasattr(answer, "_nothing")
    assert json.loads(server.exchanges[1].body)["messages"][1] == message.to_dict()
    assert repr(message).startswith("Message({'role'")
