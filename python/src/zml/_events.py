"""From the bytes of a stream to its events, and whether it is whole. No I/O."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Generic, Iterator, List, Set, TypeVar

from ._errors import StreamInterruptedError
from ._failures import event_error, format_error, with_head
from ._head import Head
from ._json import as_list, as_object
from ._sse import ErrorEvent, EventTooLarge, SseParser

T = TypeVar("T")

_DONE = b"[DONE]"
_decode = json.JSONDecoder().raw_decode


class EventReader(Generic[T]):
    """Gives one object for each event."""

    __slots__ = ("_count", "_finished", "_make", "_parser", "_started", "_text", "_text_of", "head", "is_done")

    def __init__(
        self, head: Head, make: Callable[[Dict[str, Any]], T], text_of: Callable[[Dict[str, Any]], str]
    ) -> None:
        self.head = head
        self.is_done = False
        """``[DONE]`` came: nothing after it is an event."""
        self._make = make
        self._text_of = text_of
        self._parser = SseParser()
        self._count = 0
        self._text: List[str] = []
        self._started: Set[Any] = set()  # indexes of choices
        self._finished: Set[Any] = set()

    def feed(self, chunk: bytes) -> Iterator[T]:
        """The events that ended in this piece.

        Raises `APIStatusError` for an error event and `ResponseFormatError` for one that is no JSON object.
        """
        if self.is_done:
            return
        try:
            events = self._parser.feed(chunk)
        except EventTooLarge:
            raise format_error(self.head, None, "a stream of events") from None
        for event in events:
            if len(event) < 16 and event.strip() == _DONE:
                self.is_done = True
                return
            data = self._parse(event)
            if data.get("error") is not None or isinstance(event, ErrorEvent):
                raise event_error(data, self.head)
            self._count += 1
            self._note_choices(data)
            yield self._make(data)

    def finish(self) -> None:
        """The body has ended.

        Raises `StreamInterruptedError` unless ``[DONE]`` came, or a finish reason for every choice.
        """
        if self.is_done or self._parser.finish().strip() == _DONE:
            return
        if not self._finished or self._started - self._finished:
            raise self.interrupted("it ended before its end mark")

    def interrupted(self, cause: str) -> StreamInterruptedError:
        """That the stream broke off."""
        error = StreamInterruptedError(
            f"the stream broke off after {self._count} events, {cause}: what came is no whole answer; ask again, "
            "or go on from error.text"
        )
        error.events = self._count
        error.text = "".join(self._text)
        return with_head(error, self.head)

    def _parse(self, event: bytes) -> Dict[str, Any]:
        text = event.decode("utf-8", "replace").strip()
        try:
            value, end = _decode(text)
        except (ValueError, RecursionError):
            value, end = None, 0
        data = as_object(value)
        if end != len(text) or data is None:
            raise format_error(
                self.head, None, f"a stream of JSON objects: one of its events ({len(event)} bytes) is none"
            )
        return data

    def _note_choices(self, data: Dict[str, Any]) -> None:
        choices = as_list(data.get("choices"))
        if choices is None:
            raise format_error(self.head, None, "a stream of objects with 'choices'")
        for item in choices:
            choice = as_object(item)
            if choice is None:
                raise format_error(self.head, None, "a stream of objects with 'choices'")
            index = choice.get("index")
            if isinstance(index, int):
                self._started.add(index)
                if choice.get("finish_reason") is not None:
                    self._finished.add(index)
        text = self._text_of(data)
        if text:
            self._text.append(text)
