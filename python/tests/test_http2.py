"""HTTP/2: it is spoken where TLS offers it, and whoever leaves a call makes the server stop."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from typing import Any, List

import httpx
import pytest
import zml
from h2_server import Http2Server
from scripted_server import ScriptedServer
from zml import _http2

MESSAGES = [{"role": "user", "content": "hello"}]
CHAT = json.dumps({"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]})
EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
RST_CANCEL = 8


def test_a_stream_that_is_left_is_reset_and_the_connection_serves_on(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    with Http2Server(server_tls) as server:
        with httpx.Client(http2=True, verify=client_tls) as http, zml.ZML(server.url, http_client=http) as client:
            # more than the 100 streams that h2 lets be open at once
            for number in range(110):
                answering = threading.Thread(
                    target=lambda: server.request(number).answer(EVENT, "text/event-stream", is_whole=False)
                )
                answering.start()
                with client.infer("m", MESSAGES, stream=True) as stream:
                    assert next(stream).text == "a"
                answering.join()
                assert server.request(number).reset.wait(10)
                assert server.request(number).error_code == RST_CANCEL
            threading.Thread(target=lambda: server.request(110).answer(CHAT)).start()
            assert client.infer("m", MESSAGES).text == "hi"
        assert server.connection_count == 1


def test_a_call_that_reaches_its_deadline_is_reset(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    with Http2Server(server_tls) as server:
        with httpx.Client(http2=True, verify=client_tls) as http, zml.ZML(server.url, http_client=http) as client:
            with pytest.raises(zml.APITimeoutError):
                client.infer("m", MESSAGES, timeout=0.3)
            assert server.request(0).reset.wait(10)


def test_an_async_call_or_stream_that_is_left_is_reset_and_the_others_go_on(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def run() -> None:
        async with (
            httpx.AsyncClient(http2=True, verify=client_tls) as http,
            zml.AsyncZML(server.url, http_client=http) as client,
        ):
            await in_thread(lambda: None)
            staying = asyncio.ensure_future(client.infer("m", MESSAGES))
            first = await in_thread(lambda: server.request(0))
            leaving = asyncio.ensure_future(client.infer("m", MESSAGES))
            second = await in_thread(lambda: server.request(1))
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert await in_thread(lambda: second.reset.wait(10))
            streaming = asyncio.ensure_future(read_one(client))
            third = await in_thread(lambda: server.request(2))
            third.answer(EVENT, "text/event-stream", is_whole=False)
            assert await streaming == "a"
            assert await in_thread(lambda: third.reset.wait(10))
            with pytest.raises(zml.APITimeoutError):
                await client.infer("m", MESSAGES, timeout=0.3)
            assert await in_thread(lambda: server.request(3).reset.wait(10))
            first.answer(CHAT)
            assert (await staying).text == "hi"
        assert server.connection_count == 1

    async def in_thread(work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    async def read_one(client: zml.AsyncZML) -> str:
        async with await client.infer("m", MESSAGES, stream=True) as stream:
            async for chunk in stream:
                return chunk.text
        return ""

    with Http2Server(server_tls) as server:
        asyncio.run(run())


def test_the_default_clients_offer_http2_in_an_event_loop_and_not_between_threads(
    server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", os.path.join(os.environ["ZML_TEST_CERTIFICATES"], "authority.pem"))

    async def ask(url: str) -> List[str]:
        async with zml.AsyncZML(url) as client:
            answers = await asyncio.gather(*[client.infer("m", MESSAGES) for _ in range(3)])
            return [answer.text for answer in answers]

    def play(server: Http2Server) -> None:
        server.request(2)
        for number in range(3):
            server.request(number).answer(CHAT)

    with Http2Server(server_tls) as server:
        answering = threading.Thread(target=play, args=(server,))
        answering.start()
        assert asyncio.run(ask(server.url)) == ["hi"] * 3 and server.connection_count == 1
        answering.join()

    server_tls.set_alpn_protocols(["h2", "http/1.1"])
    with ScriptedServer(lambda exchange: exchange.answer(200, CHAT), tls=server_tls) as other:
        with zml.ZML(other.url, max_retries=0) as client:
            assert client.infer("m", MESSAGES).text == "hi"
        assert other.exchanges[0].request_line.endswith("HTTP/1.1")


def test_a_silent_stream_reaches_its_limit_while_others_read_from_the_same_connection(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def read(client: zml.AsyncZML, timeout: float) -> None:
        async for _ in await client.infer("m", MESSAGES, stream=True, timeout=timeout):
            pass

    async def run(server: Http2Server) -> None:
        async with httpx.AsyncClient(http2=True, verify=client_tls) as http:
            client = zml.AsyncZML(server.url, http_client=http)
            patient = asyncio.create_task(read(client, 60))
            await asyncio.to_thread(server.request, 0)
            server.request(0).answer(EVENT, "text/event-stream", is_whole=False)
            hasty = asyncio.create_task(read(client, 0.3))
            await asyncio.to_thread(server.request, 1)
            server.request(1).answer(EVENT, "text/event-stream", is_whole=False)
            with pytest.raises(zml.APITimeoutError, match="silent for 0.3 s"):
                await asyncio.wait_for(hasty, 10)
            assert not patient.done()
            patient.cancel()
            await asyncio.wait([patient])

    with Http2Server(server_tls) as server:
        asyncio.run(run(server))


def test_a_transport_of_another_kind_is_left_alone() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=CHAT))
    with httpx.Client(transport=transport) as http, zml.ZML("http://x", http_client=http) as client:
        assert client.infer("m", MESSAGES).text == "hi"
        _http2.reset_abandoned(http)
