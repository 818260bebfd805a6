"""`zml.openai.with_routing` on the official client, blocking and not."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any, Callable, Dict, Iterator

import pytest
import zml
from scripted_server import Exchange, ScriptedServer

openai: Any = pytest.importorskip("openai")

from zml.openai import routing_of, with_routing  # noqa: E402

MESSAGES: Any = [{"role": "user", "content": "hello"}]
HEADERS = {"x_zml_routing": 'node="a", family="H100", attempt=1, reason=cheapest'}
EXPECTED = zml.Routing(node="a", family="H100", attempt=1, reason="cheapest")

CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": '{"a": 1}'}, "finish_reason": "stop", "logprobs": None}
    ],
}
COMPLETION = {**CHAT, "object": "text_completion", "choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}]}
EMBEDDINGS = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
    "usage": {},
}
RESPONSE = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [],
    "tools": [],
}
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "zml"}]}
CHUNK = {
    **CHAT,
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}],
}
BODIES = {
    "chat/completions": CHAT,
    "completions": COMPLETION,
    "embeddings": EMBEDDINGS,
    "responses": RESPONSE,
    "models": MODELS,
}


def gateway(exchange: Exchange) -> None:
    """Answers every route that the tests use."""
    path = exchange.request_line.split(" ")[1]
    body = json.loads(exchange.body or b"{}")
    if body.get("model") == "none":
        error = {
            "message": "there is no model",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        exchange.answer(404, json.dumps({"error": error}), **HEADERS)
    elif body.get("stream"):
        exchange.stream(f"data: {json.dumps(CHUNK)}\n\n", **HEADERS)
        if body["model"] == "breaks":
            exchange.piece('data: {"error": {"message": "it broke off", "code": "stream_interrupted"}}\n\n')
        exchange.piece("data: [DONE]\n\n")
        exchange.end()
    else:
        exchange.answer(200, json.dumps(BODIES[path[len("/v1/") :]]), **({} if body.get("model") == "old" else HEADERS))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ScriptedServer(gateway) as server:
        yield f"{server.url}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as made:
        assert with_routing(made) is made
        yield with_routing(made)


def test_errors_carry_it_and_those_without_an_answer_have_none(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="none", messages=MESSAGES)
    assert caught.value.routing == EXPECTED and routing_of(caught.value) == EXPECTED
    down = with_routing(openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="x", max_retries=0))
    with pytest.raises(openai.APIConnectionError) as refused:
        down.chat.completions.create(model="m", messages=MESSAGES)
    assert refused.value.routing is None and routing_of(refused.value) is None


def test_an_error_in_the_middle_of_a_stream_carries_it(client: Any) -> None:
    with pytest.raises(openai.APIError) as caught:
        list(client.chat.completions.create(model="breaks", messages=MESSAGES, stream=True))
    assert caught.value.routing == EXPECTED


def test_an_answer_of_another_server_has_none(client: Any) -> None:
    assert client.chat.completions.create(model="old", messages=MESSAGES).routing is None


def test_what_is_no_client_of_openai_is_refused() -> None:
    with pytest.raises(zml.ConfigurationError, match="OpenAI"):
        with_routing(object())  # type: ignore[type-var]


CALLS: Dict[str, Callable[[Any], Any]] = {
    "chat": lambda client: client.chat.completions.create(model="m", messages=MESSAGES),
    "completions": lambda client: client.completions.create(model="m", prompt="hello"),
    "embeddings": lambda client: client.embeddings.create(model="m", input="hello", encoding_format="float"),
    "responses": lambda client: client.responses.create(model="m", input="hello"),
    "stream": lambda client: client.chat.completions.create(model="m", messages=MESSAGES, stream=True),
    "raw": lambda client: client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES),
    "raw stream": lambda client: client.chat.completions.with_raw_response.create(
        model="m", messages=MESSAGES, stream=True
    ),
    "options": lambda client: client.with_options(timeout=5).chat.completions.create(model="m", messages=MESSAGES),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_answer_carries_it(client: Any, name: str) -> None:
    answer = CALLS[name](client)
    assert answer.routing == EXPECTED and routing_of(answer) == EXPECTED
    if name.startswith("raw"):
        for _ in range(2):  # it is parsed once and kept
            parsed = answer.parse()
            assert parsed.routing == EXPECTED
        answer = parsed
    if "stream" in name:
        assert [chunk.choices[0].delta.content for chunk in answer] == ["hi"]
    else:
        assert "routing" not in answer.model_dump() and "routing" not in answer.model_dump_json()
        assert "routing" not in repr(answer)
        if name == "chat":
            assert answer == type(answer).model_validate(answer.model_dump())


def test_pages_helpers_and_parsed_answers_carry_it(client: Any) -> None:
    assert client.models.list().routing == EXPECTED
    with client.chat.completions.with_streaming_response.create(model="m", messages=MESSAGES) as response:
        assert response.routing == EXPECTED and response.parse().routing == EXPECTED
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        assert routing_of(stream) == EXPECTED
    pydantic = pytest.importorskip("pydantic")
    shape = pydantic.create_model("Shape", a=(int, ...))
    parsed = client.chat.completions.parse(model="m", messages=MESSAGES, response_format=shape)
    assert parsed.routing == EXPECTED and parsed.choices[0].message.parsed.a == 1


def test_the_asynchronous_client_is_the_same(url: str) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as made:
            client = with_routing(made)
            assert isinstance(client, openai.AsyncOpenAI) and type(client).__name__ == "AsyncOpenAI"
            for name, call in CALLS.items():
                answer = await call(client)
                assert answer.routing == EXPECTED, name
                if name.startswith("raw"):
                    answer = answer.parse()
                    assert answer.routing == EXPECTED
                if "stream" in name:
                    assert [chunk.choices[0].delta.content async for chunk in answer] == ["hi"]
            assert (await client.models.list()).routing == EXPECTED
            async with client.chat.completions.with_streaming_response.create(model="m", messages=MESSAGES) as response:
                assert response.routing == EXPECTED and (await response.parse()).routing == EXPECTED
            with pytest.raises(openai.NotFoundError) as caught:
                await client.chat.completions.create(model="none", messages=MESSAGES)
            assert caught.value.routing == EXPECTED
            with pytest.raises(openai.APIError) as broken:
                async for _ in await client.chat.completions.create(model="breaks", messages=MESSAGES, stream=True):
                    pass
            assert broken.value.routing == EXPECTED
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            await stream.__anext__()
            await stream.close()

    asyncio.run(run())


def test_importing_zml_imports_no_openai() -> None:
    code = "import sys, zml; assert not {'openai', 'pydantic', 'anyio'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
