"""What calls and events cost a Python process: raw httpx, zml and openai in turn, blocking and in asyncio.

Arguments: URL of the server, rounds, rounds with paced events, calls per slot, events per stream. Prints one JSON object:
``{"sync": {"call": {"raw": [[cpu, wall], …]}, "event": …, "paced_event": …}, "async": …}``, µs per call or event and slot.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any, Awaitable, Callable, Dict, Iterable, List

import httpx
import openai

import zml

BASE = sys.argv[1]
ROUNDS, PACED_ROUNDS, CALLS, EVENTS = map(int, sys.argv[2:])
URL = f"{BASE}/v1/chat/completions"
ASK: Dict[str, Any] = {"model": "bench", "messages": [{"role": "user", "content": "Why is the sky blue? " * 20}]}
STREAM = {**ASK, "stream": True}
PACED = {**STREAM, "user": "paced"}
KEY = {"authorization": "Bearer sk-bench"}

Times = Dict[str, List[List[float]]]


def check(events: int) -> None:
    if events != EVENTS:
        raise SystemExit(f"{events} of {EVENTS} events came")


class Slot:
    """The time of one slot, of the whole process: the garbage of others is not counted."""

    def __init__(self, into: List[List[float]], count: int) -> None:
        self.into, self.count = into, count

    def __enter__(self) -> None:
        gc.collect()
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        cpu, wall = time.process_time() - self.cpu, time.perf_counter() - self.wall
        self.into.append([cpu * 1e6 / self.count, wall * 1e6 / self.count])


def blocking() -> Dict[str, Times]:
    raw, ours = httpx.Client(headers=KEY), zml.ZML(BASE, "sk-bench")
    theirs = openai.OpenAI(base_url=f"{BASE}/v1", api_key="sk-bench")

    def raw_call() -> str:
        return raw.post(URL, json=ASK).json()["choices"][0]["message"]["content"]

    def raw_stream(ask: Dict[str, Any]) -> int:
        count, rest = 0, b""
        with raw.stream("POST", URL, json=ask) as response:
            for piece in response.iter_bytes():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    if event != b"data: [DONE]":
                        json.loads(event[6:])["choices"][0]["delta"]["content"]
                        count += 1
        return count

    def ours_stream(ask: Dict[str, Any]) -> int:
        count = 0
        for chunk in ours.infer(**ask):
            chunk.choices[0].delta.content
            count += 1
        return count

    def theirs_stream(ask: Dict[str, Any]) -> int:
        count = 0
        for chunk in theirs.chat.completions.create(**ask):
            chunk.choices[0].delta.content
            count += 1
        return count

    calls: Dict[str, Callable[[], Any]] = {
        "raw": raw_call,
        "zml": lambda: ours.infer(**ASK).choices[0].message.content,
        "openai": lambda: theirs.chat.completions.create(**ASK).choices[0].message.content,
    }
    streams = {"raw": raw_stream, "zml": ours_stream, "openai": theirs_stream}
    times = no_times(calls)
    for at in range(ROUNDS):
        for name in in_turn(calls, at):
            with Slot(times["call"][name], CALLS):
                for _ in range(CALLS):
                    calls[name]()
            with Slot(times["event"][name], EVENTS):
                check(streams[name](STREAM))
    for at in range(PACED_ROUNDS):
        for name in in_turn(calls, at):
            with Slot(times["paced_event"][name], EVENTS):
                check(streams[name](PACED))
    return times


async def in_a_loop() -> Dict[str, Times]:
    raw, ours = httpx.AsyncClient(headers=KEY), zml.AsyncZML(BASE, "sk-bench")
    theirs = openai.AsyncOpenAI(base_url=f"{BASE}/v1", api_key="sk-bench")

    async def raw_call() -> str:
        return (await raw.post(URL, json=ASK)).json()["choices"][0]["message"]["content"]

    async def ours_call() -> Any:
        return (await ours.infer(**ASK)).choices[0].message.content

    async def theirs_call() -> Any:
        return (await theirs.chat.completions.create(**ASK)).choices[0].message.content

    async def raw_stream(ask: Dict[str, Any]) -> int:
        count, rest = 0, b""
        async with raw.stream("POST", URL, json=ask) as response:
            async for piece in response.aiter_bytes():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    if event != b"data: [DONE]":
                        json.loads(event[6:])["choices"][0]["delta"]["content"]
                        count += 1
        return count

    async def ours_stream(ask: Dict[str, Any]) -> int:
        count = 0
        async for chunk in await ours.infer(**ask):
            chunk.choices[0].delta.content
            count += 1
        return count

    async def theirs_stream(ask: Dict[str, Any]) -> int:
        count = 0
        async for chunk in await theirs.chat.completions.create(**ask):
            chunk.choices[0].delta.content
            count += 1
        return count

    calls: Dict[str, Callable[[], Awaitable[Any]]] = {"raw": raw_call, "zml": ours_call, "openai": theirs_call}
    streams = {"raw": raw_stream, "zml": ours_stream, "openai": theirs_stream}
    times = no_times(calls)
    for at in range(ROUNDS):
        for name in in_turn(calls, at):
            with Slot(times["call"][name], CALLS):
                for _ in range(CALLS):
                    await calls[name]()
            with Slot(times["event"][name], EVENTS):
                check(await streams[name](STREAM))
    for at in range(PACED_ROUNDS):
        for name in in_turn(calls, at):
            with Slot(times["paced_event"][name], EVENTS):
                check(await streams[name](PACED))
    return times


def no_times(names: Iterable[str]) -> Dict[str, Times]:
    return {what: {name: [] for name in names} for what in ("call", "event", "paced_event")}


def in_turn(calls: Dict[str, Any], at: int) -> List[str]:
    """Another one begins in each round."""
    names = list(calls)
    first = at % len(names)
    return names[first:] + names[:first]


gc.freeze()  # modules are no garbage, and looking at them again takes longer than the slots
print(json.dumps({"sync": blocking(), "async": asyncio.run(in_a_loop())}))
