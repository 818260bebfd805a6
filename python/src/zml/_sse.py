"""Server-sent events, incrementally: bytes in, the data of complete events out. Linear in what comes in."""

from __future__ import annotations

from typing import List, Optional

# What the gateway lets a request body have by default; an event beyond it is no event of a model.
MAX_EVENT_BYTES = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_LF = 10
_CR = 13


class EventTooLarge(Exception):
    """An event did not end within `MAX_EVENT_BYTES`."""


class ErrorEvent(bytes):
    """The data of an event of type ``error``."""


class SseParser:
    """Takes the body of a stream in pieces of any size.

    Lines end with LF, CR LF or CR; comments, events without data and fields other than ``data`` are skipped, but that
    the data of an event of type ``error`` is an `ErrorEvent`. Only bytes are looked at, so that a piece may end inside
    a code point.
    """

    __slots__ = ("_data", "_is_after_cr", "_is_error", "_size", "_start", "_tail")

    def __init__(self) -> None:
        self._start: Optional[bytes] = b""  # None once it is clear whether a byte order mark came
        self._is_after_cr = False
        self._tail: List[bytes] = []  # pieces of the line that is being read
        self._data: List[bytes] = []  # values of the event that is being read
        self._is_error = False  # it has the type "error"
        self._size = 0  # bytes since the last event ended

    def feed(self, chunk: bytes) -> List[bytes]:
        """The data of each event that ended in this piece.

        Raises `EventTooLarge`.
        """
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._start = chunk
                return []
            self._start = None
            if chunk.startswith(_BOM):
                chunk = chunk[len(_BOM) :]
        if self._is_after_cr and chunk:
            self._is_after_cr = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if not chunk:
            return []
        last = chunk[-1]
        self._is_after_cr = last == _CR
        lines = chunk.splitlines()
        if last in (_LF, _CR):
            if self._tail:
                self._tail.append(lines[0])
                lines[0] = b"".join(self._tail)
                self._tail = []
        elif len(lines) == 1:
            self._tail.append(lines.pop())
        else:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail = [lines.pop()]
        return self._take(lines, len(chunk))

    def finish(self) -> bytes:
        """The data of an event that the end of the body cut off; ``b""`` if there is none."""
        if self._tail:
            self._take([b"".join(self._tail)], 0)
        return b"\n".join(self._data)

    def _take(self, lines: List[bytes], size: int) -> List[bytes]:
        data = self._data
        events: List[bytes] = []
        for line in lines:
            if not line:
                if data:
                    event = data[0] if len(data) == 1 else b"\n".join(data)
                    data.clear()
                    if event and not event.isspace():
                        events.append(ErrorEvent(event) if self._is_error else event)
                self._is_error = False
            elif line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif line == b"data":
                data.append(b"")
            elif line.startswith(b"event:"):
                self._is_error = line[6:].strip() == b"error"
        if events or not (data or self._tail):
            self._size = 0
        else:
            self._size += size
            if self._size > MAX_EVENT_BYTES:
                raise EventTooLarge
        return events
