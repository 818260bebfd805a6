"""What answers are made of: plain views of the parsed JSON.

Nothing is copied or validated in advance, so that an answer costs what reading its JSON costs. A member is checked when
it is read; one that has another type than the API gives is a `ResponseFormatError` and never a surprise further on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterator, List, Optional, Type, TypeVar, Union, overload

from ._errors import ResponseFormatError
from ._head import Head
from ._json import as_list, as_object, as_text
from ._routing import Routing

_T = TypeVar("_T")
_O = TypeVar("_O", bound="WireObject")


class WireObject:
    """An object of the wire: known members are attributes; every one, known or not, is there as ``thing["name"]``."""

    __slots__ = ("_data",)

    def __init__(self, data: Dict[str, Any]) -> None:
        self._data = data

    def to_dict(self) -> Dict[str, Any]:
        """The parsed JSON itself, not a copy."""
        return self._data

    def get(self, name: str, default: Any = None) -> Any:
        """A member as it came, or ``default`` without it."""
        return self._data.get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other._data == self._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"

    if not TYPE_CHECKING:
        # By __getitem__ alone Python takes it for a sequence: `for x in answer` would be a KeyError of 0.
        __iter__ = None

        # Members that this version has no attribute for; type checkers see those it has.
        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and name in self._data:
                return self._data[name]
            raise AttributeError(f"the {type(self).__name__} that came has no {name!r}")


class Answer(WireObject):
    """An object that is a whole answer."""

    __slots__ = ("_head",)

    def __init__(self, data: Dict[str, Any], head: Head) -> None:
        self._data = data
        self._head = head

    @property
    def routing(self) -> Optional[Routing]:
        """Where the request went; ``None`` without a routing header: an older gateway, or another server, answered."""
        return self._head.routing

    @property
    def request_id(self) -> Optional[str]:
        """The answer's ``x-request-id``, which the gateway's logs know."""
        return self._head.request_id


class _Member(Generic[_T]):
    """Reads a member of the JSON under the attribute's name, by a function that checks it."""

    __slots__ = ("_name", "_read")

    def __init__(self, read: Callable[[object], Optional[_T]]) -> None:
        self._read = read
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name


class _Required(_Member[_T]):
    __slots__ = ()

    @overload
    def __get__(self, thing: None, owner: type) -> _Required[_T]: ...
    @overload
    def __get__(self, thing: WireObject, owner: type) -> _T: ...
    def __get__(self, thing: Optional[WireObject], owner: type) -> Union[_Required[_T], _T]:
        if thing is None:
            return self
        value = self._read(thing.to_dict().get(self._name))
        if value is None:
            raise _wrong_member(thing, self._name)
        return value


class _Optional(_Member[_T]):
    __slots__ = ()

    @overload
    def __get__(self, thing: None, owner: type) -> _Optional[_T]: ...
    @overload
    def __get__(self, thing: WireObject, owner: type) -> Optional[_T]: ...
    def __get__(self, thing: Optional[WireObject], owner: type) -> Union[_Optional[_T], Optional[_T]]:
        if thing is None:
            return self
        member = thing.to_dict().get(self._name)
        if member is None:
            return None
        value = self._read(member)
        if value is None:
            raise _wrong_member(thing, self._name)
        return value


def _wrong_member(thing: WireObject, name: str) -> ResponseFormatError:
    kind = type(thing[name]).__name__ if name in thing else "nothing"
    return ResponseFormatError(
        f"{name!r} of the {type(thing).__name__} that came is {kind}: the server does not speak this API as ZML does; "
        f"read it as it is with [{name!r}], or check base_url"
    )


def _integer(value: object) -> Optional[int]:
    if isinstance(value, float) and math.isfinite(value):
        return int(value)  # some servers tell times as fractions
    return value if isinstance(value, int) else None


def _one(cls: Type[_O]) -> Callable[[object], Optional[_O]]:
    def read(value: object) -> Optional[_O]:
        data = as_object(value)
        return None if data is None else cls(data)

    return read


def _list(cls: Type[_O]) -> Callable[[object], Optional[List[_O]]]:
    def read(value: object) -> Optional[List[_O]]:
        items = as_list(value)
        if items is None:
            return None
        things: List[_O] = []
        for item in items:
            data = as_object(item)
            if data is None:
                return None
            things.append(cls(data))
        return things

    return read


class Usage(WireObject):
    """Tokens of one answer."""

    __slots__ = ()
    prompt_tokens = _Required(_integer)
    completion_tokens = _Optional(_integer)
    total_tokens = _Required(_integer)


class FunctionCall(WireObject):
    """A call of a function by the model. In a stream each part is a piece of the whole."""

    __slots__ = ()
    name = _Optional(as_text)
    arguments = _Optional(as_text)
    """JSON as the model wrote it."""


class ToolCall(WireObject):
    """One of the tool calls of a message."""

    __slots__ = ()
    index = _Optional(_integer)
    """In a stream: which call this is a piece of."""
    id = _Optional(as_text)
    type = _Optional(as_text)
    function = _Optional(_one(FunctionCall))


class Message(WireObject):
    """What the model said; in a stream (``delta``) the next piece of it. Can be sent back among ``messages``."""

    __slots__ = ()
    role = _Optional(as_text)
    content = _Optional(as_text)
    refusal = _Optional(as_text)
    tool_calls = _Optional(_list(ToolCall))


class _Choice(WireObject):
    """What every choice has around what was generated."""

    __slots__ = ()
    index = _Required(_integer)
    finish_reason = _Optional(as_text)
    logprobs = _Optional(as_object)


class ChatChoice(_Choice):
    """One of the answers to a chat."""

    __slots__ = ()
    message = _Required(_one(Message))


class ChatChunkChoice(_Choice):
    """The next piece of one of the answers to a chat."""

    __slots__ = ()
    delta = _Required(_one(Message))


class CompletionChoice(_Choice):
    """One of the answers to a prompt, or the next piece of it."""

    __slots__ = ()
    text = _Required(as_text)


class _Generated(WireObject):
    """What every answer and event of ``infer`` has around its choices."""

    __slots__ = ()
    id = _Required(as_text)
    object = _Required(as_text)
    created = _Required(_integer)
    model = _Required(as_text)
    usage = _Optional(_one(Usage))


class ChatCompletion(Answer, _Generated):
    """The answer to ``infer(messages=…)``."""

    __slots__ = ()
    choices = _Required(_list(ChatChoice))
    system_fingerprint = _Optional(as_text)

    @property
    def text(self) -> str:
        """The text of the first choice; ``""`` when there is none, as with a tool call."""
        return _content(_first_choice(self._data), "message")


class Completion(Answer, _Generated):
    """The answer to ``infer(prompt=…)``."""

    __slots__ = ()
    choices = _Required(_list(CompletionChoice))
    system_fingerprint = _Optional(as_text)

    @property
    def text(self) -> str:
        """The text of the first choice; ``""`` when there is none."""
        return _text_member(_first_choice(self._data))


class ChatCompletionChunk(_Generated):
    """One event of ``infer(messages=…, stream=True)``."""

    __slots__ = ()
    choices = _Required(_list(ChatChunkChoice))

    @property
    def text(self) -> str:
        """The text that this event adds to the first choice; ``""`` when there is none."""
        return delta_text(self._data)


class CompletionChunk(_Generated):
    """One event of ``infer(prompt=…, stream=True)``."""

    __slots__ = ()
    choices = _Required(_list(CompletionChoice))

    @property
    def text(self) -> str:
        """The text that this event adds to the first choice; ``""`` when there is none."""
        return prompt_text(self._data)


class Embedding(WireObject):
    """One vector."""

    __slots__ = ()
    index = _Required(_integer)

    @property
    def embedding(self) -> Union[List[float], str]:
        """The vector; with ``encoding_format="base64"`` its little-endian float32 as base64, not decoded."""
        value = self._data.get("embedding")
        vector = as_text(value) or as_list(value)
        if vector is not None:
            return vector
        raise _wrong_member(self, "embedding")


class EmbeddingList(Answer):
    """The answer to ``embed``."""

    __slots__ = ()
    object = _Required(as_text)
    model = _Required(as_text)
    data = _Required(_list(Embedding))
    usage = _Optional(_one(Usage))

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Embedding]:
        return iter(self.data)


class Model(WireObject):
    """A model that the gateway serves."""

    __slots__ = ()
    id = _Required(as_text)
    object = _Optional(as_text)
    created = _Optional(_integer)
    owned_by = _Optional(as_text)


class ModelAnswer(Answer, Model):
    """The answer to ``models.get``."""

    __slots__ = ()


class ModelList(Answer):
    """The answer to ``models.list``; iterates over its models."""

    __slots__ = ()
    object = _Optional(as_text)
    data = _Required(_list(Model))

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Model]:
        return iter(self.data)


class Decision(Answer):
    """A routing decision: what was known, what was chosen and why, and how it ended.

    The members below are those of every decision; docs/life-of-a-request.md of the gateway tells the rest. Times in
    ms, prices in USD, unknown numbers are ``None``.
    """

    __slots__ = ()
    decision = _Required(as_text)
    """Its id."""
    decided_at = _Optional(as_text)
    """RFC 3339."""
    request = _Optional(as_object)
    policy = _Optional(as_object)
    hint = _Optional(as_object)
    choice = _Optional(as_object)
    attempt = _Optional(_integer)
    outcome = _Optional(as_object)

    @property
    def families(self) -> List[Dict[str, Any]]:
        """The families of the chain: best node, depth, estimate, cost, and who was left out for which reason."""
        families = map(as_object, as_list(self._data.get("families")) or ())
        return [family for family in families if family is not None]


def delta_text(data: Dict[str, Any]) -> str:
    """Text that an event of a chat adds to the first choice."""
    return _content(_piece_of_first_choice(data), "delta")


def prompt_text(data: Dict[str, Any]) -> str:
    """Text that an event of a prompt adds to the first choice."""
    return _text_member(_piece_of_first_choice(data))


def _content(choice: Optional[Dict[str, Any]], member: str) -> str:
    message = None if choice is None else as_object(choice.get(member))
    return "" if message is None else as_text(message.get("content")) or ""


def _text_member(choice: Optional[Dict[str, Any]]) -> str:
    return "" if choice is None else as_text(choice.get("text")) or ""


def _first_choice(data: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    choices = as_list(data.get("choices"))
    return as_object(choices[0]) if choices else None


def _piece_of_first_choice(data: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """With ``n`` = 2 the choices' pieces come in events of their own; each tells whose it is."""
    for item in as_list(data.get("choices")) or ():
        choice = as_object(item)
        if choice is not None and choice.get("index", 0) == 0:
            return choice
    return None
