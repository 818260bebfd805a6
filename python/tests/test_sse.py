"""Events, out of bytes cut anywhere."""

from __future__ import annotations

import random
import time
from typing import List

import pytest
from zml import _sse
from zml._sse import EventTooLarge, SseParser


def parsed(*pieces: bytes) -> List[bytes]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


TEXT = (
    b"\xef\xbb\xbf: hello\r\n\r\ndata: a\r\n\r\nevent: x\ndata:b\ndata: c\n\ndata\ndata:\n\nid: 7\rdata: "
    b"\xf0\x9f\xa6\x99\r\rretry: 3\n\ndata:  d\n\n\n\ndata: e\x0bf\xe2\x80\xa8g\xc2\x85h\r\n\r\n"
)
EVENTS = [b"a", b"b\nc", "🦙".encode(), b" d", "e\x0bf\u2028g\u0085h".encode()]


def test_every_line_end_field_and_comment_is_told_apart() -> None:
    assert parsed(TEXT) == EVENTS


def test_it_does_not_matter_where_the_pieces_end() -> None:
    assert parsed(*[TEXT[at : at + 1] for at in range(len(TEXT))]) == EVENTS
    chance = random.Random(1)
    for _ in range(500):
        cuts = sorted(chance.randrange(len(TEXT) + 1) for _ in range(chance.randrange(1, 8)))
        assert parsed(*[TEXT[a:b] for a, b in zip([0, *cuts], [*cuts, len(TEXT)])]) == EVENTS


def test_half_an_event_is_none() -> None:
    assert parsed(b"data: a\n") == []
    assert parsed(b"data: a") == []


def test_the_end_tells_what_was_cut_off() -> None:
    parser = SseParser()
    assert parser.feed(b"data: [DONE]") == []
    assert parser.finish() == b"[DONE]"
    assert SseParser().finish() == b""


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sse, "MAX_EVENT_BYTES", 100)
    parser = SseParser()
    with pytest.raises(EventTooLarge):
        for _ in range(20):
            parser.feed(b"data: 1234567890\n")
    parser = SseParser()
    with pytest.raises(EventTooLarge):
        for _ in range(200):
            parser.feed(b"a")
    parser = SseParser()
    for _ in range(20):
        parser.feed(b": a comment\n\ndata: 1234567890\n\n")


def test_the_time_is_linear_in_the_length_of_an_event() -> None:
    def cost_s(pieces: int) -> float:
        parser = SseParser()
        start = time.thread_time()
        for _ in range(pieces):
            parser.feed(b"x" * 64)
        parser.feed(b"\n\n")
        return time.thread_time() - start

    cost_s(2000)
    small, large = min(cost_s(5000) for _ in range(5)), min(cost_s(80_000) for _ in range(3))
    # sixteen times the bytes; quadratic would be 256 times the time
    assert large < small * 64
