"""What goes wrong before, instead of, and in the middle of an answer."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import ssl
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List

import httpx
import pytest
import zml
from conftest import quick_async_client, quick_client
from fake_runtime import FakeRuntime, put
from scripted_server import Exchange, ScriptedServer, closed_port
from zml._runtime import Runtime

MESSAGES = [{"role": "user", "content": "hello"}]
CHAT = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }
)
ROUTING = 'node="a", policy="p", attempt=1, reason=cheapest'


@pytest.fixture(params=["blocking", "async"])
def infer(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a client, calls ``infer``, reads a stream to its end; gives the answer or the events."""

    def blocking(url: str, options: Dict[str, Any], arguments: Dict[str, Any]) -> Any:
        http = options.pop("http", quick_client)()
        runtime = options.pop("runtime", FakeRuntime())
        with http, zml.ZML(url, "sk-secret", http_client=http, **options) as client:
            put(runtime, client)
            answer = client.infer("m", MESSAGES, **arguments)
            return list(answer) if isinstance(answer, zml.Stream) else answer

    async def non_blocking(url: str, options: Dict[str, Any], arguments: Dict[str, Any]) -> Any:
        http = options.pop("async_http", quick_async_client)()
        runtime = options.pop("runtime", FakeRuntime())
        async with http, zml.AsyncZML(url, "sk-secret", http_client=http, **options) as client:
            put(runtime, client)
            answer = await client.infer("m", MESSAGES, **arguments)
            return [event async for event in answer] if isinstance(answer, zml.AsyncStream) else answer

    def call(url: str, options: "Dict[str, Any] | None" = None, **arguments: Any) -> Any:
        options = dict(options or {})
        if request.param == "blocking":
            options.pop("async_http", None)
            return blocking(url, options, arguments)
        options.pop("http", None)
        return asyncio.run(non_blocking(url, options, arguments))

    return call


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


# Arguments.


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "ftp://x",
        "http://",
        "http://x:port",
        "http://[::1",
        "http://x/?a=1",
        "http://a b",
        "http://x:0",
    ],
)
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(zml.ConfigurationError, match="base_url.*http://127.0.0.1:8080"):
        zml.ZML(url)


def test_a_password_in_a_url_is_never_shown() -> None:
    with pytest.raises(zml.ConfigurationError) as caught:
        zml.ZML("ftp://user:hunter2@host")
    assert "hunter2" not in str(caught.value)
    with zml.ZML("http://user:hunter2@127.0.0.1:1", max_retries=0) as client:
        assert "hunter2" not in repr(client)
        with pytest.raises(zml.APIConnectionError) as failed:
            client.models.list()
    assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize("key", ["sk secret-1", "sk-secret-1\n", "sk-secret-1\u2028", "sk-secret-1é"])
def test_a_key_that_fits_in_no_header_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(zml.ConfigurationError, match="api_key") as caught:
        zml.ZML("http://x", key)
    assert "secret-1" not in text_of(caught.value)
    with pytest.raises(zml.ConfigurationError, match="admin_key"):
        zml.ZML("http://x", admin_key=key)


def test_a_key_stands_in_no_repr() -> None:
    with zml.ZML("http://x", "sk-secret", admin_key="sk-admin") as client:
        assert repr(client) == "<ZML http://x>"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "10", None, True])
def test_a_deadline_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(zml.ConfigurationError, match="timeout"):
        zml.ZML("http://x", timeout=timeout)


@pytest.mark.parametrize("retries", [-1, 1.5, "2", None, True])
def test_a_count_of_retries_that_is_none_is_refused(retries: Any) -> None:
    with pytest.raises(zml.ConfigurationError, match="max_retries"):
        zml.ZML("http://x", max_retries=retries)


def test_a_client_of_the_other_kind_is_refused() -> None:
    with pytest.raises(zml.ConfigurationError, match="httpx.Client"):
        zml.ZML("http://x", http_client=httpx.AsyncClient())  # type: ignore[arg-type]
    with pytest.raises(zml.ConfigurationError, match="httpx.AsyncClient"):
        with quick_client() as http:
            zml.AsyncZML("http://x", http_client=http)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [zml.ZML, zml.AsyncZML])
@pytest.mark.parametrize(
    "variable, value",
    [("SSL_CERT_FILE", "/nowhere"), ("HTTP_PROXY", "ftp://u:s3cret@x"), ("ALL_PROXY", "http://u:s3cret@[::1")],
)
def test_an_environment_that_httpx_can_t_use_is_refused_with_what_to_check(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str], Any], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(zml.ConfigurationError, match=f"check .*{variable}") as caught:
        make("http://x")
    assert "s3cret" not in text_of(caught.value)


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"temperature": float("nan")}, "JSON"),
        ({"temperature": float("inf")}, "JSON"),
        ({"stop": {1, 2}}, "JSON"),
        ({"user": "\ud800"}, "JSON"),
        ({"stream": "yes"}, "stream"),
        ({"accelerator": "H100\r\nx-evil: 1"}, "accelerator"),
        ({"policy": "é"}, "policy"),
        ({"policy": 7}, "policy"),
        ({"extra_headers": {"x y": "1"}}, "extra_headers"),
        ({"extra_headers": {"x": "a\nb"}}, "extra_headers"),
        ({"extra_headers": {1: "a"}}, "extra_headers"),
        ({"extra_headers": [("x", "a")]}, "extra_headers"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"prompt": "and"}, "prompt"),
    ],
)
def test_an_argument_that_can_t_work_is_refused_before_anything_is_sent(
    infer: Callable[..., Any], arguments: Dict[str, Any], named: str
) -> None:
    with ScriptedServer() as server:
        with pytest.raises(zml.ConfigurationError, match=named):
            infer(server.url, **arguments)
        assert server.exchanges == []


def test_messages_that_are_no_list_are_refused() -> None:
    with zml.ZML("http://x") as client:
        for messages in ("hello", {"role": "user"}, b"x"):
            with pytest.raises(zml.ConfigurationError, match="messages"):
                client.infer("m", messages)  # type: ignore[arg-type]
        for id in ("", ".", "..", "\ud800"):
            with pytest.raises(zml.ConfigurationError, match="id"):
                client.models.get(id)


def test_a_prompt_is_in_no_error(infer: Callable[..., Any]) -> None:
    with pytest.raises(zml.ConfigurationError) as caught:
        infer("http://x", user={"the secret prompt", 1})
    assert "secret prompt" not in str(caught.value)


# Connections.


def test_a_gateway_that_is_down_is_a_connection_error_that_says_where(infer: Callable[..., Any]) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    runtime = FakeRuntime()
    with pytest.raises(zml.APIConnectionError, match=re.escape(url) + ".*check base_url") as caught:
        infer(url, {"runtime": runtime})
    assert len(runtime.waits) == 2
    assert caught.value.routing is None and caught.value.request_id is None
    assert "sk-secret" not in text_of(caught.value)


def test_a_host_that_does_not_exist_is_a_connection_error(infer: Callable[..., Any]) -> None:
    with pytest.raises(zml.APIConnectionError, match="check base_url"):
        infer("http://nowhere.invalid", {"max_retries": 0})


def test_a_connection_that_breaks_before_an_answer_is_tried_again(infer: Callable[..., Any]) -> None:
    runtime = FakeRuntime(chance=0)
    with ScriptedServer(Exchange.reset, Exchange.cut, lambda exchange: exchange.answer(200, CHAT)) as server:
        assert infer(server.url, {"runtime": runtime}).text == "hi"
    assert runtime.waits == [0.5, 1.0]


def test_an_answer_that_is_no_http_is_a_connection_error(infer: Callable[..., Any]) -> None:
    def play(exchange: Exchange) -> None:
        exchange.send("SSH-2.0-OpenSSH_9\r\n\r\n")
        exchange.cut()

    with ScriptedServer(play) as server:
        with pytest.raises(zml.APIConnectionError, match="no HTTP server"):
            infer(server.url)


def test_a_plain_answer_that_breaks_off_is_a_connection_error_with_its_routing(infer: Callable[..., Any]) -> None:
    def play(exchange: Exchange) -> None:
        exchange.send(f"HTTP/1.1 200 OK\r\ncontent-length: 100\r\nx-zml-routing: {ROUTING}\r\n\r\n{{")
        exchange.cut()

    with ScriptedServer(play) as server:
        with pytest.raises(zml.APIConnectionError, match="broke off") as caught:
            infer(server.url)
        assert len(server.exchanges) == 1
    assert caught.value.routing is not None and caught.value.routing.node == "a"


def test_a_body_that_is_not_what_its_encoding_says_is_a_format_error(infer: Callable[..., Any]) -> None:
    with ScriptedServer(lambda exchange: exchange.answer(200, CHAT, content_encoding="gzip")) as server:
        with pytest.raises(zml.ResponseFormatError, match="content-encoding"):
            infer(server.url)


# TLS.


def test_a_certificate_that_is_not_trusted_is_a_tls_error_and_not_tried_again(
    infer: Callable[..., Any], server_tls: ssl.SSLContext
) -> None:
    with ScriptedServer(tls=server_tls) as server:
        runtime = FakeRuntime()
        with pytest.raises(zml.TLSError, match="certificate is not trusted.*SSL_CERT_FILE"):
            infer(server.url, {"runtime": runtime})
        assert runtime.waits == []


def test_a_certificate_of_another_host_is_a_tls_error(
    infer: Callable[..., Any], server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    with ScriptedServer(tls=server_tls) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(zml.TLSError, match="host name"):
            infer(
                url,
                {
                    "http": lambda: httpx.Client(verify=client_tls),
                    "async_http": lambda: httpx.AsyncClient(verify=client_tls),
                },
            )


def test_tls_to_a_server_without_it_is_a_tls_error_that_says_http(infer: Callable[..., Any]) -> None:
    with ScriptedServer() as server:
        with pytest.raises(zml.TLSError, match="use http://"):
            infer(f"https://{server.address}")


# Answers of something else.


def test_html_in_place_of_an_answer_is_a_format_error_without_its_text(infer: Callable[..., Any]) -> None:
    page = "<html>Please sign in to the Wi-Fi</html>"
    with ScriptedServer(lambda exchange: exchange.answer(200, page, content_type="text/html")) as server:
        for arguments in ({}, {"stream": True}):
            with pytest.raises(zml.ResponseFormatError, match="text/html.*in place of ZML") as caught:
                infer(server.url, **arguments)
            assert "Wi-Fi" not in text_of(caught.value)
            assert caught.value.status == 200 and caught.value.content_type == "text/html"
            assert caught.value.routing is None


def test_a_redirect_is_not_followed(infer: Callable[..., Any]) -> None:
    with ScriptedServer(lambda exchange: exchange.answer(308, "", location="http://127.0.0.1:1/")) as server:
        with pytest.raises(zml.ResponseFormatError, match="redirect"):
            infer(
                server.url,
                {
                    "http": lambda: httpx.Client(follow_redirects=True),
                    "async_http": lambda: httpx.AsyncClient(follow_redirects=True),
                },
            )
        assert len(server.exchanges) == 1


def test_deeply_nested_json_is_a_format_error(infer: Callable[..., Any]) -> None:
    with ScriptedServer(lambda exchange: exchange.answer(200, "[" * 200_000)) as server:
        with pytest.raises(zml.ResponseFormatError):
            infer(server.url)


def test_an_answer_without_a_routing_header_has_none(infer: Callable[..., Any]) -> None:
    with ScriptedServer(lambda exchange: exchange.answer(200, CHAT)) as server:
        answer = infer(server.url)
        assert answer.routing is None and answer.request_id is None


def test_an_answer_that_comes_compressed_is_read(infer: Callable[..., Any]) -> None:
    import gzip

    with ScriptedServer(
        lambda exchange: exchange.answer(200, gzip.compress(CHAT.encode()), content_encoding="gzip")
    ) as server:
        assert infer(server.url).text == "hi"


@pytest.mark.parametrize(
    "member, value", [("id", None), ("id", 7), ("created", "now"), ("model", []), ("usage", "many"), ("choices", [1])]
)
def test_a_member_of_another_type_is_a_format_error_when_it_is_read(member: str, value: Any) -> None:
    data = {**json.loads(CHAT), member: value}
    with ScriptedServer(lambda exchange: exchange.answer(200, json.dumps(data))) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            answer = client.infer("m", MESSAGES)
            with pytest.raises(zml.ResponseFormatError, match=member):
                getattr(answer, member)
            assert answer[member] == value


# Statuses.


def error_body(status: int, code: str, type: str, **more: Any) -> str:
    return json.dumps({"error": {"message": f"{code}: what to do", "type": type, "param": None, "code": code, **more}})


@pytest.mark.parametrize(
    "status, type, cls",
    [
        (400, "invalid_request_error", zml.BadRequestError),
        (405, "invalid_request_error", zml.BadRequestError),
        (413, "invalid_request_error", zml.BadRequestError),
        (422, "invalid_request_error", zml.BadRequestError),
        (401, "authentication_error", zml.AuthenticationError),
        (403, "permission_error", zml.PermissionDeniedError),
        (404, "invalid_request_error", zml.NotFoundError),
        (408, "invalid_request_error", zml.RequestTimeoutError),
        (429, "rate_limit_error", zml.RateLimitError),
        (503, "saturation", zml.SaturationError),
        (503, "server_error", zml.InternalServerError),
        (502, "upstream_error", zml.UpstreamError),
        (504, "upstream_error", zml.UpstreamError),
        (504, "timeout_error", zml.InternalServerError),
        (529, "overloaded_error", zml.InternalServerError),
    ],
)
def test_a_status_is_its_class(
    infer: Callable[..., Any], status: int, type: str, cls: "type[zml.APIStatusError]"
) -> None:
    headers = {"x_zml_routing": ROUTING, "x_request_id": "r-1", "retry_after": "3", "x_should_retry": "false"}
    with ScriptedServer(
        lambda exchange: exchange.answer(status, error_body(status, "a_code", type), **headers)
    ) as server:
        with pytest.raises(cls, match="a_code: what to do") as caught:
            infer(server.url)
        assert len(server.exchanges) == 1
    error = caught.value
    assert (error.status, error.code, error.type, error.param) == (status, "a_code", type, None)
    assert error.routing is not None and error.routing.node == "a"
    assert (error.request_id, error.retry_after, error.should_retry) == ("r-1", 3.0, False)
    assert error.message == str(error)
    assert "sk-secret" not in text_of(error)


def test_a_key_that_the_server_repeats_is_taken_out(infer: Callable[..., Any]) -> None:
    body = json.dumps({"error": {"message": "Incorrect API key provided: sk-secret", "code": "sk-secret"}})
    with ScriptedServer(lambda exchange: exchange.answer(401, body)) as server:
        with pytest.raises(zml.AuthenticationError, match=r"provided: \[key\].*api_key \(or ZML_API_KEY\)") as caught:
            infer(server.url)
    assert "sk-secret" not in text_of(caught.value) and "sk-secret" not in repr(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_explanation_names_the_admin_key(status: int) -> None:
    body = error_body(status, "invalid_api_key", "authentication_error")
    with ScriptedServer(lambda exchange: exchange.answer(status, body)) as server:
        with quick_client() as http, zml.ZML("http://x", "k", admin_url=server.url, http_client=http) as client:
            with pytest.raises(zml.APIStatusError, match=r"admin_key \(or ZML_ADMIN_KEY\)"):
                client.decisions.explain("x")


def test_an_error_in_an_answer_whose_status_says_success_is_an_error(infer: Callable[..., Any]) -> None:
    body = error_body(200, "engine_died", "server_error")
    with ScriptedServer(lambda exchange: exchange.answer(200, body)) as server:
        with pytest.raises(zml.APIStatusError, match="engine_died: what to do") as caught:
            infer(server.url)
    assert (caught.value.status, caught.value.code) == (200, "engine_died")


@pytest.mark.parametrize("families", [None, 7, [7, {"family": "H100", "reason": "at_capacity", "nodes": 2}]])
def test_saturation_tells_its_families_or_none(families: Any) -> None:
    body = error_body(503, "queue_saturated", "saturation", families=families)
    with ScriptedServer(lambda exchange: exchange.answer(503, body, x_should_retry="false")) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            with pytest.raises(zml.SaturationError) as caught:
                client.infer("m", MESSAGES)
    expected = [zml.SaturatedFamily("H100", "at_capacity", 2)] if isinstance(families, list) else []
    assert caught.value.families == expected


@pytest.mark.parametrize(
    "body", ["", "<html>504</html>", "null", "[]", '"x"', '{"error": 7}', '{"error": {"code": {}}}']
)
def test_an_error_status_with_any_body_is_its_class_and_says_what_to_check(
    infer: Callable[..., Any], body: str
) -> None:
    with ScriptedServer(lambda exchange: exchange.answer(404, body, content_type="text/html")) as server:
        with pytest.raises(zml.NotFoundError, match="text/html.*check base_url"):
            infer(server.url)


def test_errors_can_be_pickled() -> None:
    error = zml.SaturationError("full")
    error.status, error.retry_after = 503, 2.0
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is zml.SaturationError and (copy.status, copy.retry_after, str(copy)) == (503, 2.0, "full")


# Retries and deadlines.


def refusal(status: int, **headers: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(status, error_body(status, "x", "server_error"), **headers)


def succeed(exchange: Exchange) -> None:
    exchange.answer(200, CHAT)


def test_a_retry_sends_the_same_bytes_again(infer: Callable[..., Any]) -> None:
    with ScriptedServer(refusal(503), refusal(429), succeed) as server:
        assert infer(server.url, accelerator="H100", max_tokens=8).text == "hi"
        first, second, third = server.exchanges
        assert first.body == second.body == third.body and b"max_tokens" in first.body
        assert first.headers == second.headers == third.headers


def test_a_wait_that_the_server_asks_for_is_kept(infer: Callable[..., Any]) -> None:
    runtime = FakeRuntime(now=1_700_000_000.0)
    waits = [refusal(503, retry_after="70"), refusal(429, retry_after="Tue, 14 Nov 2023 22:14:40 GMT")]
    with ScriptedServer(*waits, succeed) as server:
        infer(server.url, {"runtime": runtime})
    # the date is 80 s away, of which 70 have been slept
    assert runtime.waits == [70.0, 10.0]


def test_a_wait_longer_than_what_is_left_is_an_error_at_once(infer: Callable[..., Any]) -> None:
    runtime = FakeRuntime()
    with ScriptedServer(refusal(503, retry_after="50"), refusal(503, retry_after="50"), succeed) as server:
        with pytest.raises(zml.InternalServerError) as caught:
            infer(server.url, {"runtime": runtime, "timeout": 60})
        assert len(server.exchanges) == 2
    assert runtime.waits == [50.0] and caught.value.retry_after == 50.0


def test_what_the_gateway_has_tried_everything_for_is_not_tried_again(infer: Callable[..., Any]) -> None:
    with ScriptedServer(refusal(502, x_should_retry="false"), succeed) as server:
        with pytest.raises(zml.APIStatusError):
            infer(server.url)
        assert len(server.exchanges) == 1


def test_max_retries_of_the_call_counts(infer: Callable[..., Any]) -> None:
    with ScriptedServer(refusal(503)) as server:
        with pytest.raises(zml.InternalServerError):
            infer(server.url, max_retries=4)
        assert len(server.exchanges) == 5


# For calls that end by them: on a busy machine one may be over before the server has read it, and is made again.
TIMEOUTS = (0.3, 1.5, 7.5)


def hang(exchange: Exchange) -> None:
    exchange.wait_for_close()
    exchange.cut()


def test_a_server_that_never_answers_is_a_time_out_and_sees_the_connection_close(infer: Callable[..., Any]) -> None:
    with ScriptedServer(hang) as server:
        for timeout in TIMEOUTS:
            with pytest.raises(zml.APITimeoutError, match=f"{timeout:g} s.*raise timeout"):
                infer(server.url, {"timeout": timeout})
            if server.exchanges:
                break
        assert server.exchanges[0].closed.wait(10)
        assert len(server.exchanges) == 1


def test_the_deadline_is_that_of_all_tries_together(infer: Callable[..., Any]) -> None:
    # 9 s are gone with two waits of the server's; the third try gets what is left of 10
    with ScriptedServer(refusal(503, retry_after="4"), refusal(503, retry_after="5"), hang) as server:
        with pytest.raises(zml.APITimeoutError, match="3 tries"):
            infer(server.url, {"timeout": 10})
        assert len(server.exchanges) == 3


@pytest.mark.parametrize(
    "framing, start",
    [
        ("content-length: 1000000", b""),
        ("transfer-encoding: chunked", b""),
        ("connection: close", b""),
        # the head of a file whose name never ends
        ("transfer-encoding: chunked\r\ncontent-encoding: gzip", b"a\r\n\x1f\x8b\x08\x08\0\0\0\0\0\0\r\n"),
    ],
)
def test_a_body_that_comes_byte_by_byte_reaches_the_deadline(
    infer: Callable[..., Any], framing: str, start: bytes
) -> None:
    is_over = threading.Event()

    def drip(exchange: Exchange) -> None:
        exchange.send(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{framing}\r\n\r\n")
        exchange.send(start)
        for _ in range(400):
            if is_over.wait(0.05) or exchange.closed.is_set():
                break
            exchange.send(b"1\r\n \r\n")
        exchange.cut()

    with ScriptedServer(drip) as server:
        for timeout in TIMEOUTS:
            with pytest.raises(zml.APITimeoutError):
                infer(server.url, {"timeout": timeout, "runtime": Runtime()})
            if server.exchanges:
                break
        assert server.exchanges[0].closed.wait(10)
        is_over.set()


def test_a_body_that_stops_late_reaches_the_deadline_of_the_call_and_not_that_of_a_read(
    infer: Callable[..., Any],
) -> None:
    def stop(exchange: Exchange) -> None:
        exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            exchange.send(b" ")
            exchange.closed.wait(0.05)
        hang(exchange)

    with ScriptedServer(succeed, stop) as server:
        infer(server.url)  # imports what a first call imports
        start = time.monotonic()
        with pytest.raises(zml.APITimeoutError):
            infer(server.url, {"timeout": 1.2, "runtime": Runtime()})
        # a read that began at 1 s with the time that the first one had would end at 2.2 s
        assert time.monotonic() - start < 2.1
        assert server.exchanges[1].closed.wait(10)


@pytest.mark.parametrize("piece", ["x-more: 1\r\n", "HTTP/1.1 102 Processing\r\n\r\n"])
def test_a_head_that_never_ends_reaches_the_deadline_on_a_new_and_on_a_kept_connection(piece: str) -> None:
    is_over = threading.Event()

    def drip(exchange: Exchange) -> None:
        if piece.startswith("x-"):
            exchange.send("HTTP/1.1 200 OK\r\n")
        for _ in range(400):
            if is_over.wait(0.05) or exchange.closed.is_set():
                break
            exchange.send(piece)
        exchange.cut()

    with ScriptedServer(drip, succeed, drip) as server, zml.ZML(server.url, max_retries=0) as client:
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(zml.APITimeoutError):
                client.infer("m", MESSAGES, timeout=0.5)
            # the pieces end after 20 s
            assert time.monotonic() - start < 10
            if len(server.exchanges) == 1:
                assert client.infer("m", MESSAGES).text
        assert [exchange.connection_number for exchange in server.exchanges] == [0, 1, 1]
        is_over.set()


def test_a_connection_is_used_again(infer: Callable[..., Any]) -> None:
    with ScriptedServer(refusal(503), refusal(503), succeed) as server:
        infer(server.url)
        assert {exchange.connection_number for exchange in server.exchanges} == {0}


def test_a_connection_that_the_server_closed_while_idle_is_replaced() -> None:
    def succeed_and_leave(exchange: Exchange) -> None:
        exchange.answer(200, CHAT)
        exchange.cut()

    with ScriptedServer(succeed_and_leave) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            for _ in range(5):
                assert client.infer("m", MESSAGES).text == "hi"


def test_idle_connections_go_before_the_gateway_closes_them() -> None:
    from zml._connections import LIMITS

    source = (Path(__file__).parents[2] / "packages/protocol/src/config.ts").read_text("utf-8")
    found = re.search(r"keep_alive_ms: field.*?default\((\d[\d_]*)\)", source, re.DOTALL)
    assert found is not None
    assert LIMITS.keepalive_expiry is not None and LIMITS.keepalive_expiry * 1000 < int(found.group(1))


def test_a_client_is_shared_by_threads() -> None:
    results: List[str] = []
    with ScriptedServer(succeed) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            threads = [
                threading.Thread(target=lambda: results.append(client.infer("m", MESSAGES).text)) for _ in range(16)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
    assert results == ["hi"] * 16
