"""Every vector of conformance/ that an SDK runs, with both clients, against a scripted server on a raw socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional
from unittest import mock

import pytest
import zml
from conftest import quick_async_client, quick_client
from fake_runtime import FakeRuntime, put
from scripted_server import Exchange, Play, ScriptedServer, closed_port, head_of

FOLDER = Path(__file__).parents[2] / "conformance"


def vectors() -> List[Any]:
    found: List[Any] = []
    for path in sorted(FOLDER.glob("*.json")):
        if path.name != "vectors.schema.json":
            for vector in json.loads(path.read_text("utf-8"))["vectors"]:
                if "sdk" in vector["runs"]:
                    found.append(pytest.param(vector, id=f"{path.stem}: {vector['name']}"))
    return found


VECTORS = vectors()


def test_there_are_vectors() -> None:
    assert len(VECTORS) >= 60


@pytest.mark.parametrize("kind", ["blocking", "async"])
@pytest.mark.parametrize("vector", VECTORS)
def test_vector(vector: Dict[str, Any], kind: str) -> None:
    with ScriptedServer(*[play(answer) for answer in vector.get("answers", ())]) as server:
        fill = filler(server)
        now = vector.get("client", {}).get("now")
        runtime = FakeRuntime(
            now=None if now is None else datetime.fromisoformat(now.replace("Z", "+00:00")).timestamp()
        )
        outcome = Outcome()
        if kind == "blocking":
            perform(vector, fill, runtime, outcome)
        else:
            asyncio.run(perform_async(vector, fill, runtime, outcome))
        check_result(vector, outcome)
        result = vector["result"]
        assert len(server.exchanges) == result.get("requests", len(vector.get("answers", ())))
        for exchange in server.exchanges:
            check_wire(vector, exchange)
        if "waits_ms" in result:
            match([wait * 1000 for wait in runtime.waits], result["waits_ms"], "waits_ms")
        if result.get("closed"):
            assert server.exchanges[-1].wait_for_close()


class Outcome:
    """What a call came to."""

    answer: Optional[Any] = None
    stream: Optional[Any] = None
    error: Optional[BaseException] = None

    def __init__(self) -> None:
        self.events: List[Any] = []


def perform(vector: Dict[str, Any], fill: Any, runtime: FakeRuntime, outcome: Outcome) -> None:
    take = vector["call"].get("take")
    try:
        with quick_client() as http, make_client(zml.ZML, http, vector, fill) as client:
            put(runtime, client)
            answer = method_of(client, vector["call"]["method"])(**vector["call"]["arguments"])
            if not isinstance(answer, zml.Stream):
                outcome.answer = answer
                return
            outcome.stream = answer
            with answer:
                if take == 0:
                    return
                for event in answer:
                    outcome.events.append(event)
                    if len(outcome.events) == take:
                        break
    except zml.ZMLError as error:
        outcome.error = error


async def perform_async(vector: Dict[str, Any], fill: Any, runtime: FakeRuntime, outcome: Outcome) -> None:
    take = vector["call"].get("take")
    try:
        async with quick_async_client() as http, make_client(zml.AsyncZML, http, vector, fill) as client:
            put(runtime, client)
            answer = await method_of(client, vector["call"]["method"])(**vector["call"]["arguments"])
            if not isinstance(answer, zml.AsyncStream):
                outcome.answer = answer
                return
            outcome.stream = answer
            async with answer:
                if take == 0:
                    return
                async for event in answer:
                    outcome.events.append(event)
                    if len(outcome.events) == take:
                        break
    except zml.ZMLError as error:
        outcome.error = error


def make_client(cls: Any, http: Any, vector: Dict[str, Any], fill: Any) -> Any:
    given = {
        "base_url": "{origin}",
        "api_key": "sk-conformance",
        "admin_url": "{origin}",
        "admin_key": "sk-admin",
        **vector.get("client", {}),
    }
    given.pop("now", None)
    environment = given.pop("environment", {})
    with mock.patch.dict(os.environ, fill(environment)):
        return cls(http_client=http, **fill({name: value for name, value in given.items() if value is not None}))


def filler(server: ScriptedServer) -> Any:
    places = {"{origin}": server.url, "{address}": server.address, "{closed}": f"http://127.0.0.1:{closed_port()}"}

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for place, text in places.items():
                value = value.replace(place, text)
            return value
        return {key: fill(each) for key, each in value.items()} if isinstance(value, dict) else value

    return fill


def method_of(client: Any, name: str) -> Any:
    for part in name.split("."):
        client = getattr(client, part)
    return client


def check_result(vector: Dict[str, Any], outcome: Outcome) -> None:
    result = vector["result"]
    stated = result.get("error")
    if stated is None:
        if outcome.error is not None:
            raise outcome.error
    else:
        assert isinstance(outcome.error, getattr(zml, stated["name"])), outcome.error
        for name, value in stated.items():
            if name != "name":
                match(plain(getattr(outcome.error, name, None)), value, f"error.{name}")
    carrier = outcome.answer or outcome.stream or outcome.error
    if "object" in result:
        match(plain(outcome.answer), result["object"], "object")
    if "text" in result:
        assert outcome.answer is not None and outcome.answer.text == result["text"]
    if "events" in result:
        match(plain(outcome.events), result["events"], "events")
    if "request_id" in result:
        match(getattr(carrier, "request_id"), result["request_id"], "request_id")
    if "routing" in result:
        # an error of the stream tells where it went, too
        for each in (carrier, outcome.error):
            if each is not None:
                check_routing(getattr(each, "routing"), result["routing"])


def check_routing(actual: Optional[zml.Routing], stated: Optional[Dict[str, Any]]) -> None:
    if stated is None:
        assert actual is None
        return
    assert actual is not None
    known = {name: value for name, value in actual._asdict().items() if value is not None}
    assert set(known) == {name for name, value in stated.items() if value is not None}
    match(known, stated, "routing")


def check_wire(vector: Dict[str, Any], exchange: Exchange) -> None:
    wire = vector.get("wire")
    if wire is None:
        return
    assert exchange.request_line == f"{wire['method']} {wire['path']} HTTP/1.1"
    is_admin = vector["call"]["method"].startswith("decisions.")
    headers: Dict[str, Any] = {
        "authorization": f"Bearer {'sk-admin' if is_admin else 'sk-conformance'}",
        "user-agent": {"$match": "^zml-"},
    }
    if "body" in wire:
        headers["content-type"] = "application/json"
    headers.update(wire.get("headers", {}))
    for name, value in headers.items():
        match(exchange.headers.get(name), value, f"header {name}")
    assert [name for name in exchange.headers if name.startswith("x-zml-") and name not in headers] == []
    if "body" in wire:
        assert json.loads(exchange.body) == wire["body"]
    else:
        assert exchange.body == b""


def match(actual: Any, stated: Any, at: str) -> None:
    """Members as a subset, lists in full, matchers as they say."""
    if isinstance(stated, list):
        assert isinstance(actual, list) and len(actual) == len(stated), f"{at} is {actual!r}"
        for index, each in enumerate(stated):
            match(actual[index], each, f"{at}[{index}]")
    elif not isinstance(stated, dict):
        assert actual == stated, at
    elif "$match" in stated:
        assert re.search(stated["$match"], str(actual)), f"{at} is {actual!r}"
    elif "$any" in stated:
        assert actual is not None, at
    elif "$absent" in stated:
        assert actual is None, f"{at} is {actual!r}"
    elif "$between" in stated:
        least, most = stated["$between"]
        assert least <= actual <= most, f"{at} is {actual!r}"
    else:
        assert isinstance(actual, dict), f"{at} is {actual!r}"
        for key, value in stated.items():
            match(actual.get(key), value, f"{at}.{key}")


def plain(value: Any) -> Any:
    if isinstance(value, zml.WireObject):
        return value.to_dict()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    return [plain(each) for each in value] if isinstance(value, list) else value


def play(answer: Dict[str, Any]) -> Play:
    """Serves what a vector says."""
    end = answer.get("end", "complete")

    def run(exchange: Exchange) -> None:
        if "status" in answer:
            chunks = answer.get("chunks")
            body = body_of(answer)
            headers = {} if "body" not in answer else {"content-type": "application/json"}
            if chunks is not None:
                headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
            else:
                # a length that is never reached is how a body is cut
                headers["content-length"] = str(len(body) + (0 if end == "complete" else 1))
            exchange.send(head_lines(answer["status"], {**headers, **answer.get("headers", {})}))
            if chunks is None:
                exchange.send(body)
            for chunk in chunks or ():
                exchange.piece(chunk if isinstance(chunk, str) else base64.b64decode(chunk["base64"]))
            if chunks is not None and end == "complete":
                exchange.end()
        if end == "cut":
            exchange.cut()
        elif end == "hang":
            exchange.wait_for_close()
            exchange.cut()

    return run


def head_lines(status: int, headers: Dict[str, Any]) -> bytes:
    lines = head_of(status, {})[:-2]
    for name, value in headers.items():
        for each in value if isinstance(value, list) else [value]:
            text = example_of(each)
            if text is not None:
                lines += f"{name}: {text}\r\n".encode("latin-1")
    return lines + b"\r\n"


def body_of(answer: Dict[str, Any]) -> bytes:
    if "body_base64" in answer:
        return base64.b64decode(answer["body_base64"])
    if "body_text" in answer:
        text: str = answer["body_text"]
        return text.encode("utf-8")
    return json.dumps(example_of(answer["body"])).encode("utf-8") if "body" in answer else b""


def example_of(value: Any) -> Any:
    """A value with the example of every matcher in its place."""
    if isinstance(value, dict):
        if any(key.startswith("$") for key in value):
            return value.get("example")
        return {key: example_of(each) for key, each in value.items()}
    return [example_of(each) for each in value] if isinstance(value, list) else value
