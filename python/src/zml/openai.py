"""``.routing`` on what the official ``openai`` client gives: ``client = with_routing(OpenAI(base_url=...))``.

Needs the package ``openai`` (``pip install zml[openai]``), which ``import zml`` does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Optional, TypeVar, Union, cast

from ._errors import ConfigurationError
from ._routing import ROUTING_HEADER, Routing, parse_routing

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    _Client = TypeVar("_Client", bound=Union[OpenAI, AsyncOpenAI])

__all__ = ["routing_of", "with_routing"]


def with_routing(client: _Client) -> _Client:
    """Lets an ``OpenAI`` or ``AsyncOpenAI`` client put ``.routing`` (a `zml.Routing` or ``None``) on its answers.

    On completions, responses, embeddings, models, streams (before their first event), raw responses and what they
    parse to, and on every ``openai.APIError``. Returns the same client; those made of it (``with_options``) have it
    too. ``routing_of(answer)`` is the same for type checkers, which don't know of the attribute.

    Raises:
        ConfigurationError: not such a client, or one of a version whose inner parts are others (known: 2.40 to 3).
    """
    import openai

    cls: Any = type(client)
    if getattr(cls, "_carries_routing", False):
        return client
    if not isinstance(cast("object", client), (openai.OpenAI, openai.AsyncOpenAI)):
        raise ConfigurationError(f"with_routing takes an OpenAI or AsyncOpenAI client, this is a {cls.__name__}")
    for name in ("_process_response", "_make_status_error", "request"):
        if not callable(getattr(client, name, None)):
            raise ConfigurationError(f"openai {openai.__version__} has no {name}: use a version from 2.40 to 3")
    # In place, as its resources hold on to it; a subclass, so that what is copied from it is one too.
    client.__class__ = _async_class(cls) if isinstance(client, openai.AsyncOpenAI) else _blocking_class(cls)
    return client


def routing_of(thing: object) -> Optional[Routing]:
    """Where the request of an answer, stream or error went.

    Also of the helpers ``client.chat.completions.stream(...)`` and ``client.responses.stream(...)``, once entered.
    ``None`` when it is not known.
    """
    routing = getattr(thing, "routing", None)
    if isinstance(routing, Routing):
        return routing
    response = getattr(thing, "response", None) or getattr(thing, "_response", None)
    return _routing_in(response)


def _routing_in(response: Any) -> Optional[Routing]:
    headers = getattr(response, "headers", None)
    return None if headers is None else parse_routing(headers.get(ROUTING_HEADER))


@lru_cache(maxsize=None)
def _blocking_class(cls: Any) -> Any:
    class Routed(cls):  # type: ignore[misc]
        _carries_routing = True

        def request(self, *args: Any, **more: Any) -> Any:
            parent: Any = super()
            try:
                return parent.request(*args, **more)
            except _api_error() as error:
                _put_unless_there(error)
                raise

        def _process_response(self, *, response: Any, **more: Any) -> Any:
            parent: Any = super()
            return _with_routing(parent._process_response(response=response, **more), _routing_in(response))

        def _make_status_error(self, *args: Any, response: Any, **more: Any) -> Any:
            parent: Any = super()
            return _put(parent._make_status_error(*args, response=response, **more), response)

    return _named_as(Routed, cls)


@lru_cache(maxsize=None)
def _async_class(cls: Any) -> Any:
    class Routed(cls):  # type: ignore[misc]
        _carries_routing = True

        async def request(self, *args: Any, **more: Any) -> Any:
            parent: Any = super()
            try:
                return await parent.request(*args, **more)
            except _api_error() as error:
                _put_unless_there(error)
                raise

        async def _process_response(self, *, response: Any, **more: Any) -> Any:
            parent: Any = super()
            return _with_routing(await parent._process_response(response=response, **more), _routing_in(response))

        def _make_status_error(self, *args: Any, response: Any, **more: Any) -> Any:
            parent: Any = super()
            return _put(parent._make_status_error(*args, response=response, **more), response)

    return _named_as(Routed, cls)


def _named_as(routed: Any, cls: Any) -> Any:
    routed.__name__, routed.__qualname__, routed.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return routed


def _api_error() -> Any:
    import openai

    return openai.APIError


def _put(error: Any, response: Any) -> Any:
    error.routing = _routing_in(response)
    return error


def _put_unless_there(error: Any) -> None:
    """Errors without an answer, such as a refused connection."""
    if not hasattr(error, "routing"):
        error.routing = None


def _with_routing(result: Any, routing: Optional[Routing]) -> Any:
    """Puts it on an answer, a stream or a raw response."""
    import openai

    try:
        # models of pydantic would take a plain assignment for a member of the answer, and dump it
        object.__setattr__(result, "routing", routing)
    except (AttributeError, TypeError):  # a text, or bytes
        return result
    kind: Any = cast("object", result).__class__
    if issubclass(kind, openai.Stream):
        result._iterator = _tagged(result._iterator, routing)
    elif issubclass(kind, openai.AsyncStream):
        result._iterator = _tagged_async(result._iterator, routing)
    elif callable(getattr(result, "parse", None)) and hasattr(result, "http_response"):
        _tag_parsed(result, routing)
    return result


def _tag_parsed(raw: Any, routing: Optional[Routing]) -> None:
    """What a raw response parses to carries it as well. Parsing is asynchronous in some kinds and not in others."""
    parse = raw.parse

    def parse_and_tag(*args: Any, **more: Any) -> Any:
        parsed = parse(*args, **more)
        if hasattr(parsed, "__await__"):
            return _tag_awaited(parsed, routing)
        # it is parsed once and kept
        return parsed if isinstance(getattr(parsed, "routing", None), Routing) else _with_routing(parsed, routing)

    raw.parse = parse_and_tag


async def _tag_awaited(parsing: Any, routing: Optional[Routing]) -> Any:
    parsed = await parsing
    return parsed if isinstance(getattr(parsed, "routing", None), Routing) else _with_routing(parsed, routing)


def _tagged(events: Iterator[Any], routing: Optional[Routing]) -> Iterator[Any]:
    """Errors in the middle of a stream carry it too."""
    import openai

    try:
        yield from events
    except openai.APIError as error:
        cast("Any", error).routing = routing
        raise


async def _tagged_async(events: Any, routing: Optional[Routing]) -> AsyncIterator[Any]:
    """Errors in the middle of a stream carry it too."""
    import openai

    try:
        async for event in events:
            yield event
    except openai.APIError as error:
        cast("Any", error).routing = routing
        raise
    finally:
        await events.aclose()
