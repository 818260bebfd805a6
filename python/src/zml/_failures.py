"""From what went wrong to the error that says so. Pure."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Type, TypeVar

from ._errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    ResponseFormatError,
    SaturatedFamily,
    SaturationError,
    UpstreamError,
    ZMLError,
)
from ._head import Head
from ._json import as_list, as_object
from ._retry import retry_after_s, should_retry_of

_E = TypeVar("_E", bound=ZMLError)

_CLASS_OF_STATUS: Mapping[int, Type[APIStatusError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: RequestTimeoutError,
    429: RateLimitError,
}

# The gateway's codes, for error events, which have no status of their own. Their home: packages/protocol/src/errors.ts.
_STATUS_OF_CODE: Mapping[str, int] = {
    "invalid_json": 400,
    "body_empty": 400,
    "body_not_object": 400,
    "body_too_large": 413,
    "body_budget_exhausted": 503,
    "body_timeout": 408,
    "unsupported_encoding": 415,
    "invalid_encoding": 400,
    "duplicate_field": 400,
    "missing_model": 400,
    "invalid_model": 400,
    "invalid_field": 400,
    "model_not_found": 404,
    "policy_not_found": 400,
    "family_not_found": 400,
    "context_length_exceeded": 400,
    "images_unsupported": 400,
    "endpoint_unsupported": 404,
    "missing_api_key": 401,
    "invalid_api_key": 401,
    "expired_api_key": 401,
    "key_scope": 403,
    "model_not_allowed": 403,
    "policy_not_allowed": 403,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "not_found": 404,
    "method_not_allowed": 405,
    "header_too_large": 431,
    "bad_request": 400,
    "expectation_failed": 417,
    "queue_saturated": 503,
    "no_node_available": 503,
    "queue_full": 503,
    "queue_timeout": 503,
    "shutting_down": 503,
    "upstream_failed": 502,
    "upstream_timeout": 504,
    "stream_interrupted": 502,
    "request_timeout": 504,
    "internal_error": 500,
}

# Other servers' codes tell their kind only: OpenAI's types.
_STATUS_OF_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "saturation": 503,
    "upstream_error": 502,
}


def with_head(error: _E, head: Optional[Head]) -> _E:
    """Puts on an error what the head of the answer says."""
    if head is not None:
        error.routing = head.routing
        error.request_id = head.request_id
    return error


def status_error(head: Head, body: bytes, now_s: float) -> APIStatusError:
    """The error of an answer whose status is 400 or more. ``now_s``: wall time."""
    silent = f"the server answered {_what_came(head, len(body))} and no error message; {_IN_BETWEEN}"
    error = _stated_error(head.status, _parsed(body), head, silent)
    error.retry_after = retry_after_s(head.headers, now_s)
    error.should_retry = should_retry_of(head.headers)
    return error


def answer_error(data: Mapping[str, Any], head: Head) -> APIStatusError:
    """The error of an answer that has an error in it although its status says success."""
    return _stated_error(head.status, data, head, _NO_REASON)


def event_error(data: Mapping[str, Any], head: Head) -> APIStatusError:
    """The error that an error event tells. Its status is the one that its code has as an answer."""
    return _stated_error(_status_of_event(_error_member(data)), data, head, _NO_REASON)


def format_error(head: Head, size: Optional[int], expected: str) -> ResponseFormatError:
    """The error of an answer that is not what was asked for. ``size`` in bytes, ``None`` if it was not read."""
    return _format_error(f"the server answered {_what_came(head, size)}, not {expected}; {_IN_BETWEEN}", head)


def redirect_error(head: Head) -> ResponseFormatError:
    """The error of a redirect, which is not followed: the key would go along."""
    return _format_error(
        f"the server answered {head.status}, a redirect, and none is followed: give the URL it leads to as base_url",
        head,
    )


_IN_BETWEEN = "something between may answer in place of ZML: check base_url and proxies"
_NO_REASON = "the server says that it failed and not why; try again"


def _format_error(text: str, head: Head) -> ResponseFormatError:
    error = ResponseFormatError(text)
    error.status = head.status
    error.content_type = head.content_type
    return with_head(error, head)


def _what_came(head: Head, size: Optional[int]) -> str:
    kind = head.content_type or "no content type"
    return f"{head.status} with {kind}" + ("" if size is None else f" ({size} bytes)")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_member(body: Any) -> Dict[str, Any]:
    """``error`` in OpenAI's and Anthropic's shape; the whole body in that of older vLLM; ``detail`` of FastAPI."""
    whole = as_object(body)
    if whole is None:
        return {}
    error = as_object(whole.get("error"))
    if error is not None:
        return error
    for name in ("error", "detail"):
        if isinstance(whole.get(name), str):
            return {**whole, "message": whole[name]}
    return whole


def _stated_error(status: int, body: Any, head: Head, silent: str) -> APIStatusError:
    """``silent``: the text when the body states none."""
    details = _error_member(body)
    text = details.get("message")
    if not isinstance(text, str) or not text:
        text = silent
    code, kind = _text(details.get("code")), _text(details.get("type"))
    cls = _class_of(status, code, kind)
    message = f"{status}: {text}" if code is None else f"{status} {code}: {text}"
    if cls in (AuthenticationError, PermissionDeniedError):
        message += f" (this call's key is {head.credential.argument})"
    elif cls is NotFoundError and code not in _STATUS_OF_CODE:
        message += " (not in ZML's words: check base_url)"
    error = cls(head.credential.taken_out_of(message))
    error.status = status
    error.code = code
    error.type = kind
    error.param = _text(details.get("param"))
    error.body = body
    if isinstance(error, SaturationError):
        error.families = _families(details.get("families"))
    return with_head(error, head)


def _class_of(status: int, code: Optional[str], kind: Optional[str]) -> Type[APIStatusError]:
    if status < 500:
        return _CLASS_OF_STATUS.get(status, BadRequestError if status >= 400 else APIStatusError)
    if status == 503 and kind == "saturation":
        return SaturationError
    if status in (502, 504) and (kind == "upstream_error" or (code or "").startswith("upstream_")):
        return UpstreamError
    return InternalServerError


def _status_of_event(details: Mapping[str, Any]) -> int:
    code = details.get("code")
    if isinstance(code, str) and code in _STATUS_OF_CODE:
        return _STATUS_OF_CODE[code]
    # vLLM and llama.cpp put the status there
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    return _STATUS_OF_TYPE.get(str(details.get("type")), 500)


def _families(value: Any) -> List[SaturatedFamily]:
    families: List[SaturatedFamily] = []
    for item in as_list(value) or ():
        told = as_object(item)
        if told is not None:
            nodes = told.get("nodes")
            family, reason = _text(told.get("family")), _text(told.get("reason"))
            families.append(SaturatedFamily(family or "", reason or "", nodes if isinstance(nodes, int) else None))
    return families


def _text(value: Any) -> Optional[str]:
    if isinstance(value, str):
        return value
    # some servers have numbers as codes
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
