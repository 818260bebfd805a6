"""From a method's arguments to its `Call`, and from the body of an answer to its object. Pure."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, TypeVar, cast
from urllib.parse import quote

from ._call import Call
from ._errors import ConfigurationError
from ._failures import answer_error, format_error
from ._head import Credential, Head
from ._json import as_object
from ._objects import Answer, ChatCompletion, Completion, Decision, EmbeddingList, ModelAnswer, ModelList, WireObject
from ._runtime import Runtime
from ._settings import Settings, checked_header_value, checked_headers, checked_retries, checked_timeout

_A = TypeVar("_A", bound=Answer)

_EVENT_STREAM = "text/event-stream"


class Endpoints:
    """What a client can ask for."""

    __slots__ = ("runtime", "settings")

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime

    def infer(
        self,
        *,
        model: str,
        messages: Optional[Iterable[Any]],
        prompt: Any,
        stream: object,
        accelerator: Optional[str],
        policy: Optional[str],
        timeout: Optional[float],
        max_retries: Optional[int],
        extra_headers: Optional[Mapping[str, str]],
        parameters: Mapping[str, Any],
    ) -> Call:
        """Raises `ConfigurationError`."""
        if (messages is None) == (prompt is None):
            raise ConfigurationError("infer takes either messages or prompt: give one of them")
        if not isinstance(stream, bool):
            raise ConfigurationError(f"stream is {stream!r}: give True or False")
        body: Dict[str, Any] = {"model": model}
        if messages is None:
            path = "/v1/completions"
            body["prompt"] = prompt
        else:
            path = "/v1/chat/completions"
            body["messages"] = _listed(messages)
        body.update(parameters)
        if stream:
            body["stream"] = True
        return self._post(
            path,
            body,
            accept=_EVENT_STREAM if stream else "application/json",
            accelerator=accelerator,
            policy=policy,
            timeout=timeout,
            max_retries=max_retries,
            extra_headers=extra_headers,
        )

    def embed(
        self,
        *,
        model: str,
        input: Any,
        accelerator: Optional[str],
        policy: Optional[str],
        timeout: Optional[float],
        max_retries: Optional[int],
        extra_headers: Optional[Mapping[str, str]],
        parameters: Mapping[str, Any],
    ) -> Call:
        """Raises `ConfigurationError`."""
        return self._post(
            "/v1/embeddings",
            {"model": model, "input": input, **parameters},
            accept="application/json",
            accelerator=accelerator,
            policy=policy,
            timeout=timeout,
            max_retries=max_retries,
            extra_headers=extra_headers,
        )

    def list_models(self, timeout: Optional[float]) -> Call:
        """Raises `ConfigurationError`."""
        return self._get_from_data_port("/v1/models", timeout)

    def get_model(self, id: str, timeout: Optional[float]) -> Call:
        """Raises `ConfigurationError`."""
        return self._get_from_data_port(f"/v1/models/{_segment('id', id)}", timeout)

    def explain_decision(self, id: str, timeout: Optional[float]) -> Call:
        """Raises `ConfigurationError`."""
        settings = self.settings
        url = f"{settings.admin_url}/admin/v1/decisions/{_segment('id', id)}"
        return self._get(url, settings.admin_headers, settings.admin_credential, timeout)

    def _get_from_data_port(self, path: str, timeout: Optional[float]) -> Call:
        settings = self.settings
        return self._get(settings.base_url + path, settings.headers, settings.credential, timeout)

    def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        accept: str,
        accelerator: Optional[str],
        policy: Optional[str],
        timeout: Optional[float],
        max_retries: Optional[int],
        extra_headers: Optional[Mapping[str, str]],
    ) -> Call:
        settings = self.settings
        headers = {**settings.headers, "accept": accept, "content-type": "application/json"}
        if accelerator is not None:
            headers["x-zml-accelerator"] = checked_header_value("accelerator", accelerator)
        if policy is not None:
            headers["x-zml-policy"] = checked_header_value("policy", policy)
        if extra_headers:
            headers.update(checked_headers("extra_headers", extra_headers))
        return Call(
            "POST",
            settings.base_url + path,
            headers,
            _encoded(body),
            credential=settings.credential,
            timeout_s=settings.timeout_s if timeout is None else checked_timeout(timeout),
            max_retries=settings.max_retries if max_retries is None else checked_retries(max_retries),
            runtime=self.runtime,
        )

    def _get(self, url: str, headers: Mapping[str, str], credential: Credential, timeout: Optional[float]) -> Call:
        return Call(
            "GET",
            url,
            {**headers, "accept": "application/json"},
            None,
            credential=credential,
            timeout_s=self.settings.timeout_s if timeout is None else checked_timeout(timeout),
            max_retries=self.settings.max_retries,
            runtime=self.runtime,
        )


def _listed(messages: Iterable[Any]) -> Any:
    if isinstance(messages, (str, bytes, Mapping, WireObject)):
        raise ConfigurationError('messages is no list: give one such as [{"role": "user", "content": "hello"}]')
    return messages if isinstance(messages, list) else list(messages)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        # a text of json's may quote the prompt
        raise ConfigurationError(
            f"the parameters can't be written as JSON ({type(error).__name__}): give texts, numbers, lists, mappings"
        ) from None


def _plain(value: Any) -> Dict[str, Any]:
    """What json can't write by itself: objects of answers, tuples' cousins, and other mappings."""
    if isinstance(value, WireObject):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError


def _segment(argument: str, value: Any) -> str:
    if not isinstance(value, str) or value in ("", ".", ".."):
        raise ConfigurationError(f"{argument} is {value!r}: give the {argument} as a text that is not empty")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise ConfigurationError(f"{argument} is no valid Unicode: give it as it was received") from None


def is_event_stream(head: Head) -> bool:
    """Whether what follows is a stream of events. Servers that name no type are believed."""
    kind = head.content_type
    return kind is None or kind.partition(";")[0].strip().lower() == _EVENT_STREAM


def not_a_stream(head: Head) -> Exception:
    """The error of a call for a stream that was answered with something else."""
    size = head.headers.get("content-length", "")
    return format_error(head, int(size) if size.isdigit() else None, f"a stream ({_EVENT_STREAM})")


def _reader(cls: Callable[[Dict[str, Any], Head], _A], member: str, kind: type) -> Callable[[Head, bytes], _A]:
    """Reads an answer whose ``member`` must be of that type."""

    def read(head: Head, body: bytes) -> _A:
        try:
            data = as_object(json.loads(body))
        except (ValueError, RecursionError):
            raise format_error(head, len(body), "JSON") from None
        if data is not None and isinstance(data.get(member), kind):
            return cls(data, head)
        if data is not None and as_object(data.get("error")) is not None:
            raise answer_error(data, head)
        raise format_error(head, len(body), f"an object with {member!r}")

    return read


read_chat = _reader(ChatCompletion, "choices", list)
read_completion = _reader(Completion, "choices", list)
read_embeddings = _reader(EmbeddingList, "data", list)
read_models = _reader(ModelList, "data", list)
read_model = _reader(ModelAnswer, "id", str)
read_decision = _reader(Decision, "decision", str)
