"""The routing header, as packages/protocol/src/wire/routing.test.ts has it."""

from __future__ import annotations

import random
from typing import Optional

import pytest
from zml import Routing
from zml._routing import parse_routing

FULL = (
    'node="mi300x-a", policy="llama3-70b-batch", family="MI300X", decision="0198a3c0-7b1e-7000-8000-0000000003e8", '
    "queue_depth=3, attempt=1, reason=cheapest, hint=used"
)


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "node=",
        'node="a',
        'node="a\\x"',
        'node="a",',
        'node="a", ',
        'node="a" policy="p"',
        "Node=1",
        "__proto__=1",
        "node=é",
        'node="é"',
        "attempt=1234567890123456",
        "attempt=1.2345",
        "attempt=1.",
        "attempt=--1",
        "attempt=١",
        "a=(1",
        "a=(1,2)",
        'a=("x""y")',
        "a=?2",
        "a;",
        "a;B",
        'node="a\nb"',
    ],
)
def test_what_is_no_dictionary_is_read_as_nothing(text: str) -> None:
    assert parse_routing(text) is None


def test_no_header_is_no_routing() -> None:
    assert parse_routing(None) is None


def test_all_members_are_read() -> None:
    assert parse_routing(FULL) == Routing(
        "mi300x-a", "llama3-70b-batch", "MI300X", "0198a3c0-7b1e-7000-8000-0000000003e8", 3, 1, "cheapest", "used"
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("reason=reason_of_tomorrow", Routing(reason="reason_of_tomorrow")),
        ("", Routing()),
        ("   ", Routing()),
        ('zone="eu", node="a"', Routing(node="a")),
        ("node=a, attempt=2", Routing(attempt=2)),
        ("attempt=1.5, queue_depth=2", Routing(queue_depth=2)),
        ('attempt="1", queue_depth=-1, node="a"', Routing(node="a")),
        ('node="a";weight=3;x="\\"";y, attempt=1;z=?1', Routing(node="a", attempt=1)),
        ('a, b=?0, c=:aGk=:, d=@1659578233, e=%"f%c3%bc", f=("x" y;q=1 2.5), g=(), node="a"', Routing(node="a")),
        ('node="a",policy="p"', Routing(node="a", policy="p")),
        ('node="a"\t ,\t policy="p"  ', Routing(node="a", policy="p")),
        ('node="a", node="b"', Routing(node="b")),
        ('node="a", node', Routing()),
        ("hint=maybe, attempt=1", Routing(attempt=1)),
        ('node="a\\"b\\\\c"', Routing(node='a"b\\c')),
    ],
)
def test_members_of_another_type_or_name_disturb_no_others(text: str, expected: Routing) -> None:
    assert parse_routing(text) == expected


def test_reading_never_raises_whatever_stands_there() -> None:
    chance = random.Random(1)
    seen: "set[Optional[Routing]]" = set()
    for _ in range(5000):
        at, length = chance.randrange(len(FULL) + 1), chance.randrange(4)
        insert = "".join(chance.choice('a1"\\=,;()?:%@-. \t\x00é') for _ in range(length))
        seen.add(parse_routing(FULL[:at] + insert + FULL[at + length :]))
    assert None in seen and len(seen) > 10
