"""Client of the ZML gateway: ``ZML(...).infer(model=..., messages=...)``, and ``response.routing`` on what comes back.

Everything that is raised::

    ZMLError                        routing, request_id, retry_after
     ├─ ConfigurationError          an argument that can't work; nothing was sent
     ├─ APIConnectionError          no answer, or only a part of one
     │   ├─ APITimeoutError
     │   └─ TLSError
     ├─ StreamInterruptedError      a stream ended before its answer was whole: events, text
     ├─ ResponseFormatError         something else than ZML answered: status, content_type
     └─ APIStatusError              status, code, type, param, body, should_retry
         ├─ BadRequestError         400 and other 4xx
         ├─ AuthenticationError     401
         ├─ PermissionDeniedError   403
         ├─ NotFoundError           404
         ├─ RequestTimeoutError     408
         ├─ RateLimitError          429
         ├─ SaturationError         503, no node has room: families
         ├─ UpstreamError           502, 504, the nodes failed
         └─ InternalServerError     other 5xx
"""

from ._async_client import AsyncZML
from ._client import ZML
from ._errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    InternalServerError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    ResponseFormatError,
    SaturatedFamily,
    SaturationError,
    StreamInterruptedError,
    TLSError,
    UpstreamError,
    ZMLError,
)
from ._objects import (
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CompletionChoice,
    CompletionChunk,
    Decision,
    Embedding,
    EmbeddingList,
    FunctionCall,
    Message,
    Model,
    ModelAnswer,
    ModelList,
    ToolCall,
    Usage,
    WireObject,
)
from ._routing import Routing
from ._stream import AsyncStream, Stream
from ._version import __version__

__all__ = [
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AsyncStream",
    "AsyncZML",
    "AuthenticationError",
    "BadRequestError",
    "ChatChoice",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatCompletionChunk",
    "Completion",
    "CompletionChoice",
    "CompletionChunk",
    "ConfigurationError",
    "Decision",
    "Embedding",
    "EmbeddingList",
    "FunctionCall",
    "InternalServerError",
    "Message",
    "Model",
    "ModelAnswer",
    "ModelList",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestTimeoutError",
    "ResponseFormatError",
    "Routing",
    "SaturatedFamily",
    "SaturationError",
    "Stream",
    "StreamInterruptedError",
    "TLSError",
    "ToolCall",
    "UpstreamError",
    "Usage",
    "WireObject",
    "ZML",
    "ZMLError",
    "__version__",
]
