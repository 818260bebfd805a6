"""Plays cases against the stage and prints one line of JSON for each; see ../programs.ts for who reads it."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import time
import traceback
import urllib.request
from importlib import metadata
from typing import Any, Callable

STAGE: dict[str, Any] = json.loads(os.environ["ZML_CLIENTS_STAGE"])
BASE_URL: str = STAGE["base_url"]
API_KEY: str = STAGE["api_key"]
MODELS: dict[str, str] = {engine: name for engine, name in STAGE["models"].items() if name is not None}
FAULTY: str = STAGE["fault_model"]

MESSAGES = [{"role": "user", "content": "what is the weather like in Oslo?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "enum": [2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# long enough for a call to be at the node by then, also on a busy machine
HASTE_S = 0.6

# for one case: the clients' own time-outs are ten minutes
DEADLINE_S = 30

_cases: list[tuple[str, str, Callable[..., Any]]] = []


def case(name: str, engines: str = "vllm llamacpp real") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a case for each of the engines; `fault` stands for the node that fails on command."""

    def register(play: Callable[..., Any]) -> Callable[..., Any]:
        for engine in engines.split():
            if engine == "fault" or engine in MODELS:
                _cases.append((name, engine, play))
        return play

    return register


def arm(fault: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{STAGE['control']}/arm/{fault}", method="POST"), timeout=30).read()


def seen() -> dict[str, Any]:
    with urllib.request.urlopen(f"{STAGE['control']}/seen", timeout=30) as answer:
        return json.load(answer)


def statuses() -> list[int]:
    """What the client got since `arm`, tries of its own included."""
    return [call["status"] for call in seen()["calls"]]


def assert_waited() -> None:
    """It was refused with `Retry-After: 1`, waited that long, and got its answer."""
    calls = seen()["calls"]
    assert [call["status"] for call in calls] == [503, 200], calls
    assert 950 <= calls[1]["waited_ms"] < 5000, calls


def assert_left(tries: int = 1) -> None:
    """The node was asked so often, and each time left before it had answered."""
    posts = seen()["node"]
    assert [post["close_cause"] for post in posts] == ["caller-closed"] * tries, posts


def raises(kind: type[BaseException] | tuple[type[BaseException], ...], call: Callable[[], Any]) -> Any:
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"it raised nothing, {kind} was due")


def routing_of(header: str | None) -> dict[str, str]:
    assert header is not None, "the answer has x-zml-routing"
    members = dict(part.strip().split("=", 1) for part in header.split(","))
    return {name: value.strip('"') for name, value in members.items()}


def _give_up(*_: object) -> None:
    raise TimeoutError(f"it took longer than {DEADLINE_S} s")


def run(client: str, package: str) -> None:
    """Plays what was registered; exits with 1 when a case failed."""
    print(json.dumps({"client": client, "package": package, "version": metadata.version(package)}), flush=True)
    only = os.environ.get("ZML_CLIENTS_CASE", "")
    failed = False
    # one loop for all: clients keep connections of theirs between calls
    loop = asyncio.new_event_loop()
    signal.signal(signal.SIGALRM, _give_up)
    for name, engine, play in _cases:
        if only not in f"{name} {engine}":
            continue
        started = time.perf_counter()
        problem = None
        signal.alarm(DEADLINE_S)
        try:
            arguments = [] if engine == "fault" else [MODELS[engine]]
            result = play(*arguments)
            if inspect.iscoroutine(result):
                loop.run_until_complete(result)
        except BaseException as error:  # noqa: B902: whatever it is, it is the result of this case
            problem = "".join(traceback.format_exception(error))[-4000:]
            failed = True
        finally:
            signal.alarm(0)
        ms = round((time.perf_counter() - started) * 1e3)
        print(json.dumps({"case": name, "engine": engine, "problem": problem, "ms": ms}), flush=True)
    sys.exit(1 if failed else 0)
