"""The client for event loops. `_client.py` is its twin; what both do is in `_endpoints.py`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Mapping, Optional, Type, Union, overload

import httpx

from ._async_io import AsyncIO
from ._client import Messages, Prompt
from ._connections import AsyncConnections
from ._endpoints import (
    Endpoints,
    read_chat,
    read_completion,
    read_decision,
    read_embeddings,
    read_model,
    read_models,
)
from ._objects import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CompletionChunk,
    Decision,
    EmbeddingList,
    ModelAnswer,
    ModelList,
    delta_text,
    prompt_text,
)
from ._runtime import Runtime
from ._settings import Settings, checked_http_client
from ._stream import AsyncStream


class AsyncZML:
    """`ZML` for asyncio and trio: the same arguments, methods and errors, to be awaited.

    The default ``http_client`` speaks HTTP/2 where TLS offers it, over which httpx has up to 100 calls at a time, and
    HTTP/1.1 else. It follows its caller into another event loop, but should have one at a time. A given one stays in its own.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        admin_url: Optional[str] = None,
        admin_key: Optional[str] = None,
        timeout: float = 600.0,
        max_retries: int = 2,
        http_client: Optional[httpx.AsyncClient] = None,
        default_headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        settings = Settings(
            base_url=base_url,
            api_key=api_key,
            admin_url=admin_url,
            admin_key=admin_key,
            timeout=timeout,
            max_retries=max_retries,
            default_headers=default_headers,
        )
        checked_http_client(http_client, httpx.AsyncClient)
        runtime = Runtime()
        self._endpoints = Endpoints(settings, runtime)
        self._connections = AsyncConnections(http_client)
        self._io = AsyncIO(self._connections, runtime)
        self.models = AsyncModels(self._endpoints, self._io)
        """The models that the gateway serves."""
        self.decisions = AsyncDecisions(self._endpoints, self._io)
        """The routing decisions that the gateway remembers."""

    @overload
    async def infer(
        self,
        model: str,
        messages: Messages,
        *,
        stream: Literal[False] = False,
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> ChatCompletion: ...
    @overload
    async def infer(
        self,
        model: str,
        messages: Messages,
        *,
        stream: Literal[True],
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> AsyncStream[ChatCompletionChunk]: ...
    @overload
    async def infer(
        self,
        model: str,
        *,
        prompt: Prompt,
        stream: Literal[False] = False,
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> Completion: ...
    @overload
    async def infer(
        self,
        model: str,
        *,
        prompt: Prompt,
        stream: Literal[True],
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> AsyncStream[CompletionChunk]: ...
    @overload
    async def infer(
        self,
        model: str,
        messages: Optional[Messages] = None,
        *,
        prompt: Optional[Prompt] = None,
        stream: bool = False,
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> Union[ChatCompletion, Completion, AsyncStream[ChatCompletionChunk], AsyncStream[CompletionChunk]]: ...

    async def infer(
        self,
        model: str,
        messages: Optional[Messages] = None,
        *,
        prompt: Optional[Prompt] = None,
        stream: bool = False,
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> Union[ChatCompletion, Completion, AsyncStream[ChatCompletionChunk], AsyncStream[CompletionChunk]]:
        """As `ZML.infer`: a whole answer, or with ``stream=True`` an `AsyncStream`."""
        call = self._endpoints.infer(
            model=model,
            messages=messages,
            prompt=prompt,
            stream=stream,
            accelerator=accelerator,
            policy=policy,
            timeout=timeout,
            max_retries=max_retries,
            extra_headers=extra_headers,
            parameters=parameters,
        )
        if messages is None:
            if stream:
                return await self._io.stream(call, CompletionChunk, prompt_text)
            return await self._io.answer(call, read_completion)
        if stream:
            return await self._io.stream(call, ChatCompletionChunk, delta_text)
        return await self._io.answer(call, read_chat)

    async def embed(
        self,
        model: str,
        input: Any,
        *,
        accelerator: Optional[str] = None,
        policy: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        extra_headers: Optional[Mapping[str, str]] = None,
        **parameters: Any,
    ) -> EmbeddingList:
        """As `ZML.embed`."""
        call = self._endpoints.embed(
            model=model,
            input=input,
            accelerator=accelerator,
            policy=policy,
            timeout=timeout,
            max_retries=max_retries,
            extra_headers=extra_headers,
            parameters=parameters,
        )
        return await self._io.answer(call, read_embeddings)

    async def close(self) -> None:
        """Closes the idle connections, unless the ``http_client`` was given. May be called again."""
        await self._connections.close()

    async def __aenter__(self) -> AsyncZML:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncZML {self._endpoints.settings.shown_url}>"


class AsyncModels:
    """The models that the gateway serves."""

    __slots__ = ("_endpoints", "_io")

    def __init__(self, endpoints: Endpoints, io: AsyncIO) -> None:
        self._endpoints = endpoints
        self._io = io

    async def list(self, *, timeout: Optional[float] = None) -> ModelList:
        """All of them. ``timeout`` in seconds. Errors as for `ZML.infer`."""
        return await self._io.answer(self._endpoints.list_models(timeout), read_models)

    async def get(self, id: str, *, timeout: Optional[float] = None) -> ModelAnswer:
        """One of them. Raises `NotFoundError` when the gateway does not serve it; else as for `ZML.infer`."""
        return await self._io.answer(self._endpoints.get_model(id, timeout), read_model)


class AsyncDecisions:
    """The routing decisions that the gateway remembers; they are asked for on the admin port."""

    __slots__ = ("_endpoints", "_io")

    def __init__(self, endpoints: Endpoints, io: AsyncIO) -> None:
        self._endpoints = endpoints
        self._io = io

    async def explain(self, id: str, *, timeout: Optional[float] = None) -> Decision:
        """What was known at a decision, what was chosen and why, and how it ended. ``id``: ``routing.decision``.

        Raises `NotFoundError` when the gateway does not remember it any more; else as for `ZML.infer`.
        """
        return await self._io.answer(self._endpoints.explain_decision(id, timeout), read_decision)
