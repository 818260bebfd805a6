"""One client for the whole program: in other event loops, after a fork, while garbage is collected, after its end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from typing import Any, Callable, List

import httpx
import pytest
import zml
from conftest import quick_client
from scripted_server import Exchange, ScriptedServer

MESSAGES = [{"role": "user", "content": "hello"}]


def echo(exchange: Exchange) -> None:
    """Says who asked."""
    question = json.loads(exchange.body)
    if question.get("stream"):
        exchange.stream('data: {"choices": []}\n\n')
        exchange.wait_for_close()
        exchange.cut()
        return
    choice = {"index": 0, "message": {"role": "assistant", "content": question["user"]}, "finish_reason": "stop"}
    exchange.answer(200, json.dumps({"choices": [choice]}))


# The end.


def test_a_call_after_close_says_so() -> None:
    client = zml.ZML("http://127.0.0.1:9")
    client.close()
    client.close()
    with pytest.raises(zml.ConfigurationError, match="the client is closed"):
        client.infer("m", MESSAGES)


def test_an_async_call_after_close_says_so() -> None:
    async def run() -> None:
        client = zml.AsyncZML("http://127.0.0.1:9")
        await client.close()
        await client.close()
        with pytest.raises(zml.ConfigurationError, match="the client is closed"):
            await client.infer("m", MESSAGES)

    asyncio.run(run())


# Other event loops and processes.


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the first loop's connection is left to it
def test_an_async_client_follows_into_the_next_event_loop() -> None:
    async def ask(client: zml.AsyncZML) -> str:
        return (await client.infer("m", MESSAGES, user="me")).text

    async def leave(client: zml.AsyncZML) -> None:
        await ask(client)
        await client.close()

    with ScriptedServer(echo) as server:
        client = zml.AsyncZML(server.url)
        assert [asyncio.run(ask(client)) for _ in range(3)] == ["me"] * 3
        asyncio.run(leave(client))
        with pytest.raises(zml.ConfigurationError):
            asyncio.run(ask(client))
        gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that there are threads; the child only calls
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the child leaves its parent's connections
def test_after_a_fork_nobody_gets_the_answers_of_the_other_process() -> None:
    with ScriptedServer(echo) as server, zml.ZML(server.url) as client:
        client.infer("m", MESSAGES, user="parent")  # its connection stays open
        child = os.fork()
        if child == 0:
            try:
                is_right = all(client.infer("m", MESSAGES, user="child").text == "child" for _ in range(3))
                os._exit(0 if is_right else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert client.infer("m", MESSAGES, user="parent").text == "parent"
        numbers = [exchange.connection_number for exchange in server.exchanges]
    assert numbers == [0, 1, 1, 1, 0]


# Collections of garbage.


def drop(streams: List[Any]) -> None:
    streams.clear()


def drop_in_a_cycle(streams: List[Any]) -> None:
    cycle: List[Any] = list(streams)
    cycle.append(cycle)
    streams.clear()
    del cycle
    gc.collect()


@pytest.mark.parametrize("let_go", [drop, drop_in_a_cycle])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_stream_that_goes_while_its_thread_holds_a_lock_of_httpcore_hangs_nobody(
    let_go: Callable[[List[Any]], None], is_read: bool
) -> None:
    http = quick_client()  # not closed when this fails: that would hang, too
    with ScriptedServer(echo) as server:
        client = zml.ZML(server.url, http_client=http)

        def run() -> None:
            streams: List[Any] = [client.infer("m", MESSAGES, stream=True)]
            if is_read:
                next(streams[0])
            # as when a collection comes in the middle of another call
            with lock_of(http):
                let_go(streams)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        assert server.exchanges[0].closed.wait(10)
    http.close()


def lock_of(http: httpx.Client) -> Any:
    return http._transport._pool._optional_thread_lock  # type: ignore[attr-defined]
