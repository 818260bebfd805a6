"""LlamaIndex's OpenAILike."""

from __future__ import annotations

import openai
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, arm, assert_left, assert_waited, case, raises, routing_of, run, statuses
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

QUESTION = "what is the weather like in Oslo?"


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    days: int


def weather(city: str, days: int) -> str:
    """Tells the weather of a city."""
    return "rain"


def model_of(name, **options):
    flags = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 4096}
    return OpenAILike(model=name, api_base=f"{BASE_URL}/v1", api_key=API_KEY, **flags, **options)


@case("chat and complete")
def chat(model):
    llm = model_of(model, max_tokens=4)
    answer = llm.chat([ChatMessage(role="user", content=QUESTION)])
    assert answer.message.content and answer.raw.usage.completion_tokens == 4
    assert llm.complete(QUESTION).text


@case("stream_chat and stream_complete")
def stream(model):
    llm = model_of(model, max_tokens=4)
    assert "".join(part.delta or "" for part in llm.stream_chat([ChatMessage(role="user", content=QUESTION)]))
    assert list(llm.stream_complete(QUESTION))


@case("achat and astream_chat")
async def asynchronous(model):
    llm = model_of(model, max_tokens=4)
    messages = [ChatMessage(role="user", content=QUESTION)]
    assert (await llm.achat(messages)).message.content
    assert [part async for part in await llm.astream_chat(messages)]


@case("legacy completions (is_chat_model=False)")
def completions(model):
    llm = OpenAILike(model=model, api_base=f"{BASE_URL}/v1", api_key=API_KEY, is_chat_model=False, max_tokens=4)
    assert llm.complete(QUESTION).text


@case("tools: call and result", "vllm llamacpp")
def tools(model):
    llm = model_of(model)
    tool = FunctionTool.from_defaults(weather)
    history = [ChatMessage(role="user", content=QUESTION)]
    first = llm.chat_with_tools([tool], chat_history=history)
    call = llm.get_tool_calls_from_response(first)[0]
    assert call.tool_name == "weather" and set(call.tool_kwargs) == {"city", "days"}
    result = ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": call.tool_id})
    second = llm.chat_with_tools([tool], chat_history=[*history, first.message, result])
    assert second.message.content


@case("structured output", "vllm llamacpp")
def structured(model):
    llm = model_of(model, should_use_structured_outputs=True)
    assert isinstance(llm.structured_predict(Weather, _prompt()), Weather)


def _prompt():
    from llama_index.core.prompts import PromptTemplate

    return PromptTemplate(QUESTION)


@case("policy by default_headers, routing by an http client's hook", "vllm")
def hints(model):
    import httpx

    routings = []
    hook = lambda answer: routings.append(answer.headers.get("x-zml-routing"))  # noqa: E731
    http = httpx.Client(event_hooks={"response": [hook]})
    headers = {"x-zml-accelerator": "MI300X"}
    llm = model_of(model, max_tokens=1, default_headers=headers, http_client=http)
    assert llm.complete(QUESTION).text
    assert routing_of(routings[0])["family"] == "MI300X"


@case("errors have the classes of the openai client", "vllm")
def errors(model):
    raises(openai.NotFoundError, lambda: model_of("nothing").complete(QUESTION))
    wrong = OpenAILike(model=model, api_base=f"{BASE_URL}/v1", api_key="sk-wrong", is_chat_model=True)
    raises(openai.AuthenticationError, lambda: wrong.complete(QUESTION))


@case("saturation: waits for Retry-After and is served", "fault")
def saturated():
    arm("full")
    assert model_of(FAULTY, max_tokens=2).complete(QUESTION).text
    assert_waited()


@case("a node that failed: its own retries don't know x-should-retry, max_retries=0 stops them", "fault")
def broken():
    arm("broken")
    raises(openai.InternalServerError, lambda: model_of(FAULTY, max_retries=2).complete(QUESTION))
    assert statuses() == [500, 500], statuses()
    arm("broken")
    raises(openai.InternalServerError, lambda: model_of(FAULTY, max_retries=0).complete(QUESTION))
    assert statuses() == [500], statuses()


@case("a stream that breaks raises APIError after what came", "fault")
def cut():
    arm("cut")
    error = raises(openai.APIError, lambda: list(model_of(FAULTY).stream_complete(QUESTION)))
    assert error.code == "stream_interrupted", error


@case("time-out: its own class, and the node is let go", "fault")
def timeout():
    arm("slow")
    raises(openai.APITimeoutError, lambda: model_of(FAULTY, timeout=HASTE_S, max_retries=0).complete(QUESTION))
    assert_left()


run("LlamaIndex (OpenAILike)", "llama-index-llms-openai-like")
