"""What programs do with an answer beside reading it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any, Dict, Optional

import pytest
import zml
from conftest import quick_client
from scripted_server import Exchange, ScriptedServer

KEY = "sk-of-the-application"
MESSAGES = [{"role": "user", "content": "hello"}]
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
CHAT = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]})


def succeed(exchange: Exchange) -> None:
    exchange.answer(200, CHAT, x_zml_routing='node="a"', x_request_id="r-1", set_cookie="session=s3cret")


@pytest.fixture()
def answer() -> zml.ChatCompletion:
    with ScriptedServer(succeed) as server:
        with quick_client() as http, zml.ZML(server.url, KEY, http_client=http) as client:
            return client.infer("m", MESSAGES)


def test_an_answer_that_is_pickled_takes_no_key_and_no_cookie_along(answer: zml.ChatCompletion) -> None:
    pickled = pickle.dumps(answer)
    assert KEY.encode() not in pickled and b"s3cret" not in pickled


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_copy_of_an_answer_has_its_routing(answer: zml.ChatCompletion, duplicate: Any) -> None:
    other = duplicate(answer)
    assert other == answer and other.text == "hi" and other.request_id == "r-1"
    assert other.routing == answer.routing == zml.Routing(node="a")


def test_an_object_is_no_sequence_of_its_members(answer: zml.ChatCompletion) -> None:
    for use in (list, dict, iter):
        with pytest.raises(TypeError, match="not iterable"):
            use(answer)  # type: ignore[operator]


def piece(index: int, text: str, finish_reason: Optional[str] = None) -> str:
    choice: Dict[str, Any] = {"index": index, "finish_reason": finish_reason}
    choice.update({"delta": {"content": text}, "text": text})
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


@pytest.mark.parametrize("question", [{"messages": MESSAGES}, {"prompt": "Once"}])
def test_with_two_choices_text_is_that_of_the_first(question: Dict[str, Any]) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.stream(piece(0, "a"), piece(1, "x"), piece(0, "b"), piece(1, "y"))
        exchange.cut()

    with ScriptedServer(cut) as server:
        with quick_client() as http, zml.ZML(server.url, http_client=http) as client:
            texts = []
            with pytest.raises(zml.StreamInterruptedError) as caught:
                for chunk in client.infer("m", n=2, stream=True, **question):
                    texts.append(chunk.text)
    assert texts == ["a", "", "b", ""] and caught.value.text == "ab" and caught.value.events == 4


def test_a_trace_context_that_a_program_gives_goes_along() -> None:
    seen: Dict[str, str] = {}

    def play(exchange: Exchange) -> None:
        seen.update(exchange.headers)
        succeed(exchange)

    context = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "rojo=1"}
    with ScriptedServer(play) as server:
        with quick_client() as http, zml.ZML(server.url, KEY, http_client=http) as client:
            client.infer("m", MESSAGES, extra_headers=context)
    assert {name: seen.get(name) for name in context} == context
