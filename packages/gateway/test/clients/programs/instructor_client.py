"""instructor on the openai client."""

from __future__ import annotations

import instructor
import openai
from cases import API_KEY, BASE_URL, FAULTY, MESSAGES, arm, assert_waited, case, raises, routing_of, run, statuses
from pydantic import BaseModel, Field


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    days: int


class Sunny(BaseModel):
    """Nothing that the model says fits."""

    days: int = Field(ge=1, le=7)
    note: str = Field(pattern="^never$")


def client_of(mode, **options):
    return instructor.from_openai(openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, **options), mode=mode)


@case("an object by tools, and by JSON schema", "vllm llamacpp")
def objects(model):
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        answer = client_of(mode).chat.completions.create(model=model, messages=MESSAGES, response_model=Weather)
        assert isinstance(answer, Weather), answer


@case("an object and the answer that it came from", "vllm llamacpp")
def with_completion(model):
    client = client_of(instructor.Mode.TOOLS)
    answer, raw = client.chat.completions.create_with_completion(model=model, messages=MESSAGES, response_model=Weather)
    assert answer.city and raw.id


@case("partial objects from a stream", "vllm llamacpp")
def partial(model):
    client = client_of(instructor.Mode.JSON_SCHEMA)
    parts = list(client.chat.completions.create_partial(model=model, messages=MESSAGES, response_model=Weather))
    assert parts[-1].city and parts[-1].days


@case("asynchronous", "vllm llamacpp")
async def asynchronous(model):
    aio = openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
    client = instructor.from_openai(aio, mode=instructor.Mode.TOOLS)
    assert (await client.chat.completions.create(model=model, messages=MESSAGES, response_model=Weather)).city


@case("an answer that does not fit is asked for again", "vllm")
def asks_again(model):
    arm("none")
    client = client_of(instructor.Mode.TOOLS)
    create = lambda: client.chat.completions.create(  # noqa: E731
        model=model, messages=MESSAGES, response_model=Sunny, max_retries=2
    )
    raises(Exception, create)
    assert set(statuses()) == {200} and len(statuses()) >= 2, statuses()


@case("routing from an http client's hook", "vllm")
def routing(model):
    routings = []
    hook = lambda answer: routings.append(answer.headers.get("x-zml-routing"))  # noqa: E731
    http = openai.DefaultHttpxClient(event_hooks={"response": [hook]})
    client = client_of(instructor.Mode.TOOLS, http_client=http)
    assert client.chat.completions.create(model=model, messages=MESSAGES, response_model=Weather)
    assert routing_of(routings[0])["node"]


@case("saturation: waits for Retry-After and is served", "fault")
def saturated():
    arm("full")
    client = client_of(instructor.Mode.TOOLS)
    assert client.chat.completions.create(model=FAULTY, messages=MESSAGES, response_model=Weather)
    assert_waited()


@case("a node that failed: x-should-retry: false stops it", "fault")
def broken():
    arm("broken")
    client = client_of(instructor.Mode.TOOLS)
    create = lambda: client.chat.completions.create(  # noqa: E731
        model=FAULTY, messages=MESSAGES, response_model=Weather, max_retries=0
    )
    raises(Exception, create)
    assert statuses() == [500], statuses()


run("instructor", "instructor")
