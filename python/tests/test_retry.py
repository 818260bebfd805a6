"""Waits between tries, without any."""

from __future__ import annotations

import pytest
from zml._retry import backoff_s, is_retried, retry_after_s

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize("value", ["", "soon", "-1", "1e3", "inf", "nan", "1_0", "٣", "Tue, 99 Nov 2023", "0x10", "."])
def test_a_retry_after_that_can_t_be_read_says_nothing(value: str) -> None:
    assert retry_after_s({"retry-after": value}, NOW) is None


@pytest.mark.parametrize(
    "headers, expected",
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0 "}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10),
        ({"retry-after": "Tuesday, 14-Nov-23 22:13:30 GMT"}, 10),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 -0000"}, 10),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: "dict[str, str]", expected: "float | None") -> None:
    assert retry_after_s(headers, NOW) == expected


def test_the_backoff_doubles_up_to_eight_seconds_less_at_most_a_quarter() -> None:
    assert [backoff_s(n, 0) for n in range(7)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert backoff_s(0, 1) == 0.375
    assert backoff_s(10_000, 0) == 8


def test_only_statuses_that_may_pass_are_tried_again_unless_the_server_says_otherwise() -> None:
    retried = [status for status in range(400, 600) if is_retried(status, {})]
    assert retried == [408, 409, 429, 500, 502, 503, 504, 529]
    assert not is_retried(503, {"x-should-retry": "false"})
    assert is_retried(400, {"x-should-retry": " True "})
    assert is_retried(503, {"x-should-retry": "perhaps"})
