"""LangChain's ChatOpenAI and OpenAIEmbeddings."""

from __future__ import annotations

import openai
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, PIXEL, arm, assert_left, assert_waited, case, raises, routing_of, run, statuses
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

QUESTION = "what is the weather like in Oslo?"


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    days: int


@tool
def weather(city: str, days: int) -> str:
    """Tells the weather of a city."""
    return "rain"


def model_of(name, **options):
    return ChatOpenAI(model=name, base_url=f"{BASE_URL}/v1", api_key=API_KEY, **options)


@case("invoke, with routing from include_response_headers")
def invoke(model):
    answer = model_of(model, include_response_headers=True, max_tokens=4).invoke(QUESTION)
    assert answer.content and answer.usage_metadata["output_tokens"] == 4
    assert routing_of(answer.response_metadata["headers"]["x-zml-routing"])["node"]


@case("stream")
def stream(model):
    chunks = list(model_of(model, max_tokens=4, stream_usage=True).stream(QUESTION))
    assert "".join(chunk.content for chunk in chunks)
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) == 4


@case("ainvoke, astream and batch")
async def asynchronous(model):
    chat = model_of(model, max_tokens=4)
    assert (await chat.ainvoke(QUESTION)).content
    assert [chunk async for chunk in chat.astream(QUESTION)]
    assert len(await chat.abatch([QUESTION] * 3)) == 3


@case("tools: an agent's loop", "vllm llamacpp")
def tools(model):
    chat = model_of(model).bind_tools([weather])
    messages = [HumanMessage(QUESTION)]
    first = chat.invoke(messages)
    call = first.tool_calls[0]
    assert call["name"] == "weather" and set(call["args"]) == {"city", "days"}
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    assert chat.invoke([*messages, first, result]).content
    streamed = None
    for chunk in chat.stream(messages):
        streamed = chunk if streamed is None else streamed + chunk
    assert streamed.tool_calls[0]["args"] == call["args"]


@case("structured output, by schema and by function", "vllm llamacpp")
def structured(model):
    for method in ("json_schema", "function_calling"):
        answer = model_of(model).with_structured_output(Weather, method=method).invoke(QUESTION)
        assert isinstance(answer, Weather), answer


@case("Responses API", "vllm llamacpp")
def responses(model):
    assert model_of(model, use_responses_api=True, max_tokens=4).invoke(QUESTION).text


@case("image in the body", "vllm")
def vision(model):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    parts = [{"type": "text", "text": "what is this?"}, image]
    assert model_of(model, max_tokens=2).invoke([HumanMessage(parts)]).content


@case("embeddings", "vllm llamacpp")
def embeddings(model):
    # tokens instead of texts would need a tokenizer of OpenAI's models
    embed = OpenAIEmbeddings(model=model, base_url=f"{BASE_URL}/v1", api_key=API_KEY, check_embedding_ctx_length=False)
    assert [len(vector) for vector in embed.embed_documents(["one", "two"])] == [8, 8]


@case("policy by default_headers", "vllm")
def hints(model):
    headers = {"x-zml-accelerator": "MI300X"}
    answer = model_of(model, default_headers=headers, include_response_headers=True, max_tokens=1).invoke(QUESTION)
    assert routing_of(answer.response_metadata["headers"]["x-zml-routing"])["family"] == "MI300X"


@case("errors have the classes of the openai client", "vllm")
def errors(model):
    arm("none")
    raises(openai.NotFoundError, lambda: model_of("nothing").invoke(QUESTION))
    wrong = ChatOpenAI(model=model, base_url=f"{BASE_URL}/v1", api_key="sk-wrong")
    raises(openai.AuthenticationError, lambda: wrong.invoke(QUESTION))
    assert statuses() == [404, 401]


@case("saturation: waits for Retry-After and is served", "fault")
def saturated():
    arm("full")
    assert model_of(FAULTY, max_tokens=2).invoke(QUESTION).content
    assert_waited()


@case("a node that failed: x-should-retry: false stops it", "fault")
def broken():
    arm("broken")
    raises(openai.InternalServerError, lambda: model_of(FAULTY).invoke(QUESTION))
    assert statuses() == [500]


@case("a stream that breaks raises APIError after what came", "fault")
def cut():
    arm("cut")
    error = raises(openai.APIError, lambda: list(model_of(FAULTY).stream(QUESTION)))
    assert error.code == "stream_interrupted", error
    assert statuses() == [200]


@case("time-out: its own class, and the node is let go", "fault")
def timeout():
    arm("slow")
    raises(openai.APITimeoutError, lambda: model_of(FAULTY, timeout=HASTE_S, max_retries=0).invoke(QUESTION))
    assert_left()


run("LangChain (ChatOpenAI)", "langchain-openai")
