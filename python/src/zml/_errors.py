"""Everything that the package raises."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from ._routing import Routing


class ZMLError(Exception):
    """Base of every error of this package. The text says what failed and what to do; it never has a key in it."""

    message: str
    """What failed and what to do; the same as ``str(error)``."""
    routing: Optional[Routing] = None
    """Where the request went; ``None`` when no answer came, or one without a routing header."""
    request_id: Optional[str] = None
    """The answer's ``x-request-id``, which the gateway's logs know; ``None`` when no answer came."""
    retry_after: Optional[float] = None
    """Seconds that the server asked to wait; ``None`` when it did not say."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(ZMLError):
    """The client or a call was given something that can't work; nothing was sent."""


class APIConnectionError(ZMLError):
    """No answer, or only a part of one: not reachable, refused, or broken off."""


class APITimeoutError(APIConnectionError):
    """The deadline of the call passed, or a stream was silent for longer than it."""


class TLSError(APIConnectionError):
    """The TLS handshake failed: an unknown certificate, another host name, or no TLS there."""


class StreamInterruptedError(ZMLError):
    """A stream ended before its answer was whole. What came before has been given to the caller; nothing is retried."""

    events: int = 0
    """How many events came before."""
    text: str = ""
    """The text of the first choice so far."""


class ResponseFormatError(ZMLError):
    """The answer is not what the API gives: HTML, no JSON, JSON of another shape. Its text is not in the message."""

    status: Optional[int] = None
    """HTTP status of the answer."""
    content_type: Optional[str] = None
    """Its content type, as it stands in the header."""


class APIStatusError(ZMLError):
    """An answer with an error status, or an error event in a stream."""

    status: int = 0
    """HTTP status; for an error event the status that such an error has as an answer."""
    code: Optional[str] = None
    """``error.code``: stable, made for programs."""
    type: Optional[str] = None
    """``error.type``."""
    param: Optional[str] = None
    """``error.param``: the member or header that is wrong."""
    body: Any = None
    """The parsed body; ``None`` when it is no JSON."""
    should_retry: Optional[bool] = None
    """What ``x-should-retry`` says; ``None`` without it."""


class BadRequestError(APIStatusError):
    """400, 405, 409, 413, 415, 417, 422, 431 and other 4xx: the request itself has to change."""


class AuthenticationError(APIStatusError):
    """401: no key, or one that is not known."""


class PermissionDeniedError(APIStatusError):
    """403: the key may not do this."""


class NotFoundError(APIStatusError):
    """404: no such model, decision or path."""


class RequestTimeoutError(APIStatusError):
    """408: the request's body came too slowly."""


class RateLimitError(APIStatusError):
    """429: too many requests; see ``retry_after``."""


class SaturatedFamily(NamedTuple):
    """Why one accelerator family could not take a request."""

    family: str
    reason: str
    nodes: Optional[int]
    """How many of its nodes were left out for that reason."""


class SaturationError(APIStatusError):
    """503 with type ``saturation``: no node can take the request now; see ``retry_after``."""

    families: List[SaturatedFamily]
    """Why each family could not take it; empty when the server does not say."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.families = []


class UpstreamError(APIStatusError):
    """The nodes failed, and everything that made sense was tried (``upstream_failed``, ``upstream_timeout``)."""


class InternalServerError(APIStatusError):
    """Another 5xx."""
