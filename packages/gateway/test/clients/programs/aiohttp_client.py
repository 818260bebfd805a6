"""aiohttp, with no client library in between."""

from __future__ import annotations

import asyncio
import json

import aiohttp
from cases import API_KEY, BASE_URL, FAULTY, HASTE_S, MESSAGES, arm, assert_left, case, routing_of, run

HEADERS = {"authorization": f"Bearer {API_KEY}"}
URL = f"{BASE_URL}/v1/chat/completions"


@case("chat, with routing")
async def chat(model):
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(URL, json={"model": model, "messages": MESSAGES, "max_tokens": 4}) as answer:
            assert answer.status == 200 and answer.content_type == "application/json"
            assert routing_of(answer.headers.get("x-zml-routing"))["node"]
            assert (await answer.json())["choices"][0]["message"]["content"]


@case("stream, event by event")
async def stream(model):
    body = {"model": model, "messages": MESSAGES, "max_tokens": 4, "stream": True}
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(URL, json=body) as answer:
            assert answer.content_type == "text/event-stream"
            lines = [line.decode().strip() async for line in answer.content]
    events = [line[6:] for line in lines if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert sum(bool(json.loads(event)["choices"][0]["delta"].get("content")) for event in events[:-1]) == 4


@case("a chunked body, and one in gzip", "vllm")
async def bodies(model):
    body = json.dumps({"model": model, "messages": MESSAGES, "max_tokens": 2}).encode()

    async def parts():
        for at in range(0, len(body), 7):
            yield body[at : at + 7]

    headers = {**HEADERS, "content-type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.post(URL, data=parts()) as answer:
            assert answer.status == 200, await answer.text()
        async with session.post(URL, data=body, compress="gzip") as answer:
            assert answer.status == 200, await answer.text()


@case("twenty at once on one session", "vllm")
async def many(model):
    body = {"model": model, "messages": MESSAGES, "max_tokens": 4}
    async with aiohttp.ClientSession(headers=HEADERS) as session:

        async def one():
            async with session.post(URL, json=body) as answer:
                return (await answer.json())["usage"]["completion_tokens"]

        assert await asyncio.gather(*[one() for _ in range(20)]) == [4] * 20


@case("saturation: the status, the code and Retry-After", "fault")
async def saturated():
    arm("full")
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(URL, json={"model": FAULTY, "messages": MESSAGES}) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert (await answer.json())["error"]["code"] == "queue_saturated"


@case("a stream that breaks ends with an error event", "fault")
async def cut():
    arm("cut")
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(URL, json={"model": FAULTY, "messages": MESSAGES, "stream": True}) as answer:
            text = await answer.text()
    last = [line for line in text.splitlines() if line.startswith("data: ")][-1]
    assert json.loads(last[6:])["error"]["code"] == "stream_interrupted"


@case("a caller who leaves lets the node go", "fault")
async def leave():
    arm("slow")
    async with aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(total=HASTE_S)) as session:
        try:
            async with session.post(URL, json={"model": FAULTY, "messages": MESSAGES}):
                raise AssertionError("it was answered")
        except asyncio.TimeoutError:
            pass
    assert_left()


run("aiohttp", "aiohttp")
