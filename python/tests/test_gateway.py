"""A real gateway with fake nodes behind it, started by python.test.ts."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Callable, Iterator

import httpx
import pytest
import zml

BASE_URL = os.environ["ZML_TEST_BASE_URL"]
ADMIN_URL = os.environ["ZML_TEST_ADMIN_URL"]
API_KEY = os.environ["ZML_TEST_API_KEY"]
ADMIN_KEY = os.environ["ZML_TEST_ADMIN_KEY"]
MODEL = "llama-3-8b"
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def client() -> Iterator[zml.ZML]:
    with zml.ZML(BASE_URL, API_KEY, admin_url=ADMIN_URL, admin_key=ADMIN_KEY, max_retries=0) as made:
        yield made


def in_flight() -> int:
    """Requests that all nodes are working on."""
    fleet = httpx.get(f"{ADMIN_URL}/admin/v1/fleet", headers={"authorization": f"Bearer {ADMIN_KEY}"}).json()
    return sum(node["in_flight"] for node in fleet["nodes"])


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_wrong_key_is_an_authentication_error_that_does_not_repeat_it() -> None:
    for key in ("sk-of-another-gateway", None):
        with zml.ZML(BASE_URL, key) as client, pytest.raises(zml.AuthenticationError) as caught:
            client.infer(MODEL, MESSAGES)
        assert caught.value.code in ("invalid_api_key", "missing_api_key")
        assert "sk-of-another-gateway" not in str(caught.value)
    with zml.ZML(BASE_URL, API_KEY, admin_url=ADMIN_URL, admin_key=API_KEY) as client:
        with pytest.raises(zml.PermissionDeniedError, match="scope"):
            client.decisions.explain("x")


def test_an_unknown_model_policy_or_family_is_an_error_that_names_those_there_are(client: zml.ZML) -> None:
    with pytest.raises(zml.NotFoundError, match=MODEL):
        client.infer("gpt-5", MESSAGES)
    with pytest.raises(zml.BadRequestError, match="zml-default"):
        client.infer(MODEL, MESSAGES, policy="none")
    with pytest.raises(zml.BadRequestError, match="MI300X"):
        client.infer(MODEL, MESSAGES, accelerator="TPU")


def test_a_wrong_path_says_to_check_the_base_url() -> None:
    with zml.ZML(f"{BASE_URL}/elsewhere", API_KEY) as client, pytest.raises(zml.NotFoundError, match="base URL"):
        client.infer(MODEL, MESSAGES)


def test_the_data_port_in_place_of_the_admin_port_is_an_error() -> None:
    with zml.ZML(BASE_URL, API_KEY, admin_url=BASE_URL, admin_key=API_KEY) as client:
        with pytest.raises(zml.NotFoundError):
            client.decisions.explain("x")


def test_an_answer_has_its_routing_and_its_decision_can_be_explained(client: zml.ZML) -> None:
    answer = client.infer(MODEL, MESSAGES, max_tokens=5, accelerator="MI300X")
    routing = answer.routing
    assert routing is not None and answer.text
    assert (routing.node, routing.family, routing.policy, routing.attempt) == ("mi300x", "MI300X", "chat", 1)
    assert routing.hint == "used" and routing.queue_depth is not None and routing.decision is not None
    assert answer.usage is not None and answer.usage.completion_tokens == 5
    decision = client.decisions.explain(routing.decision)
    assert decision.decision == routing.decision
    assert decision.choice is not None and decision.choice["node"] == "mi300x"
    assert {family["family"] for family in decision.families} == {"H100", "MI300X"}
    with pytest.raises(zml.NotFoundError):
        client.decisions.explain("0198c0de-7000-7000-8000-000000000001")


def test_a_stream_of_a_chat_and_one_of_a_prompt(client: zml.ZML) -> None:
    with client.infer(MODEL, MESSAGES, stream=True, max_tokens=5) as stream:
        assert stream.routing is not None and stream.routing.node and stream.request_id
        assert "".join(chunk.text for chunk in stream)
    assert "".join(chunk.text for chunk in client.infer(MODEL, prompt="Once", stream=True, max_tokens=5))
    assert client.infer(MODEL, prompt="Once", max_tokens=5).text


def test_models_and_embeddings(client: zml.ZML) -> None:
    assert sorted(model.id for model in client.models.list()) == [MODEL, "slow"]
    assert client.models.get(MODEL).id == MODEL
    with pytest.raises(zml.NotFoundError):
        client.models.get("a/b c?d")
    embeddings = client.embed(MODEL, ["a", "b"])
    assert len(embeddings) == 2 and isinstance(embeddings.data[0].embedding[0], float)
    assert embeddings.routing is not None


@pytest.mark.parametrize("way", ["close", "drop", "deadline"])
def test_leaving_a_call_makes_the_node_stop(client: zml.ZML, way: str) -> None:
    assert until(lambda: in_flight() == 0)
    if way == "deadline":
        with pytest.raises(zml.APITimeoutError):
            client.infer("slow", MESSAGES, max_tokens=2000, timeout=0.5)
    else:
        stream = client.infer("slow", MESSAGES, max_tokens=2000, stream=True)
        next(stream)
        assert in_flight() == 1
        if way == "close":
            stream.close()
        del stream
    assert until(lambda: in_flight() == 0)


def test_a_cancelled_task_makes_the_node_stop() -> None:
    async def run(stream: bool) -> None:
        async with zml.AsyncZML(BASE_URL, API_KEY) as client:

            async def call() -> None:
                answer: Any = await client.infer("slow", MESSAGES, max_tokens=2000, stream=stream)
                async for _ in answer:
                    pass

            task = asyncio.ensure_future(call())
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, until, lambda: in_flight() == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await loop.run_in_executor(None, until, lambda: in_flight() == 0)

    assert until(lambda: in_flight() == 0)
    asyncio.run(run(True))
    asyncio.run(run(False))
