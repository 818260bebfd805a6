"""Anthropic's own client on /v1/messages."""

from __future__ import annotations

import anthropic
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, MESSAGES, PIXEL, SCHEMA, arm, assert_left, assert_waited, case, raises, routing_of, run, statuses

client = anthropic.Anthropic(base_url=BASE_URL, api_key=API_KEY)
TOOL = {"name": "weather", "description": "the weather", "input_schema": SCHEMA}


@case("message, with routing")
def message(model):
    raw = client.messages.with_raw_response.create(model=model, messages=MESSAGES, max_tokens=4)
    answer = raw.parse()
    assert answer.content[0].text and answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 4
    assert routing_of(raw.headers.get("x-zml-routing"))["node"]


@case("stream, put together by the client, with routing")
def stream(model):
    with client.messages.stream(model=model, messages=MESSAGES, max_tokens=4) as events:
        text = "".join(events.text_stream)
        assert routing_of(events.response.headers.get("x-zml-routing"))["node"]
        final = events.get_final_message()
    assert text and final.content[0].text == text
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 4)


@case("stream of raw events")
def raw_stream(model):
    kinds = [event.type for event in client.messages.create(model=model, messages=MESSAGES, max_tokens=4, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds


@case("async message and stream")
async def asynchronous(model):
    async with anthropic.AsyncAnthropic(base_url=BASE_URL, api_key=API_KEY) as aio:
        assert (await aio.messages.create(model=model, messages=MESSAGES, max_tokens=4)).content[0].text
        async with aio.messages.stream(model=model, messages=MESSAGES, max_tokens=4) as events:
            assert [text async for text in events.text_stream]


@case("tools: use and result", "vllm llamacpp")
def tools(model):
    first = client.messages.create(model=model, messages=MESSAGES, max_tokens=100, tools=[TOOL])
    use = first.content[0]
    assert (first.stop_reason, use.type, use.input) == ("tool_use", "tool_use", {"city": "Oslo", "days": 2})
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"}]}
    messages = [*MESSAGES, {"role": "assistant", "content": first.content}, result]
    second = client.messages.create(model=model, messages=messages, max_tokens=100, tools=[TOOL])
    assert second.content[0].type == "text"


@case("tools: stream, put together by the client", "vllm llamacpp")
def tools_stream(model):
    with client.messages.stream(model=model, messages=MESSAGES, max_tokens=100, tools=[TOOL]) as events:
        final = events.get_final_message()
    assert final.content[0].input == {"city": "Oslo", "days": 2}


@case("image in the body", "vllm")
def vision(model):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": "what is this?"}]}]
    assert client.messages.create(model=model, messages=messages, max_tokens=2).content


@case("system prompt as text and as blocks")
def system(model):
    for prompt in ("be brief", [{"type": "text", "text": "be brief"}]):
        assert client.messages.create(model=model, system=prompt, messages=MESSAGES, max_tokens=2).content


@case("a key as bearer token", "vllm")
def bearer(model):
    other = anthropic.Anthropic(base_url=BASE_URL, auth_token=API_KEY)
    assert other.messages.create(model=model, messages=MESSAGES, max_tokens=2).content


@case("errors in Anthropic's shape have their classes, and no try is repeated", "vllm")
def errors(model):
    arm("none")
    create = client.messages.create
    missing = raises(anthropic.NotFoundError, lambda: create(model="nothing", messages=MESSAGES, max_tokens=1))
    assert missing.body["error"]["type"] == "not_found_error" and missing.body["error"]["code"] == "model_not_found"
    stranger = anthropic.Anthropic(base_url=BASE_URL, api_key="sk-wrong")
    wrong = raises(anthropic.AuthenticationError, lambda: stranger.messages.create(model=model, messages=MESSAGES, max_tokens=1))
    assert wrong.body["error"]["type"] == "authentication_error"
    policy = {"x-zml-policy": "x"}
    raises(anthropic.BadRequestError, lambda: create(model=model, messages=MESSAGES, max_tokens=1, extra_headers=policy))
    assert statuses() == [404, 401, 400]


@case("count_tokens is a NotFoundError", "vllm")
def count_tokens(model):
    error = raises(anthropic.NotFoundError, lambda: client.messages.count_tokens(model=model, messages=MESSAGES))
    assert error.body["error"]["type"] == "not_found_error", error.body


@case("saturation: waits for Retry-After and is served", "fault")
def saturated():
    arm("full")
    assert client.messages.create(model=FAULTY, messages=MESSAGES, max_tokens=2).content
    assert_waited()


@case("saturation without retries is an overloaded_error", "fault")
def saturated_at_once():
    arm("full")
    once = client.with_options(max_retries=0)
    error = raises(anthropic.InternalServerError, lambda: once.messages.create(model=FAULTY, messages=MESSAGES, max_tokens=2))
    assert (error.status_code, error.body["error"]["type"]) == (503, "overloaded_error")
    assert error.body["error"]["code"] == "queue_saturated"


@case("a node that failed: x-should-retry: false stops it", "fault")
def broken():
    arm("broken")
    error = raises(anthropic.InternalServerError, lambda: client.messages.create(model=FAULTY, messages=MESSAGES, max_tokens=2))
    assert error.status_code == 500
    assert statuses() == [500]


@case("a stream that breaks raises APIStatusError after what came", "fault")
def cut():
    arm("cut")
    kinds = []

    def read():
        for event in client.messages.create(model=FAULTY, messages=MESSAGES, max_tokens=50, stream=True):
            kinds.append(event.type)

    error = raises(anthropic.APIError, read)
    assert error.body["error"]["code"] == "stream_interrupted", error.body
    assert "content_block_delta" in kinds
    assert statuses() == [200]


@case("time-out: its own class, and the node is let go", "fault")
def timeout():
    arm("slow")
    hasty = client.with_options(timeout=HASTE_S, max_retries=0)
    raises(anthropic.APITimeoutError, lambda: hasty.messages.create(model=FAULTY, messages=MESSAGES, max_tokens=2))
    assert_left()


run("anthropic (Python)", "anthropic")
