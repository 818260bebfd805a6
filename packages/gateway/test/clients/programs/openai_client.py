"""OpenAI's own client."""

from __future__ import annotations

import json

import openai
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, MESSAGES, PIXEL, SCHEMA, arm, assert_left, assert_waited, case, raises, routing_of, run, seen, statuses
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
patient = client.with_options(max_retries=2)
TOOL = {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": SCHEMA}}
FUNCTION = {"type": "function", "name": "weather", "parameters": SCHEMA}


class Weather(BaseModel):
    city: str
    days: int


@case("chat, with routing")
def chat(model):
    raw = client.chat.completions.with_raw_response.create(model=model, messages=MESSAGES, max_tokens=4)
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 4
    routing = routing_of(raw.headers.get("x-zml-routing"))
    assert routing["node"] and routing["family"] and routing["decision"], routing
    assert raw.headers.get("x-request-id")


@case("chat stream, with routing and usage")
def stream(model):
    options = {"include_usage": True}
    with client.chat.completions.with_streaming_response.create(
        model=model, messages=MESSAGES, max_tokens=4, stream=True, stream_options=options
    ) as raw:
        assert routing_of(raw.headers.get("x-zml-routing"))["node"]
        chunks = list(raw.parse())
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert chunks[-1].usage.completion_tokens == 4
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["length"]


@case("routing by zml.openai.with_routing: on answers, streams and errors")
def with_routing(model):
    from zml.openai import with_routing

    wrapped = with_routing(openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY))
    answer = wrapped.chat.completions.create(model=model, messages=MESSAGES, max_tokens=2)
    assert answer.routing.node and answer.routing.attempt == 1
    assert wrapped.chat.completions.create(model=model, messages=MESSAGES, max_tokens=2, stream=True).routing.node
    error = raises(openai.NotFoundError, lambda: wrapped.chat.completions.create(model="nothing", messages=MESSAGES))
    assert error.routing.reason == "refused"


@case("async chat and stream")
async def asynchronous(model):
    async with openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY) as aio:
        answer = await aio.chat.completions.create(model=model, messages=MESSAGES, max_tokens=4)
        assert answer.choices[0].message.content
        events = await aio.chat.completions.create(model=model, messages=MESSAGES, max_tokens=4, stream=True)
        assert [event async for event in events]


@case("policy and accelerator by extra_headers and extra_body", "vllm")
def hints(model):
    for extra in (
        {"extra_headers": {"x-zml-accelerator": "MI300X", "x-zml-policy": "chat"}},
        {"extra_body": {"accelerator": "MI300X", "policy": "chat"}},
    ):
        raw = client.chat.completions.with_raw_response.create(model=model, messages=MESSAGES, max_tokens=1, **extra)
        routing = routing_of(raw.headers.get("x-zml-routing"))
        assert (routing["family"], routing["hint"]) == ("MI300X", "used"), routing


@case("tools: call and result", "vllm llamacpp")
def tools(model):
    first = client.chat.completions.create(model=model, messages=MESSAGES, tools=[TOOL])
    assert first.choices[0].finish_reason == "tool_calls"
    call = first.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Oslo", "days": 2}
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    messages = [*MESSAGES, first.choices[0].message, result]
    second = client.chat.completions.create(model=model, messages=messages, tools=[TOOL])
    assert second.choices[0].message.content


@case("tools: stream, put together by the client", "vllm llamacpp")
def tools_stream(model):
    with client.chat.completions.stream(model=model, messages=MESSAGES, tools=[{**TOOL, "function": {**TOOL["function"], "strict": True}}]) as events:
        for _ in events:
            pass
        call = events.get_final_completion().choices[0].message.tool_calls[0]
    assert call.function.parsed_arguments == {"city": "Oslo", "days": 2}


@case("tools: offered, and a result sent back", "real")
def tools_real(model):
    messages = [
        *MESSAGES,
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    answer = client.chat.completions.create(model=model, messages=messages, tools=[TOOL], max_tokens=4)
    assert answer.choices[0].message.content


@case("structured output: parse")
def parse(model):
    class Place(BaseModel):
        city: Weather

    answer = client.chat.completions.parse(model=model, messages=MESSAGES, response_format=_schema_of(Weather), max_tokens=400)
    assert json.loads(answer.choices[0].message.content)
    # the tiny real model knows no end of a number
    if model != "real":
        parsed = client.chat.completions.parse(model=model, messages=MESSAGES, response_format=Place)
        assert isinstance(parsed.choices[0].message.parsed.city, Weather)


def _schema_of(kind):
    return {"type": "json_schema", "json_schema": {"name": kind.__name__, "strict": True, "schema": SCHEMA}}


@case("responses")
def responses(model):
    raw = client.responses.with_raw_response.create(model=model, input="hello", max_output_tokens=4)
    answer = raw.parse()
    assert answer.output_text
    assert answer.usage.output_tokens == 4
    assert routing_of(raw.headers.get("x-zml-routing"))["node"]


@case("responses stream")
def responses_stream(model):
    with client.responses.create(model=model, input="hello", max_output_tokens=4, stream=True) as events:
        kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert kinds.count("response.output_text.delta") == 4, kinds


@case("responses stream, put together by the client", "vllm")
def responses_helper(model):
    with client.responses.stream(model=model, input="hello", max_output_tokens=4) as events:
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert events.get_final_response().output_text == deltas


@case("responses tools: call and result", "vllm llamacpp")
def responses_tools(model):
    first = client.responses.create(model=model, input=MESSAGES, tools=[FUNCTION])
    call = first.output[0]
    assert call.type == "function_call" and json.loads(call.arguments) == {"city": "Oslo", "days": 2}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    items = [*MESSAGES, call.model_dump(exclude_none=True), output]
    assert client.responses.create(model=model, input=items, tools=[FUNCTION]).output_text


@case("responses structured output: parse", "vllm llamacpp")
def responses_parse(model):
    assert client.responses.parse(model=model, input="hello", text_format=Weather).output_parsed.city


@case("legacy completions")
def completions(model):
    answer = client.completions.create(model=model, prompt="hello", max_tokens=4)
    assert answer.choices[0].text
    assert list(client.completions.create(model=model, prompt="hello", max_tokens=4, stream=True))


@case("embeddings, base64 as the client asks by itself", "vllm llamacpp")
def embeddings(model):
    answer = client.embeddings.create(model=model, input=["one", "two"])
    assert [len(item.embedding) for item in answer.data] == [8, 8]
    assert abs(answer.data[0].embedding[0] - 0.5) < 1e-6
    assert client.embeddings.create(model=model, input="one", encoding_format="float").data[0].embedding[0] == 0.5


@case("image in the body", "vllm")
def vision(model):
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    assert client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}], max_tokens=2)


@case("image that no node reads is a BadRequestError", "llamacpp real")
def vision_refused(model):
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
    call = lambda: client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}])  # noqa: E731
    assert raises(openai.BadRequestError, call).code == "images_unsupported"


@case("models: list and retrieve", "vllm")
def models(model):
    assert model in [one.id for one in client.models.list()]
    assert client.models.retrieve(model).id == model
    assert raises(openai.NotFoundError, lambda: client.models.retrieve("nothing")).code == "model_not_found"


@case("errors have their classes, and no try is repeated", "vllm")
def errors(model):
    arm("none")
    create = client.chat.completions.create
    missing = raises(openai.NotFoundError, lambda: create(model="nothing", messages=MESSAGES))
    assert (missing.code, missing.param) == ("model_not_found", "model")
    assert missing.response.headers["x-zml-routing"] == "reason=refused"
    assert raises(openai.BadRequestError, lambda: create(model=model, messages=MESSAGES, extra_headers={"x-zml-policy": "x"})).code == "policy_not_found"
    stranger = client.with_options(api_key="sk-wrong")
    assert raises(openai.AuthenticationError, lambda: stranger.chat.completions.create(model=model, messages=MESSAGES)).code == "invalid_api_key"
    assert raises(openai.NotFoundError, lambda: client.moderations.create(input="x")).code == "not_found"
    assert statuses() == [404, 400, 401, 404]


@case("saturation: waits for Retry-After and is served", "fault")
def saturated():
    arm("full")
    assert patient.chat.completions.create(model=FAULTY, messages=MESSAGES, max_tokens=2).choices
    assert_waited()


@case("saturation without retries is an InternalServerError with its code", "fault")
def saturated_at_once():
    arm("full")
    once = client.with_options(max_retries=0)
    error = raises(openai.InternalServerError, lambda: once.chat.completions.create(model=FAULTY, messages=MESSAGES))
    assert (error.status_code, error.type, error.code) == (503, "saturation", "queue_saturated"), error.body
    assert error.body["families"][0]["reason"] == "at_capacity"
    assert error.response.headers["retry-after"] == "1"


@case("a node that failed: x-should-retry: false stops it", "fault")
def broken():
    arm("broken")
    error = raises(openai.InternalServerError, lambda: patient.chat.completions.create(model=FAULTY, messages=MESSAGES))
    assert error.status_code == 500 and error.response.headers["x-should-retry"] == "false"
    assert routing_of(error.response.headers["x-zml-routing"])["node"] == "faulty"
    assert statuses() == [500]


@case("a stream that breaks raises APIError after what came", "fault")
def cut():
    arm("cut")
    words = []

    def read():
        for chunk in patient.chat.completions.create(model=FAULTY, messages=MESSAGES, stream=True):
            words.append(chunk)

    error = raises(openai.APIError, read)
    assert (error.code, error.type) == ("stream_interrupted", "upstream_error"), error
    assert len(words) >= 1
    assert statuses() == [200]


@case("time-out: its own class, and the node is let go", "fault")
def timeout():
    arm("slow")
    hasty = client.with_options(timeout=HASTE_S, max_retries=1)
    raises(openai.APITimeoutError, lambda: hasty.chat.completions.create(model=FAULTY, messages=MESSAGES))
    assert_left(tries=2)


@case("the caller's key never reaches the node", "fault")
def key():
    arm("none")
    client.chat.completions.create(model=FAULTY, messages=MESSAGES, max_tokens=1)
    headers = seen()["node"][0]["headers"]
    assert "authorization" not in headers and API_KEY not in json.dumps(headers), headers


run("openai (Python)", "openai")
