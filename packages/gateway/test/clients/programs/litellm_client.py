"""LiteLLM's client, with the providers openai and anthropic."""

from __future__ import annotations

import json

import litellm
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, MESSAGES, PIXEL, SCHEMA, arm, assert_left, case, raises, routing_of, run, seen, statuses
from pydantic import BaseModel

litellm.telemetry = False
litellm.suppress_debug_info = True
TOOL = {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": SCHEMA}}


class Weather(BaseModel):
    city: str
    days: int


def complete(model, **options):
    return litellm.completion(model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, messages=MESSAGES, **options)


@case("completion, with routing from _hidden_params")
def completion(model):
    answer = complete(model, max_tokens=4)
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 4
    headers = answer._hidden_params["additional_headers"]
    assert routing_of(headers["llm_provider-x-zml-routing"])["node"], headers


@case("stream, with routing from _hidden_params")
def stream(model):
    events = complete(model, max_tokens=4, stream=True)
    chunks = list(events)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert routing_of(events._hidden_params["additional_headers"]["llm_provider-x-zml-routing"])["node"]


@case("acompletion and its stream")
async def asynchronous(model):
    where = {"model": f"openai/{model}", "api_base": f"{BASE_URL}/v1", "api_key": API_KEY, "messages": MESSAGES}
    assert (await litellm.acompletion(**where, max_tokens=4)).choices[0].message.content
    assert [chunk async for chunk in await litellm.acompletion(**where, max_tokens=4, stream=True)]


@case("tools: call and result", "vllm llamacpp")
def tools(model):
    first = complete(model, tools=[TOOL]).choices[0]
    call = first.message.tool_calls[0]
    assert first.finish_reason == "tool_calls" and json.loads(call.function.arguments) == {"city": "Oslo", "days": 2}
    messages = [*MESSAGES, first.message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    second = litellm.completion(
        model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, messages=messages, tools=[TOOL]
    )
    assert second.choices[0].message.content


@case("structured output", "vllm llamacpp")
def structured(model):
    assert Weather.model_validate_json(complete(model, response_format=Weather).choices[0].message.content)


@case("responses", "vllm llamacpp")
def responses(model):
    answer = litellm.responses(
        model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, input="hello", max_output_tokens=4
    )
    assert answer.output[0].content[0].text


@case("embedding", "vllm llamacpp")
def embedding(model):
    answer = litellm.embedding(model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, input=["one", "two"])
    assert [len(item["embedding"]) for item in answer.data] == [8, 8]


@case("rerank, as a server of Jina's interface", "vllm llamacpp")
def rerank(model):
    answer = litellm.rerank(
        model=f"hosted_vllm/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, query="a", documents=["a", "b"], top_n=2
    )
    assert len(answer.results) == 2


@case("provider anthropic on /v1/messages, plain and stream")
def messages(model):
    where = {"model": f"anthropic/{model}", "api_base": BASE_URL, "api_key": API_KEY, "messages": MESSAGES}
    assert litellm.completion(**where, max_tokens=4).choices[0].message.content
    assert list(litellm.completion(**where, max_tokens=4, stream=True))


@case("image in the body", "vllm")
def vision(model):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    parts = [{"type": "text", "text": "what is this?"}, image]
    content = [{"role": "user", "content": parts}]
    assert litellm.completion(
        model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, messages=content, max_tokens=2
    ).choices


@case("policy by extra_headers", "vllm")
def hints(model):
    answer = complete(model, extra_headers={"x-zml-accelerator": "MI300X"}, max_tokens=1)
    headers = answer._hidden_params["additional_headers"]
    assert routing_of(headers["llm_provider-x-zml-routing"])["family"] == "MI300X"


@case("errors have their classes", "vllm")
def errors(model):
    raises(litellm.NotFoundError, lambda: complete("nothing", num_retries=0))
    wrong = lambda: litellm.completion(  # noqa: E731
        model=f"openai/{model}", api_base=f"{BASE_URL}/v1", api_key="sk-wrong", messages=MESSAGES
    )
    raises(litellm.AuthenticationError, wrong)


@case("saturation: tries again and is served", "fault")
def saturated():
    arm("full")
    assert complete(FAULTY, max_tokens=2, max_retries=2).choices
    calls = seen()["calls"]
    assert [call["status"] for call in calls] == [503, 200], calls
    assert 950 <= calls[1]["waited_ms"] < 5000, calls


@case("saturation without retries is a ServiceUnavailableError", "fault")
def saturated_at_once():
    arm("full")
    raises(litellm.ServiceUnavailableError, lambda: complete(FAULTY, max_retries=0, num_retries=0))


@case("a node that failed: x-should-retry: false stops it", "fault")
def broken():
    arm("broken")
    raises(litellm.InternalServerError, lambda: complete(FAULTY, max_retries=2))
    assert statuses() == [500], statuses()


@case("a stream that breaks raises MidStreamFallbackError after what came", "fault")
def cut():
    arm("cut")
    error = raises(litellm.exceptions.MidStreamFallbackError, lambda: list(complete(FAULTY, stream=True, max_retries=0)))
    assert "the answer broke off after it had begun" in str(error), error


@case("time-out: its own class, and the node is let go", "fault")
def timeout():
    arm("slow")
    raises(litellm.Timeout, lambda: complete(FAULTY, timeout=HASTE_S, max_retries=0))
    assert_left()


run("LiteLLM (client)", "litellm")
