"""The client that blocks. `_async_client.py` is its twin; what both do is in `_endpoints.py`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterable, Literal, Mapping, Optional, Type, Union, overload

import httpx

from ._connections import Connections
from ._endpoints import (
    Endpoints,
    read_chat,
    read_completion,
    read_decision,
    read_embeddings,
    read_model,
    read_models,
)
from ._io import BlockingIO
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
from ._stream import Stream

Messages = Iterable[Any]
Prompt = Any


class ZML:
    """A client of a ZML gateway. Safe to share between threads; one for a whole program is the rule.

    Args:
        base_url: of the gateway's data port, with or without ``/v1``. Default: ``ZML_BASE_URL``, else
            ``http://127.0.0.1:8080``.
        api_key: sent as ``Authorization: Bearer``. Default: ``ZML_API_KEY``; without both none is sent.
        admin_url: of the gateway's admin port, for ``decisions``. Default: ``ZML_ADMIN_URL``, else
            ``http://127.0.0.1:8081``.
        admin_key: for the admin port. Default: ``ZML_ADMIN_KEY``.
        timeout: seconds that a call may take, retries and their waits included, up to the last byte of its answer. For
            a stream: up to its head; from then on the longest silence between two reads.
        max_retries: how many times a call is tried again after the first: on 408, 409, 429, 500, 502, 503, 504, 529 and
            broken connections, unless the gateway says that it has tried everything (``x-should-retry: false``). A wait
            that the server asks for (``Retry-After``) is kept if it fits in ``timeout``. A stream that has begun is
            never tried again.
        http_client: an `httpx.Client` to send with, for proxies, certificates and transports of your own. It is not
            closed with this client. Default: one that speaks HTTP/1.1, with a connection for each call at a time.
        default_headers: sent with every call.

    Raises:
        ConfigurationError: a URL, key, header or number that can't be used.
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
        http_client: Optional[httpx.Client] = None,
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
        checked_http_client(http_client, httpx.Client)
        runtime = Runtime()
        self._endpoints = Endpoints(settings, runtime)
        self._connections = Connections(http_client)
        self._io = BlockingIO(self._connections, runtime)
        self.models = Models(self._endpoints, self._io)
        """The models that the gateway serves."""
        self.decisions = Decisions(self._endpoints, self._io)
        """The routing decisions that the gateway remembers."""

    @overload
    def infer(
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
    def infer(
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
    ) -> Stream[ChatCompletionChunk]: ...
    @overload
    def infer(
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
    def infer(
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
    ) -> Stream[CompletionChunk]: ...
    @overload
    def infer(
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
    ) -> Union[ChatCompletion, Completion, Stream[ChatCompletionChunk], Stream[CompletionChunk]]: ...

    def infer(
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
    ) -> Union[ChatCompletion, Completion, Stream[ChatCompletionChunk], Stream[CompletionChunk]]:
        """Asks a model; the gateway picks the node.

        Args:
            model: a name that the gateway serves.
            messages: the chat so far, as OpenAI's API has it; messages of earlier answers can stand among them.
            prompt: text to be continued, in place of ``messages``.
            stream: gives the events as they come instead of the whole answer.
            accelerator: the accelerator family that you wish for; the policy decides whether it is followed
                (``routing.hint``).
            policy: the routing policy to use instead of the model's own.
            timeout: seconds, in place of the client's.
            max_retries: in place of the client's.
            extra_headers: sent with this call.
            **parameters: the other members of the body (``max_tokens``, ``temperature``, ``tools``, …). They are sent
                as they are, those that ZML does not know included; ``None`` is sent as null.

        Raises:
            ConfigurationError: nothing was sent.
            APIStatusError: the gateway or the node refused; see the classes below it.
            APIConnectionError: not reachable (`TLSError`), too late (`APITimeoutError`), or broken off.
            ResponseFormatError: something else than ZML answered.
        """
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
                return self._io.stream(call, CompletionChunk, prompt_text)
            return self._io.answer(call, read_completion)
        if stream:
            return self._io.stream(call, ChatCompletionChunk, delta_text)
        return self._io.answer(call, read_chat)

    def embed(
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
        """Turns texts into vectors.

        Args:
            model: a name that the gateway serves.
            input: a text, a list of texts, or tokens.

        The others, and the errors, are those of `infer`.
        """
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
        return self._io.answer(call, read_embeddings)

    def close(self) -> None:
        """Closes the idle connections, unless the ``http_client`` was given. May be called again."""
        self._connections.close()

    def __enter__(self) -> ZML:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ZML {self._endpoints.settings.shown_url}>"


class Models:
    """The models that the gateway serves."""

    __slots__ = ("_endpoints", "_io")

    def __init__(self, endpoints: Endpoints, io: BlockingIO) -> None:
        self._endpoints = endpoints
        self._io = io

    def list(self, *, timeout: Optional[float] = None) -> ModelList:
        """All of them. ``timeout`` in seconds. Errors as for `ZML.infer`."""
        return self._io.answer(self._endpoints.list_models(timeout), read_models)

    def get(self, id: str, *, timeout: Optional[float] = None) -> ModelAnswer:
        """One of them. Raises `NotFoundError` when the gateway does not serve it; else as for `ZML.infer`."""
        return self._io.answer(self._endpoints.get_model(id, timeout), read_model)


class Decisions:
    """The routing decisions that the gateway remembers; they are asked for on the admin port."""

    __slots__ = ("_endpoints", "_io")

    def __init__(self, endpoints: Endpoints, io: BlockingIO) -> None:
        self._endpoints = endpoints
        self._io = io

    def explain(self, id: str, *, timeout: Optional[float] = None) -> Decision:
        """What was known at a decision, what was chosen and why, and how it ended. ``id``: ``routing.decision``.

        Raises `NotFoundError` when the gateway does not remember it any more; else as for `ZML.infer`.
        """
        return self._io.answer(self._endpoints.explain_decision(id, timeout), read_decision)
